/*
 * Signals at each single instruction: between begin_steps and end_steps every one raises SIGTRAP,
 * but for those of its handler.  Included by one file of a program.
 */
#ifndef STACKSPLICE_TEST_STEPS_H
#define STACKSPLICE_TEST_STEPS_H

#include "instruments.h"

#define WHY_NO_STEPS \
    "ThreadSanitizer keeps signals back; valgrind and other processors have no trap flag"

#if defined(__x86_64__)
#define NO_STEPS (UNDER_TSAN || UNDER_VALGRIND)
#define CHANGE_TRAP_FLAG(name, change)                            \
    __asm__(".pushsection .text\n"                                \
            ".globl " name "\n"                                   \
            ".type " name ", @function\n" name ":\n"              \
            "    .cfi_startproc\n"                                \
            "    endbr64\n"                                       \
            "    pushfq\n"                                        \
            "    .cfi_adjust_cfa_offset 8\n" change "    popfq\n" \
            "    .cfi_adjust_cfa_offset -8\n"                     \
            "    ret\n"                                           \
            "    .cfi_endproc\n"                                  \
            ".size " name ", .-" name "\n"                        \
            ".popsection\n")
CHANGE_TRAP_FLAG("begin_steps", "    orq $0x100, (%rsp)\n");
CHANGE_TRAP_FLAG("end_steps", "    andq $~0x100, (%rsp)\n");
extern void begin_steps(void);
extern void end_steps(void);
#else
#define NO_STEPS 1
static inline void begin_steps(void)
{
}

static inline void end_steps(void)
{
}
#endif

#endif
