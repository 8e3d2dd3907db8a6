/* What a thread remembers of its stacks: whatever it is, walks give the same frames. */
#include "splice/splice.h"
#include "unwind/table.h"
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

static SS_NOINLINE void go(unsigned depth)
{
    static void (*const shapes[])(unsigned) = {small, middle, large, varying};

    if (depth == DEPTH)
        at_end();
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

static void run(void (*function)(void))
{
    at_end = function;
    go(0);
    AFTER();
}

TEST(test_walks_equal_libgccs)
{
    for (unsigned i = 0; i < 1000; i++) {
        choose_path(0);
        run(i % 4 ? compare : only_walk);
    }
    assert_true(compared > 10000);
}

/* Old paths come again, and each part of one may be new. */
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

/* ---- Room -------------------------------------------------------------------------------------*/

static const ss_rule plain = {0, 2 * sizeof(uintptr_t), {UINT64_MAX}}; /* all unchanged */

/* Addresses without code, which have their place in common in a table of any size. */
static uintptr_t alike(uint32_t number)
{
    return (uintptr_t)(number + 1) << 40;
}

static void fill(ss_table *table)
{
    uint32_t count = 0;

    ss_table_forget(table);
    while (ss_table_add(table, alike(count), &plain, count))
        count++;
    assert_int_equal(count, ss_table_count(table));
    assert_true(ss_table_is_full(table));
}

TEST(test_a_full_table_gets_wider_once_and_then_begins_anew)
{
    choose_path(0);
    run(only_walk);
    for (unsigned i = 0; i < 3; i++) {
        fill(walk.table);
        run(compare);
        assert_int_equal(walk.table->size, SS_TABLE_WIDE);
        assert_in_range(ss_table_count(walk.table), 10, 1000);
    }
}

/* A walk that needs more than the widest table has ends, and says why. */
TEST(test_a_stack_that_no_table_can_hold)
{
    ss_table_room room;

    choose_path(0);
    run(only_walk);
    fill(walk.table);
    run(only_walk);
    room = walk.table->room;
    walk.table->room.known = 8;
    for (volatile unsigned i = 0; i < 3; i++) { /* one call: not unrolled */
        run(only_walk);
        assert_string_equal(walk.end_reason,
                            "too many functions here have a rare kind of unwind data");
        assert_int_equal(ss_table_count(walk.table), 6);
    }
    walk.table->room = room;
    run(compare);
}

TEST(test_a_deep_recursion_takes_room_for_frames_only)
{
    ss_unwind_trim(&walk, true);
    for (unsigned i = 0; i < 3; i++) {
        (void)deep(30000, only_walk);
        assert_true(walk.count > 30000);
        assert_in_range(ss_table_count(walk.table), 5, 100);
        assert_int_equal(walk.table->size, SS_TABLE_DEEP);
        ss_unwind_trim(&walk, false);
    }
    choose_path(0);
    run(compare);
}

/*
 * Where a rule does not tell surely where the frame pointer is, the walk must not load it, however
 * plain the frames further out are that do not touch it.
 */
TEST(test_the_frame_pointer_is_looked_for_in_certain_places_only)
{
    const ss_rule uncommon[] = {
        {0, SS_RULE_FULL, {0}}, {0, SS_RULE_AT_SAVED, {0}}, {0, SS_RULE_LEAF, {UINT64_MAX}}};
    ss_table *table = ss_table_new(SS_TABLE_SMALL);
    const unsigned slots[] = {2, 3, SS_SLOT_LOST};
    uintptr_t ip = 0x1000;

    assert_non_null(table);
    for (size_t i = 0; i < SS_COUNT_OF(uncommon); i++, ip += 16) {
        assert_true(ss_table_add(table, ip, &uncommon[i], 0));
        assert_int_equal(ss_table_find(table->known, table->mask, ip)->fp_below, SS_BELOW_LOST);
    }
    for (size_t i = 0; i < SS_COUNT_OF(slots); i++, ip += 16) {
        ss_rule saving = plain; /* of two words: the third is outside */

        saving.slots[SS_SAVED_FP / SS_SLOTS_A_WORD] ^=
            (uint64_t)(SS_SLOT_UNCHANGED ^ slots[i])
            << SS_SLOT_BITS * (SS_SAVED_FP % SS_SLOTS_A_WORD);
        assert_true(ss_table_add(table, ip, &saving, 0));
        assert_int_equal(ss_table_find(table->known, table->mask, ip)->fp_below,
                         i ? SS_BELOW_LOST : 2 * SS_WORD);
    }
    ss_table_free(table);
}
