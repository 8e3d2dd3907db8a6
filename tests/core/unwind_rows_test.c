/*
 * Every row of every frame description of many libraries: it decodes, and where it
 * fits a compact rule, that rule finds the same caller as the row itself.
 */
#include "unwind/modules.h"
#include "unwind/walk.h"
#include "entries.h"
#include "support.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define STACK_WORDS (1 << 16)

typedef struct counts {
    unsigned long entries, compact, full, failed, different;
} counts;

static uintptr_t fake_stack[STACK_WORDS];
static ss_unwind fake;
static counts total;

enum { COMPACT = 1, FULL = 2 }; /* in the rules of the fake */

/*
 * A stack of known words, and frame 1 of it, whose registers point into it too.  All are known, as
 * in a frame that a signal interrupted: rows that only such a frame can meet use them.
 */
static void make_fake(void)
{
    uintptr_t sp = (uintptr_t)&fake_stack[STACK_WORDS / 4];
    ss_register_file *file;

    for (size_t i = 0; i < STACK_WORDS; i++)
        fake_stack[i] = (uintptr_t)&fake_stack[STACK_WORDS * 3 / 4 + i % 1000];
    fake.table = ss_table_new(SS_TABLE_SMALL);
    assert_non_null(fake.table);
    fake.frames = fake.table->frames;
    fake.stacks[0] = (ss_range){(uintptr_t)fake_stack, (uintptr_t)(fake_stack + STACK_WORDS)};
    fake.stack_count = 1;
    fake.table->rules[FULL] = (ss_rule){.cfa = SS_RULE_FULL};
    fake.table->file_count = 1;
    file = &fake.table->files[0];
    file->frame = 0;
    file->known = UINT32_MAX;
    for (size_t i = 0; i < SS_REGISTER_COUNT; i++)
        file->value[i] = (uintptr_t)&fake_stack[STACK_WORDS / 2 + 100 * i];
    fake.frames[0] = (stacksplice_native_frame){.ip = (uintptr_t)make_fake, .sp = sp, .rule = FULL};
    fake.frames[1] = (stacksplice_native_frame){
        .ip = (uintptr_t)make_fake, .sp = sp, .flags = STACKSPLICE_NATIVE_SIGNAL};
    fake.count = 2;
}

/* The frame that NEXT describes, found by RULE, taken on, and its registers. */
static void take_on(const ss_caller *next, uint32_t rule, uintptr_t *value, bool *known)
{
    fake.frames[1].rule = rule;
    fake.frames[2] = (stacksplice_native_frame){.ip = next->ip, .sp = next->sp};
    fake.count = 3;
    for (unsigned i = 0; i < SS_REGISTER_COUNT; i++) {
        value[i] = 0;
        known[i] = ss_any_register(&fake, 2, i, &value[i]);
    }
    fake.count = 2;
}

static bool same_caller(const ss_rule *rule, const ss_fde *fde, const ss_cfi_row *row)
{
    ss_caller by_rule, by_row;
    uintptr_t rule_values[SS_REGISTER_COUNT], row_values[SS_REGISTER_COUNT];
    bool rule_known[SS_REGISTER_COUNT], row_known[SS_REGISTER_COUNT];
    ss_verdict rule_verdict = ss_step_compact(&fake, rule, &by_rule);
    ss_verdict row_verdict = ss_step_row(&fake, fde, row, &by_row);

    if (rule_verdict != row_verdict)
        return false;
    if (rule_verdict != SS_STEP_ON)
        return true;
    fake.table->rules[COMPACT] = *rule;
    take_on(&by_rule, COMPACT, rule_values, rule_known);
    take_on(&by_row, FULL, row_values, row_known);
    fake.table->file_count = 1;
    return by_rule.ip == by_row.ip && by_rule.sp == by_row.sp &&
           memcmp(rule_values, row_values, sizeof row_values) == 0 &&
           memcmp(rule_known, row_known, sizeof row_known) == 0;
}

static bool get_register(const void *data, uint64_t number, uintptr_t *value)
{
    return ss_any_register(data, 1, number, value);
}

/* Some expressions add up registers that are no addresses: any memory will do. */
static bool any_memory(const void *data, uintptr_t address, uintptr_t *value)
{
    *value = address + 8;
    return true;
}

/* Every expression of ROW, the CFA first. */
static bool evaluates(const ss_cfi_row *row)
{
    ss_cfi_values values = {get_register, any_memory, &fake};
    uintptr_t cfa, value;

    if (row->cfa_expression.at) {
        if (!ss_cfi_evaluate(row->cfa_expression, &values, NULL, &cfa))
            return false;
    } else {
        if (!get_register(&fake, row->cfa_register, &cfa))
            return false;
        cfa += (uintptr_t)row->cfa_offset;
    }
    for (unsigned i = 0; i < SS_REGISTER_COUNT; i++)
        if (row->kind[i] == SS_CFI_AT_EXPRESSION &&
            !ss_cfi_evaluate(ss_cfi_expression(row, i), &values, &cfa, &value))
            return false;
    return true;
}

static void look_at_row(const ss_fde *fde, uintptr_t pc, counts *c)
{
    ss_cfi_row row;
    ss_rule rule;

    if (!ss_cfi_row_at(fde, pc, &row)) {
        c->failed++;
        return;
    }
    rule = ss_rule_from_row(fde, pc, &row);
    if (ss_rule_kind_of(rule.cfa) == SS_RULE_FULL) {
        c->full++;
        c->failed += !evaluates(&row);
    } else if (ss_rule_kind_of(rule.cfa) != SS_RULE_END) {
        c->compact++;
        c->different += !same_caller(&rule, fde, &row);
    }
}

/* What follows each instruction below 0x40: u, s: LEB128; b: a block; digits: bytes. */
static const char *const operands[0x40] = {
    [0x02] = "1",  [0x03] = "2",  [0x04] = "4",  [0x05] = "uu", [0x06] = "u",  [0x07] = "u",
    [0x08] = "u",  [0x09] = "uu", [0x0c] = "uu", [0x0d] = "u",  [0x0e] = "u",  [0x0f] = "b",
    [0x10] = "ub", [0x11] = "us", [0x12] = "us", [0x13] = "s",  [0x14] = "uu", [0x15] = "us",
    [0x16] = "ub", [0x2e] = "u",  [0x2f] = "uu"};

/* Pass over one instruction; by how much it advances the address, in units of code alignment. */
static uint64_t pass(ss_cursor *program)
{
    uint8_t code = ss_cursor_byte(program);
    uint64_t value = 0;

    if (code >> 6 == 1)
        return code & 0x3f;
    if (code >> 6) {
        if (code >> 6 == 2)
            (void)ss_cursor_uleb(program);
        return 0;
    }
    for (const char *o = operands[code] ? operands[code] : ""; *o; o++) {
        if (*o == 'u' || *o == 's')
            (void)ss_cursor_uleb(program);
        else if (*o == 'b')
            (void)ss_cursor_skip(program, ss_cursor_uleb(program));
        else
            value = ss_cursor_unsigned(program, (unsigned)(*o - '0'));
    }
    return value;
}

static void look_at_fde(const ss_fde *fde, counts *c)
{
    ss_cursor program = fde->program;
    uintptr_t pc = fde->start;
    ss_fde found;

    c->entries++;
    if (fde->size)
        look_at_row(fde, pc, c);
    while (ss_cursor_left(&program)) {
        uint64_t advance = pass(&program) * fde->code_align;

        pc += advance;
        if (advance && pc < fde->start + fde->size)
            look_at_row(fde, pc, c);
    }
    /* The sorted table leads to the same entry (or, in the C library, to a twin of it). */
    if (fde->size && (ss_find_fde(fde->start, &found) != SS_STEP_ON || found.start != fde->start))
        c->failed++;
    c->failed += program.failed;
}

static int look_at_library(struct dl_phdr_info *info, size_t size, void *data)
{
    ss_bytes segment;
    const uint8_t *start;
    int32_t offset;
    ss_module module;
    ss_fde fde;

    (void)ss_module_from_info(&module, info, 0);
    if (!module.eh_frame_hdr)
        return 0;
    memcpy(&offset, module.eh_frame_hdr + 4,
           sizeof offset); /* from its own place, as all write it */
    start = module.eh_frame_hdr + 4 + offset;
    if (!ss_module_segment(&module, (uintptr_t)start, 0, &segment.low, &segment.high))
        return 1;
    for (const uint8_t *at = start; at; at = entry_after(at, segment.high))
        if (ss_fde_parse(segment, at, &fde))
            look_at_fde(&fde, data);
    print_message("with %s: %lu failed, %lu different\n", info->dlpi_name, total.failed,
                  total.different);
    return 0;
}

TEST(test_unwind_decodes_every_row_of_every_library)
{
    static const char *const libraries[] = {
        "libcrypto.so.3",     "libssl.so.3",    "libstdc++.so.6",
        "libm.so.6",          "libgcc_s.so.1",  "libsqlite3.so.0",
        "libz.so.1",          "libexpat.so.1",  "liblzma.so.5",
        "libffi.so.8",        "liblua5.4.so.0", "liblua5.3.so.0",
        "libluajit-5.1.so.2", "libdw.so.1",     "libpython3.11.so.1.0",
        STACKSPLICE_LIBRARY};

    for (size_t i = 0; i < SS_COUNT_OF(libraries); i++)
        if (!dlopen(libraries[i], RTLD_NOW))
            printf("%s is not here\n", libraries[i]);
    make_fake();
    assert_int_equal(dl_iterate_phdr(look_at_library, &total), 0);
    assert_true(total.entries > 500); /* with musl they are our own alone */
    assert_true(total.full > 0);
    assert_true(total.compact > total.full);
    assert_int_equal(total.failed, 0);
    assert_int_equal(total.different, 0);
}

TEST(test_unwind_finds_modules_both_ways)
{
    const void *const addresses[] = {(void *)make_fake, (void *)printf, (void *)dlopen, fake_stack};
    const uint8_t *low;

    for (size_t i = 0; i < SS_COUNT_OF(addresses); i++) {
        ss_module fast, slow;

        assert_int_equal(ss_module_find((uintptr_t)addresses[i], &fast), SS_MODULE_FOUND);
        assert_int_equal(ss_module_find_by_iteration((uintptr_t)addresses[i], &slow),
                         SS_MODULE_FOUND);
        assert_true(fast.bias == slow.bias);
        assert_int_equal(fast.header_count, slow.header_count);
        assert_ptr_equal(fast.eh_frame_hdr, slow.eh_frame_hdr);
        assert_int_equal(fast.eh_frame_hdr_size, slow.eh_frame_hdr_size);
    }
    assert_int_equal(ss_module_code((uintptr_t)printf, &low), SS_MODULE_FOUND);
    assert_int_equal(ss_module_code((uintptr_t)fake_stack, &low), SS_MODULE_NONE);
    assert_int_equal(ss_module_code((uintptr_t)&state, &low), SS_MODULE_NONE);
    assert_int_equal(ss_module_code(16, &low), SS_MODULE_NONE);
}
