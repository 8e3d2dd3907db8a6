#include "unwind/follow.h"

#include "unwind/stack.h"
#include "unwind/unloads.h"

#include <string.h>

#define CREDIT_LEAST (-4096)
#define KEPT_FRAMES 2048

#define NAME_OF(name, text) name,
#define TEXT_OF(name, text) [name] = (text),
enum { SS_UNWIND_REASONS(NAME_OF) REASONS };
static const char *const reasons[REASONS] = {SS_UNWIND_REASONS(TEXT_OF)};

/* ---- Marks ------------------------------------------------------------------------------------*/

typedef uint32_t (*classifier)(uintptr_t ip, uintptr_t function);

static _Atomic(classifier) classify; /* (ATOMIC) */
atomic_uint ss_walk_epoch;           /* (ATOMIC) */

void ss_unwind_classify(uint32_t (*flags)(uintptr_t ip, uintptr_t function))
{
    atomic_store(&classify, flags);
    atomic_fetch_add(&ss_walk_epoch, 1);
}

uint32_t ss_unwind_epoch(void)
{
    return atomic_load_explicit(&ss_walk_epoch, memory_order_acquire);
}

static uint32_t ask(uintptr_t ip, uintptr_t function)
{
    classifier flags = atomic_load(&classify);

    return flags ? flags(ip, function) : 0;
}

static void take(ss_trail *t, const ss_tree_facts *facts)
{
    t->marked = ss_put_frame(t->frame++, t->marked, t->ip, t->sp, facts);
}

/* Take the next frame, whose ip is new to this thread. */
static SS_COLD ss_verdict take_unknown(ss_trail *t)
{
    uintptr_t pc = t->ip - 1;
    const ss_tree_node *node;
    ss_tree_facts none = {.function = 0};
    ss_rule rule;
    ss_verdict found;

    found = ss_find_rule(pc, t->tree->generation, &rule);
    if (found == SS_STEP_NO_DATA && ss_ends_stack(t->ip))
        found = SS_STEP_END;
    if (found != SS_STEP_ON) {
        none.flags = ask(t->ip, 0);
        if (found == SS_STEP_NO_DATA)
            none.rule = (uint32_t)ss_arch_forwarder((const uint8_t *)t->ip);
        if (none.rule) {
            none.flags |= SS_UNWIND_FORWARDER;
            t->walk->forwards = true;
        }
        take(t, &none);
        t->node = t->tree->nodes;
        return found;
    }
    node = ss_tree_add(t->tree, t->node, t->ip, &rule,
                       ask(t->ip, rule.start == UINT32_MAX ? 0 : pc - rule.start));
    if (!node)
        return SS_STEP_NO_ROOM;
    t->node = node;
    take(t, ss_tree_facts_of(t->tree, node));
    return SS_STEP_ON;
}

/* Whether the caller lies further out on the same stack, or on another known stack. */
static bool accept_stack(ss_trail *t, const ss_caller *next)
{
    ss_unwind *walk = t->walk;
    ss_range other;

    if (next->sp % SS_WORD)
        return false;
    if (next->sp + next->may_stay > t->frame[-1].sp && next->sp <= t->high)
        return true;
    if (!next->may_jump || walk->stack_count == SS_UNWIND_MAX_STACKS ||
        !(ss_stack_find(next->sp, &other) || ss_stack_find_overflown(next->sp, &other) ||
          (next->flags & STACKSPLICE_NATIVE_SIGNAL && ss_stack_find_readable(next->sp, &other))))
        return false;
    if (other.low < next->sp - SS_RED_ZONE)
        other.low = next->sp - SS_RED_ZONE;
    walk->stacks[walk->stack_count++] = other;
    t->high = other.high;
    return true;
}

/* Find the next frame by a step that the hot part cannot do. */
static ss_verdict step_on(ss_trail *t, ss_verdict found, uint32_t *flags)
{
    ss_unwind *walk = t->walk;
    ss_caller next;

    walk->count = (uint32_t)(t->frame - walk->frames);
    if (found == SS_STEP_ON)
        found = ss_step(walk, &t->tree->rules[t->frame[-1].rule], &next);
    if (found == SS_STEP_NO_DATA)
        found = ss_step_without_data(walk, &next);
    if (found != SS_STEP_ON)
        return found;
    if (next.ip && !accept_stack(t, &next))
        return SS_STEP_OFF_STACK;
    t->ip = next.ip;
    t->sp = next.sp;
    *flags = next.flags;
    walk->inferred |= next.flags & STACKSPLICE_NATIVE_INFERRED;
    return SS_STEP_ON;
}

/* Take the next frame and those that the hot part can follow; then step_on may help. */
static ss_verdict take_frames(ss_trail *t)
{
    ss_stop why;

    do {
        why = ss_follow_tree(t);
        if (why == SS_STOP_UNKNOWN) {
            t->missed |= t->ip != 0;
            why = ss_follow_table(t);
        }
    } while (why == SS_STOP_HOME);
    if (why == SS_STOP_OFF_STACK)
        return SS_STEP_OFF_STACK;
    if (why == SS_STOP_SPECIAL)
        return SS_STEP_ON;
    if (!t->ip)
        return SS_STEP_END;
    if (t->frame == t->end) {
        t->walk->bytes_left = t->high - t->sp;
        return SS_STEP_LIMIT;
    }
    return take_unknown(t);
}

static const char *reason_of(ss_verdict found)
{
    switch (found) {
    case SS_STEP_NO_DATA:
        return reasons[NO_DATA];
    case SS_STEP_UNASKED:
        return reasons[UNASKED];
    case SS_STEP_OFF_STACK:
        return reasons[OFF_STACK];
    case SS_STEP_NO_ROOM:
        return reasons[NO_ROOM];
    default:
        return reasons[BROKEN];
    }
}

static ss_verdict walk_on(ss_trail *t)
{
    ss_unwind *walk = t->walk;
    uint32_t flags = 0;
    ss_verdict found;

    do {
        stacksplice_native_frame *first = t->frame;

        found = take_frames(t);
        if (t->frame > first)
            first->flags |= flags;
        if (found == SS_STEP_ON || found == SS_STEP_NO_DATA)
            found = step_on(t, found, &flags);
    } while (found == SS_STEP_ON);
    walk->count = (uint32_t)(t->frame - walk->frames);
    if (found == SS_STEP_END)
        walk->end_reason = NULL;
    else if (found != SS_STEP_LIMIT && !walk->end_reason)
        /* With unknown stack bounds every walk fails sooner or later; keep that reason. */
        walk->end_reason = reason_of(found);
    return found;
}

/* Switch to an empty tree with more room; false when there is no memory. */
static SS_COLD bool enlarge(ss_unwind *walk, ss_tree_size more)
{
    ss_tree *was = walk->tree, *tree = ss_tree_new(was ? was->size | more : SS_TREE_SMALL);

    if (!tree)
        return false;
    tree->credit = SS_TREE_FIRST_CREDIT;
    if (was) {
        tree->generation = was->generation;
        tree->epoch = was->epoch;
        tree->stack = was->stack;
    }
    ss_tree_free(was);
    walk->tree = tree;
    walk->frames = tree->frames;
    walk->marked = tree->marked;
    return true;
}

/* Cached nodes are valid only while the modules and the classifier stay the same. */
static void refresh(ss_unwind *walk)
{
    ss_tree *tree = walk->tree;
    uint64_t generation = ss_modules_generation(tree->node_count == 1);
    uint32_t asked = atomic_load_explicit(&ss_walk_epoch, memory_order_acquire);

    if (SS_UNLIKELY(ss_tree_is_full(tree)) && !(tree->size & SS_TREE_WIDE) &&
        enlarge(walk, SS_TREE_WIDE))
        tree = walk->tree;
    else if (SS_UNLIKELY(generation != tree->generation || asked != tree->epoch ||
                         ss_tree_is_full(tree)))
        ss_tree_forget(tree);
    tree->generation = generation;
    tree->epoch = asked;
    ss_tree_earn(tree);
}

/* Whether ABOVE is the frame of a signal handler. */
static bool is_in_handler(const void *above)
{
    return ss_is_sigreturn(((const uintptr_t *)above)[1]);
}

/* Set how far the stack may be read. */
static void begin_stack(ss_unwind *walk, uintptr_t sp, const void *above)
{
    ss_range *stack = &walk->stacks[0];

    walk->end_reason = NULL;
    walk->inferred = walk->forwards = false;
    walk->bytes_left = 0;
    if (!ss_stack_find_cached(&walk->tree->stack, sp, stack) &&
        !(is_in_handler(above) && ss_stack_find_readable(sp, stack))) {
        stack->high = (uintptr_t)above + 2 * SS_WORD; /* a frame pointer and a return address */
        walk->end_reason = reasons[UNKNOWN_STACK];
    }
    stack->low = sp;
    walk->stack_count = 1;
}

/* Hide our own frames, and renumber the marked ones. */
static void end_walk(ss_unwind *walk, uintptr_t above, const uint32_t *marked)
{
    uint32_t hidden = 0, kept = 0;

    while (hidden < walk->count && walk->frames[hidden].sp <= above)
        hidden++;
    for (uint32_t *at = walk->marked; at < marked; at++) {
        uint32_t frame = (*at - (uint32_t)(uintptr_t)walk->frames) / sizeof *walk->frames;

        if (frame >= hidden)
            walk->marked[kept++] = frame - hidden;
    }
    walk->hidden = hidden;
    walk->marked_count = kept;
}

static void begin_trail(ss_trail *t, ss_unwind *walk, const ss_entry_registers *entry, uint32_t max)
{
    ss_tree *tree = walk->tree;

    tree->file_count = 0;
    memcpy(tree->entry, entry->saved, sizeof entry->saved);
    *t = (ss_trail){.walk = walk,
                    .tree = tree,
                    .node = tree->nodes,
                    .ip = entry->ip,
                    .sp = entry->sp,
                    .high = walk->stacks[0].high,
                    .frame = walk->frames,
                    .end = walk->frames + (max < tree->room.frames ? max : tree->room.frames),
                    .marked = walk->marked};
}

/* Whether the walk, which ended with FOUND, got the room that it lacked. */
static bool gets_room(ss_unwind *walk, ss_verdict found, uint32_t max)
{
    const ss_tree *tree = walk->tree;

    if (SS_UNLIKELY(found == SS_STEP_LIMIT && max > tree->room.frames))
        return !(tree->size & SS_TREE_DEEP) && enlarge(walk, SS_TREE_DEEP);
    if (SS_UNLIKELY(found == SS_STEP_NO_ROOM))
        return !(tree->size & SS_TREE_WIDE) && enlarge(walk, SS_TREE_WIDE);
    return false;
}

bool ss_walk_from(ss_unwind *walk, const ss_entry_registers *entry, const void *above, uint32_t max)
{
    uint32_t nodes;
    ss_verdict found;
    ss_trail t;

    if (SS_UNLIKELY(!walk->tree) && !enlarge(walk, SS_TREE_SMALL))
        return false;
    refresh(walk);
    do {
        begin_stack(walk, entry->sp, above);
        begin_trail(&t, walk, entry, max);
        nodes = walk->tree->node_count;
        found = walk_on(&t);
    } while (gets_room(walk, found, max));
    end_walk(walk, (uintptr_t)above, t.marked);
    ss_end_sample(&t, nodes);
    if (SS_UNLIKELY(walk->tree->credit < CREDIT_LEAST))
        walk->tree->credit = CREDIT_LEAST;
    return true;
}

SS_NOINLINE bool ss_unwind_walk(ss_unwind *walk, const void *above, uint32_t max)
{
    ss_entry_registers entry;
    bool done;

    ss_arch_entry(&entry);
    done = ss_walk_from(walk, &entry, above, max);
    __asm__ volatile("" ::: "memory"); /* no tail call: the walk includes this frame */
    return done;
}

/* The pages stay mapped; their contents are gone. */
void ss_unwind_trim(ss_unwind *walk, bool all)
{
    if (all) {
        ss_tree_free(walk->tree);
        memset(walk, 0, sizeof *walk);
    } else if (SS_UNLIKELY(walk->count > KEPT_FRAMES)) {
        ss_tree_trim(walk->tree, KEPT_FRAMES);
    }
}
