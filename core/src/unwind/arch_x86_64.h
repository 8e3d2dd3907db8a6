/* Registers of x86-64 by their DWARF numbers (System V psABI, figure 3.36). */
#ifndef SS_ARCH_X86_64_H
#define SS_ARCH_X86_64_H

enum {
    SS_REGISTER_FP = 6,  /* rbp */
    SS_REGISTER_SP = 7,  /* rsp */
    SS_REGISTER_RA = 16, /* the return address column */
    SS_REGISTER_COUNT = 17,
    SS_SAVED_COUNT = 6,
    SS_RETURN_ADDRESS_AT = -8, /* from the CFA: a call pushes it */
    SS_RED_ZONE = 128          /* bytes below the stack pointer that a leaf function may use */
};

/* rbp, rbx, r12 to r15 */
static const uint8_t ss_saved_registers[SS_SAVED_COUNT] = {6, 3, 12, 13, 14, 15};

#endif
