/* Registers of x86-64 by their DWARF numbers (System V psABI, figure 3.36). */
#ifndef SS_ARCH_X86_64_H
#define SS_ARCH_X86_64_H

enum {
    SS_REGISTER_FP = 6,  /* rbp */
    SS_REGISTER_SP = 7,  /* rsp */
    SS_REGISTER_RA = 16, /* a column of its own */
    SS_REGISTER_COUNT = 17,
    SS_SAVED_COUNT = 6,
    SS_RETURN_SAVED = -1,
    SS_RETURN_SLOT = 1,
    SS_RED_ZONE = 128,
    SS_RECORD_IS_TOP = 1,
    SS_SIGRETURN_SIZE = 9,
    SS_SIGNAL_PC = 168, /* in a ucontext */
    SS_STUB_SIZE = 11,
    SS_SIGNAL_MISLEADS = 0,
    SS_CFA_MEANINGLESS = 0 /* none but "no operation" */
};

/* rbp, rbx, r12 to r15 */
static const uint8_t ss_saved_registers[SS_SAVED_COUNT] = {6, 3, 12, 13, 14, 15};

static inline uintptr_t ss_arch_code(uintptr_t return_address)
{
    return return_address;
}

#endif
