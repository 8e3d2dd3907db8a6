/* Ways in which fault_program crashes. */
#ifndef FAULT_WAYS_H
#define FAULT_WAYS_H

void put(const char *text);
/* That of its caller. */
void print_stack(void);
/* Ends the program: a test that a build with a sanitizer cannot do. */
void needs_plain_build(void);
/* Crashes in the way HOW. */
void crash(const char *how);
void cause_fault(void);
/* As much as there is: nothing is left for a report. */
void exhaust_memory(void);

#endif
