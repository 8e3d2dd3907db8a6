/*
 * The functions that Lua calls while we learn.  Each stores the callee-saved registers of the call
 * site, then calls a function of probes.c with the lua_State and what it stored.  So most visits
 * need no unwinder.  Their unwind data is that of any function.
 */
#include "calibrate/sample.h"

#if defined(__x86_64__)
#if defined(__CET__) && __CET__ & 1
#define LANDING "endbr64\n"
#else
#define LANDING ""
#endif
#define TYPE "@function"
/* The function that is called leaves the registers as they are: nothing is loaded again. */
#define CALL(function)                            \
    LANDING                                       \
    "push %r15\n.cfi_adjust_cfa_offset 8\n"       \
    ".cfi_rel_offset r15, 0\n"                    \
    "push %r14\n.cfi_adjust_cfa_offset 8\n"       \
    ".cfi_rel_offset r14, 0\n"                    \
    "push %r13\n.cfi_adjust_cfa_offset 8\n"       \
    ".cfi_rel_offset r13, 0\n"                    \
    "push %r12\n.cfi_adjust_cfa_offset 8\n"       \
    ".cfi_rel_offset r12, 0\n"                    \
    "push %rbp\n.cfi_adjust_cfa_offset 8\n"       \
    ".cfi_rel_offset rbp, 0\n"                    \
    "push %rbx\n.cfi_adjust_cfa_offset 8\n"       \
    ".cfi_rel_offset rbx, 0\n"                    \
    "mov %rsp, %rsi\n"                            \
    "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n"    \
    "call " function "\n"                         \
    "add $56, %rsp\n.cfi_adjust_cfa_offset -56\n" \
    ".cfi_restore rbx\n.cfi_restore rbp\n"        \
    ".cfi_restore r12\n.cfi_restore r13\n"        \
    ".cfi_restore r14\n.cfi_restore r15\n"        \
    "ret\n"
#elif defined(__aarch64__)
#define TYPE "%function"
#define CALL(function)                                              \
    "stp x19, x20, [sp, #-64]!\n.cfi_adjust_cfa_offset 64\n"        \
    ".cfi_rel_offset x19, 0\n.cfi_rel_offset x20, 8\n"              \
    "stp x21, x22, [sp, #16]\n"                                     \
    ".cfi_rel_offset x21, 16\n.cfi_rel_offset x22, 24\n"            \
    "stp x23, x24, [sp, #32]\n"                                     \
    ".cfi_rel_offset x23, 32\n.cfi_rel_offset x24, 40\n"            \
    "stp x29, x30, [sp, #48]\n"                                     \
    ".cfi_rel_offset x29, 48\n.cfi_rel_offset x30, 56\n"            \
    "mov x1, sp\n"                                                  \
    "bl " function "\n"                                             \
    "ldp x29, x30, [sp, #48]\n.cfi_restore x29\n.cfi_restore x30\n" \
    "add sp, sp, #64\n.cfi_adjust_cfa_offset -64\n"                 \
    ".cfi_restore x19\n.cfi_restore x20\n.cfi_restore x21\n"        \
    ".cfi_restore x22\n.cfi_restore x23\n.cfi_restore x24\n"        \
    "ret\n"
#endif

#define ENTRY(name)                                  \
    __asm__(".text\n"                                \
            ".p2align 4\n"                           \
            ".globl " name "\n"                      \
            ".hidden " name "\n"                     \
            ".type " name ", " TYPE "\n"             \
            "" name ":\n"                            \
            ".cfi_startproc\n"                       \
            "" CALL(name "_called") ".cfi_endproc\n" \
                                    ".size " name ", .-" name "\n")

ENTRY("ss_lua_probe");
ENTRY("ss_lua_probe_true");
ENTRY("ss_lua_probe_continuation");
ENTRY("ss_lua_probe_hook");
