#include "base/valgrind.h"
#include "plan/plan.h"

bool ss_plan_is_possible; /* (RO) */

/* Memcheck would report the comparisons: a word of another stack may lie where this one has a variable
   that was never set. */
static bool is_under_memcheck(void)
{
    static const uintptr_t word;

    return ss_valgrind_ask(SS_VALGRIND_DEFINED, &word, sizeof word, 1) == 0;
}

static __attribute__((constructor)) void begin(void)
{
    ss_plan_is_possible = !is_under_memcheck();
}

/*
 * In assembly: a compiler saves registers wherever it likes, or not at all.
 *
 *      rbp + 8   return address
 *      rbp       rbp of the caller
 *      rbp - 8   rbx, then r12, r13, r14, r15
 */
__asm__(".pushsection .text\n"
        ".p2align 4\n"
        ".globl ss_plan_enter\n"
        ".hidden ss_plan_enter\n"
        ".type ss_plan_enter, @function\n"
        "ss_plan_enter:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rbp\n"
        "    .cfi_def_cfa_offset 16\n"
        "    .cfi_offset 6, -16\n"
        "    movq %rsp, %rbp\n"
        "    .cfi_def_cfa_register 6\n"
        "    pushq %rbx\n"
        "    .cfi_offset 3, -24\n"
        "    pushq %r12\n"
        "    .cfi_offset 12, -32\n"
        "    pushq %r13\n"
        "    .cfi_offset 13, -40\n"
        "    pushq %r14\n"
        "    .cfi_offset 14, -48\n"
        "    pushq %r15\n"
        "    .cfi_offset 15, -56\n"
        "    subq $8, %rsp\n" /* aligned to 16 bytes */
        "    movq %rdi, %rax\n"
        "    movq %rsi, %rdi\n"
        "    movq %rbp, %rsi\n"
        "    call *%rax\n"
        "    leave\n" /* F has kept the other registers */
        "    .cfi_def_cfa 7, 8\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size ss_plan_enter, .-ss_plan_enter\n"
        ".popsection\n");

_Static_assert(SS_PLAN_SAVED_BYTES == 5 * sizeof(uintptr_t), "the assembly above");
