/*
 * Collects only the return addresses of a stack that the tree knows: all that a recurring capture
 * needs.
 */
#include "unwind/follow.h"
#include "unwind/unloads.h"

#define MOST_SKIPPED 32

/* Whether a walk that stopped for WHY has all requested addresses. */
static bool is_complete(const ss_trail *t, ss_stop why)
{
    return why == SS_STOP_LIMIT || (why == SS_STOP_UNKNOWN && !t->ip) ||
           (why == SS_STOP_SPECIAL && ss_rule_kind_of(t->node->cfa) == SS_RULE_END);
}

/* The CFA from the frame pointer saved at AT; 0 when that is not enough. */
static SS_NOINLINE SS_NO_SANITIZE uintptr_t based_cfa(uint32_t cfa, uintptr_t sp, uintptr_t at)
{
    uintptr_t base;

    if (!at || ss_rule_kind_of(cfa) > SS_RULE_SAVED || ss_rule_base(cfa) != SS_SAVED_FP)
        return 0;
    base = *(const uintptr_t *)at + ss_rule_offset(cfa);
    return base > sp && base % SS_WORD == 0 ? base : 0;
}

/*
 * Follow by the ip alone, up to an entry with the flag HOME.  SAVED is the address of the next
 * frame's saved frame pointer.
 */
static SS_NOINLINE SS_NO_SANITIZE ss_stop follow_known(ss_trail *t, const uintptr_t *end,
                                                       uint32_t home)
{
    uintptr_t ip = t->ip, sp = t->sp, high = t->high, mask = t->tree->known_mask, next;
    uintptr_t slot = ss_tree_frame_pointer(t->tree, t->node);
    uintptr_t saved = slot ? sp - SS_WORD * slot : 0, *out = t->address;
    const ss_tree_node *node = t->node;
    ss_stop why;

    for (;;) {
        const ss_known *known = ss_tree_known(t->tree->known, mask, ip);

        why = out == end ? SS_STOP_LIMIT : SS_STOP_UNKNOWN;
        if (SS_UNLIKELY(out == end || !known->ip))
            break;
        *out++ = ip;
        node = &t->tree->nodes[known->node];
        next = sp + known->cfa;
        why = SS_STOP_SPECIAL;
        if (SS_UNLIKELY(known->cfa & SS_RULE_KIND_MASK) &&
            !(next = based_cfa(known->cfa, sp, saved)))
            break;
        why = SS_STOP_OFF_STACK;
        if (SS_UNLIKELY(next > high))
            break;
        slot = known->slot & SS_SLOT_MASK;
        if (slot != SS_SLOT_UNCHANGED)
            saved = slot != SS_SLOT_LOST ? next - SS_WORD * slot : 0;
        sp = next;
        ip = ss_return_address(next, 0);
        why = SS_STOP_HOME;
        if (known->slot & home)
            break;
    }
    t->node = node;
    t->ip = ip;
    t->sp = sp;
    t->address = out;
    return why;
}

static SS_NO_SANITIZE bool begin(ss_trail *t, ss_tree *tree, const void *above)
{
    uintptr_t record = (uintptr_t)above;
    ss_range stack;

    if (ss_modules_generation(false) != tree->generation || ss_tree_is_full(tree) ||
        atomic_load_explicit(&ss_walk_epoch, memory_order_acquire) != tree->epoch ||
        !ss_stack_find_cached(&tree->stack, record, &stack))
        return false;
    t->tree = tree;
    t->node = &tree->nodes[tree->addresses];
    t->ip = *(const uintptr_t *)(record + SS_WORD);
    t->sp = record + 2 * SS_WORD;
    t->high = stack.high;
    t->missed = false;
    return true;
}

/* Follow the tree.  Where it does not know the context, it may know the frames from a home on. */
static inline ss_stop try_tree(ss_trail *t, const uintptr_t *end)
{
    ss_stop why = ss_follow(t, end, false, false);

    while (SS_UNLIKELY(why == SS_STOP_UNKNOWN && t->ip)) {
        t->missed = true;
        why = follow_known(t, end, SS_KNOWN_HOME);
        if (why != SS_STOP_HOME)
            break;
        why = ss_follow(t, end, false, false);
    }
    return why;
}

bool ss_unwind_recurring(ss_unwind *walk, const void *above, uint32_t skip, uint32_t max,
                         uintptr_t *addresses, uint32_t *count)
{
    uintptr_t skipped[MOST_SKIPPED];
    bool complete, tries;
    uint32_t nodes;
    ss_stop why;
    ss_trail t;

    *count = 0;
    if (!walk->tree || !walk->tree->addresses || skip > MOST_SKIPPED ||
        !begin(&t, walk->tree, above))
        return false;
    t.address = skipped;
    nodes = walk->tree->node_count;
    why = SS_UNLIKELY(skip) ? ss_follow(&t, skipped + skip, false, false) : SS_STOP_LIMIT;
    if (why != SS_STOP_LIMIT)
        return is_complete(&t, why);
    t.address = addresses;
    tries = ss_tree_may_help(t.tree);
    why = tries ? try_tree(&t, addresses + max) : follow_known(&t, addresses + max, 0);
    complete = is_complete(&t, why);
    *count = (uint32_t)(t.address - addresses);
    if (tries)
        ss_end_sample(&t, nodes);
    ss_tree_earn(walk->tree);
    return complete;
}

bool ss_unwind_continue(ss_unwind *walk, uint32_t max)
{
    ss_entry_registers entry;
    uint32_t frame = walk->count - 1;

    if (!walk->bytes_left)
        return false;
    while (frame && walk->frames[frame].flags & STACKSPLICE_NATIVE_SIGNAL)
        frame--;
    if (!frame)
        return false;
    entry.ip = walk->frames[frame].ip;
    entry.sp = walk->frames[frame].sp;
    for (int i = 0; i < SS_SAVED_COUNT; i++)
        if (!ss_any_register(walk, frame, ss_saved_registers[i], &entry.saved[i]))
            entry.saved[i] = 0; /* no frame is at 0, so a rule that needs it ends the walk */
    return ss_walk_from(walk, &entry, NULL, max);
}

/*
 * ss_unwind_recurring starts right after the frame record of the function at ABOVE.  The walk has a
 * frame there only if that function keeps a frame pointer.
 */
void ss_unwind_recurs(ss_unwind *walk, const void *above)
{
    ss_tree *tree = walk->tree;
    const ss_tree_node *node = tree->nodes;

    if (!SS_RECORD_IS_TOP || !walk->hidden || walk->hidden == walk->count ||
        walk->frames[walk->hidden].sp != (uintptr_t)above + 2 * SS_WORD)
        return;
    for (uint32_t i = 0; node && i < walk->hidden; i++) {
        uintptr_t ip = walk->frames[i].ip;

        node = node[1].ip == ip ? node + 1 : ss_tree_edge(tree, node, ip);
        node = node ? ss_tree_home(tree, node) : NULL;
    }
    if (node && ss_rule_kind_of(node->cfa) == SS_RULE_FRAME)
        tree->addresses = (uint32_t)(node - tree->nodes);
}
