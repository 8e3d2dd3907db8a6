/* Expressions of unwind data, and what is taken for a call: by tables, and by chance. */
#include "unwind/arch.h"
#include "unwind/cfi.h"
#include "random.h"
#include "support.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool fuzz_register(const void *data, uint64_t number, uintptr_t *value)
{
    *value = (uintptr_t)number << 32;
    return number < SS_REGISTER_COUNT;
}

static bool fuzz_memory(const void *data, uintptr_t address, unsigned size, uintptr_t *value)
{
    *value = address ^ size;
    return address % 3;
}

static uintptr_t evaluate(const uint8_t *code, size_t size, bool *good_code)
{
    ss_cfi_values values = {fuzz_register, fuzz_memory, NULL};
    uint8_t *copy = malloc(size);
    uintptr_t result = 0;

    assert_non_null(copy);
    memcpy(copy, code, size);
    *good_code = ss_cfi_evaluate(ss_cursor_over(copy, copy + size), &values, NULL, &result);
    free(copy);
    return result;
}

#define CODE(...) (const uint8_t[]){__VA_ARGS__}, sizeof((const uint8_t[]){__VA_ARGS__})
#define BAD UINTPTR_MAX

static const struct {
    const uint8_t *code;
    size_t size;
    uintptr_t want; /* BAD: refused */
} expressions[] = {
    {CODE(0x35), 5},                             /* lit5 */
    {CODE(0x77, 8), ((uintptr_t)7 << 32) + 8},   /* breg7 8 */
    {CODE(0x32, 0x33, 0x22), 5},                 /* 2 + 3 */
    {CODE(0x33, 0x32, 0x1c), 1},                 /* 3 - 2 */
    {CODE(0x35, 0x33, 0x1b), 1},                 /* 5 / 3 */
    {CODE(0x35, 0x30, 0x1b), BAD},               /* 5 / 0 */
    {CODE(0x35, 0x30, 0x1d), BAD},               /* 5 mod 0 */
    {CODE(0x08, 200), 200},                      /* const1u */
    {CODE(0x09, 0xfe, 0x1f), 2},                 /* -(-2) */
    {CODE(0x0a, 0x34, 0x12), 0x1234},            /* const2u */
    {CODE(0x10, 0x80, 0x01), 128},               /* constu */
    {CODE(0x31, 0x32, 0x16), 1},                 /* swap */
    {CODE(0x31, 0x32, 0x33, 0x17), 2},           /* rot: 3 1 2 */
    {CODE(0x31, 0x32, 0x14), 1},                 /* over */
    {CODE(0x31, 0x32, 0x33, 0x15, 2), 1},        /* pick 2 */
    {CODE(0x31, 0x32, 0x33, 0x15, 3), BAD},      /* pick 3 */
    {CODE(0x31, 0x28, 1, 0, 0x35, 0x36), 6},     /* bra over one */
    {CODE(0x30, 0x28, 1, 0, 0x35, 0x96), 5},     /* bra not taken */
    {CODE(0x2f, 0xfd, 0xff), BAD},               /* skip to itself, for ever */
    {CODE(0x2f, 0, 0x80), BAD},                  /* skip out of it */
    {CODE(0x13), BAD},                           /* drop from nothing */
    {CODE(0x34, 0x06), 4 ^ 8},                   /* deref 4 */
    {CODE(0x33, 0x06), BAD},                     /* deref of what may not be read */
    {CODE(0x34, 0x94, 3), BAD},                  /* deref of an odd size */
    {CODE(0x92, 0x40, 0), BAD},                  /* bregx 64 0: no such register */
    {CODE(0x35, 0x08), BAD},                     /* cut off */
    {CODE(0x31, 0x08, 64, 0x24), 0},             /* shl 64 */
    {CODE(0x09, 0xf0, 0x08, 64, 0x26, 0x1f), 1}, /* shra 64 keeps the sign */
    {CODE(0x32, 0x33, 0x2d), 1},                 /* 2 < 3 */
    {CODE(0xff), BAD},                           /* no such operation */
};

TEST(test_unwind_evaluates_expressions)
{
    for (size_t i = 0; i < SS_COUNT_OF(expressions); i++) {
        bool ok;
        uintptr_t got = evaluate(expressions[i].code, expressions[i].size, &ok);

        if ((ok ? got : BAD) != expressions[i].want)
            fail_msg("expression %zu: %#lx", i, (unsigned long)got);
    }
}

TEST(test_unwind_survives_random_expressions)
{
    unsigned evaluated = 0;

    for (unsigned round = 0; round < 200000; round++) {
        uint8_t code[24];
        size_t size = 1 + draw_random() % sizeof code;
        bool ok;

        for (size_t i = 0; i < size; i++)
            code[i] = (uint8_t)draw_random();
        (void)evaluate(code, size, &ok);
        evaluated += ok;
    }
    assert_true(evaluated > 0);
}

/* ---- Code -------------------------------------------------------------------------------------*/

static const struct {
    const uint8_t *code;
    size_t size;
    bool call;
} calls[] = {
#if defined(__x86_64__)
    {CODE(0xe8, 1, 2, 3, 4), true},             /* call rel32 */
    {CODE(0xff, 0xd0), true},                   /* call *rax */
    {CODE(0x41, 0xff, 0xd4), true},             /* call *r12 */
    {CODE(0xff, 0x10), true},                   /* call *(rax) */
    {CODE(0xff, 0x50, 8), true},                /* call *8(rax) */
    {CODE(0xff, 0x54, 0x24, 8), true},          /* call *8(rsp) */
    {CODE(0xff, 0x15, 1, 2, 3, 4), true},       /* call *x(rip) */
    {CODE(0xff, 0x90, 1, 2, 3, 4), true},       /* call *x(rax) */
    {CODE(0xff, 0x94, 0x24, 1, 2, 3, 4), true}, /* call *x(rsp) */
    {CODE(0xe9, 1, 2, 3, 4), false},            /* jmp rel32 */
    {CODE(0xff, 0xe0), false},                  /* jmp *rax */
    {CODE(0xff, 0xd0, 0x90), false},            /* call, nop: not at its end */
    {CODE(0x90, 0x90, 0x90, 0x90, 0x90, 0x90), false},
#else
    {CODE(1, 0, 0, 0x94), true},                       /* bl forward */
    {CODE(0xff, 0xff, 0xff, 0x97), true},              /* bl backward */
    {CODE(0, 0, 0x3f, 0xd6), true},                    /* blr x0 */
    {CODE(0x20, 2, 0x3f, 0xd6), true},                 /* blr x17 */
    {CODE(0x1f, 8, 0x3f, 0xd6), true},                 /* blraaz x0 */
    {CODE(1, 8, 0x3f, 0xd7), true},                    /* blraa x0, x1 */
    {CODE(1, 0, 0, 0x14), false},                      /* b */
    {CODE(0, 0, 0x1f, 0xd6), false},                   /* br x0 */
    {CODE(0xc0, 3, 0x5f, 0xd6), false},                /* ret */
    {CODE(1, 0, 0, 0x94, 0x1f, 0x20, 3, 0xd5), false}, /* bl, nop: not at its end */
    {CODE(0x1f, 1, 0, 0, 0x94), false},                /* not where instructions are */
#endif
    {CODE(0xd0), false},
    {NULL, 0, false},
};

TEST(test_unwind_knows_calls)
{
    for (size_t i = 0; i < SS_COUNT_OF(calls); i++) {
        uint8_t *copy = malloc(calls[i].size + 1);

        assert_non_null(copy);
        if (calls[i].size)
            memcpy(copy, calls[i].code, calls[i].size);
        if (ss_arch_is_after_call(copy, copy + calls[i].size) != calls[i].call)
            fail_msg("call %zu", i);
        free(copy);
    }
}
