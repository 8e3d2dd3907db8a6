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

static bool fuzz_memory(const void *data, uintptr_t address, uintptr_t *value)
{
    *value = address ^ 8;
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
    {CODE(0x35), 5},                                                     /* lit5 */
    {CODE(0x77, 8), ((uintptr_t)7 << 32) + 8},                           /* breg7 8 */
    {CODE(0x8f, 0), SS_REGISTER_COUNT > 31 ? (uintptr_t)31 << 32 : BAD}, /* breg31 0 */
    {CODE(0x32, 0x33, 0x22), 5},                                         /* 2 + 3 */
    {CODE(0x33, 0x32, 0x1c), 1},                                         /* 3 - 2 */
    {CODE(0x33, 0x32, 0x1e), 6},                                         /* 3 * 2 */
    {CODE(0x36, 0x33, 0x1a), 2},                                         /* 6 and 3 */
    {CODE(0x32, 0x33, 0x2a), 0},                                         /* 2 >= 3 */
    {CODE(0x32, 0x09, 0xfe, 0x2a), 1},                                   /* 2 >= -2 */
    {CODE(0x32, 0x33, 0x24), 16},                                        /* 2 << 3 */
    {CODE(0x31, 0x08, 64, 0x24), 0},                                     /* 1 << 64 */
    {CODE(0x32, 0x23, 0x80, 0x01), 130},                                 /* 2 plus_uconst 128 */
    {CODE(0x08, 200), 200},                                              /* const1u */
    {CODE(0x0a, 0x34, 0x12), 0x1234},                                    /* const2u */
    {CODE(0x0d, 0xfe, 0xff, 0xff, 0xff, 0x33, 0x22), 1},                 /* const4s -2, + 3 */
    {CODE(0x0e, 1, 0, 0, 0, 1, 0, 0, 0), ((uintptr_t)1 << 32) + 1},      /* const8u */
    {CODE(0x77, 8, 0x3b, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22),
     ((uintptr_t)7 << 32) + 16},   /* as in a stub of the PLT */
    {CODE(0x22), BAD},             /* plus of nothing */
    {CODE(0x34, 0x06), 4 ^ 8},     /* deref 4 */
    {CODE(0x33, 0x06), BAD},       /* deref of what may not be read */
    {CODE(0x35, 0x08), BAD},       /* cut off */
    {CODE(0x35, 0x30, 0x1b), BAD}, /* a division: not in unwind data */
    {CODE(0x2f, 0xfd, 0xff), BAD}, /* skip to itself, for ever: nor this */
    {CODE(0xff), BAD},             /* no such operation */
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
