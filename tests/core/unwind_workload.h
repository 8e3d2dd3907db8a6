/*
 * Stacks of many shapes.  The same source is built several times: with and without frame pointers,
 * optimised and not, and as a library to load.
 */
#ifndef UNWIND_WORKLOAD_H
#define UNWIND_WORKLOAD_H

/* Calls LEAF from the innermost function of every shape; how often. */
__attribute__((visibility("default"))) int workload_run(void (*leaf)(void));

/*
 * Without the functions that realign the stack: in their prologues compilers describe a register's
 * place an instruction too early, so that a signal there shows every unwinder a wrong value.
 */
int workload_run_plain(void (*leaf)(void));

int workload_run_frame_pointer(void (*leaf)(void));
int workload_run_unoptimised(void (*leaf)(void));

#endif
