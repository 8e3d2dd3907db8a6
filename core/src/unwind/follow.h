/*
 * The hot part of a walk: from frame to frame for as long as the tree alone suffices.  About 26
 * instructions for a frame, 15 for an address alone, 22 more where the next node is another.
 *
 * Each step compares the ip with a node, then computes
 *
 *      CFA = sp + node.cfa            rules of kind SS_RULE_SP
 *      CFA = saved frame pointer + k  rules that count from it; k is 16 for SS_RULE_FRAME
 *      ip' = *(CFA - 8 * return slot), sp' = CFA
 */
#ifndef SS_FOLLOW_H
#define SS_FOLLOW_H

#include "unwind/walk.h"

#include <string.h>

/* The state of a walk: the next frame to take and where to store it. */
typedef struct ss_trail {
    ss_unwind *walk;
    ss_tree *tree;
    const ss_tree_node *node; /* of the outermost frame that has one; else the root */
    uintptr_t ip;             /* of the next frame, as in ss_tree_node */
    uintptr_t sp;
    uintptr_t high;     /* no frame of this stack starts beyond */
    uintptr_t *address; /* in a walk for addresses alone */
    stacksplice_native_frame *frame;
    stacksplice_native_frame *end;
    uint32_t *marked;
    bool missed; /* met a new context and did not add it */
} ss_trail;

/* The walk of T ends; it began with that many NODES in the tree. */
static inline void ss_end_sample(const ss_trail *t, uint32_t nodes)
{
    ss_tree_tried(t->tree, t->missed || t->tree->node_count != nodes);
}

typedef enum ss_stop {
    SS_STOP_UNKNOWN, /* the next frame's ip has no node */
    SS_STOP_HOME,    /* the tree knows what follows again */
    SS_STOP_SPECIAL, /* only ss_step can find the last frame's caller */
    SS_STOP_OFF_STACK,
    SS_STOP_LIMIT
} ss_stop;

#define SS_INLINED inline __attribute__((always_inline))

#define SS_NO_SANITIZE __attribute__((no_sanitize("address", "thread")))

/*
 * The CFA of the frame of NODE that starts at SP, from the frame pointer that a frame further in
 * saved; 0 when that is not enough.
 *
 * The next step waits for this load.  If the frame has the same size as last time, return the
 * remembered CFA instead: the processor continues speculatively, before the load that validates it
 * completes.
 */
static SS_INLINED SS_NO_SANITIZE uintptr_t ss_saved_cfa(const ss_tree *tree,
                                                        const ss_tree_node *node, uintptr_t sp)
{
    uint32_t node_cfa = node->cfa;
    uintptr_t guess, cfa;

    if (SS_RETURN_SAVED >= 0 || !node->slot)
        return 0;
    cfa = *(const uintptr_t *)(sp - SS_WORD * node->slot);
    if (SS_LIKELY(ss_rule_kind_of(node_cfa) == SS_RULE_FRAME)) {
        guess = sp + node_cfa - SS_RULE_FRAME;
        cfa += 2 * SS_WORD;
        if (SS_LIKELY(cfa == guess)) {
            __asm__("" : "+r"(guess)); /* keeps the compiler from returning cfa instead */
            return guess;
        }
        if (cfa > sp && cfa - sp <= INT32_MAX && cfa % SS_WORD == 0)
            tree->nodes[node - tree->nodes].cfa = (uint32_t)(cfa - sp) | SS_RULE_FRAME;
    } else if (ss_rule_kind_of(node_cfa) == SS_RULE_SAVED &&
               ss_rule_base(node_cfa) == SS_SAVED_FP) {
        cfa += ss_rule_offset(node_cfa);
    } else {
        return 0;
    }
    return SS_LIKELY(cfa > sp && cfa % SS_WORD == 0) ? cfa : 0;
}

/* The return address below CFA.  All unchecked reads of return addresses are here. */
static SS_INLINED SS_NO_SANITIZE uintptr_t ss_return_address(uintptr_t cfa, uint32_t slot)
{
    slot = SS_RETURN_SAVED < 0 ? (uint32_t)SS_RETURN_SLOT : slot;
    return ss_arch_code(*(const uintptr_t *)(cfa - SS_WORD * slot));
}

_Static_assert(sizeof(stacksplice_native_frame) ==
                   offsetof(stacksplice_native_frame, function) + sizeof(ss_tree_facts),
               "the one ends with the other");

/* Store the frame that starts at SP.  Returns where to record the next marked frame. */
static SS_INLINED uint32_t *ss_put_frame(stacksplice_native_frame *frame, uint32_t *marked,
                                         uintptr_t ip, uintptr_t sp, const ss_tree_facts *facts)
{
    frame->ip = ip;
    frame->sp = sp;
    memcpy(&frame->function, facts, sizeof *facts);
    *marked = (uint32_t)(uintptr_t)frame; /* enough bits to tell it from the others */
    return marked + (facts->flags >> 31);
}

/*
 * The CFA of the last frame, FRAME, which starts at SP and whose rule is CFA; 0 when more than one
 * register is needed.
 */
uintptr_t ss_based_cfa(const ss_trail *t, const stacksplice_native_frame *frame, uintptr_t sp,
                       uint32_t cfa);

/*
 * The CFA of the frame of NODE, a home or not of kind SS_RULE_SP, that starts at SP; 0 when that is
 * not enough.  FRAME is where the frame was stored, or NULL.
 */
static SS_INLINED SS_NO_SANITIZE uintptr_t ss_other_cfa(const ss_trail *t, const ss_tree_node *node,
                                                        const stacksplice_native_frame *frame,
                                                        uintptr_t sp)
{
    uintptr_t cfa;

    if (SS_LIKELY(ss_rule_kind_of(node->cfa) == SS_RULE_SP))
        return sp + node->cfa;
    cfa = ss_saved_cfa(t->tree, node, sp);
    return SS_LIKELY(cfa != 0) || !frame ? cfa : ss_based_cfa(t, frame, sp, node->cfa);
}

/*
 * Follow the tree up to END.  One compare per frame keeps the walk on the stack: the rules followed
 * here find the return address between the stack pointer and the CFA.
 */
static SS_INLINED SS_NO_SANITIZE ss_stop ss_follow(ss_trail *t, const void *end, bool frames,
                                                   bool far)
{
    const ss_tree_node *node = t->node;
    stacksplice_native_frame *frame = frames ? t->frame : NULL;
    uintptr_t ip = t->ip, sp = t->sp, high = t->high, *address = frames ? NULL : t->address, next;
    uint32_t *marked = frames ? t->marked : NULL;
    uintptr_t to_facts = (uintptr_t)t->tree->facts - (uintptr_t)t->tree->nodes;
    ss_stop why;

    for (;;) {
        if (SS_UNLIKELY((frames ? (const void *)frame : address) == end)) {
            why = SS_STOP_LIMIT;
            break;
        }
        node++;
        __asm__("" : "+r"(node)); /* keeps the compiler from carrying node - 1 along */
        if (SS_UNLIKELY(node->ip != ip)) {
            const ss_tree_node *other = ss_tree_edge(t->tree, node - 1, ip);

            if (!other &&
                (!ss_tree_may_grow(t->tree) || !(other = ss_tree_grow(t->tree, node - 1, ip)))) {
                node--;
                why = SS_STOP_UNKNOWN;
                break;
            }
            node = other;
        }
        if (far)
            __builtin_prefetch(frame + 16, 1);
        if (frames) {
            marked = ss_put_frame(frame, marked, ip, sp,
                                  (const ss_tree_facts *)((uintptr_t)node + to_facts));
            frame++;
        } else {
            *address++ = ip;
        }
        if (SS_LIKELY(!(node->cfa & SS_RULE_KIND_MASK))) {
            next = sp + node->cfa;
        } else {
            node = ss_tree_home(t->tree, node);
            next = ss_other_cfa(t, node, frames ? frame - 1 : NULL, sp);
            if (SS_UNLIKELY(!next)) {
                why = SS_STOP_SPECIAL;
                break;
            }
        }
        if (SS_UNLIKELY(next > high)) {
            why = SS_STOP_OFF_STACK;
            break;
        }
        sp = next;
        ip = ss_return_address(next, node->slot);
    }
    t->node = node;
    if (frames) {
        t->frame = frame;
        t->marked = marked;
    } else {
        t->address = address;
    }
    t->ip = ip;
    t->sp = sp;
    return why;
}

/* Follow the tree and store frames. */
ss_stop ss_follow_tree(ss_trail *t);

/* The same by the ip alone, where the tree does not know the context; up to a home. */
ss_stop ss_follow_table(ss_trail *t);

#endif
