/*
 * The token of a place in a code object.  Strings are read in place.  A frame on this thread's
 * stack keeps its code, so we allocate nothing in the interpreter and need no lock.
 */
#include "frames/token_cache.h"
#include "shared/mix.h"
#include "shared/utf8.h"

#include <stdio.h>
#include <string.h>

/* ---- The table of token_cache.h ----------------------------------------------------------------*/

/*
 * Each code object with entries has a weak reference of ours, a watch.  Its callback runs before
 * the code object's memory is freed, in any thread.  The destructor of a code extra would not do:
 * CPython calls those of the current interpreter, which may be another one if interpreters share
 * objects.  The table holds only code of the main interpreter.
 */

/* As addresses: an entry that somebody changes; one that somebody changes whose table was voided since; 0
   is a free one. */
enum { CHANGING = 2, VOIDED = 4 };
#define ONE_CHANGE (SSPY_CACHE_ADDRESS + 1)

sspy_cache_row sspy_cache_rows[1 << SSPY_CACHE_ROW_BITS];
_Atomic(PyInterpreterState *) sspy_cache_interp;
_Atomic(uint32_t) sspy_cache_epoch;
_Atomic(uintptr_t) sspy_cache_deaths;
static PyTypeObject *watch_type; /* (GIL) a subclass of weakref.ref; counted */
static PyObject *watches;        /* (GIL) address of a code object -> its watch */
static PyObject *on_death;       /* (GIL) the callback of all watches */
static _Atomic(unsigned) next_victim;

/* Follows the members of a weak reference in a watch: where its code has its instructions. */
typedef struct instructions {
    uintptr_t code, from, to;
} instructions;

/* Make this thread the only one to change ENTRY, which has *KEY, and set *KEY to what it has now; false if
   another one does.  Threads that run Python without a lock meet here, and a child of fork may find an
   entry that nobody changes any more: it stays unused. */
static bool claim(sspy_cache_entry *entry, uint64_t *key)
{
    uint64_t mine = ((*key & ~SSPY_CACHE_ADDRESS) + ONE_CHANGE) | CHANGING;

    if ((*key & SSPY_CACHE_ADDRESS) == CHANGING || (*key & SSPY_CACHE_ADDRESS) == VOIDED ||
        !atomic_compare_exchange_strong_explicit(&entry->key, key, mine, memory_order_relaxed,
                                                 memory_order_relaxed))
        return false;
    atomic_thread_fence(memory_order_release);
    *key = mine;
    return true;
}

/* Give the claimed ENTRY, which has KEY, its new content.  A reader that saw the old key sees another key
   after it reads the value. */
static void store(sspy_cache_entry *entry, uint64_t key, uint64_t address, uint64_t value)
{
    uint64_t counted = key & ~SSPY_CACHE_ADDRESS;

    atomic_store_explicit(&entry->value, value, memory_order_relaxed);
    if (!atomic_compare_exchange_strong_explicit(&entry->key, &key, counted | address,
                                                 memory_order_release, memory_order_relaxed))
        atomic_store_explicit(&entry->key, counted, memory_order_release); /* voided meanwhile */
}

/* Free ENTRY if it is for an address in [FROM, TO).  Where CHANGING is among them, what somebody is about
   to store there is void, too. */
static void clear(sspy_cache_entry *entry, uintptr_t from, uintptr_t to)
{
    uint64_t key = atomic_load_explicit(&entry->key, memory_order_relaxed);
    bool done = false;

    /* Once more only if another thread changed it meanwhile. */
    while (!done && (key & SSPY_CACHE_ADDRESS) - from < to - from &&
           (key & SSPY_CACHE_ADDRESS) != VOIDED) {
        if ((key & SSPY_CACHE_ADDRESS) == CHANGING) {
            done = atomic_compare_exchange_strong(&entry->key, &key, key ^ (CHANGING | VOIDED));
        } else if (claim(entry, &key)) {
            store(entry, key, 0, 0);
            done = true;
        }
    }
}

static void clear_row(sspy_cache_row *row, uintptr_t from, uintptr_t to)
{
    for (unsigned i = 0; i < SSPY_CACHE_WAYS; i++)
        clear(&row->ways[i], from, to);
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
static PyObject *code_died(PyObject *Py_UNUSED(self), PyObject *watch)
{
    PyObject *address, *found;

    forget(watched_by(watch));
    address = watches ? PyLong_FromVoidPtr((void *)watched_by(watch)->code) : NULL;
    found = address ? sspy_dict_get(watches, address) : NULL;
    if (found && found == watch)
        (void)PyDict_DelItem(watches, address);
    Py_XDECREF(found);
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
    found = address ? sspy_dict_get(watches, address) : NULL;
    watched = (found && is_watch_of(found, code)) || (address && !add_watch(code, address));
    Py_XDECREF(found);
    Py_XDECREF(address);
    PyErr_Clear();
    return watched;
}

/* The entry of ROW for PLACE, else a free one, else the next victim. */
static sspy_cache_entry *entry_for(sspy_cache_row *row, uintptr_t place)
{
    sspy_cache_entry *free_entry = NULL;

    for (unsigned i = 0; i < SSPY_CACHE_WAYS; i++) {
        uint64_t address = atomic_load_explicit(&row->ways[i].key, memory_order_relaxed);

        address &= SSPY_CACHE_ADDRESS;
        if (address == place)
            return &row->ways[i];
        if (address <= VOIDED && !free_entry)
            free_entry = &row->ways[i];
    }
    if (free_entry)
        return free_entry;
    return &row->ways[atomic_fetch_add_explicit(&next_victim, 1, memory_order_relaxed) %
                      SSPY_CACHE_WAYS];
}

/* Store TOKEN, interned in EPOCH, for PLACE and LINE; PLACE is in CODE, which is alive.  Lock held,
   outside of any capture: it may allocate in the interpreter.  Does nothing if it fails. */
static void cache_put(PyCodeObject *code, uintptr_t place, uint32_t line, uintptr_t token,
                      uint32_t epoch)
{
    PyInterpreterState *interp = atomic_load_explicit(&sspy_cache_interp, memory_order_relaxed);
    sspy_cache_entry *entry;
    uint64_t key;

    /* Do not store a frame that has not begun: it is not shown, although its instruction may be the
       first. */
    if (!interp || interp != PyInterpreterState_Get() || place & ~SSPY_CACHE_ADDRESS ||
        (place | 1) < sspy_instruction(code, code->_co_firsttraceable * SSPY_CODE_UNIT) ||
        line > UINT16_MAX || !watch(code))
        return;
    entry = entry_for(sspy_cache_row_of(place), place);
    key = atomic_load_explicit(&entry->key, memory_order_relaxed);
    if (!claim(entry, &key))
        return;
    /* Creating the watch may have run code that captures, and other threads may describe tokens. */
    if (epoch == stacksplice_token_epoch() &&
        epoch == atomic_load_explicit(&sspy_cache_epoch, memory_order_relaxed))
        store(entry, key, place, (uint64_t)line << SSPY_TOKEN_BITS | (token & SSPY_CACHE_ADDRESS));
    else
        store(entry, key, 0, 0);
}

/* ---- Tokens of places --------------------------------------------------------------------------*/

/* One use: an instruction in CODE, which is alive, in an interpreter. */
typedef struct code_place {
    const PyCodeObject *code;
    uintptr_t instruction; /* its key (sspy_key_of) */
    PyInterpreterState *interp;
} code_place;

/* ---- Compared -------------------------------------------------------------------------------*/

/*
 * Tokens of frames that the table of token_cache.h does not have: by the address of an instruction
 * and the content of its code.
 *
 * Nobody says when such code dies, so each use compares all that the token was made of: the names,
 * and the part of the table of locations that leads to the instruction.  That costs a tenth of
 * making the token again.  It takes no lock, allocates nothing and calls no code of scripts.  So
 * any capture may use and fill the table: in any interpreter and thread, and in signal handlers.
 */

enum { WAYS = 2, ROW_BITS = 11, BUSY = 2 };

/* As in token_cache.h, the upper bits of KEY count changes, and a reader compares it twice.  Any
   thread writes; who finds an entry busy leaves it alone. */
typedef struct entry {
    _Atomic(uint64_t) key;     /* the address of an instruction */
    _Atomic(uint64_t) content; /* a hash of all that the token was made of */
    _Atomic(uint64_t) made;    /* the length of the prefix, and above it the epoch */
    _Atomic(uint64_t) token;
} entry;

typedef struct row {
    _Alignas(64) entry ways[WAYS];
} row;

static row rows[1 << ROW_BITS];

/* ---- Content ----------------------------------------------------------------------------------*/

/* TEXT has a hash of its content, which Python keeps in it once something asked for it: for names,
   when the code is made. */
static bool add_text(uint64_t *hash, PyObject *text)
{
    Py_hash_t kept;

    if (!text || !PyUnicode_Check(text))
        return false;
#if PY_VERSION_HEX < 0x030C0000
    if (!PyUnicode_IS_READY(text))
        return false;
#endif
    kept = ((PyASCIIObject *)(void *)text)->hash;
    if (kept != -1)
        *hash = ss_mix(*hash ^ (uint64_t)kept, UINT64_C(0xD6E8FEB86659FD93));
    else
        *hash = ss_mix_bytes(*hash ^ PyUnicode_KIND(text), PyUnicode_DATA(text),
                             (size_t)PyUnicode_GET_LENGTH(text) * PyUnicode_KIND(text));
    return true;
}

/* A hash of all that the token of the place is made of, whose location is in the first PREFIX bytes
   of its table; 0 if the content cannot be read.  The same code can be made again at an address
   that overlaps the old one: how far the place is from the code's beginning counts, too. */
static uint64_t content_of(const code_place *at, uint32_t prefix)
{
    const PyCodeObject *code = at->code;
    uint64_t size = (uint64_t)PyBytes_GET_SIZE(code->co_linetable), hash;

    if (size < prefix)
        return 0;
    hash = ss_mix((uint64_t)PyInterpreterState_GetID(at->interp) ^ size << 32,
                  UINT64_C(0x8EBC6AF09C88C6E3) ^ (uint64_t)code->co_firstlineno);
    hash = ss_mix(hash ^ (at->instruction - (uintptr_t)code), UINT64_C(0x589965CC75374CC3));
    hash = ss_mix_bytes(hash, PyBytes_AS_STRING(code->co_linetable), prefix);
    if (!add_text(&hash, code->co_filename) || !add_text(&hash, code->co_name) ||
        !add_text(&hash, code->co_qualname))
        return 0;
    return hash | 1;
}

/* ---- The table --------------------------------------------------------------------------------*/

static row *row_of(uintptr_t place)
{
    return &rows[(uint64_t)(place >> 1) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - ROW_BITS)];
}

/* The token stored for that place, or 0. */
static uintptr_t find_compared(const code_place *at)
{
    entry *ways = row_of(at->instruction)->ways;

    for (unsigned i = 0; i < WAYS; i++) {
        uint64_t key = atomic_load_explicit(&ways[i].key, memory_order_acquire);
        uint64_t content, made, token;

        if ((key ^ at->instruction) & SSPY_CACHE_ADDRESS)
            continue;
        content = atomic_load_explicit(&ways[i].content, memory_order_relaxed);
        made = atomic_load_explicit(&ways[i].made, memory_order_relaxed);
        token = atomic_load_explicit(&ways[i].token, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&ways[i].key, memory_order_relaxed) != key ||
            made >> 32 != stacksplice_token_epoch() || content_of(at, (uint32_t)made) != content)
            return 0;
        return (uintptr_t)token;
    }
    return 0;
}

/* The entry of that place, else the one that was changed less often. */
static entry *choose(entry *ways, uintptr_t place)
{
    uint64_t keys[WAYS];

    for (unsigned i = 0; i < WAYS; i++) {
        keys[i] = atomic_load_explicit(&ways[i].key, memory_order_relaxed);
        if ((keys[i] & SSPY_CACHE_ADDRESS) == place)
            return &ways[i];
    }
    return &ways[keys[1] >> SSPY_TOKEN_BITS < keys[0] >> SSPY_TOKEN_BITS];
}

/* Store TOKEN, interned in EPOCH from the first PREFIX bytes of the table of locations.  May do
   nothing. */
static void put_compared(const code_place *at, uint32_t prefix, uintptr_t token, uint32_t epoch)
{
    uint64_t content = content_of(at, prefix), key, counted;
    entry *chosen = choose(row_of(at->instruction)->ways, at->instruction);

    if (!content || at->instruction & ~SSPY_CACHE_ADDRESS)
        return;
    key = atomic_load_explicit(&chosen->key, memory_order_relaxed);
    counted = (key & ~SSPY_CACHE_ADDRESS) + SSPY_CACHE_ADDRESS + 1;
    /* A signal handler may have interrupted the writer of this entry. */
    if ((key & SSPY_CACHE_ADDRESS) == BUSY ||
        !atomic_compare_exchange_strong(&chosen->key, &key, counted | BUSY))
        return;
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&chosen->content, content, memory_order_relaxed);
    atomic_store_explicit(&chosen->made, (uint64_t)epoch << 32 | prefix, memory_order_relaxed);
    atomic_store_explicit(&chosen->token, token, memory_order_relaxed);
    atomic_store_explicit(&chosen->key, counted | at->instruction, memory_order_release);
}

/* ---- Tokens ----------------------------------------------------------------------------------*/

enum {
    FILE_BYTES = 4104,
    FUNCTION_BYTES = 1032
}; /* more than a token keeps, so that it marks the cut */

/* TEXT as UTF-8: its own data when it is ASCII, else written to BUFFER and cut to fit. */
static const char *text_of(PyObject *text, char *buffer, size_t capacity)
{
    size_t used = 0;

    if (!text || !PyUnicode_Check(text))
        return NULL;
    if (PyUnicode_IS_COMPACT_ASCII(text))
        return (const char *)PyUnicode_DATA(text);
#if PY_VERSION_HEX < 0x030C0000
    if (!PyUnicode_IS_READY(text))
        return NULL;
#endif
    for (Py_ssize_t i = 0; i < PyUnicode_GET_LENGTH(text) && used + 5 <= capacity; i++)
        used += sspy_put_utf8(PyUnicode_READ_CHAR(text, i), buffer + used);
    buffer[used] = '\0';
    return buffer;
}

/* Whether NAME is the last part of the qualified name WHOLE. */
static bool is_last_part(PyObject *name, PyObject *whole)
{
    Py_ssize_t before = PyUnicode_GET_LENGTH(whole) - PyUnicode_GET_LENGTH(name);

    return before >= 0 && (!before || PyUnicode_READ_CHAR(whole, before - 1) == '.') &&
           PyUnicode_Tailmatch(whole, name, 0, PY_SSIZE_T_MAX, 1) == 1;
}

/* A qualified name ends in the name that Python's tracebacks print, and is more precise.  Renamed
   code (templates, rebuilt tracebacks) keeps the qualified name of something else. */
static PyObject *shown_name(const PyCodeObject *code)
{
    PyObject *name = code->co_name, *whole = code->co_qualname;

#if PY_VERSION_HEX < 0x030C0000
    if (!PyUnicode_IS_READY(name) || !PyUnicode_IS_READY(whole))
        return name;
#endif
    return is_last_part(name, whole) ? whole : name;
}

/* LINE is a traceback's, which can be made by hand: the columns may belong to another line. */
static void set_place(stacksplice_token_info *info, const sspy_position *position, int line)
{
    info->line = line > 0 ? (uint32_t)line : position->line;
    if (!position->column || info->line != position->line)
        return;
    info->end_line = position->end_line;
    info->column = position->column;
    info->end_column = position->end_column;
}

/* Whether *TOKEN is that of its place, and not one that gives the reason for its absence. */
static bool make_token(const PyCodeObject *code, const sspy_position *position, int line,
                       stacksplice_trust trust, PyInterpreterState *interp, uintptr_t *token)
{
    char file[FILE_BYTES], function[FUNCTION_BYTES], name[40];
    int64_t id = PyInterpreterState_GetID(interp);
    stacksplice_token_info info = {.size = sizeof info,
                                   .kind = STACKSPLICE_FRAME_SCRIPT,
                                   .trust = trust,
                                   .language = "python"};

    set_place(&info, position, line);
    info.function = text_of(shown_name(code), function, sizeof function);
    info.file = text_of(code->co_filename, file, sizeof file);
    if (id > 0) {
        snprintf(name, sizeof name, "interpreter %lld", (long long)id);
        info.interpreter = name;
    }
    if (stacksplice_intern(&info, token) != S_OK)
        return false;
    stacksplice_renew(*token); /* new code: the token of what was met before is remembered */
    return true;
}

uintptr_t sspy_token(PyCodeObject *code, int lasti, PyInterpreterState *interp)
{
    code_place at = {code, sspy_key_of(code, lasti, STACKSPLICE_TRUST_EXACT), interp};
    uint32_t epoch = stacksplice_token_epoch();
    uintptr_t token = at.instruction ? find_compared(&at) : 0;
    sspy_position position;

    if (token)
        return token;
    position = sspy_position_of(code, lasti);
    if (make_token(code, &position, 0, STACKSPLICE_TRUST_EXACT, interp, &token) && at.instruction)
        put_compared(&at, position.prefix, token, epoch);
    return token; /* make_token always sets one */
}

uintptr_t sspy_token_known(PyCodeObject *code, int lasti, int line, stacksplice_trust trust)
{
    PyInterpreterState *interp = PyInterpreterState_Get();
    bool is_watched = interp == atomic_load_explicit(&sspy_cache_interp, memory_order_relaxed);
    uintptr_t key = is_watched ? sspy_key_of(code, lasti, trust) : 0;
    uint32_t said = line > 0 ? (uint32_t)line : 0;
    uint32_t epoch = is_watched ? sspy_cache_renew() : 0;
    uintptr_t token = key ? sspy_cache_find(key, said) : 0;
    sspy_position position;

    if (token)
        return token;
    position = sspy_position_of(code, lasti);
    if (make_token(code, &position, line, trust, interp, &token) && key)
        cache_put(code, key, said, token, epoch);
    return token;
}

uintptr_t sspy_gap_kept(sspy_kept_gap *kept, const char *reason)
{
    const stacksplice_token_info gap = {.size = sizeof gap,
                                        .kind = STACKSPLICE_FRAME_GAP,
                                        .trust = STACKSPLICE_TRUST_EXACT,
                                        .language = "python",
                                        .reason = reason};
    uint32_t epoch = stacksplice_token_epoch();
    uintptr_t token = kept->token;

    if (token && kept->epoch == epoch)
        return token;
    /* Without memory the token says so; the next call gets the right one again. */
    kept->token = stacksplice_intern(&gap, &token) == S_OK ? token : 0;
    kept->epoch = epoch;
    return token;
}

/* The gap for an exception that left without its stack being captured. */
uintptr_t sspy_mark(void)
{
    static _Thread_local sspy_kept_gap kept;

    return sspy_gap_kept(&kept, STACKSPLICE_GAP_RETURNED);
}
