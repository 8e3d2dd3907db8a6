#include "unwind/follow.h"

/*
 * The frame pointer at FRAME, read as ss_any_register does for the plain kinds of rules; 0 when
 * only ss_any_register can tell.  All frames further in must be on one stack.
 */
static SS_INLINED SS_NO_SANITIZE uintptr_t frame_pointer(const ss_trail *t,
                                                         const stacksplice_native_frame *frame)
{
    const ss_rule *rules = t->tree->rules;
    uintptr_t at;

    while (frame-- != t->walk->frames) {
        const ss_rule *rule = &rules[frame->rule];
        unsigned slot = ss_rule_slot(rule->slots, SS_SAVED_FP);

        if (SS_UNLIKELY(ss_rule_kind_of(rule->cfa) > SS_RULE_SAVED || slot == SS_SLOT_LOST))
            return 0;
        if (slot == SS_SLOT_UNCHANGED)
            continue;
        at = frame[1].sp - SS_WORD * slot;
        return SS_LIKELY(at >= t->walk->stacks[0].low) ? *(const uintptr_t *)at : 0;
    }
    return t->tree->entry[SS_SAVED_FP];
}

SS_NO_SANITIZE SS_NOINLINE uintptr_t ss_based_cfa(const ss_trail *t,
                                                  const stacksplice_native_frame *frame,
                                                  uintptr_t sp, uint32_t cfa)
{
    bool plain = ss_rule_kind_of(cfa) == SS_RULE_FRAME;
    int saved = plain ? (int)SS_SAVED_FP : ss_rule_base(cfa);
    uintptr_t base = 0;

    if (ss_rule_kind_of(cfa) > SS_RULE_SAVED || SS_RETURN_SAVED >= 0)
        return 0;
    if (SS_LIKELY(saved == SS_SAVED_FP && t->walk->stack_count == 1))
        base = frame_pointer(t, frame);
    if (SS_UNLIKELY(!base) && !ss_any_register(t->walk, (uint32_t)(frame - t->walk->frames),
                                               ss_saved_registers[saved], &base))
        return 0;
    base += plain ? 2 * SS_WORD : ss_rule_offset(cfa);
    return base > sp && base % SS_WORD == 0 ? base : 0;
}

/* The frames of a deep stack do not stay in the L1 cache from one walk to the next. */
#define NEAR_FRAMES 128

SS_NO_SANITIZE SS_NOINLINE ss_stop ss_follow_tree(ss_trail *t)
{
    const stacksplice_native_frame *near = t->walk->frames + NEAR_FRAMES;
    ss_stop why = SS_STOP_LIMIT;

    if (SS_LIKELY(t->frame < near))
        why = ss_follow(t, near < t->end ? near : t->end, true, false);
    if (SS_UNLIKELY(why == SS_STOP_LIMIT && t->frame < t->end))
        why = ss_follow(t, t->end, true, true);
    return why;
}

SS_NO_SANITIZE SS_NOINLINE ss_stop ss_follow_table(ss_trail *t)
{
    stacksplice_native_frame *frame = t->frame, *end = t->end;
    uintptr_t ip = t->ip, sp = t->sp, high = t->high, next;
    const ss_tree_node *nodes = t->tree->nodes;
    ss_known *table = t->tree->known;
    uintptr_t mask = t->tree->known_mask;
    uint32_t *marked = t->marked;
    const ss_tree_node *node;
    ss_stop why;

    for (;;) {
        const ss_known *known = ss_tree_known(table, mask, ip);

        node = &nodes[known->node];

        why = SS_STOP_UNKNOWN;
        if (SS_UNLIKELY(!known->ip))
            break;
        why = SS_STOP_LIMIT;
        if (SS_UNLIKELY(frame == end))
            break;
        marked = ss_put_frame(frame++, marked, ip, sp, ss_tree_facts_of(t->tree, node));
        next = sp + known->cfa;
        why = SS_STOP_SPECIAL;
        if (SS_UNLIKELY(known->cfa & SS_RULE_KIND_MASK) &&
            !(next = ss_based_cfa(t, frame - 1, sp, known->cfa)))
            break;
        why = SS_STOP_OFF_STACK;
        if (SS_UNLIKELY(next > high))
            break;
        sp = next;
        ip = ss_return_address(next, known->slot & SS_SLOT_MASK);
        why = SS_STOP_HOME;
        if (known->slot & SS_KNOWN_HOME)
            break;
    }
    if (frame != t->frame)
        t->node = why == SS_STOP_HOME ? node : nodes; /* this context has no node */
    t->frame = frame;
    t->marked = marked;
    t->ip = ip;
    t->sp = sp;
    return why;
}
