/*
 * A rule: what a row of call frame information says, in 16 bytes, for the rows that compilers
 * write.  The others are kept as "full" and run from their description each time.
 *
 * Beside the address it is for, a rule is one half of a 32-byte cache entry.
 */
#ifndef SS_RULE_H
#define SS_RULE_H

#include "unwind/cfi.h"

typedef enum ss_rule_kind {
    SS_RULE_SP = 0,   /* CFA = sp + offset; registers at CFA - 8 * slot */
    SS_RULE_SAVED,    /* CFA = base + offset, base a callee-saved register; the same slots */
    SS_RULE_AT_SAVED, /* CFA = *(base + offset): a realigned stack; registers at base - 8 * slot */
    SS_RULE_END,      /* the return address is undefined: this is the outermost frame */
    SS_RULE_FULL      /* evaluate the row itself */
} ss_rule_kind;

typedef struct ss_rule {
    uint32_t start; /* address minus start of the function; UINT32_MAX: further than that */
    uint32_t cfa;   /* kind in bits 0 to 3, base (index of ss_saved_registers) in 4 to 7,
                       offset / 8, signed, in 8 to 31 */
    uint64_t slots; /* ten bits for each of ss_saved_registers */
} ss_rule;

enum {
    SS_SLOT_BITS = 10,
    SS_SLOT_MASK = 0x3ff,
    SS_SLOT_UNCHANGED = 0x3ff, /* the caller's value is still in the register */
    SS_SLOT_LOST = 0x3fe,
    SS_SLOT_MAX = 0x3fd
};

static inline ss_rule_kind ss_rule_kind_of(const ss_rule *rule)
{
    return (ss_rule_kind)(rule->cfa & 15);
}

static inline int ss_rule_base(const ss_rule *rule)
{
    return (int)(rule->cfa >> 4 & 15);
}

static inline uintptr_t ss_rule_offset(const ss_rule *rule)
{
    return (uintptr_t)((intptr_t)((int32_t)rule->cfa >> 8) * 8);
}

static inline unsigned ss_rule_slot(uint64_t slots, int saved)
{
    return (unsigned)(slots >> (SS_SLOT_BITS * saved)) & SS_SLOT_MASK;
}

/* The rule that says what ROW, of FDE and for the address PC, says. */
ss_rule ss_rule_from_row(const ss_fde *fde, uintptr_t pc, const ss_cfi_row *row);

/* The rule of a frame that keeps a frame pointer and about which nothing else is known. */
ss_rule ss_rule_frame_pointer(void);

#endif
