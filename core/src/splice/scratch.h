/* Memory that a thread keeps between captures, so that a capture allocates only to grow it. */
#ifndef SS_SCRATCH_H
#define SS_SCRATCH_H

#include "plan/plan.h"
#include "splice/merge.h"
#include "unwind/unwind.h"

#include <stdatomic.h>

/* What stacksplice_native_between found last, and the words of the stack that it followed from. */
enum { SS_ANSWERS = 8, SS_ANSWER_WORDS = 32, SS_ANSWER_FRAMES = 24 };
typedef struct ss_answer_word {
    uintptr_t distance, value; /* from INNER */
} ss_answer_word;
typedef struct ss_answer {
    uintptr_t span; /* from INNER to OUTER; 0: none yet */
    uint32_t word_count, frame_count;
    ss_answer_word words[SS_ANSWER_WORDS];
    uintptr_t frames[SS_ANSWER_FRAMES];
} ss_answer;
typedef struct ss_answers {
    uint64_t modules; /* ss_modules_generation when they were found */
    uint32_t next;    /* to be replaced */
    ss_answer of[SS_ANSWERS];
} ss_answers;

typedef struct ss_scratch {
    _Alignas(64) ss_unwind unwind; /* threads share no cache line */
    ss_splice *splices;
    uint32_t splice_count;
    uint32_t splice_capacity;
    uintptr_t *tokens;
    uint32_t token_count;
    uint32_t token_capacity;
    ss_plans plans;
    _Atomic bool in_use;     /* (ATOMIC) by a capture: its pointers may dangle */
    _Atomic uint64_t owner;  /* (ATOMIC) process and thread; 0: none */
    struct ss_scratch *next; /* (RO) */
    ss_answers answers;      /* of any owner: they hold wherever the same words are found */
} ss_scratch;

/* This thread's scratch once it has one, and whether a capture runs. */
extern _Thread_local ss_scratch *ss_scratch_kept; /* (THREAD) */
extern _Thread_local bool ss_scratch_busy;        /* (THREAD) */

/* False when a capture of this thread is already running: captures do not nest. */
static inline bool ss_scratch_enter(void)
{
    if (ss_scratch_busy)
        return false;
    ss_scratch_busy = true;
    return true;
}

static inline void ss_scratch_leave(void)
{
    if (ss_scratch_kept)
        atomic_store_explicit(&ss_scratch_kept->in_use, false, memory_order_release);
    ss_scratch_busy = false;
}

/*
 * For a thread that crashed: if that was inside a capture, which will never end, the next one gets
 * another scratch.
 */
void ss_scratch_abandon(void);

/* For a thread that has none. */
ss_scratch *ss_scratch_get(void);

/*
 * This thread's scratch, valid between enter and leave; NULL when out of memory.  At the thread's
 * end its memory is freed and another thread can claim it.  Signal safe: no lock, memory only by
 * mmap.
 */
static inline ss_scratch *ss_scratch_mine(void)
{
    if (SS_UNLIKELY(!ss_scratch_kept))
        return ss_scratch_get();
    atomic_store_explicit(&ss_scratch_kept->in_use, true, memory_order_release);
    atomic_signal_fence(memory_order_seq_cst); /* before any use of it */
    return ss_scratch_kept;
}

/* The memory that captures of this thread need for frames of scripts, before a handler needs it. */
void ss_scratch_prepare(void);

/* Release the memory that an unusually deep stack took. */
void ss_scratch_trim(ss_scratch *scratch);

bool ss_scratch_grow_splices(ss_scratch *scratch);
/* Make room for COUNT more. */
bool ss_scratch_grow_tokens(ss_scratch *scratch, uint32_t count);

/* ---- capture.c: for tests, set in the environment ---------------------------------------------*/

/* Each repeated capture is compared with a full one. */
extern bool ss_repeat_verifies;

/* End the process unless both have the same elements. */
void ss_repeat_verify(const ss_sink *repeated, const ss_sink *full);

#endif
