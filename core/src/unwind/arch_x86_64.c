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
        ".type ss_arch_entry, @function\n"
        "ss_arch_entry:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    movq (%rsp), %rax\n" /* the return address: our caller's ip */
        "    movq %rax, 0(%rdi)\n"
        "    leaq 8(%rsp), %rax\n" /* rsp as it is after we return */
        "    movq %rax, 8(%rdi)\n"
        "    movq %rbp, 16(%rdi)\n"
        "    movq %rbx, 24(%rdi)\n"
        "    movq %r12, 32(%rdi)\n"
        "    movq %r13, 40(%rdi)\n"
        "    movq %r14, 48(%rdi)\n"
        "    movq %r15, 56(%rdi)\n"
        "    ret\n"
        "    .cfi_endproc\n"
        ".size ss_arch_entry, .-ss_arch_entry\n"
        ".popsection\n");

_Static_assert(offsetof(ss_entry_registers, ip) == 0, "the assembly above");
_Static_assert(offsetof(ss_entry_registers, sp) == 8, "the assembly above");
_Static_assert(offsetof(ss_entry_registers, saved) == 16, "the assembly above");

/* mov rax, 15; syscall */
const uint8_t ss_arch_sigreturn[SS_SIGRETURN_SIZE] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};

/* rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8 to r15, rip */
const uint16_t ss_arch_signal_offset[SS_REGISTER_COUNT] = {
    144, 136, 152, 128, 112, 104, 120, 160, 40, 48, 56, 64, 72, 80, 88, 96, SS_SIGNAL_PC};

/* The length of "call *operand" with this ModRM byte, without prefixes. */
static size_t indirect_call_size(uint8_t modrm)
{
    unsigned mod = modrm >> 6, rm = modrm & 7;
    size_t size = 2;

    if (mod == 3)
        return size;
    if (rm == 4)
        size++; /* SIB */
    if (mod == 1)
        return size + 1;
    return mod == 2 || rm == 5 ? size + 4 : size;
}

bool ss_arch_is_after_call(const uint8_t *low, const uint8_t *at)
{
    size_t before = (size_t)(at - low);

    if (before >= 5 && at[-5] == 0xe8)
        return true;
    for (size_t size = 2; size <= 7 && size <= before; size++) {
        const uint8_t *start = at - size;

        if (start[0] == 0xff && (start[1] >> 3 & 7) == 2 && indirect_call_size(start[1]) == size)
            return true;
    }
    return false;
}

/* What the 32 bits before END add to the address there. */
static uintptr_t relative(const uint8_t *end)
{
    int32_t distance;

    memcpy(&distance, end - sizeof distance, sizeof distance);
    return (uintptr_t)end + (uintptr_t)(intptr_t)distance;
}

uintptr_t ss_arch_called(const uint8_t *low, const uint8_t *at, uintptr_t *slot)
{
    *slot = 0;
    if (at - low >= 6 && at[-6] == 0xff && at[-5] == 0x15)
        *slot = relative(at); /* call *word(%rip) */
    else if (at - low >= 5 && at[-5] == 0xe8)
        return relative(at);
    return 0;
}

/* endbr64, bnd, jmp *word(%rip): the first two may be missing. */
uintptr_t ss_arch_stub_slot(const uint8_t *at)
{
    static const uint8_t landing[] = {0xf3, 0x0f, 0x1e, 0xfa};

    if (!memcmp(at, landing, sizeof landing))
        at += sizeof landing;
    if (*at == 0xf2)
        at++;
    return at[0] == 0xff && at[1] == 0x25 ? relative(at + 6) : 0;
}

bool ss_arch_pushes(const uint8_t *at)
{
    static const uint8_t landing[] = {0xf3, 0x0f, 0x1e, 0xfa};

    if (!memcmp(at, landing, sizeof landing))
        at += sizeof landing;
    if (at[0] == 0x48 && (at[1] == 0x83 || at[1] == 0x81))
        return at[2] == 0xec; /* sub $size, %rsp */
    return (at[*at == 0x41] & 0xf8) == 0x50;
}

/* The longest reaches from six bytes before the return address to five behind it. */
int ss_arch_forwarder(const uint8_t *at)
{
    /* push rbp; mov rbp, rsp; call rcx; pop rbp; ret */
    static const uint8_t record[] = {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3};
    /* sub rsp, 8; call rcx; add rsp, 8; ret */
    static const uint8_t plain[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd1,
                                    0x48, 0x83, 0xc4, 0x08, 0xc3};

    if (!ss_is_readable((uintptr_t)at - 6) || !ss_is_readable((uintptr_t)at - 3))
        return SS_FORWARDER_NONE;
    if (!memcmp(at - 6, record, sizeof record))
        return SS_FORWARDER_RECORD;
    return memcmp(at - 6, plain, sizeof plain) ? SS_FORWARDER_NONE : SS_FORWARDER_PLAIN;
}
