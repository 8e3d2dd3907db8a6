/*
 * Unwind data of any content: the table and the entries of .eh_frame, the programs and expressions
 * in them, and the rules made of their rows.
 *
 * Input: where the address to look up lies, the length of the header, then the section's bytes.
 */
#include "input.h"

#include "unwind/cfi.h"
#include "unwind/eh_frame.h"
#include "unwind/rule.h"
#include "entries.h"

static volatile uintptr_t sink;

typedef struct section {
    const uint8_t *bytes;
    size_t size;
} section;

static bool segment_of(const void *data, uintptr_t address, ss_bytes *bytes)
{
    const section *s = data;

    if (address - (uintptr_t)s->bytes >= s->size)
        return false;
    *bytes = (ss_bytes){s->bytes, s->bytes + s->size};
    return true;
}

/* Registers and memory that are there for some numbers and refused for others. */
static bool some_register(const void *data, uint64_t number, uintptr_t *value)
{
    *value = (uintptr_t)(number * UINT64_C(0x0101010101010101));
    return number % 7 != 3;
}

static bool some_memory(const void *data, uintptr_t address, uintptr_t *value)
{
    *value = address ^ 8;
    return address % 5 != 1;
}

static const ss_cfi_values values = {some_register, some_memory, NULL};

static void evaluate(ss_cursor expression)
{
    const uintptr_t initial = 0x7fff0000;
    uintptr_t result;

    if (ss_cfi_evaluate(expression, &values, NULL, &result))
        sink += result;
    if (ss_cfi_evaluate(expression, &values, &initial, &result))
        sink += result;
}

static void use_entry(const ss_fde *fde, uintptr_t pc)
{
    ss_cfi_row row;

    if (!ss_cfi_row_at(fde, pc, &row))
        return;
    if (row.cfa_expression.at)
        evaluate(row.cfa_expression);
    for (unsigned i = 0; i < SS_REGISTER_COUNT; i++)
        if (row.kind[i] == SS_CFI_AT_EXPRESSION)
            evaluate(ss_cfi_expression(&row, i));
    sink += (uintptr_t)ss_rule_from_row(fde, pc, &row).cfa;
}

/* The bytes as one program, with factors that no compiler would write. */
static void use_program(const section *s, size_t split, uint32_t factors)
{
    const uint8_t *middle = s->bytes + split, *end = s->bytes + s->size;
    ss_fde fde = {.start = (uintptr_t)s->bytes,
                  .size = 0x1000,
                  .initial = ss_cursor_over(s->bytes, middle),
                  .program = ss_cursor_over(middle, end),
                  .code_align = 1,
                  .data_align = -8,
                  .return_register = 16};

    use_entry(&fde, fde.start + factors % 0x1000);
    fde.code_align = UINT64_C(1) << factors % 64;
    fde.data_align = (int64_t)(UINT64_C(1) << (63 - factors % 64));
    use_entry(&fde, UINTPTR_MAX);
    evaluate(fde.program);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {data, size};
    uint32_t offset = input_u32(&in), header = input_u32(&in);
    uint8_t *copy = malloc(in.left + 1);
    section s = {copy, in.left};
    ss_eh_frame frames;
    uintptr_t pc;
    ss_fde fde;

    ALWAYS(copy);
    input_bytes(&in, copy, in.left);
    header = s.size ? header % (uint32_t)s.size : 0;
    pc = (uintptr_t)copy + offset % 0x10000;
    frames = (ss_eh_frame){{copy, copy + header}, segment_of, &s};
    if (ss_eh_frame_find(&frames, pc, &fde))
        use_entry(&fde, pc);
    if (ss_fde_parse((ss_bytes){copy, copy + s.size}, copy + header, &fde)) {
        use_entry(&fde, pc);
        use_entry(&fde, fde.start);
    }
    for (const uint8_t *at = copy; at; at = entry_after(at, copy + s.size))
        if (ss_fde_parse((ss_bytes){copy, copy + s.size}, at, &fde))
            use_entry(&fde, fde.start + fde.size / 2);
    use_program(&s, header, offset);
    free(copy);
    return 0;
}
