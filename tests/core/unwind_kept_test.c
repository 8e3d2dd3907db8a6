/*
 * Code in assembly that counts its CFA from a register which calls may change, across calls of its
 * own functions, which keep it.  libcrypto's AES does so.  A signal arrives at each instruction.
 */
#include "unwind_probe.h"
#include "steps.h"
#include "support.h"

#include <signal.h>

#define CALLED(name, body)                                                            \
    ".type " name ", @function\n" name ":\n    .cfi_startproc\n" body "    ret\n    " \
    ".cfi_endproc\n"

__asm__(".pushsection .text\n"
        /* A function that does not touch it. */
        CALLED("keeps_it", "    nop\n")
        /* Saves it, and says so: its caller's value is in memory. */
        CALLED("saves_it", "    pushq %r11\n"
                           "    .cfi_adjust_cfa_offset 8\n"
                           "    .cfi_rel_offset r11, 0\n"
                           "    xorl %r11d, %r11d\n"
                           "    popq %r11\n"
                           "    .cfi_adjust_cfa_offset -8\n"
                           "    .cfi_restore r11\n")
        /* The CFA is the result of an expression (sp + 8), and the row is evaluated each time. */
        CALLED("evaluated", "    .cfi_escape 0x0f, 2, 0x77, 8\n"
                            "    nop\n") ".globl counts_from_r11\n"
                                         ".type counts_from_r11, @function\n"
                                         "counts_from_r11:\n"
                                         "    .cfi_startproc\n"
                                         "    leaq (%rsp), %r11\n"
                                         "    .cfi_def_cfa_register r11\n"
                                         "    pushq %rbp\n"
                                         "    .cfi_offset rbp, -16\n"
                                         "    subq $16, %rsp\n"
                                         "    xorl %ebp, %ebp\n"
                                         "    call keeps_it\n"
                                         "    call saves_it\n"
                                         "    call evaluated\n"
                                         "    movq -8(%r11), %rbp\n"
                                         "    .cfi_restore rbp\n"
                                         "    leaq (%r11), %rsp\n"
                                         "    .cfi_def_cfa_register rsp\n"
                                         "    ret\n"
                                         "    .cfi_endproc\n"
                                         ".popsection\n");
extern void counts_from_r11(void);

static unsigned compared;

static void handle(int number)
{
    (void)probe_compare();
    compared++;
}

TEST(test_a_register_that_calls_may_change_is_followed_out_of_a_signal)
{
    struct sigaction action = {.sa_handler = handle}, old;
    const char *first;

    if (NO_STEPS)
        SKIP(WHY_NO_STEPS);
    probe_begin();
    handle(0); /* the memory that a thread's first capture needs */
    assert_int_equal(sigaction(SIGTRAP, &action, &old), 0);
    begin_steps();
    counts_from_r11();
    end_steps();
    assert_int_equal(sigaction(SIGTRAP, &old, NULL), 0);
    if (probe_differences(&first))
        fail_msg("%u differences from libgcc, the first: %s", probe_differences(&first), first);
    assert_true(compared > 20);
}
