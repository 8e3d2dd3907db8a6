/*
 * What differs between the machines whose processes and core files are read.  All have 64 bits and
 * are little endian, and structures of interpreters are the same on each.
 */
#ifndef SSI_MACHINE_H
#define SSI_MACHINE_H

#include <stddef.h>
#include <stdint.h>

enum { SSI_MAX_REGISTERS = 33, SSI_MAX_KERNEL_WORDS = 34, SSI_MAX_SAVED = 11 };
enum { SSI_FORWARDER_SIZE = 20, SSI_FORWARDERS = 3 };

/* Code that interpreters generate, SIZE bytes of which BEFORE are before the return address; the
   caller's frame begins two words above its stack pointer.  See rule.h of the core. */
typedef struct ssi_forwarder {
    uint8_t size, before; /* size 0: the end of the list */
    uint8_t keeps_fp;     /* the caller's frame pointer is where its stack pointer points to */
    uint8_t code[SSI_FORWARDER_SIZE];
} ssi_forwarder;

typedef struct ssi_machine {
    uint16_t number; /* in the headers of ELF files */
    /* Registers stand in DWARF's order, and the program counter is the last. */
    uint8_t registers, sp, fp, pc;
    uint8_t numbered; /* so many of them have a number in DWARF */
    uint8_t link;     /* the register that a call puts its return address into; 0: it is pushed */
    uint8_t address_bits; /* of a code address; above them it may be signed */
    /* The callee-saved registers, by which interpreters are found. */
    uint8_t saved_count, saved[SSI_MAX_SAVED];
    /* So many bytes at a frame's inner and outer end can be what callers had in registers. */
    uint8_t inner_saves, outer_saves;
    /* Where a handler returns to, the code that asks the kernel to go on, and how far from the
       stack pointer the registers are that it restores; 0: unwind data describes it. */
    uint16_t interrupted;
    uint64_t sigreturn;
    uint16_t context_sp; /* in a ucontext: from uc_stack to the stack pointer */
    /* The kernel's set has so many words, and the registers have these places there. */
    uint8_t kernel_words, kernel[SSI_MAX_REGISTERS];
    uint8_t argument; /* the register with the first argument of a system call */
    /* The words of the kernel's set with the number of a system call, or -1, and its result; 0: the
       set does not tell whether the thread waits in one. */
    uint8_t system_call, result;
    ssi_forwarder forwarders[SSI_FORWARDERS];
} ssi_machine;

/* The machine NUMBER, or NULL. */
const ssi_machine *ssi_machine_find(unsigned number);
/* The one that this program was built for. */
const ssi_machine *ssi_machine_own(void);

/* ADDRESS of code without its signature. */
static inline uint64_t ssi_machine_address(const ssi_machine *machine, uint64_t address)
{
    return address & (UINT64_MAX >> (64 - machine->address_bits));
}

#endif
