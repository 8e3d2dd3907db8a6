/*
 * The hot part of a walk: from frame to frame, for as long as the table alone suffices.
 *
 *      CFA = sp + cfa                 rules of kind SS_RULE_SP
 *      CFA = saved frame pointer + k  rules that count from it
 *      ip' = *(CFA - 8 * slot), sp' = CFA
 *
 * One compare per frame keeps the walk on the stack: the rules followed here find the return
 * address between the stack pointer and the CFA.
 */
#ifndef SS_FOLLOW_H
#define SS_FOLLOW_H

#include "unwind/walk.h"

#include <string.h>

/* The state of a walk: the next frame to take and where to store it. */
typedef struct ss_trail {
    ss_unwind *walk;
    ss_table *table;
    uintptr_t ip; /* of the next frame, as in ss_known */
    uintptr_t sp;
    uintptr_t saved;    /* where its frame pointer is; no place of a word: only ss_step can tell */
    uintptr_t high;     /* no frame of this stack starts beyond */
    uintptr_t *address; /* in a walk for addresses alone */
    stacksplice_native_frame *frame;
    uint32_t *marked;
    const void *end; /* of addresses or frames */
} ss_trail;

typedef enum ss_stop {
    SS_STOP_END,     /* there is no caller */
    SS_STOP_UNKNOWN, /* the table lacks the next frame's ip */
    SS_STOP_SPECIAL, /* only ss_step can find the last frame's caller */
    SS_STOP_OFF_STACK,
    SS_STOP_LIMIT
} ss_stop;

#define SS_INLINED inline __attribute__((always_inline))

#define SS_NO_SANITIZE __attribute__((no_sanitize("address", "thread")))

/* The CFA by a rule that counts from the frame pointer; 0 when that is not enough. */
static SS_INLINED SS_NO_SANITIZE uintptr_t ss_saved_cfa(uint32_t rule, uintptr_t sp,
                                                        uintptr_t saved)
{
    uintptr_t cfa;

    if (SS_RETURN_SAVED >= 0 || ss_rule_kind_of(rule) > SS_RULE_SAVED ||
        ss_rule_base(rule) != SS_SAVED_FP || !saved || saved % SS_WORD)
        return 0;
    cfa = *(const uintptr_t *)saved + ss_rule_offset(rule);
    return SS_LIKELY(cfa > sp && cfa % SS_WORD == 0) ? cfa : 0;
}

_Static_assert(sizeof(stacksplice_native_frame) ==
                   offsetof(stacksplice_native_frame, function) + sizeof(ss_frame_facts),
               "the one ends with the other");

/* Store the next frame. */
static SS_INLINED void ss_put_frame(ss_trail *t, const ss_frame_facts *facts)
{
    stacksplice_native_frame *frame = t->frame++;

    frame->ip = t->ip;
    frame->sp = t->sp;
    memcpy(&frame->function, facts, sizeof *facts);
    *t->marked = (uint32_t)(uintptr_t)frame; /* enough bits to tell it from the others */
    t->marked += facts->flags >> 31;
}

/* Follow what the table knows, and store FRAMES or addresses. */
static SS_INLINED SS_NO_SANITIZE ss_stop ss_follow(ss_trail *trail, bool frames)
{
    ss_trail t = *trail; /* in registers */
    ss_known *table = t.table->known;
    uintptr_t mask = t.table->mask, to_facts = t.table->to_facts, next;
    ss_stop why;

    for (;;) {
        const ss_known *known = ss_table_find(table, mask, t.ip);
        bool ends = (frames ? (const void *)t.frame : t.address) == t.end;
        uint32_t slot;

        if (SS_UNLIKELY(!known || ends)) {
            why = !t.ip ? SS_STOP_END : ends ? SS_STOP_LIMIT : SS_STOP_UNKNOWN;
            break;
        }
        if (frames)
            ss_put_frame(&t, (const ss_frame_facts *)((uintptr_t)known + to_facts));
        else
            *t.address++ = t.ip;
        if (SS_LIKELY(!(known->cfa & SS_RULE_KIND_MASK))) {
            next = t.sp + known->cfa;
        } else {
            __asm__("" : "+r"(known)); /* keeps the compiler from carrying the rule here */
            next = ss_saved_cfa(known->cfa, t.sp, t.saved);
            if (SS_UNLIKELY(!next)) {
                why = ss_rule_kind_of(known->cfa) == SS_RULE_END ? SS_STOP_END : SS_STOP_SPECIAL;
                break;
            }
        }
        if (SS_UNLIKELY(next > t.high)) {
            why = SS_STOP_OFF_STACK;
            break;
        }
        if (SS_RETURN_SAVED < 0 && known->fp_below != SS_BELOW_UNCHANGED)
            t.saved = next - known->fp_below;
        slot = SS_RETURN_SAVED < 0 ? (uint32_t)SS_RETURN_SLOT : known->slot;
        t.sp = next;
        t.ip = ss_arch_code(*(const uintptr_t *)(next - SS_WORD * slot));
    }
    *trail = t;
    return why;
}

#endif
