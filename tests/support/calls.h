/* For functions whose frames are looked at. */
#ifndef STACKSPLICE_TEST_CALLS_H
#define STACKSPLICE_TEST_CALLS_H

#define NOINLINE __attribute__((noinline))

/* Behind a call it keeps the call from being the last thing that a function does: from a jump. */
#define AFTER() __asm__ volatile("" ::: "memory")

#endif
