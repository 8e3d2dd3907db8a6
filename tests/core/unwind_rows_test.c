/*
 * Every row of every frame description of the loaded libraries: it decodes, and where it fits a
 * compact rule, that rule finds the same caller as the row itself.
 */
#include "unwind/modules.h"
#include "unwind/walk.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define STACK_WORDS (1 << 16)

typedef struct counts {
    const char *library;
    unsigned long entries, rows, compact, full, ends, failed, different;
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
    fake.tree = ss_tree_new();
    assert_non_null(fake.tree);
    fake.frames = fake.tree->frames;
    fake.stacks[0] = (ss_stack){(uintptr_t)fake_stack, (uintptr_t)(fake_stack + STACK_WORDS)};
    fake.stack_count = 1;
    fake.tree->rules[FULL] = (ss_rule){.cfa = SS_RULE_FULL};
    fake.tree->file_count = 1;
    file = &fake.tree->files[0];
    file->frame = 0;
    file->known = UINT32_MAX;
    for (size_t i = 0; i < SS_REGISTER_COUNT; i++)
        file->value[i] = (uintptr_t)&fake_stack[STACK_WORDS / 2 + 100 * i];
    fake.frames[0] = (stacksplice_native_frame){.ip = (uintptr_t)make_fake, .sp = sp, .rule = FULL};
    fake.frames[1] = (stacksplice_native_frame){
        .ip = (uintptr_t)make_fake, .sp = sp, .flags = STACKSPLICE_NATIVE_SIGNAL};
    fake.count = 2;
}

/* The frame that NEXT describes, found by RULE, taken on, and its callee-saved registers. */
static void take_on(const ss_caller *next, uint32_t rule, uintptr_t *value, bool *known)
{
    fake.frames[1].rule = rule;
    fake.frames[2] = (stacksplice_native_frame){.ip = next->ip, .sp = next->sp};
    fake.count = 3;
    for (int i = 0; i < SS_SAVED_COUNT; i++) {
        value[i] = 0;
        known[i] = ss_any_register(&fake, 2, ss_saved_registers[i], &value[i]);
    }
    fake.count = 2;
}

static bool same_caller(const ss_rule *rule, const ss_fde *fde, const ss_cfi_row *row)
{
    ss_caller by_rule, by_row;
    uintptr_t rule_values[SS_SAVED_COUNT], row_values[SS_SAVED_COUNT];
    bool rule_known[SS_SAVED_COUNT], row_known[SS_SAVED_COUNT];
    ss_verdict rule_verdict = ss_step_compact(&fake, rule, &by_rule);
    ss_verdict row_verdict = ss_step_row(&fake, fde, row, &by_row);

    if (rule_verdict != row_verdict)
        return false;
    if (rule_verdict != SS_STEP_ON)
        return true;
    fake.tree->rules[COMPACT] = *rule;
    take_on(&by_rule, COMPACT, rule_values, rule_known);
    take_on(&by_row, FULL, row_values, row_known);
    fake.tree->file_count = 1;
    return by_rule.ip == by_row.ip && by_rule.sp == by_row.sp &&
           memcmp(rule_values, row_values, sizeof row_values) == 0 &&
           memcmp(rule_known, row_known, sizeof row_known) == 0;
}

static bool get_register(const void *data, uint64_t number, uintptr_t *value)
{
    return ss_any_register(data, 1, number, value);
}

/* Some expressions add up registers that are no addresses: any memory will do. */
static bool any_memory(const void *data, uintptr_t address, unsigned size, uintptr_t *value)
{
    (void)data;
    *value = address + size;
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
        if (row->kind[i] >= SS_CFI_AT_EXPRESSION &&
            !ss_cfi_evaluate(ss_cfi_expression(row, i), &values, &cfa, &value))
            return false;
    return true;
}

static void look_at_row(const ss_fde *fde, uintptr_t pc, counts *c)
{
    ss_cfi_row row;
    ss_rule rule;

    c->rows++;
    if (!ss_cfi_row_at(fde, pc, &row)) {
        c->failed++;
        return;
    }
    rule = ss_rule_from_row(fde, pc, &row);
    if (ss_rule_kind_of(rule.cfa) == SS_RULE_END) {
        c->ends++;
    } else if (ss_rule_kind_of(rule.cfa) == SS_RULE_FULL) {
        c->full++;
        c->failed += !evaluates(&row);
    } else {
        c->compact++;
        c->different += !same_caller(&rule, fde, &row);
    }
}

/* Rows change at instructions, so every byte of small functions and a sample of large ones. */
static bool look_at_fde(const uint8_t *entry, const ss_fde *fde, void *data)
{
    counts *c = data;
    size_t stride = fde->size < 256 ? 1 : 13;
    ss_fde found;

    c->entries++;
    for (size_t offset = 0; offset < fde->size; offset += stride)
        look_at_row(fde, fde->start + offset, c);
    /* The sorted table leads to the same entry (or, in the C library, to a twin of it). */
    if (fde->size && (!ss_find_fde(fde->start, &found) || found.start != fde->start))
        c->failed++;
    (void)entry;
    return true;
}

static int look_at_library(struct dl_phdr_info *info, size_t size, void *data)
{
    counts c = {.library = info->dlpi_name};
    ss_module module;
    ss_bytes header, segment;
    const uint8_t *start;

    (void)size;
    (void)data;
    (void)ss_module_from_headers(&module, info->dlpi_addr, info->dlpi_phdr, info->dlpi_phnum, 0);
    if (!module.eh_frame_hdr)
        return 0;
    header.low = module.eh_frame_hdr;
    header.high = header.low + module.eh_frame_hdr_size;
    start = ss_eh_frame_start(header);
    if (!start || !ss_module_segment(&module, (uintptr_t)start, 0, &segment.low, &segment.high))
        return 1;
    ss_eh_frame_each(segment, start, look_at_fde, &c);
    printf("%-50s %6lu entries, %7lu rows: %lu compact, %lu full, %lu ends, %lu failed, %lu "
           "different\n",
           *c.library ? c.library : "(the program)", c.entries, c.rows, c.compact, c.full, c.ends,
           c.failed, c.different);
    total.entries += c.entries;
    total.compact += c.compact;
    total.full += c.full;
    total.failed += c.failed;
    total.different += c.different;
    return 0;
}

static void test_unwind_decodes_every_row_of_every_library(void **state)
{
    static const char *const libraries[] = {"libcrypto.so.3", "libstdc++.so.6", "libm.so.6",
                                            "libgcc_s.so.1"};

    (void)state;
    for (size_t i = 0; i < SS_COUNT_OF(libraries); i++)
        (void)dlopen(libraries[i], RTLD_NOW); /* what is not there is not looked at */
    make_fake();
    assert_int_equal(dl_iterate_phdr(look_at_library, NULL), 0);
    assert_true(total.entries > 1000);
    assert_true(total.full > 0);
    assert_true(total.compact > total.full);
    assert_int_equal(total.failed, 0);
    assert_int_equal(total.different, 0);
}

static void test_unwind_finds_modules_both_ways(void **state)
{
    const void *const addresses[] = {(void *)make_fake, (void *)printf, (void *)dlopen, fake_stack};
    const uint8_t *low;

    (void)state;
    for (size_t i = 0; i < SS_COUNT_OF(addresses); i++) {
        ss_module fast, slow;

        assert_true(ss_module_find((uintptr_t)addresses[i], &fast));
        assert_true(ss_module_find_by_iteration((uintptr_t)addresses[i], &slow));
        assert_true(fast.bias == slow.bias);
        assert_int_equal(fast.header_count, slow.header_count);
        assert_ptr_equal(fast.eh_frame_hdr, slow.eh_frame_hdr);
        assert_int_equal(fast.eh_frame_hdr_size, slow.eh_frame_hdr_size);
    }
    assert_true(ss_module_code((uintptr_t)printf, &low));
    assert_false(ss_module_code((uintptr_t)fake_stack, &low));
    assert_false(ss_module_code((uintptr_t)&state, &low));
    assert_false(ss_module_code(16, &low));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unwind_decodes_every_row_of_every_library),
        cmocka_unit_test(test_unwind_finds_modules_both_ways),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
