/* What a thread remembers of its stacks: whatever it is, walks give the same frames. */
#include "splice/splice.h"
#include "unwind/tree.h"
#include "unwind/walk.h"
#include "frames.h"
#include "random.h"
#include "support.h"
#include "unwind_deep.h"

#include <stdlib.h>
#include <unwind.h>

#define DEPTH 40
#define MAX 256

/* ---- Stacks of many shapes --------------------------------------------------------------------*/

static uint8_t path[DEPTH];
static unsigned some_values[14];
static void (*at_end)(void);

static SS_NOINLINE void go(unsigned depth);

/* Each has three places to go on from, and a frame of another size. */
#define SHAPE(name, bytes)                       \
    static SS_NOINLINE void name(unsigned depth) \
    {                                            \
        volatile char local[bytes];              \
                                                 \
        local[0] = (char)depth;                  \
        switch (path[depth] / 4 % 3) {           \
        case 0:                                  \
            go(depth + 1);                       \
            break;                               \
        case 1:                                  \
            go(depth + 1);                       \
            AFTER();                             \
            break;                               \
        default:                                 \
            go(depth + 1);                       \
            local[1] = local[0];                 \
            break;                               \
        }                                        \
        AFTER();                                 \
    }

SHAPE(small, 8)
SHAPE(middle, 100)
SHAPE(large, 1000)

/* A frame whose size is not known before it runs. */
static SS_NOINLINE void varying(unsigned depth)
{
    volatile char *local = __builtin_alloca(16 + path[depth]);

    local[0] = (char)depth;
    go(depth + 1);
    local[1] = local[0];
    AFTER();
}

/* Keeps so many values over the call that it saves every register: contexts may begin anew here. */
static SS_NOINLINE void full(unsigned depth)
{
    volatile unsigned *values = (volatile unsigned *)(void *)some_values;
    unsigned a = values[0], b = values[1], c = values[2], d = values[3], e = values[4];
    unsigned f = values[5], g = values[6], h = values[7], i = values[8], j = values[9];
    unsigned k = values[10], l = values[11], m = values[12], n = values[13];

    go(depth + 1);
    values[0] = a + depth, values[1] = b, values[2] = c, values[3] = d, values[4] = e;
    values[5] = f, values[6] = g, values[7] = h, values[8] = i, values[9] = j;
    values[10] = k, values[11] = l, values[12] = m, values[13] = n;
}

static SS_NOINLINE void go(unsigned depth)
{
    static void (*const shapes[])(unsigned) = {small, middle, large, varying};

    if (depth == DEPTH)
        at_end();
    else if (path[depth] >= 192)
        full(depth);
    else
        shapes[path[depth] % 4](depth);
    AFTER();
}

static void choose_path(unsigned from)
{
    for (unsigned i = from; i < DEPTH; i++)
        path[i] = (uint8_t)next_random(256);
}

/* ---- Ours against libgcc's --------------------------------------------------------------------*/

typedef struct truth {
    stacksplice_native_frame frames[MAX];
    uint32_t count;
} truth;

static ss_unwind walk;
static truth expected;
static unsigned long compared;

static _Unwind_Reason_Code keep(struct _Unwind_Context *context, void *data)
{
    truth *t = data;
    stacksplice_native_frame *f = &t->frames[t->count];

    f->ip = (uintptr_t)_Unwind_GetIP(context);
    f->sp = (uintptr_t)_Unwind_GetCFA(context);
    f->function = (uintptr_t)_Unwind_GetRegionStart(context);
    t->count += f->ip && t->count < MAX - 1;
    return _URC_NO_REASON;
}

static SS_NOINLINE void compare(void)
{
    uint32_t ours = 0, theirs = 0;

    expected.count = 0;
    _Unwind_Backtrace(keep, &expected);
    assert_true(ss_unwind_walk(&walk, SS_HERE(), SS_UNWIND_MAX_FRAMES));
    assert_null(walk.end_reason);
    ours = walk.hidden; /* the caller of this function */
    while (theirs < expected.count && expected.frames[theirs].sp != walk.frames[ours].sp)
        theirs++;
    assert_int_equal(walk.count - ours, expected.count - theirs);
    for (; ours < walk.count; ours++, theirs++) {
        assert_true(walk.frames[ours].ip == expected.frames[theirs].ip);
        assert_true(walk.frames[ours].sp == expected.frames[theirs].sp);
        assert_true(walk.frames[ours].function == expected.frames[theirs].function);
        compared++;
    }
}

static SS_NOINLINE uint32_t addresses_only(uint32_t skip, uint32_t max, uintptr_t *addresses)
{
    uint32_t count = ss_capture_native(SS_HERE(), skip, max, addresses, NULL);

    AFTER();
    return count;
}

/* The addresses that libgcc finds beyond SP, without SKIP, are the COUNT of ADDRESSES. */
static void check_addresses(uintptr_t sp, uint32_t skip, uint32_t max, const uintptr_t *addresses,
                            uint32_t count)
{
    uint32_t theirs = 0, wanted;

    expected.count = 0;
    _Unwind_Backtrace(keep, &expected);
    while (theirs < expected.count && expected.frames[theirs].sp <= sp)
        theirs++;
    theirs += skip;
    wanted = expected.count > theirs ? expected.count - theirs : 0;
    assert_int_equal(count, wanted < max ? wanted : max);
    for (uint32_t i = 0; i < count; i++)
        assert_true(addresses[i] == expected.frames[theirs + i].ip);
    compared += count;
}

/* Beyond the caller of addresses_only, whose place in this function is not the one below. */
static SS_NOINLINE void compare_addresses(void)
{
    uint32_t skip = 1 + next_random(40), max = next_random(2) ? MAX : 1 + next_random(50), count;
    uintptr_t addresses[MAX];

    count = addresses_only(skip, max, addresses);
    check_addresses((uintptr_t)SS_HERE(), skip - 1, max, addresses, count);
    count = addresses_only(1, MAX, addresses);
    check_addresses((uintptr_t)SS_HERE(), 0, MAX, addresses, count);
}

static SS_NOINLINE void only_walk(void)
{
    assert_true(ss_unwind_walk(&walk, SS_HERE(), SS_UNWIND_MAX_FRAMES));
    AFTER();
}

/* How many links to homes the tree has. */
static unsigned links(const ss_tree *tree)
{
    unsigned count = 0;

    for (uint32_t i = 1; i < tree->node_count; i++)
        count += (tree->nodes[i].cfa & SS_RULE_KIND_MASK) == SS_TREE_LINK;
    return count;
}

static void run(void (*function)(void))
{
    at_end = function;
    go(0);
    AFTER();
}

TEST(test_tree_grows_and_begins_anew)
{
    uint32_t most = 0, restarts = 0, before = 0;

    for (unsigned i = 0; i < 20000 && restarts < 2; i++) {
        choose_path(0);
        run(i % 4 ? compare : only_walk);
        restarts += walk.tree->node_count < before;
        before = walk.tree->node_count;
        most = most < before ? before : most;
    }
    assert_int_equal(restarts, 2);
    assert_true(most >= SS_TREE_MOST_NODES);
    assert_int_equal(walk.tree->size, SS_TREE_WIDE);
    assert_true(compared > 10000);
}

/* With and without credit; old paths come again, and each part of one may be new. */
TEST(test_addresses_are_those_of_a_walk)
{
    unsigned long before = compared;

    for (unsigned i = 0; i < 3000; i++) {
        if (i % 8 == 0)
            seed = 1 + i / 16 % 50;
        choose_path(i % 8 == 0 ? 0 : next_random(DEPTH));
        run(compare_addresses);
    }
    assert_true(compared - before > 100000);
}

/*
 * Stacks that were never seen, made of parts that were: from one function that saves every register
 * to the next.  Then the parts are known, and nothing is added for a new order of them.
 */
TEST(test_tree_knows_a_new_stack_by_its_parts)
{
    static const uint8_t part[2][8] = {{255, 0, 1, 2, 3, 4, 5, 6}, {255, 8, 3, 0, 2, 7, 1, 0}};
    uint32_t before = 0;

    ss_unwind_trim(&walk, true);
    for (volatile unsigned order = 0; order < 32; order++) {
        for (unsigned i = 0; i < DEPTH; i++)
            path[i] = part[order >> i / 8 & 1][i % 8];
        before = walk.tree ? walk.tree->node_count : 0;
        run(order % 2 ? compare : only_walk);
        run(compare_addresses);
    }
    assert_true(links(walk.tree) > 0);
    assert_int_equal(walk.tree->node_count, before);
}

TEST(test_tree_knows_a_stack_it_has_seen)
{
    ss_unwind_trim(&walk, true);
    choose_path(0);
    for (volatile unsigned i = 0; i < 3; i++) { /* one call: not unrolled */
        uint32_t before = walk.tree ? walk.tree->node_count : 0;

        run(only_walk);
        assert_true(i ? walk.tree->node_count == before : walk.tree->node_count > DEPTH);
        assert_true(!i || walk.count > DEPTH);
    }
    run(compare);
}

/*
 * Behind a signal frame, and behind one that realigned the stack, the tree does not tell where the
 * frame pointer is, however plain the frames further out are that do not touch it.
 */
TEST(test_tree_does_not_guess_behind_an_uncommon_frame)
{
    const ss_rule plain = {0, 2 * sizeof(uintptr_t), {UINT64_MAX}}; /* all registers unchanged */
    const ss_rule uncommon[] = {
        {0, SS_RULE_FULL, {0}}, {0, SS_RULE_AT_SAVED, {0}}, {0, SS_RULE_LEAF, {UINT64_MAX}}};
    ss_rule saving = plain;

    saving.slots[SS_SAVED_FP / SS_SLOTS_A_WORD] ^=
        (uint64_t)(SS_SLOT_UNCHANGED ^ 2) << SS_SLOT_BITS * (SS_SAVED_FP % SS_SLOTS_A_WORD);
    for (size_t i = 0; i <= sizeof uncommon / sizeof *uncommon; i++) {
        bool first = i == sizeof uncommon / sizeof *uncommon;
        ss_tree *tree = ss_tree_new(SS_TREE_SMALL);
        const ss_tree_node *node;

        assert_non_null(tree);
        node = ss_tree_add(tree, tree->nodes, 0x1000, first ? &saving : &uncommon[i], 0);
        node = ss_tree_add(tree, node, 0x2000, &plain, 0);
        assert_int_equal(ss_tree_frame_pointer(tree, node), first ? 4 : 0);
        ss_tree_free(tree);
    }
}

static unsigned helpful(ss_tree *tree, bool strange)
{
    unsigned count = 0;

    for (unsigned i = 0; i < 1000; i++)
        if (ss_tree_may_help(tree)) {
            ss_tree_tried(tree, strange);
            count++;
        }
    return count;
}

/* Ever-new stacks turn walks for addresses away from the tree, and known ones bring them back. */
TEST(test_tree_is_seldom_tried_while_stacks_are_ever_new)
{
    ss_tree *tree = ss_tree_new(SS_TREE_SMALL);

    assert_non_null(tree);
    assert_int_equal(helpful(tree, false), 1000);
    assert_in_range(helpful(tree, true), SS_TREE_STRANGE / 3,
                    SS_TREE_STRANGE / 3 + 1 + 1000 / SS_TREE_PASSED_BY);
    assert_in_range(helpful(tree, true), 1000 / SS_TREE_PASSED_BY, 1000 / SS_TREE_PASSED_BY + 1);
    assert_true(helpful(tree, false) > 700);
    assert_int_equal(helpful(tree, false), 1000);
    ss_tree_free(tree);
}

/* Without credit contexts are not kept, and known code is still found. */
TEST(test_tree_may_not_grow_without_credit)
{
    uint32_t before = 0;

    for (unsigned i = 0; i < 100; i++) { /* all return addresses become known */
        choose_path(0);
        run(only_walk);
    }
    for (unsigned i = 0; i < 50; i++) {
        choose_path(0);
        walk.tree->credit = -1000;
        run(compare);
        if (i == 0)
            before = walk.tree->node_count;
    }
    assert_int_equal(walk.tree->node_count, before);
}

TEST(test_tree_bounds_a_deep_recursion)
{
    ss_unwind_trim(&walk, true);
    for (unsigned i = 0; i < 3; i++) {
        (void)deep(30000, only_walk);
        assert_true(walk.count > 30000);
        assert_true(walk.tree->node_count <= walk.tree->room.nodes + 100);
        assert_true(walk.tree->size & SS_TREE_DEEP);
        ss_unwind_trim(&walk, false);
    }
    choose_path(0);
    run(compare);
}

TEST(test_tree_has_no_room_for_more)
{
    ss_tree *tree = ss_tree_new(SS_TREE_SMALL);
    ss_rule rule = ss_rule_frame_pointer();
    const ss_tree_node *node = tree->nodes;
    uint32_t most = tree->room.nodes + tree->room.spare;
    uintptr_t ip = 0x1000;

    for (uint32_t i = 2; i < most; i++, ip += 7) {
        node = ss_tree_add(tree, node, ip, &rule, 0);
        assert_non_null(node);
    }
    assert_null(ss_tree_add(tree, node, ip, &rule, 0));
    assert_true(ss_tree_is_full(tree));
    ss_tree_forget(tree);
    assert_false(ss_tree_is_full(tree));
    assert_null(ss_tree_edge(tree, tree->nodes, 0x1000));
    assert_int_equal(ss_tree_known(tree->known, tree->known_mask, 0x1000)->ip, 0);
    ss_tree_free(tree);
}
