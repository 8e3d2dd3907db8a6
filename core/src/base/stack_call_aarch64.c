#include "base/stack_call.h"

void ss_stack_call_aarch64(void *top, void (*f)(void *), void *data);

/* The frame pointer keeps the old stack pointer, for the return and for unwinders. */
__asm__(".text\n"
        ".p2align 4\n"
        ".globl ss_stack_call_aarch64\n"
        ".hidden ss_stack_call_aarch64\n"
        ".type ss_stack_call_aarch64, %function\n"
        "ss_stack_call_aarch64:\n"
        ".cfi_startproc\n"
        "stp x29, x30, [sp, #-16]!\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset x29, -16\n"
        ".cfi_offset x30, -8\n"
        "mov x29, sp\n"
        ".cfi_def_cfa_register x29\n"
        "mov sp, x0\n"
        "mov x0, x2\n"
        "blr x1\n"
        "mov sp, x29\n"
        ".cfi_def_cfa_register sp\n"
        "ldp x29, x30, [sp], #16\n"
        ".cfi_restore x29\n"
        ".cfi_restore x30\n"
        ".cfi_def_cfa_offset 0\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size ss_stack_call_aarch64, . - ss_stack_call_aarch64\n");

bool ss_stack_call(void *top, void (*f)(void *), void *data)
{
    ss_stack_call_aarch64(top, f, data);
    return true;
}
