/*
 * Plans: stacks that are captured again by comparing.
 *
 * A capture is a function of the words that it reads.  When a stack recurs, one capture is
 * recorded: the address and value of each word it depended on, and its elements.  The next capture
 * from the same place compares the words instead.  If all are equal, it copies the elements.
 *
 *      words    return addresses, saved registers | what sources read: a pointer, then its target
 *      guards                                     ^ conditions that are no words
 *      elements the finished stack
 *
 * Words are compared in the order in which they were recorded.  A source reports a pointer before
 * the words behind it.  So when an address is read again, everything that led to it is unchanged,
 * and the memory is still there.  Words of the stack itself are always readable.
 *
 * A thread has its own plans, in one mapping of fixed size.  New plans overwrite the oldest.
 */
#ifndef SS_PLAN_H
#define SS_PLAN_H

#include "base/platform.h"
#include "unwind/stack.h"
#include "unwind/unwind.h"

/* Native addresses and combined stacks recur independently. */
typedef enum ss_plan_kind { SS_PLAN_NATIVE, SS_PLAN_COMBINED, SS_PLAN_KINDS } ss_plan_kind;

/* What all plans of a thread depend on.  A change voids them. */
typedef struct ss_plan_world {
    uint64_t modules; /* ss_modules_generation */
    uint32_t marks;   /* ss_unwind_epoch: also of each source that is added */
    uint32_t tokens;  /* stacksplice_token_epoch */
} ss_plan_world;

/* Where a capture begins: all that decides which words it reads first. */
typedef struct ss_plan_case {
    ss_plan_kind kind;
    uintptr_t entry; /* its frame record: the saved frame pointer, above it the return address */
    uintptr_t low;   /* no word of the stack below this one belongs to the callers */
    uintptr_t above; /* frames further in are hidden */
    uint32_t limit;  /* how many elements are wanted at most */
    ss_range stack;  /* that holds ENTRY */
    ss_plan_world world;
} ss_plan_case;

enum { SS_PLAN_SETS = 64, SS_PLAN_WAYS = 8, SS_PLAN_RECENT = 128, SS_PLAN_GUARD_DATA = 4 };

/* The plans of one entry share a set. */
static inline unsigned ss_plan_set_of(uintptr_t entry)
{
    return (unsigned)(entry * UINT64_C(0x9e3779b97f4a7c15) >> 58);
}

_Static_assert(SS_PLAN_SETS == 1 << 6, "a set is found by six bits");

struct ss_plan_memory;

/* A stack that was captured in full. */
typedef struct ss_plan_recent {
    uint16_t tag;  /* of its hash; 0: none */
    uint16_t when; /* counted among those of its set */
} ss_plan_recent;

/* One thread's plans; all zero: none.  Only that thread uses them, inside a capture. */
typedef struct ss_plans {
    struct ss_plan_memory *memory;  /* owned: a mapping; NULL before the first recording */
    uint32_t misses[SS_PLAN_KINDS]; /* captures since the last hit */
    uint32_t debt[SS_PLAN_KINDS];   /* for recordings */
    ss_plan_recent recent[SS_PLAN_RECENT][2]; /* by a stack's hash */
    uint16_t captured[SS_PLAN_SETS];          /* stacks, in full, by the set of their entry */
    ss_stack_cache stack;
} ss_plans;

/* The elements of a recorded stack. */
typedef struct ss_plan {
    const uintptr_t *elements;
    uint32_t count;
} ss_plan;

/* What a recording costs and a hit pays, in captures, and how much may be owed. */
enum { SS_PLAN_COST = 128, SS_PLAN_PAID_BY_HIT = 16, SS_PLAN_MOST_DEBT = 4 * SS_PLAN_COST };

/*
 * Whether to look for a plan, and to record one.  Where stacks have not recurred for long, only one
 * capture in a few is worth that.
 */
static inline bool ss_plans_look(ss_plans *plans, ss_plan_kind kind)
{
    plans->debt[kind] -= plans->debt[kind] != 0;
    return ++plans->misses[kind] < 64 || plans->misses[kind] % 8 == 0;
}

/* Release the memory. */
void ss_plans_clear(ss_plans *plans);

/*
 * Find the plan of this stack: true if one fits, and then *FOUND is valid until the next recording.
 * Sets the stack of HERE, which ss_plan_record needs, only if there are plans.
 */
bool ss_plan_find(ss_plans *plans, ss_plan_case *here, ss_plan *found);

/* For tests: guards that do not hold are ignored, so that plans give false stacks. */
extern bool ss_plan_is_blind;

/* The memory for elements while nothing is recorded, after a plan was found.  Lowers *MAX to it. */
uintptr_t *ss_plan_spare_elements(const ss_plans *plans, uint32_t *max);

/* ---- Recording --------------------------------------------------------------------------------*/

/*
 * Whether to record the stack of HERE with that HASH: it was captured not long ago.  Called once
 * for each capture in full.
 */
bool ss_plan_is_due(ss_plans *plans, const ss_plan_case *here, uint32_t hash);

typedef struct ss_recording ss_recording;

/* Begin to record the capture of HERE; NULL without memory, or when its stack is unknown. */
ss_recording *ss_plan_record(ss_plans *plans, ss_plan_case *here);

/* The capture of RECORDING depends on the word at ADDRESS, which has VALUE: an ss_word_report. */
void ss_record_word(void *recording, uintptr_t address, uintptr_t value);

/* It also depends on HOLDS being true of DATA (SS_PLAN_GUARD_DATA words). */
void ss_record_guard(ss_recording *recording, int (*holds)(const uintptr_t *data),
                     const uintptr_t *data);

/* It depends on something else, too: make no plan. */
void ss_record_refuse(ss_recording *recording);

/* Room for the elements, or NULL if the recording was refused. */
uintptr_t *ss_record_elements(ss_recording *recording, uint32_t *max);

/* Make the plan from COUNT elements stored there. */
void ss_record_done(ss_plans *plans, ss_recording *recording, uint32_t count);

/* ---- entry_*.c --------------------------------------------------------------------------------*/

/*
 * Call F with DATA and the address of a frame record.  In that frame lie all callee-saved registers
 * of our caller, at places that do not change, from SS_PLAN_SAVED_BYTES below the record on.  Where
 * that is not implemented, the address is 0, and there are no plans.
 */
void ss_plan_enter(void (*f)(void *data, uintptr_t entry), void *data);

enum { SS_PLAN_SAVED_BYTES = 40 };

/* Not under memcheck, either. */
extern bool ss_plan_is_possible;

#endif
