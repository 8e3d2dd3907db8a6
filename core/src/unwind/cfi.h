/*
 * Call frame information.  A frame description holds a small program.  Running it up to an address
 * gives a row, which says for each register where the caller's value is.
 */
#ifndef SS_CFI_H
#define SS_CFI_H

#include "unwind/arch.h"
#include "unwind/eh_frame.h"

typedef enum ss_cfi_kind {
    SS_CFI_UNCHANGED = 0, /* not mentioned, or "same value" */
    SS_CFI_UNDEFINED,     /* lost */
    SS_CFI_AT_CFA,        /* in memory at CFA + value */
    SS_CFI_IN_REGISTER,   /* in register value */
    SS_CFI_AT_EXPRESSION  /* in memory at the result of an expression */
} ss_cfi_kind;

typedef struct ss_cfi_row {
    ss_cursor cfa_expression; /* at == NULL: the CFA is cfa_register + cfa_offset */
    uint64_t cfa_register;
    int64_t cfa_offset;
    int64_t value[SS_REGISTER_COUNT]; /* of an expression: its address */
    uint32_t size[SS_REGISTER_COUNT]; /* of an expression, in bytes */
    uint8_t kind[SS_REGISTER_COUNT];  /* ss_cfi_kind */
} ss_cfi_row;

static inline ss_cursor ss_cfi_expression(const ss_cfi_row *row, unsigned number)
{
    const uint8_t *at = (const uint8_t *)(intptr_t)row->value[number];

    return ss_cursor_over(at, at + row->size[number]);
}

/* The row of FDE for PC; false when its program is broken or uses what we do not support. */
bool ss_cfi_row_at(const ss_fde *fde, uintptr_t pc, ss_cfi_row *row);

/* How expressions read registers and words of memory; both may refuse. */
typedef struct ss_cfi_values {
    bool (*get_register)(const void *data, uint64_t number, uintptr_t *value);
    bool (*get_memory)(const void *data, uintptr_t address, uintptr_t *value);
    const void *data;
} ss_cfi_values;

/* Evaluate EXPRESSION on a stack that starts with *INITIAL (unless NULL). */
bool ss_cfi_evaluate(ss_cursor expression, const ss_cfi_values *values, const uintptr_t *initial,
                     uintptr_t *result);

#endif
