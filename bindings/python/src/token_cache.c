/*
 * The table of token_cache.h.
 *
 * Each code object with entries has an extra of ours (its own address), whose destructor the
 * interpreter calls before the code object's memory is freed.  Extras belong to the interpreter
 * that gave out the index; that is the main one, and code of others is never put.
 */
#include "token_cache.h"

#include "layout.h"

#if PY_VERSION_HEX >= 0x030C0000
#define request_index PyUnstable_Eval_RequestCodeExtraIndex
#define get_extra PyUnstable_Code_GetExtra
#define set_extra PyUnstable_Code_SetExtra
#else
#define request_index _PyEval_RequestCodeExtraIndex
#define get_extra _PyCode_GetExtra
#define set_extra _PyCode_SetExtra
#endif

enum { BUSY = 2 }; /* as an address: an entry that is being changed; 0: a free one */
#define ONE_CHANGE (SSPY_CACHE_ADDRESS + 1)

sspy_cache_row sspy_cache_rows[1 << SSPY_CACHE_ROW_BITS];
_Atomic(PyInterpreterState *) sspy_cache_home;
static Py_ssize_t extra_index = -1; /* (GIL) of the home interpreter */
static unsigned next_victim;        /* (GIL) */

/* Readers that saw the old key see another one behind the value. */
static void change(sspy_cache_entry *entry, uint64_t address, uint64_t value)
{
    uint64_t key = atomic_load_explicit(&entry->key, memory_order_relaxed);

    key = (key & ~SSPY_CACHE_ADDRESS) + ONE_CHANGE;
    atomic_store_explicit(&entry->key, key | BUSY, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&entry->value, value, memory_order_relaxed);
    atomic_store_explicit(&entry->key, key | address, memory_order_release);
}

/* Free the entries of ROW for addresses in [FROM, TO). */
static void clear_row(sspy_cache_row *row, uintptr_t from, uintptr_t to)
{
    for (unsigned i = 0; i < SSPY_CACHE_WAYS; i++) {
        uint64_t key = atomic_load_explicit(&row->ways[i].key, memory_order_relaxed);

        if ((key & SSPY_CACHE_ADDRESS) - from < to - from)
            change(&row->ways[i], 0, 0);
    }
}

/* The destructor of our extra: CODE dies.  Its rows are looked through, or all of them when they
   are fewer. */
static void forget_code(void *object)
{
    PyCodeObject *code = object;
    uintptr_t from = sspy_instruction(code, 0);
    uintptr_t to = from + (uintptr_t)Py_SIZE(code) * SSPY_CODE_UNIT;

    if (Py_SIZE(code) < (Py_ssize_t)SSPY_COUNT_OF(sspy_cache_rows))
        for (uintptr_t place = from; place < to; place += SSPY_CODE_UNIT)
            clear_row(sspy_cache_row_of(place), from, to);
    else
        for (size_t i = 0; i < SSPY_COUNT_OF(sspy_cache_rows); i++)
            clear_row(&sspy_cache_rows[i], from, to);
}

void sspy_cache_begin(PyInterpreterState *interp)
{
    if (interp != PyInterpreterState_Main() || atomic_load(&sspy_cache_home) ||
        sspy_layout_reason())
        return;
    extra_index = request_index(forget_code);
    if (extra_index >= 0)
        atomic_store(&sspy_cache_home, interp);
}

void sspy_cache_end(PyInterpreterState *interp)
{
    if (atomic_load(&sspy_cache_home) != interp)
        return;
    atomic_store(&sspy_cache_home, NULL);
    for (size_t i = 0; i < SSPY_COUNT_OF(sspy_cache_rows); i++)
        clear_row(&sspy_cache_rows[i], 1, SSPY_CACHE_ADDRESS);
}

/* See to it that CODE has our extra.  What the interpreter says when it cannot is nobody's
   business; a pending exception, which that would replace, comes first. */
static bool plant(PyCodeObject *code)
{
    PyObject *object = (PyObject *)code;
    void *extra = NULL;

    if (PyErr_Occurred())
        return false;
    if (get_extra(object, extra_index, &extra) == 0 && extra)
        return true;
    if (set_extra(object, extra_index, code) == 0)
        return true;
    PyErr_Clear();
    return false;
}

/* The entry of ROW for PLACE, else a free one, else one in turn. */
static sspy_cache_entry *choose(sspy_cache_row *row, uintptr_t place)
{
    sspy_cache_entry *free_entry = NULL;

    for (unsigned i = 0; i < SSPY_CACHE_WAYS; i++) {
        uint64_t address = atomic_load_explicit(&row->ways[i].key, memory_order_relaxed);

        address &= SSPY_CACHE_ADDRESS;
        if (address == place)
            return &row->ways[i];
        if (address <= BUSY && !free_entry)
            free_entry = &row->ways[i];
    }
    return free_entry ? free_entry : &row->ways[next_victim++ % SSPY_CACHE_WAYS];
}

void sspy_cache_put(PyCodeObject *code, uintptr_t place, uint32_t line, uintptr_t token)
{
    PyInterpreterState *home = atomic_load_explicit(&sspy_cache_home, memory_order_relaxed);

    /* A frame that has not begun is not shown, although its instruction may be the first one. */
    if (!home || home != PyInterpreterState_Get() || place & ~SSPY_CACHE_ADDRESS ||
        (place | 1) < sspy_instruction(code, code->_co_firsttraceable * SSPY_CODE_UNIT) ||
        ((uint64_t)token ^ SSPY_TOKEN_BASE) >> 32 || !plant(code))
        return;
    change(choose(sspy_cache_row_of(place), place), place, (uint64_t)line << 32 | (uint32_t)token);
}
