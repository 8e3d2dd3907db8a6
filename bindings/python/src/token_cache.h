/*
 * Tokens by the address of an instruction: a hit reads one line of a table and no code object.
 *
 * An instruction lies inside its code object, and its entry leaves the table when the code object
 * dies, so that whoever has a frame there finds what was put there for it.  Read by any thread at
 * any time, without a lock; changed only with the lock of the main interpreter held, whose code
 * alone is in it.
 */
#ifndef SSPY_TOKEN_CACHE_H
#define SSPY_TOKEN_CACHE_H

#include "binding.h"

enum { SSPY_CACHE_WAYS = 4, SSPY_CACHE_ROW_BITS = 11 };

/* KEY: the address of the instruction, whose lowest bit says that the line is a traceback's; above
   it a count of changes, by which a reader sees that VALUE was exchanged beside it. */
typedef struct sspy_cache_entry {
    _Atomic(uint64_t) key;
    _Atomic(uint64_t) value; /* the lower half of the token, below the line that was asked for */
} sspy_cache_entry;

typedef struct sspy_cache_row {
    _Alignas(64) sspy_cache_entry ways[SSPY_CACHE_WAYS];
} sspy_cache_row;

#define SSPY_CACHE_ADDRESS UINT64_C(0xFFFFFFFFFFFF)
/* The upper half of every token (source.h). */
#define SSPY_TOKEN_BASE UINT64_C(0x5353000000000000)

extern sspy_cache_row sspy_cache_rows[1 << SSPY_CACHE_ROW_BITS];
/* The interpreter whose code is in the table; NULL: none. */
extern _Atomic(PyInterpreterState *) sspy_cache_home;

static inline sspy_cache_row *sspy_cache_row_of(uintptr_t place)
{
    uint64_t mixed = (uint64_t)(place >> 1) * UINT64_C(0x9E3779B97F4A7C15);

    return &sspy_cache_rows[mixed >> (64 - SSPY_CACHE_ROW_BITS)];
}

/* The token that was put for PLACE and LINE, or 0. */
static inline uintptr_t sspy_cache_find(uintptr_t place, uint32_t line)
{
    sspy_cache_row *row = sspy_cache_row_of(place);

    for (unsigned i = 0; i < SSPY_CACHE_WAYS; i++) {
        uint64_t key = atomic_load_explicit(&row->ways[i].key, memory_order_acquire), value;

        if ((key ^ place) & SSPY_CACHE_ADDRESS)
            continue;
        value = atomic_load_explicit(&row->ways[i].value, memory_order_acquire);
        if (atomic_load_explicit(&row->ways[i].key, memory_order_relaxed) != key ||
            value >> 32 != line || place > SSPY_CACHE_ADDRESS)
            return 0;
        return (uintptr_t)(SSPY_TOKEN_BASE | (uint32_t)value);
    }
    return 0;
}

/* The instruction at byte LASTI of CODE. */
static inline uintptr_t sspy_instruction(const PyCodeObject *code, int lasti)
{
    return (uintptr_t)code + offsetof(PyCodeObject, co_code_adaptive) + (uintptr_t)lasti;
}

/* As a key: a token of a traceback is another than that of the live frame. */
static inline uintptr_t sspy_traceback_key(uintptr_t place)
{
    return place | 1;
}

/* In the main interpreter, as its module begins: use the table.  Without memory it stays empty. */
void sspy_cache_begin(PyInterpreterState *interp);
/* INTERP ends: what its code put is forgotten. */
void sspy_cache_end(PyInterpreterState *interp);
/* Put TOKEN for PLACE (in CODE, which is alive) and LINE.  Lock held, outside of any capture: it
   may allocate in the interpreter.  Does nothing where it cannot be done. */
void sspy_cache_put(PyCodeObject *code, uintptr_t place, uint32_t line, uintptr_t token);

#endif
