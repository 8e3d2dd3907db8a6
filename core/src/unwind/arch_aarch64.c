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

static uint32_t instruction_at(const uint8_t *at)
{
    uint32_t instruction;

    memcpy(&instruction, at, sizeof instruction);
    return instruction;
}

/* The number that COUNT bits of INSTRUCTION from LOW on hold, with a sign. */
static uintptr_t signed_bits(uint32_t instruction, int low, int count)
{
    return (uintptr_t)(intptr_t)((int32_t)(instruction << (32 - low - count)) >> (32 - count));
}

uintptr_t ss_arch_called(const uint8_t *low, const uint8_t *at, uintptr_t *slot)
{
    uint32_t instruction = at - low >= 4 ? instruction_at(at - 4) : 0;

    *slot = 0;
    if ((instruction & 0xfc000000) != 0x94000000) /* bl */
        return 0;
    return (uintptr_t)at - 4 + 4 * signed_bits(instruction, 0, 26);
}

#define BTI_C 0xd503245f

/* bti c, adrp x16, ldr x17: the first may be missing. */
uintptr_t ss_arch_stub_slot(const uint8_t *at)
{
    uint32_t page, load;

    if (instruction_at(at) == BTI_C)
        at += 4;
    page = instruction_at(at);
    load = instruction_at(at + 4);
    if ((page & 0x9f00001f) != 0x90000010 || (load & 0xffc003ff) != 0xf9400211)
        return 0;
    return ((uintptr_t)at & ~(uintptr_t)4095) +
           4096 * (4 * signed_bits(page, 5, 19) + (page >> 29 & 3)) + 8 * (load >> 10 & 4095);
}

bool ss_arch_pushes(const uint8_t *at)
{
    uint32_t first = instruction_at(at);

    if (first == BTI_C)
        first = instruction_at(at + 4);
    return first == 0xd503233f ||                /* paciasp */
           (first & 0xffc07fff) == 0xa9807bfd || /* stp x29, x30, [sp, #-size]! */
           (first & 0xff8003ff) == 0xd10003ff;   /* sub sp, sp, #size */
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
