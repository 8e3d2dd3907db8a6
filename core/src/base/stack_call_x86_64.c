#include "base/stack_call.h"

void ss_stack_call_x86_64(void *top, void (*f)(void *), void *data);

/* The frame pointer keeps the old stack pointer, for the return and for unwinders. */
__asm__(".text\n"
        ".p2align 4\n"
        ".globl ss_stack_call_x86_64\n"
        ".hidden ss_stack_call_x86_64\n"
        ".type ss_stack_call_x86_64, @function\n"
        "ss_stack_call_x86_64:\n"
        ".cfi_startproc\n"
        "push %rbp\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset %rbp, -16\n"
        "mov %rsp, %rbp\n"
        ".cfi_def_cfa_register %rbp\n"
        "mov %rdi, %rsp\n"
        "mov %rdx, %rdi\n"
        "call *%rsi\n"
        "leave\n"
        ".cfi_def_cfa %rsp, 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size ss_stack_call_x86_64, . - ss_stack_call_x86_64\n");

bool ss_stack_call(void *top, void (*f)(void *), void *data)
{
    ss_stack_call_x86_64(top, f, data);
    return true;
}
