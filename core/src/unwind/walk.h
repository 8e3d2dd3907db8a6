/*
 * The parts of a walk, shared between them and with their tests.
 *
 *      high addresses            frame i+1
 *      sp[i+1] = CFA of i  ----> +--------------------+
 *                                | return address     |  ip[i+1]
 *                                | saved registers    |  slots
 *                                | locals             |
 *      sp[i]               ----> +--------------------+
 *      low addresses             frame i-1
 *
 * Frame i owns [sp[i], sp[i+1]).  A walk does not carry registers along.  The value of a register
 * in frame i is in the slot of the nearest frame further in that saved it; if none did, it is the
 * register's value at the entry.
 */
#ifndef SS_WALK_H
#define SS_WALK_H

#include "unwind/table.h"
#include "unwind/unwind.h"

#include <stdatomic.h>

#define SS_WORD sizeof(uintptr_t)

/* A frame beyond the outermost so far, before it is trusted. */
typedef struct ss_caller {
    uintptr_t ip; /* as in ss_known */
    uintptr_t sp;
    uint32_t flags;
    bool may_jump; /* after a signal or a switch: the caller may be on another stack */
    bool may_stay; /* a function that has put nothing on the stack yet */
} ss_caller;

typedef enum ss_verdict {
    SS_STEP_ON,
    SS_STEP_END,     /* there is no caller */
    SS_STEP_NO_DATA, /* no loaded module describes the code */
    SS_STEP_UNASKED, /* the loader cannot be asked now */
    SS_STEP_BROKEN,  /* we cannot follow its description */
    SS_STEP_OFF_STACK,
    SS_STEP_LIMIT,
    SS_STEP_NO_ROOM /* to record what the step found */
} ss_verdict;

/* ---- lookup.c: from an address to its description ---------------------------------------------*/

/* The frame description of PC: SS_STEP_ON, SS_STEP_NO_DATA or SS_STEP_UNASKED. */
ss_verdict ss_find_fde(uintptr_t pc, ss_fde *fde);

/*
 * Whether IP, before which no described code is, is the first address of a function, and no call
 * ends there.  Then nothing called: makecontext puts such an address where the outermost function
 * of a new stack returns to.
 */
bool ss_ends_stack(uintptr_t ip);

/* The rule for PC, through the cache shared by all threads. */
ss_verdict ss_find_rule(uintptr_t pc, uint64_t generation, ss_rule *rule);

/* ---- registers.c: the stack and the registers of its frames -----------------------------------*/

/* Read the word at ADDRESS, if it lies on a stack of WALK. */
bool ss_read_word(const ss_unwind *walk, uintptr_t address, uintptr_t *value);

/* Any register of frame FRAME; caller-saved registers are known only further out than a signal. */
bool ss_any_register(const ss_unwind *walk, uint32_t frame, uint64_t number, uintptr_t *value);

/* ---- step.c: the caller of the outermost frame ------------------------------------------------*/

/* Whether the code at ADDRESS is what a signal handler returns to. */
bool ss_is_sigreturn(uintptr_t address);

/* Step by RULE, which is neither full nor an end. */
ss_verdict ss_step_compact(const ss_unwind *walk, const ss_rule *rule, ss_caller *next);

/* Step by ROW; the registers that it gives become a file of the walk. */
ss_verdict ss_step_row(ss_unwind *walk, const ss_fde *fde, const ss_cfi_row *row, ss_caller *next);

/* Step by RULE of any kind. */
ss_verdict ss_step(ss_unwind *walk, const ss_rule *rule, ss_caller *next);

/*
 * Step without unwind data; what is known of the caller's registers may become a file of the walk.
 */
ss_verdict ss_step_without_data(ss_unwind *walk, ss_caller *next);

/*
 * Whether the frame of which no more is known than that it ends outward of SP is the first of a stack that
 * the host added: from there to the end at HIGH no word is a return address, so it has no caller there.
 */
bool ss_begins_added_stack(const ss_unwind *walk, uintptr_t sp, uintptr_t high);

/* ---- walk.c -----------------------------------------------------------------------------------*/

/* Changes when the classifier's earlier answers are void. */
extern atomic_uint ss_walk_epoch;

/* Walk from ENTRY; ss_unwind_walk passes the registers of its caller. */
bool ss_walk_from(ss_unwind *walk, const ss_entry_registers *entry, const void *above,
                  uint32_t max);

#endif
