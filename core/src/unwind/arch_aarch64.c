#include "unwind/stack.h"
#include "unwind/rule.h"

#include <string.h>

/*
 * A separate function in assembly: only here does every callee-saved register still hold the
 * caller's value.  Inline assembly would have to declare each of them to the compiler.
 */
__asm__(".pushsection .text\n"
        ".p2align 4\n"
        ".globl ss_arch_entry\n"
        ".hidden ss_arch_entry\n"
        ".type ss_arch_entry, %function\n"
        "ss_arch_entry:\n"
        "    .cfi_startproc\n"
        "    hint #34\n" /* bti c */
        "    mov x1, sp\n"
        "    stp x30, x1, [x0]\n" /* the return address, our caller's ip, and its sp */
        "    stp x29, x19, [x0, #16]\n"
        "    stp x20, x21, [x0, #32]\n"
        "    stp x22, x23, [x0, #48]\n"
        "    stp x24, x25, [x0, #64]\n"
        "    stp x26, x27, [x0, #80]\n"
        "    stp x28, x30, [x0, #96]\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size ss_arch_entry, .-ss_arch_entry\n"
        ".popsection\n");

_Static_assert(offsetof(ss_entry_registers, ip) == 0, "the assembly above");
_Static_assert(offsetof(ss_entry_registers, sp) == 8, "the assembly above");
_Static_assert(offsetof(ss_entry_registers, saved) == 16, "the assembly above");

/* mov x8, #139; svc #0 */
const uint8_t ss_arch_sigreturn[SS_SIGRETURN_SIZE] = {0x68, 0x11, 0x80, 0xd2, 1, 0, 0, 0xd4};

/* x0 to x30, sp */
const uint16_t ss_arch_signal_offset[SS_REGISTER_COUNT] = {
    312, 320, 328, 336, 344, 352, 360, 368, 376, 384, 392, 400, 408, 416, 424, 432,
    440, 448, 456, 464, 472, 480, 488, 496, 504, 512, 520, 528, 536, 544, 552, 560};

/* "bl", and "blr" in all its forms. */
static bool is_call(uint32_t instruction)
{
    return (instruction & 0xfc000000) == 0x94000000 || (instruction & 0xfefff000) == 0xd63f0000;
}

bool ss_arch_is_after_call(const uint8_t *low, const uint8_t *at)
{
    uint32_t instruction;

    if (at - low < (ptrdiff_t)sizeof instruction || (uintptr_t)at % sizeof instruction)
        return false;
    memcpy(&instruction, at - sizeof instruction, sizeof instruction);
    return is_call(instruction);
}

int ss_arch_forwarder(const uint8_t *at)
{
    /* stp x29, x30, [sp, #-16]!; mov x29, sp; blr x3; ldp x29, x30, [sp], #16; ret */
    static const uint32_t record[] = {0xa9bf7bfd, 0x910003fd, 0xd63f0060, 0xa8c17bfd, 0xd65f03c0};
    const uint8_t *start = at - 3 * sizeof *record;

    if (!ss_is_readable((uintptr_t)start) ||
        !ss_is_readable((uintptr_t)start + sizeof record - sizeof(uint64_t)))
        return SS_FORWARDER_NONE;
    return memcmp(start, record, sizeof record) ? SS_FORWARDER_NONE : SS_FORWARDER_RECORD;
}
