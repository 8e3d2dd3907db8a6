/* Broken unwind data, broken stacks: nothing is read that must not be. */
#include "unwind/stack.h"
#include "unwind/walk.h"
#include "entries.h"
#include "random.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef GARBAGE_ROUNDS
#define GARBAGE_ROUNDS 20000
#endif

/* ---- Unwind data ------------------------------------------------------------------------------*/

/* One common entry and one of a function [0x1000, 0x1100), with absolute addresses. */
/* clang-format off */
static const uint8_t good[] = {
    20, 0, 0, 0, /* length */
    0, 0, 0, 0, /* a common entry */
    1, 'z', 'R', 0, /* version, augmentation */
    1, 0x78, SS_REGISTER_RA, /* factors 1 and -8 */
    1, 0x03, /* addresses are udata4 */
    0x0c, SS_REGISTER_SP, 8, 0x80 | SS_REGISTER_RA, 1, 0, 0, /* CFA = sp + 8, it is at CFA - 8 */
    28, 0, 0, 0, /* length */
    28, 0, 0, 0, /* back to the common entry */
    0x00, 0x10, 0, 0, 0, 1, 0, 0, /* 0x1000, 0x100 */
    0, /* no augmentation data */
    0x41, 0x0e, 16, 0x80 | SS_REGISTER_FP, 2, /* 1 on: CFA = sp + 16, fp at CFA - 16 */
    0x43, 0x0d, SS_REGISTER_FP, /* 3 on: CFA = fp + 16 */
    0x02, 200, 0x0c, SS_REGISTER_SP, 8, 0, 0, /* 200 on: CFA = sp + 8 */
    0, 0, 0, 0, /* end of the section */
};
/* clang-format on */
#define FDE_AT 24

static bool parse(const uint8_t *data, size_t size, ss_fde *fde)
{
    return ss_fde_parse((ss_bytes){data, data + size}, data + FDE_AT, fde);
}

TEST(test_unwind_parses_a_description)
{
    ss_fde fde;
    ss_cfi_row row;

    assert_true(parse(good, sizeof good, &fde));
    assert_true(fde.start == 0x1000 && fde.size == 0x100);
    assert_true(ss_cfi_row_at(&fde, 0x1000, &row));
    assert_int_equal(row.cfa_register, SS_REGISTER_SP);
    assert_int_equal(row.cfa_offset, 8);
    assert_int_equal(row.value[SS_REGISTER_RA], -8);
    assert_int_equal(row.kind[SS_REGISTER_FP], SS_CFI_UNCHANGED);
    assert_true(ss_cfi_row_at(&fde, 0x1004, &row));
    assert_int_equal(row.cfa_register, SS_REGISTER_FP);
    assert_int_equal(row.cfa_offset, 16);
    assert_int_equal(row.kind[SS_REGISTER_FP], SS_CFI_AT_CFA);
    assert_int_equal(row.value[SS_REGISTER_FP], -16);
    assert_true(ss_cfi_row_at(&fde, 0x10ff, &row));
    assert_int_equal(row.cfa_register, SS_REGISTER_SP);
}

/* What a walk does with a description, wherever that leads. */
static bool use(const ss_fde *fde)
{
    bool any = false;

    for (size_t offset = 0; offset < 0x100; offset += 3) {
        ss_cfi_row row;
        ss_rule rule;

        if (!ss_cfi_row_at(fde, fde->start + offset, &row))
            continue;
        rule = ss_rule_from_row(fde, fde->start + offset, &row);
        any = any || ss_rule_kind_of(rule.cfa) != SS_RULE_FULL;
    }
    return any;
}

/* Offsets that no stack has, the one that has no negative among them, fit no compact rule. */
TEST(test_unwind_keeps_far_offsets_out_of_rules)
{
    static const int64_t far[] = {INT64_MIN, INT64_MIN + 8, -(INT64_C(1) << 35),
                                  (SS_SLOT_MAX + 1) * -(int64_t)SS_WORD, INT64_MAX - 7};
    ss_cfi_row row;
    ss_fde fde;

    assert_true(parse(good, sizeof good, &fde));
    for (size_t i = 0; i < SS_COUNT_OF(far); i++) {
        ss_rule rule;

        assert_true(ss_cfi_row_at(&fde, 0x1004, &row));
        row.value[SS_REGISTER_FP] = far[i];
        rule = ss_rule_from_row(&fde, 0x1004, &row);
        assert_int_equal(ss_rule_kind_of(rule.cfa), SS_RULE_FULL);
    }
    row.value[SS_REGISTER_FP] = SS_SLOT_MAX * -(int64_t)SS_WORD;
    assert_int_not_equal(ss_rule_kind_of(ss_rule_from_row(&fde, 0x1004, &row).cfa), SS_RULE_FULL);
}

/* In a block of exactly its size, so that one byte too far is seen by the sanitizer. */
static unsigned use_copy(const uint8_t *data, size_t size)
{
    uint8_t *copy = malloc(size ? size : 1);
    unsigned used = 0;
    ss_fde fde;

    assert_non_null(copy);
    memcpy(copy, data, size);
    for (const uint8_t *at = copy; at; at = entry_after(at, copy + size))
        used += ss_fde_parse((ss_bytes){copy, copy + size}, at, &fde) && use(&fde);
    free(copy);
    return used;
}

TEST(test_unwind_survives_truncated_data)
{
    assert_int_equal(use_copy(good, sizeof good), 1);
    for (size_t size = 0; size < FDE_AT + 4; size++)
        assert_int_equal(use_copy(good, size), 0);
    for (size_t size = 0; size < sizeof good; size++)
        (void)use_copy(good, size);
}

TEST(test_unwind_survives_changed_data)
{
    uint8_t data[sizeof good];
    unsigned used = 0;

    for (unsigned round = 0; round < 100000; round++) {
        memcpy(data, good, sizeof data);
        for (unsigned changes = 1 + round % 4; changes; changes--)
            data[draw_random() % sizeof data] = (uint8_t)draw_random();
        used += use_copy(data, sizeof data);
    }
    assert_true(used > 0); /* some changes do no harm: the others were not all refused */
}

static bool any_segment(const void *data, uintptr_t address, ss_bytes *bytes)
{
    *bytes = *(const ss_bytes *)data;
    return address >= (uintptr_t)bytes->low && address < (uintptr_t)bytes->high;
}

/* .eh_frame_hdr in front of the section; every byte of it changed to every value. */
TEST(test_unwind_survives_a_changed_table)
{
    enum { HEADER = 20 };
    uint8_t *data = malloc(HEADER + sizeof good);
    ss_bytes bytes = {data, data + HEADER + sizeof good};
    ss_eh_frame section = {{data, data + HEADER}, any_segment, &bytes};
    int32_t start = HEADER - 4, row[2];
    ss_fde fde;
    uintptr_t function;

    assert_non_null(data);
    memcpy(data, (uint8_t[HEADER]){1, 0x1b, 0x03, 0x3b, 0, 0, 0, 0, 1, 0, 0, 0}, HEADER);
    memcpy(data + 4, &start, 4);
    memcpy(data + HEADER, good, sizeof good);
    /* A function that begins with the data itself: within reach of the table's offsets. */
    data[HEADER + 16] = 0x1b;
    function = (uintptr_t)data;
    start = (int32_t)(function - (uintptr_t)(data + HEADER + FDE_AT + 8));
    memcpy(data + HEADER + FDE_AT + 8, &start, 4);
    row[0] = 0;
    row[1] = HEADER + FDE_AT;
    memcpy(data + 12, row, sizeof row);
    assert_true(ss_eh_frame_find(&section, function + 5, &fde));
    assert_true(fde.start == function);
    assert_false(ss_eh_frame_find(&section, function + 0x100, &fde));
    assert_false(ss_eh_frame_find(&section, function - 1, &fde));
    data[3] = 0xff; /* no table */
    assert_false(ss_eh_frame_find(&section, function + 5, &fde));
    data[3] = 0x3b;
    for (size_t i = 0; i < HEADER; i++)
        for (unsigned value = 0; value < 256; value++) {
            uint8_t old = data[i];

            data[i] = (uint8_t)value;
            (void)ss_eh_frame_find(&section, function + 5, &fde);
            data[i] = old;
        }
    free(data);
}

/*
 * Where a rule does not tell surely where the frame pointer is, the walk must not load it, however
 * plain the frames further out are that do not touch it.
 */
TEST(test_the_frame_pointer_is_looked_for_in_certain_places_only)
{
    const ss_rule plain = {0, 2 * sizeof(uintptr_t), {UINT64_MAX}}; /* all unchanged */
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

/* ---- Stacks -----------------------------------------------------------------------------------*/

static uintptr_t some_word(const uintptr_t *words, size_t count)
{
    static const uintptr_t code[] = {(uintptr_t)printf, (uintptr_t)qsort, (uintptr_t)use_copy,
                                     (uintptr_t)some_word, (uintptr_t)malloc};

    switch (draw_random() % 4) {
    case 0:
        return draw_random();
    case 1: /* into the stack, and a little beyond */
        return (uintptr_t)words + draw_random() % ((count + 64) * sizeof *words);
    default:
        return code[draw_random() % SS_COUNT_OF(code)] + draw_random() % 4096;
    }
}

/* Pages that cannot be read lie on both sides: a read outside ends the program. */
TEST(test_unwind_survives_garbage_stacks)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), count = page / sizeof(uintptr_t);
    uint8_t *map = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uintptr_t *words = (uintptr_t *)(void *)(map + page);
    ss_unwind walk = {.frames = NULL};
    unsigned long frames = 0;

    assert_true(map != MAP_FAILED);
    assert_int_equal(mprotect(words, page, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(stacksplice_add_stack(words, words + count), 0);
    for (unsigned round = 0; round < GARBAGE_ROUNDS; round++) {
        ss_entry_registers entry;

        for (size_t i = 0; i < count; i++)
            words[i] = some_word(words, count);
        entry.ip = some_word(words, count);
        entry.sp = (uintptr_t)(words + draw_random() % (count - 1));
        for (int i = 0; i < SS_SAVED_COUNT; i++)
            entry.saved[i] = some_word(words, count);
        assert_true(ss_walk_from(&walk, &entry, NULL, SS_UNWIND_MAX_FRAMES));
        frames += walk.count;
        for (uint32_t i = 0; i < walk.count; i++)
            for (int r = 0; r < SS_SAVED_COUNT; r++) {
                uint32_t number = ss_saved_registers[r];
                uintptr_t value;

                (void)ss_unwind_registers(&walk, i, &number, 1, &value);
            }
    }
    printf("%lu frames\n", frames);
    assert_true(frames > GARBAGE_ROUNDS); /* they are followed, as far as they go */
    assert_int_equal(stacksplice_remove_stack(words), 0);
    ss_unwind_trim(&walk, true);
    munmap(map, 3 * page);
}
