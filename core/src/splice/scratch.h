/* What a thread keeps between captures: memory, so that a capture allocates only to grow it. */
#ifndef SS_SCRATCH_H
#define SS_SCRATCH_H

#include "splice/merge.h"
#include "splice/source.h"
#include "unwind/unwind.h"

#include <stdatomic.h>

typedef struct ss_scratch {
    _Alignas(64) ss_unwind unwind; /* no cache line of two threads */
    ss_splice *splices;
    uint32_t splice_count;
    uint32_t splice_capacity;
    uintptr_t *tokens;
    uint32_t token_count;
    uint32_t token_capacity;
    uint32_t source_ends[SS_MAX_SOURCES];
    _Atomic bool in_use;    /* (ATOMIC) by a capture: its pointers may dangle */
    _Atomic uint64_t owner; /* (ATOMIC) process << 32 | thread; 0: nobody */
} ss_scratch;

/* Not twice on one thread: false when a capture of this thread is going on below us. */
bool ss_scratch_enter(void);
void ss_scratch_leave(void);

/*
 * This thread's, between enter and leave; NULL when out of memory.  When the thread ends, what it
 * holds is freed and it serves another.  Signal safe: no lock, and memory by mmap only.
 */
ss_scratch *ss_scratch_mine(void);

/* Give back what an unusually deep stack took. */
void ss_scratch_trim(ss_scratch *scratch);

bool ss_scratch_grow_splices(ss_scratch *scratch);
/* Room for COUNT more. */
bool ss_scratch_grow_tokens(ss_scratch *scratch, uint32_t count);

#endif
