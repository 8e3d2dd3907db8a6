/*
 * Tokens by the address of an instruction: a hit reads one line of a table and no code object.
 *
 * An instruction is inside its code object, and its entry leaves the table when the code object
 * dies.  So an entry found for a frame was put there for that frame's code.  Any thread reads the
 * table at any time, without a lock.  Only threads that run the main interpreter's Python change it.
 * The table has only that interpreter's code.
 */
#ifndef SSPY_TOKEN_CACHE_H
#define SSPY_TOKEN_CACHE_H

#include "frames/layout.h"

enum { SSPY_CACHE_WAYS = 4, SSPY_CACHE_ROW_BITS = 11 };

/* KEY is the address of the instruction; its lowest bit says that the line is a traceback's.  Above
   it is a count of changes, with which a reader detects that VALUE was exchanged. */
typedef struct sspy_cache_entry {
    _Atomic(uint64_t) key;
    _Atomic(uint64_t) value; /* the token below its base, and above it the requested line */
} sspy_cache_entry;

typedef struct sspy_cache_row {
    _Alignas(64) sspy_cache_entry ways[SSPY_CACHE_WAYS];
} sspy_cache_row;

#define SSPY_CACHE_ADDRESS UINT64_C(0xFFFFFFFFFFFF)
#define SSPY_TOKEN_BITS 48

extern sspy_cache_row sspy_cache_rows[1 << SSPY_CACHE_ROW_BITS];
/* The interpreter whose code is in the table; NULL: none. */
extern _Atomic(PyInterpreterState *) sspy_cache_interp;
/* Changes when an entry is dropped because its code died or its interpreter ended. */
extern _Atomic(uintptr_t) sspy_cache_deaths;
/* The core's epoch of all entries in the table. */
extern _Atomic(uint32_t) sspy_cache_epoch;

/* Whether the core still knows the tokens in the table.  If not, the table is void, and whoever may
   change it calls sspy_cache_renew. */
static inline bool sspy_cache_is_true(void)
{
    return atomic_load_explicit(&sspy_cache_epoch, memory_order_acquire) ==
           stacksplice_token_epoch();
}

static inline sspy_cache_row *sspy_cache_row_of(uintptr_t place)
{
    uint64_t mixed = (uint64_t)(place >> 1) * UINT64_C(0x9E3779B97F4A7C15);

    return &sspy_cache_rows[mixed >> (64 - SSPY_CACHE_ROW_BITS)];
}

/* The token stored for PLACE and LINE, or 0. */
static inline uintptr_t sspy_cache_find(uintptr_t place, uint32_t line)
{
    sspy_cache_row *row = sspy_cache_row_of(place);

    for (unsigned i = 0; i < SSPY_CACHE_WAYS; i++) {
        uint64_t key = atomic_load_explicit(&row->ways[i].key, memory_order_acquire), value;

        if ((key ^ place) & SSPY_CACHE_ADDRESS)
            continue;
        value = atomic_load_explicit(&row->ways[i].value, memory_order_acquire);
        if (atomic_load_explicit(&row->ways[i].key, memory_order_relaxed) != key ||
            value >> SSPY_TOKEN_BITS != line || place > SSPY_CACHE_ADDRESS)
            return 0;
        return (uintptr_t)(STACKSPLICE_TOKEN_BASE | (value & SSPY_CACHE_ADDRESS));
    }
    return 0;
}

/* The instruction at byte LASTI of CODE. */
static inline uintptr_t sspy_instruction(const PyCodeObject *code, int lasti)
{
    return (uintptr_t)code + offsetof(PyCodeObject, co_code_adaptive) + (uintptr_t)lasti;
}

/* The key of a traceback's token, which differs from that of the live frame. */
static inline uintptr_t sspy_traceback_key(uintptr_t place)
{
    return place | 1;
}

/* The key of the instruction at LASTI; 0 if LASTI, made by hand, is outside of CODE. */
static inline uintptr_t sspy_key_of(const PyCodeObject *code, int lasti, stacksplice_trust trust)
{
    uintptr_t place = sspy_instruction(code, lasti);

    if (lasti < 0 || lasti / SSPY_CODE_UNIT >= Py_SIZE(code))
        return 0;
    return trust == STACKSPLICE_TRUST_TRACEBACK ? sspy_traceback_key(place) : place;
}

/* Whether the table has the code of the running interpreter, and is true.  For who looks up many places
   with sspy_cache_find, until one is missing. */
static inline bool sspy_cache_is_ready(void)
{
    return atomic_load_explicit(&sspy_cache_interp, memory_order_relaxed) ==
               PyInterpreterState_Get() &&
           sspy_cache_is_true();
}

/* INTERP ends: forget what its code put there. */
void sspy_cache_end(PyInterpreterState *interp);
/* Void the table if the core has dropped tokens since.  Returns the epoch of its entries.  Lock
   held. */
uint32_t sspy_cache_renew(void);

#endif
