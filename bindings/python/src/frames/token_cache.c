/*
 * The table of token_cache.h.
 *
 * Each code object with entries has a weak reference of ours, a watch.  Its callback runs before
 * the code object's memory is freed, in any thread.  The destructor of a code extra would not do:
 * CPython calls those of the current interpreter, which may be another one if interpreters share
 * objects.  The table holds only code of the main interpreter.
 */
#include "frames/token_cache.h"

#include "frames/layout.h"

enum { BUSY = 2 }; /* as an address: an entry that is being changed; 0 is a free one */
#define ONE_CHANGE (SSPY_CACHE_ADDRESS + 1)

sspy_cache_row sspy_cache_rows[1 << SSPY_CACHE_ROW_BITS];
_Atomic(PyInterpreterState *) sspy_cache_interp;
_Atomic(uint32_t) sspy_cache_epoch;
_Atomic(uintptr_t) sspy_cache_deaths;
static PyTypeObject *watch_type; /* (GIL) a subclass of weakref.ref; counted */
static PyObject *watches;        /* (GIL) address of a code object -> its watch */
static PyObject *on_death;       /* (GIL) the callback of all watches */
static unsigned next_victim;     /* (GIL) */

/* Follows the members of a weak reference in a watch: where its code has its instructions. */
typedef struct instructions {
    uintptr_t code, from, to;
} instructions;

/* A reader that saw the old key sees another key after it reads the value. */
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

/* Search the rows of the instructions, or all rows when those are fewer. */
static void forget(const instructions *of)
{
    atomic_fetch_add(&sspy_cache_deaths, 1);
    if ((of->to - of->from) / SSPY_CODE_UNIT < SSPY_COUNT_OF(sspy_cache_rows))
        for (uintptr_t place = of->from; place < of->to; place += SSPY_CODE_UNIT)
            clear_row(sspy_cache_row_of(place), of->from, of->to);
    else
        for (size_t i = 0; i < SSPY_COUNT_OF(sspy_cache_rows); i++)
            clear_row(&sspy_cache_rows[i], of->from, of->to);
}

static void clear_all(void)
{
    atomic_fetch_add(&sspy_cache_deaths, 1);
    for (size_t i = 0; i < SSPY_COUNT_OF(sspy_cache_rows); i++)
        clear_row(&sspy_cache_rows[i], 1, SSPY_CACHE_ADDRESS);
}

uint32_t sspy_cache_renew(void)
{
    uint32_t epoch = stacksplice_token_epoch();

    if (epoch != atomic_load_explicit(&sspy_cache_epoch, memory_order_relaxed)) {
        clear_all();
        atomic_store_explicit(&sspy_cache_epoch, epoch, memory_order_release);
    }
    return epoch;
}

static instructions *watched_by(PyObject *watch)
{
    return (instructions *)(void *)((char *)watch + _PyWeakref_RefType.tp_basicsize);
}

/* The code of WATCH dies.  An entry that stays in the dict for want of memory does not serve the
   next code at that address, since its watch is dead. */
static PyObject *code_died(PyObject *self, PyObject *watch)
{
    PyObject *address;

    (void)self;
    forget(watched_by(watch));
    address = watches ? PyLong_FromVoidPtr((void *)watched_by(watch)->code) : NULL;
    if (address && PyDict_GetItemWithError(watches, address) == watch)
        (void)PyDict_DelItem(watches, address);
    Py_XDECREF(address);
    PyErr_Clear();
    Py_RETURN_NONE;
}

static void end_watching(void)
{
    Py_CLEAR(watches);
    Py_CLEAR(on_death);
    Py_CLEAR(watch_type);
}

static bool begin_watching(void)
{
    static PyMethodDef callback = {"code_died", code_died, METH_O, NULL};
    static PyType_Slot slots[] = {{Py_tp_doc, "Watches a code object.  Private."}, {0, NULL}};
    PyType_Spec spec = {
        .name = "stacksplice._stacksplice.CodeWatch",
        .basicsize = (int)(_PyWeakref_RefType.tp_basicsize + (Py_ssize_t)sizeof(instructions)),
        .flags = Py_TPFLAGS_DEFAULT,
        .slots = slots,
    };
    PyObject *bases = PyTuple_Pack(1, (PyObject *)&_PyWeakref_RefType);

    watch_type = bases ? (PyTypeObject *)PyType_FromSpecWithBases(&spec, bases) : NULL;
    on_death = PyCFunction_New(&callback, NULL);
    watches = PyDict_New();
    Py_XDECREF(bases);
    if (watch_type && on_death && watches)
        return true;
    PyErr_Clear();
    end_watching();
    return false;
}

void sspy_cache_begin(PyInterpreterState *interp)
{
    if (interp != PyInterpreterState_Main() || atomic_load(&sspy_cache_interp) ||
        sspy_layout_reason() || !begin_watching())
        return;
    atomic_store(&sspy_cache_interp, interp);
}

void sspy_cache_end(PyInterpreterState *interp)
{
    if (atomic_load(&sspy_cache_interp) != interp)
        return;
    atomic_store(&sspy_cache_interp, NULL);
    clear_all();
    end_watching();
}

static bool is_watch_of(PyObject *watch, PyCodeObject *code)
{
    PyObject *object = sspy_weakref_get(watch);
    bool same = object == (PyObject *)code;

    Py_XDECREF(object);
    return same;
}

/* A new watch of CODE among the others; -1 with an exception. */
static int add_watch(PyCodeObject *code, PyObject *address)
{
    PyObject *watch =
        PyObject_CallFunctionObjArgs((PyObject *)watch_type, (PyObject *)code, on_death, NULL);
    uintptr_t from = sspy_instruction(code, 0);
    int failed;

    if (!watch)
        return -1;
    *watched_by(watch) =
        (instructions){(uintptr_t)code, from, from + (uintptr_t)Py_SIZE(code) * SSPY_CODE_UNIT};
    failed = PyDict_SetItem(watches, address, watch);
    Py_DECREF(watch);
    return failed;
}

/* Make sure that CODE has a watch.  If that fails, the interpreter's exception is dropped; a
   pending exception, which it would replace, is kept. */
static bool watch(PyCodeObject *code)
{
    PyObject *address, *found;
    bool watched;

    if (PyErr_Occurred())
        return false;
    address = PyLong_FromVoidPtr(code);
    found = address ? PyDict_GetItemWithError(watches, address) : NULL;
    watched = (found && is_watch_of(found, code)) || (address && !add_watch(code, address));
    Py_XDECREF(address);
    PyErr_Clear();
    return watched;
}

/* The entry of ROW for PLACE, else a free one, else the next victim. */
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

void sspy_cache_put(PyCodeObject *code, uintptr_t place, uint32_t line, uintptr_t token,
                    uint32_t epoch)
{
    PyInterpreterState *interp = atomic_load_explicit(&sspy_cache_interp, memory_order_relaxed);

    /* Do not store a frame that has not begun: it is not shown, although its instruction may be the
       first. */
    if (!interp || interp != PyInterpreterState_Get() || place & ~SSPY_CACHE_ADDRESS ||
        (place | 1) < sspy_instruction(code, code->_co_firsttraceable * SSPY_CODE_UNIT) ||
        line > UINT16_MAX || !watch(code))
        return;
    /* Creating the watch may have run code that captures, and other threads may describe tokens. */
    if (epoch != stacksplice_token_epoch())
        return;
    change(choose(sspy_cache_row_of(place), place), place,
           (uint64_t)line << SSPY_TOKEN_BITS | (token & SSPY_CACHE_ADDRESS));
}
