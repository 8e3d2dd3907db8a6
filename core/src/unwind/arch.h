/*
 * What the unwinder must know about a processor.  Each processor has one header and one file with
 * the same base name; the build picks the pair.
 *
 * Each header gives
 *  SS_REGISTER_COUNT   DWARF registers that rules may name, from 0 on
 *  SS_REGISTER_SP, _FP the stack pointer and the frame pointer
 *  SS_REGISTER_RA      the return address column
 *  SS_SAVED_COUNT      callee-saved registers, their numbers in ss_saved_registers, the frame
 *                      pointer first
 *  SS_RETURN_SAVED     index in ss_saved_registers of the register in which a call leaves the
 * return address; -1: a call pushes it, to CFA - 8 * SS_RETURN_SLOT SS_RED_ZONE         bytes below
 * the stack pointer that a leaf function may use SS_CFA_MEANINGLESS  an opcode of call frame
 * information that a walk may skip SS_RECORD_IS_TOP    whether a frame ends with the words that its
 * frame pointer points to SS_SIGRETURN_SIZE   size of the code that a signal handler returns to
 *  SS_SIGNAL_PC        offset from the stack pointer there at which the kernel saved the
 *                      interrupted ip
 *  SS_STUB_SIZE        of the code by which the linker lets one module call another, at most
 *  SS_SIGNAL_MISLEADS  whether the unwind data of that code omits the interrupted function
 *  ss_arch_code        strips the processor's marks from a return address
 */
#ifndef SS_ARCH_H
#define SS_ARCH_H

#include "base/platform.h"

#if defined(SS_ARCH_X86_64)
#include "unwind/arch_x86_64.h"
#elif defined(SS_ARCH_AARCH64)
#include "unwind/arch_aarch64.h"
#else
#error "no unwinder for this machine: build walk_none.c instead"
#endif

/* The registers at a call of ss_arch_entry, as its caller finds them after it returns. */
typedef struct ss_entry_registers {
    uintptr_t ip;
    uintptr_t sp;
    uintptr_t saved[SS_SAVED_COUNT]; /* in the order of ss_saved_registers */
} ss_entry_registers;

void ss_arch_entry(ss_entry_registers *out);

/* The code that a signal handler returns to, the same in every program. */
extern const uint8_t ss_arch_sigreturn[SS_SIGRETURN_SIZE];

/* Offsets from the stack pointer there at which the kernel saved the registers, by DWARF number. */
extern const uint16_t ss_arch_signal_offset[SS_REGISTER_COUNT];

/* Whether a call instruction ends at AT.  Code is readable from LOW on. */
bool ss_arch_is_after_call(const uint8_t *low, const uint8_t *at);

/*
 * What the call that ends at AT called: the function, or in *SLOT the address of the word that holds
 * it.  0 and no slot where the instruction does not tell.  Code is readable from LOW on.
 */
uintptr_t ss_arch_called(const uint8_t *low, const uint8_t *at, uintptr_t *slot);

/* The address of the word to which the linker's stub of SS_STUB_SIZE bytes at AT jumps; 0: it is none. */
uintptr_t ss_arch_stub_slot(const uint8_t *at);

/* Whether the function at AT begins by putting something on the stack. */
bool ss_arch_pushes(const uint8_t *at);

/*
 * The forwarder (rule.h) whose call returns to AT, SS_FORWARDER_NONE if it is none.  Where nothing
 * is mapped around AT, neither is one.  Signal safe.
 */
int ss_arch_forwarder(const uint8_t *at);

enum { SS_SAVED_FP = 0 };

/* The index of DWARF_REGISTER in ss_saved_registers, or -1. */
static inline int ss_saved_index(uint64_t dwarf_register)
{
    for (int i = 0; i < SS_SAVED_COUNT; i++)
        if (ss_saved_registers[i] == dwarf_register)
            return i;
    return -1;
}

#endif
