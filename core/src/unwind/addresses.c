/* The return addresses alone of a stack that the tree knows: what a recurring capture needs. */
#include "unwind/unloads.h"
#include "unwind/walk.h"

#define MOST_SKIPPED 32

/* Where the walk is; as in walk.c, but on one stack and without frames. */
typedef struct trace {
    const ss_tree *tree;
    const ss_tree_node *node;
    uintptr_t ip;
    uintptr_t sp;
    uintptr_t high;
} trace;

typedef enum stop {
    STOP_END,
    STOP_LIMIT,
    STOP_UNKNOWN, /* the frame that comes next */
    STOP_HARD     /* the last frame's caller takes a walk */
} stop;

/* From T on along the tree, at most to END; *STORED moves. */
static inline __attribute__((always_inline)) SS_NO_SANITIZE stop follow(trace *t,
                                                                        uintptr_t **stored,
                                                                        const uintptr_t *end)
{
    const ss_tree_node *node = t->node;
    uintptr_t ip = t->ip, sp = t->sp, high = t->high, next;
    uintptr_t *out = *stored;
    stop why;

    for (;;) {
        const ss_tree_node *behind = node + 1;

        why = STOP_LIMIT;
        if (SS_UNLIKELY(out == end))
            break;
        if (SS_UNLIKELY(behind->ip != ip)) {
            why = ip ? STOP_UNKNOWN : STOP_END;
            behind = ip ? ss_tree_edge(t->tree, node, ip) : NULL;
            if (SS_UNLIKELY(!behind))
                break;
        }
        node = behind;
        *out++ = ip;
        next = sp + node->cfa;
        if (SS_UNLIKELY(node->cfa & SS_RULE_KIND_MASK) &&
            !(next = ss_saved_cfa(t->tree, node, sp))) {
            why = ss_rule_kind_of(node->cfa) == SS_RULE_END ? STOP_END : STOP_HARD;
            break;
        }
        why = STOP_HARD;
        if (SS_UNLIKELY(next > high))
            break;
        sp = next;
        ip = ss_return_address(next, node->slot);
    }
    *t = (trace){t->tree, node, ip, sp, high};
    *stored = out;
    return why;
}

/* The CFA by the frame pointer, which was saved at AT; 0 when that does not tell it. */
static SS_NOINLINE SS_NO_SANITIZE uintptr_t based_cfa(uint32_t cfa, uintptr_t sp, uintptr_t at)
{
    uintptr_t base;

    if (!at || ss_rule_kind_of(cfa) > SS_RULE_SAVED || ss_rule_base(cfa) != SS_SAVED_FP)
        return 0;
    base = *(const uintptr_t *)at + ss_rule_offset(cfa);
    return base > sp && base % SS_WORD == 0 ? base : 0;
}

/* The same where the tree does not know the context, by the ip alone. */
static SS_NOINLINE SS_NO_SANITIZE stop follow_known(const trace *t, uintptr_t **stored,
                                                    const uintptr_t *end)
{
    uintptr_t ip = t->ip, sp = t->sp, high = t->high, mask = t->tree->known_mask, next;
    uintptr_t slot = ss_tree_frame_pointer(t->tree, t->node);
    uintptr_t saved = slot ? sp - SS_WORD * slot : 0; /* where the frame pointer of the frame is */
    uintptr_t *out = *stored;
    stop why;

    for (;;) {
        const ss_known *known = ss_tree_known(t->tree->known, mask, ip);

        why = STOP_LIMIT;
        if (SS_UNLIKELY(out == end))
            break;
        why = ip ? STOP_UNKNOWN : STOP_END;
        if (SS_UNLIKELY(!known->ip))
            break;
        *out++ = ip;
        next = sp + known->cfa;
        if (SS_UNLIKELY(known->cfa & SS_RULE_KIND_MASK) &&
            !(next = based_cfa(known->cfa, sp, saved))) {
            why = ss_rule_kind_of(known->cfa) == SS_RULE_END ? STOP_END : STOP_HARD;
            break;
        }
        why = STOP_HARD;
        if (SS_UNLIKELY(next > high))
            break;
        if (known->slot != SS_SLOT_UNCHANGED)
            saved = known->slot != SS_SLOT_LOST ? next - SS_WORD * known->slot : 0;
        sp = next;
        ip = ss_return_address(next, 0);
    }
    *stored = out;
    return why;
}

static SS_NO_SANITIZE bool begin(trace *t, ss_tree *tree, const void *above)
{
    uintptr_t record = (uintptr_t)above;
    ss_range stack;

    if (ss_modules_generation(false) != tree->generation || ss_tree_is_full(tree) ||
        atomic_load_explicit(&ss_walk_epoch, memory_order_acquire) != tree->epoch ||
        !ss_stack_find_cached(&tree->stack, record, &stack))
        return false;
    *t = (trace){.tree = tree,
                 .node = &tree->nodes[tree->addresses],
                 .ip = *(const uintptr_t *)(record + SS_WORD),
                 .sp = record + 2 * SS_WORD,
                 .high = stack.high};
    return true;
}

bool ss_unwind_recurring(ss_unwind *walk, const void *above, uint32_t skip, uint32_t max,
                         uintptr_t *addresses, uint32_t *count)
{
    uintptr_t skipped[MOST_SKIPPED], *end = skipped;
    stop why = STOP_LIMIT;
    trace t;

    if (!walk->tree || !walk->tree->addresses || skip > MOST_SKIPPED ||
        !begin(&t, walk->tree, above))
        return false;
    if (SS_UNLIKELY(skip))
        why = follow(&t, &end, skipped + skip);
    if (SS_UNLIKELY(why >= STOP_UNKNOWN))
        return false;
    end = addresses;
    if (SS_LIKELY(why == STOP_LIMIT))
        why = follow(&t, &end, addresses + max);
    /* A walk would make the tree grow; where it may not, that is in vain. */
    if (SS_UNLIKELY(why == STOP_UNKNOWN) && !ss_tree_may_grow(walk->tree)) {
        ss_tree_next_turn(walk->tree);
        why = follow_known(&t, &end, addresses + max);
    }
    *count = (uint32_t)(end - addresses);
    ss_tree_earn(walk->tree);
    return why < STOP_UNKNOWN;
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
            entry.saved[i] = 0; /* no frame lies there: a rule that needs it ends the walk */
    return ss_walk_from(walk, &entry, NULL, max);
}

/* Only behind a function that keeps a frame pointer is the walk where ss_unwind_recurring begins.
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
    }
    if (node && ss_rule_kind_of(node->cfa) == SS_RULE_FRAME)
        tree->addresses = (uint32_t)(node - tree->nodes);
}
