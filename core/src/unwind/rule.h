/*
 * A rule: a row of call frame information in a few words, for the rows that compilers write.  Other
 * rows have kind "full" and are evaluated from their description each time.
 */
#ifndef SS_RULE_H
#define SS_RULE_H

#include "unwind/cfi.h"

typedef enum ss_rule_kind {
    SS_RULE_SP = 0, /* CFA = sp + offset; registers at CFA - 8 * slot */
    SS_RULE_FRAME,  /* as SS_RULE_SAVED by the frame pointer; it points to the caller's, right below
                       the return address */
    SS_RULE_SAVED,  /* CFA = base + offset, base a callee-saved register; the same slots */
    SS_RULE_AT_SAVED, /* CFA = *(base + offset): a realigned stack; registers at base - 8 * slot */
    SS_RULE_LEAF,     /* as SS_RULE_SP, and the return address is still in its register */
    SS_RULE_END,      /* the return address is undefined: this is the outermost frame */
    SS_RULE_FULL      /* evaluate the row itself */
} ss_rule_kind;

enum {
    SS_SLOT_BITS = 10,
    SS_SLOT_MASK = 0x3ff,
    SS_SLOT_UNCHANGED = 0x3ff, /* the caller's value is still in the register */
    SS_SLOT_LOST = 0x3fe,
    SS_SLOT_MAX = 0x3fd,
    SS_SLOTS_A_WORD = 6,
    SS_SLOT_WORDS = (SS_SAVED_COUNT + SS_SLOTS_A_WORD - 1) / SS_SLOTS_A_WORD
};

/*
 * Bits of `cfa`:
 *
 *       31    28 27                       3 2      0
 *      +--------+--------------------------+--------+
 *      |  base  |     offset (signed)      |  kind  |
 *      +--------+--------------------------+--------+
 *
 * The kind SS_RULE_SP is 0, has no base and a positive offset that is a multiple of 8.  So the
 * whole word is the offset: CFA = sp + cfa.
 */
typedef struct ss_rule {
    uint32_t start; /* address minus start of the function; UINT32_MAX: too large */
    uint32_t cfa;
    uint64_t slots[SS_SLOT_WORDS]; /* ten bits for each of ss_saved_registers */
} ss_rule;

enum { SS_RULE_KIND_MASK = 7 };

static inline ss_rule_kind ss_rule_kind_of(uint32_t cfa)
{
    return (ss_rule_kind)(cfa & SS_RULE_KIND_MASK);
}

/* The base, as an index of ss_saved_registers. */
static inline int ss_rule_base(uint32_t cfa)
{
    return (int)(cfa >> 28);
}

static inline uintptr_t ss_rule_offset(uint32_t cfa)
{
    if (ss_rule_kind_of(cfa) == SS_RULE_SP)
        return cfa;
    return (uintptr_t)((intptr_t)((int32_t)(cfa << 4) >> 4) & ~(intptr_t)SS_RULE_KIND_MASK);
}

static inline unsigned ss_rule_slot(const uint64_t *slots, int saved)
{
    unsigned shift = SS_SLOT_BITS * ((unsigned)saved % SS_SLOTS_A_WORD);

    return (unsigned)(slots[(unsigned)saved / SS_SLOTS_A_WORD] >> shift) & SS_SLOT_MASK;
}

/* The slot in which a compact rule finds the return address (not with SS_RULE_LEAF). */
static inline unsigned ss_rule_return_slot(const uint64_t *slots)
{
    return SS_RETURN_SAVED < 0 ? SS_RETURN_SLOT : ss_rule_slot(slots, SS_RETURN_SAVED);
}

/* Translate ROW, which FDE gives for the address PC. */
ss_rule ss_rule_from_row(const ss_fde *fde, uintptr_t pc, const ss_cfi_row *row);

/*
 * The rule of a frame about which we know only that it keeps a frame pointer.  The word at the
 * frame pointer is the caller's frame pointer, and the word above it is the return address.  The
 * caller's frame starts after them.
 */
ss_rule ss_rule_frame_pointer(void);

/*
 * Forwarders: a few fixed instructions that an interpreter generates for a function of its
 * language, so that a profiler sees that function.  They call on with their caller's arguments and
 * have no unwind data, but all say the same: the CFA is two words above the stack pointer.  Most
 * keep the frame pointer there.
 */
typedef enum ss_forwarder {
    SS_FORWARDER_NONE,
    SS_FORWARDER_RECORD, /* with the caller's frame pointer at CFA - 16 */
    SS_FORWARDER_PLAIN,
    SS_FORWARDERS
} ss_forwarder;

ss_rule ss_rule_forwarder(ss_forwarder kind);

#endif
