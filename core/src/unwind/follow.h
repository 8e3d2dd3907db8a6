/*
 * The hot part of a walk: from frame to frame while nothing but the tree is needed.  About 30
 * instructions for a frame, 20 for an address alone.
 */
#ifndef SS_FOLLOW_H
#define SS_FOLLOW_H

#include "unwind/walk.h"

#include <string.h>

/* How far a walk is, the frame that comes next, and where that goes. */
typedef struct ss_trail {
    ss_unwind *walk;
    ss_tree *tree;
    const ss_tree_node *node; /* of the outermost frame that has one; else the root */
    uintptr_t ip;             /* of the next frame, as in ss_tree_node */
    uintptr_t sp;
    uintptr_t high;     /* no frame of this stack begins beyond */
    uintptr_t *address; /* in a walk for addresses alone */
    stacksplice_native_frame *frame;
    stacksplice_native_frame *end;
    uint32_t *marked;
    bool growing; /* contexts that are new become part of the tree */
    bool missed;  /* there was one */
} ss_trail;

typedef enum ss_stop {
    SS_STOP_UNKNOWN, /* the next frame's ip has no node */
    SS_STOP_SPECIAL, /* the last frame's caller takes ss_step */
    SS_STOP_OFF_STACK,
    SS_STOP_LIMIT
} ss_stop;

#define SS_INLINED inline __attribute__((always_inline))

#define SS_NO_SANITIZE __attribute__((no_sanitize("address", "thread")))

/*
 * The CFA of the frame of NODE that begins at SP, from the frame pointer that a frame further in
 * saved; 0 when that does not tell it.
 *
 * The walk depends on this load.  If the frame's size is the last one, the remembered CFA is
 * returned, so that the processor goes on speculatively, before the load that validates it
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
            __asm__("" : "+r"(guess)); /* or a compiler returns the other */
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

/* The return address below CFA.  What walks the stack reads it here, and nowhere unchecked. */
static SS_INLINED SS_NO_SANITIZE uintptr_t ss_return_address(uintptr_t cfa, uint32_t slot)
{
    slot = SS_RETURN_SAVED < 0 ? (uint32_t)SS_RETURN_SLOT : slot;
    return ss_arch_code(*(const uintptr_t *)(cfa - SS_WORD * slot));
}

_Static_assert(sizeof(stacksplice_native_frame) ==
                   offsetof(stacksplice_native_frame, function) + sizeof(ss_tree_facts),
               "the one ends with the other");

/* The frame at SP; the next one that is MARKED goes where this returns. */
static SS_INLINED uint32_t *ss_put_frame(stacksplice_native_frame *frame, uint32_t *marked,
                                         uintptr_t ip, uintptr_t sp, const ss_tree_facts *facts)
{
    frame->ip = ip;
    frame->sp = sp;
    memcpy(&frame->function, facts, sizeof *facts);
    *marked = (uint32_t)(uintptr_t)frame; /* which is enough to tell it from the others */
    return marked + (facts->flags >> 31);
}

/*
 * The CFA of the last frame, FRAME, which begins at SP and whose rule is CFA; 0 when it takes more
 * than one register to tell.
 */
uintptr_t ss_based_cfa(const ss_trail *t, const stacksplice_native_frame *frame, uintptr_t sp,
                       uint32_t cfa);

/*
 * Along the tree, up to END.  One compare a frame holds the walk to the stack: rules of the kinds
 * that are followed here find the return address between the stack pointer and the CFA.
 */
static SS_INLINED SS_NO_SANITIZE ss_stop ss_follow(ss_trail *t, const void *end, bool frames,
                                                   bool far)
{
    const ss_tree_node *node = t->node;
    stacksplice_native_frame *frame = frames ? t->frame : NULL;
    uintptr_t ip = t->ip, sp = t->sp, high = t->high, *address = frames ? NULL : t->address, next;
    uint32_t *marked = frames ? t->marked : NULL;
    ss_stop why;

    for (;;) {
        const ss_tree_node *behind = node + 1;
        bool full = (frames ? (const void *)frame : address) == end;

        if (SS_UNLIKELY(behind->ip != ip)) {
            behind = ip ? ss_tree_edge(t->tree, node, ip) : NULL;
            why = full ? SS_STOP_LIMIT : SS_STOP_UNKNOWN;
            if (!behind)
                break;
        }
        why = SS_STOP_LIMIT;
        if (SS_UNLIKELY(full))
            break;
        if (far)
            __builtin_prefetch(frame + 16, 1);
        node = behind;
        if (frames) {
            marked = ss_put_frame(frame, marked, ip, sp, ss_tree_facts_of(t->tree, node));
            frame++;
        } else {
            *address++ = ip;
        }
        next = sp + node->cfa;
        why = SS_STOP_SPECIAL;
        if (SS_UNLIKELY(node->cfa & SS_RULE_KIND_MASK) &&
            !(next = ss_saved_cfa(t->tree, node, sp)) &&
            !(frames && (next = ss_based_cfa(t, frame - 1, sp, node->cfa))))
            break;
        why = SS_STOP_OFF_STACK;
        if (SS_UNLIKELY(next > high))
            break;
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

/* With frames, along the tree. */
ss_stop ss_follow_tree(ss_trail *t);

/* The same by the ip alone, where the tree does not know the context. */
ss_stop ss_follow_table(ss_trail *t);

#endif
