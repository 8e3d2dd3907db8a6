/* Registers of aarch64 by their DWARF numbers (DWARF for the Arm 64-bit Architecture, 4.1). */
#ifndef SS_ARCH_AARCH64_H
#define SS_ARCH_AARCH64_H

enum {
    SS_REGISTER_FP = 29, /* x29 */
    SS_REGISTER_SP = 31,
    SS_REGISTER_RA = 30, /* x30, the link register: a call leaves the return address there */
    SS_REGISTER_COUNT = 32,
    SS_SAVED_COUNT = 12,
    SS_RETURN_SAVED = 11,
    SS_RETURN_SLOT = 0, /* a call pushes nothing */
    SS_RED_ZONE = 0,
    SS_RECORD_IS_TOP = 0,
    SS_SIGRETURN_SIZE = 8,
    SS_SIGNAL_PC = 568, /* in a siginfo followed by a ucontext */
    SS_STUB_SIZE = 20,
    SS_SIGNAL_MISLEADS = 1,   /* on Linux before 5.8 */
    SS_CFA_MEANINGLESS = 0x2d /* "negate return address state": ss_arch_code asks for no state */
};

/* x29, x19 to x28, x30 */
static const uint8_t ss_saved_registers[SS_SAVED_COUNT] = {29, 19, 20, 21, 22, 23,
                                                           24, 25, 26, 27, 28, 30};

/*
 * Strip the signature from a signed return address.  The instruction does nothing on processors
 * without signatures, nor to an address that has none.
 */
static inline uintptr_t ss_arch_code(uintptr_t return_address)
{
    register uintptr_t x30 __asm__("x30") = return_address;

    __asm__("hint #7" : "+r"(x30)); /* xpaclri */
    return x30;
}

#endif
