/* The library's allocator in tests without memory: counts blocks, and lets an allocation fail. */
#ifndef FAILING_ALLOCATOR_H
#define FAILING_ALLOCATOR_H

#include <stdatomic.h>

extern atomic_long memory_live;                  /* blocks */
extern atomic_long memory_asked;                 /* bytes, in all */
extern atomic_long memory_attempted;             /* allocations since memory_arm() */
extern atomic_int memory_failed;                 /* one has failed since memory_arm() */
extern atomic_int memory_all_after;              /* those after one that fails fail, too */
extern void (*_Atomic memory_before_next)(void); /* called once, before the next allocation */

/* To be the library's: 0, or -1 when it has one already. */
int memory_use(void);

/* Allocation NTH from now on fails; 0: none. */
void memory_arm(long nth);
void memory_disarm(void);

#endif
