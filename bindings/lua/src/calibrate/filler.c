/*
 * One function per architecture: its argument is called with filler in all callee-saved registers.
 * Its unwind data says where they were saved, as that of any function does.
 */
#if defined(__x86_64__)
#define TYPE "@function"
#if defined(__CET__) && __CET__ & 1
#define LANDING "endbr64\n"
#else
#define LANDING ""
#endif
#define BODY                                                    \
    LANDING                                                     \
    ".irp register, rbp, rbx, r12, r13, r14, r15\n"             \
    "push %\\register\n"                                        \
    ".cfi_adjust_cfa_offset 8\n.cfi_rel_offset \\register, 0\n" \
    ".endr\n"                                                   \
    "sub $8, %rsp\n.cfi_adjust_cfa_offset 8\n"                  \
    "mov %rdi, %rax\n"                                          \
    "mov %rsi, %rdi\n"                                          \
    ".irp register, rbp, rbx, r12, r13, r14, r15\n"             \
    "mov $0x5301, %\\register\n"                                \
    ".endr\n"                                                   \
    "call *%rax\n"                                              \
    "add $8, %rsp\n.cfi_adjust_cfa_offset -8\n"                 \
    ".irp register, r15, r14, r13, r12, rbx, rbp\n"             \
    "pop %\\register\n"                                         \
    ".cfi_adjust_cfa_offset -8\n.cfi_restore \\register\n"      \
    ".endr\n"                                                   \
    "ret\n"
#elif defined(__aarch64__)
#define TYPE "%function"
#define BODY                                                  \
    "stp x29, x30, [sp, #-96]!\n"                             \
    ".cfi_adjust_cfa_offset 96\n"                             \
    ".cfi_rel_offset x29, 0\n.cfi_rel_offset x30, 8\n"        \
    ".irp register, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28\n" \
    "str x\\register, [sp, #(\\register - 17) * 8]\n"         \
    ".cfi_rel_offset x\\register, (\\register - 17) * 8\n"    \
    ".endr\n"                                                 \
    "mov x9, x0\n"                                            \
    "mov x0, x1\n"                                            \
    ".irp register, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28\n" \
    "mov x\\register, #0x5301\n"                              \
    ".endr\n"                                                 \
    "blr x9\n"                                                \
    ".irp register, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28\n" \
    "ldr x\\register, [sp, #(\\register - 17) * 8]\n"         \
    ".cfi_restore x\\register\n"                              \
    ".endr\n"                                                 \
    "ldp x29, x30, [sp], #96\n"                               \
    ".cfi_adjust_cfa_offset -96\n.cfi_restore x29\n"          \
    ".cfi_restore x30\n"                                      \
    "ret\n"
#endif

__asm__(".text\n"
        ".p2align 4\n"
        ".globl ss_lua_with_filler\n"
        ".hidden ss_lua_with_filler\n"
        ".type ss_lua_with_filler, " TYPE "\n"
        "ss_lua_with_filler:\n"
        ".cfi_startproc\n" BODY ".cfi_endproc\n"
        ".size ss_lua_with_filler, .-ss_lua_with_filler\n");
