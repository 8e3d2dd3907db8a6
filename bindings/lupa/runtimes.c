/*
 * Attached runtimes: how one gets attached and detached, the list of them, and the error that each was
 * told of last.  The list keeps no runtime alive: a closed state says so itself.
 */
#include "lupa/lupa.h"
#include "shared/mix.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- The recorded error -----------------------------------------------------------------------*/

/*
 * lupa's own message handler is the last one that Lua calls in a call that fails.  lupa makes the
 * LuaError when that call has returned, before Python goes on: Python's innermost frame is at the same
 * instruction then, and the runtime's lock is held.  The handler runs without the interpreter's lock.
 */

typedef struct sspy_recorded {
    IUnknown *error; /* counted */
    sspy_call call;
    uint64_t number; /* a later one has a higher number */
} sspy_recorded;

static void free_recorded(sspy_recorded *recorded)
{
    if (recorded)
        sspy_unknown_release(recorded->error);
    free(recorded);
}

static sspy_recorded *new_recorded(IUnknown *error, sspy_call call)
{
    static _Atomic uint64_t number;
    sspy_recorded *recorded = malloc(sizeof *recorded);

    if (!recorded)
        return NULL;
    error->lpVtbl->AddRef(error);
    *recorded = (sspy_recorded){error, call, atomic_fetch_add(&number, 1)};
    return recorded;
}

/* The innermost call of this thread that resumes a coroutine. */
static _Thread_local sspy_call resuming;

sspy_call sspy_lupa_resuming(sspy_call call)
{
    sspy_call former = resuming;

    resuming = call;
    return former;
}

/* The hook of ss_lua_hooks: remembers the error that a message handler is told of last. */
static void record(void *data, IUnknown *error)
{
    sspy_attached *attached = data;
    sspy_recorded *recorded = NULL;
    sspy_call call;

    if (error && sspy_interp_lives()) {
        call = sspy_call_now(PyGILState_GetThisThreadState());
        recorded = call.frame ? new_recorded(error, call) : NULL;
        if (recorded)
            atomic_store(&attached->recorded_frame, call.frame);
    }
    free_recorded(atomic_exchange(&attached->recorded, recorded));
}

IUnknown *sspy_lupa_take_recorded(sspy_attached *attached, sspy_call here, uint64_t *number)
{
    sspy_recorded *recorded;
    IUnknown *error = NULL;

    if (!here.frame || atomic_load(&attached->recorded_frame) != here.frame)
        return NULL;
    recorded = atomic_exchange(&attached->recorded, NULL);
    if (recorded && sspy_same_call(recorded->call, here) && !sspy_same_call(resuming, here)) {
        error = recorded->error;
        error->lpVtbl->AddRef(error);
        *number = recorded->number;
    }
    free_recorded(recorded);
    return error;
}

void *sspy_lupa_address_of(PyObject *coroutine)
{
    PyObject *text = PyObject_Repr(coroutine);
    const char *utf8 = text ? PyUnicode_AsUTF8(text) : NULL;
    const char *number = utf8 ? strstr(utf8, "0x") : NULL;
    void *address = number ? (void *)(uintptr_t)strtoull(number, NULL, 16) : NULL;

    Py_XDECREF(text);
    PyErr_Clear();
    return address;
}

bool sspy_attached_is_called(const sspy_attached *attached)
{
    PyObject *held = attached->lock ? PyObject_CallMethod(attached->lock, "_is_owned", NULL) : NULL;
    bool called = held ? PyObject_IsTrue(held) == 1 : !attached->lock;

    Py_XDECREF(held);
    PyErr_Clear();
    return called;
}

/* ---- The texts of its chunks -------------------------------------------------------------------*/

/* One after the other they have no names that tell them apart, and Lua keeps none of them.  What is
   kept are lupa's arguments, which programs mostly have as literals. */

enum { MOST_TEXTS = 256, MOST_TEXT_BYTES = 1 << 20 };

typedef struct kept_text {
    ss_lua_text text;      /* first: its bytes are those of the two */
    PyObject *code, *name; /* owned; NAME may be NULL */
} kept_text;

/* The bytes of TEXT, a str or bytes and nothing below, as Lua gets them; NULL without an exception. */
static const char *bytes_of(PyObject *text, size_t *length)
{
    Py_ssize_t size = 0;
    char *bytes = NULL;

    if (PyUnicode_CheckExact(text))
        bytes = (char *)(uintptr_t)PyUnicode_AsUTF8AndSize(text, &size);
    else if (PyBytes_CheckExact(text))
        (void)PyBytes_AsStringAndSize(text, &bytes, &size);
    PyErr_Clear();
    *length = (size_t)size;
    return bytes;
}

static bool is_kept(const sspy_attached *attached, const ss_lua_text *text)
{
    const ss_lua_text *one = atomic_load(&attached->texts.first);

    while (one && (one->length != text->length || strcmp(one->name, text->name) != 0 ||
                   memcmp(one->text, text->text, text->length) != 0))
        one = one->next;
    return one != NULL;
}

/* Whether TEXT, of CODE and NAME, was kept. */
static bool keep(sspy_attached *attached, const ss_lua_text *text, PyObject *code, PyObject *name)
{
    kept_text *kept = NULL;

    if (attached->text_count < MOST_TEXTS && text->length <= MOST_TEXT_BYTES - attached->text_bytes)
        kept = malloc(sizeof *kept);
    if (!kept)
        return false;
    *kept = (kept_text){*text, Py_NewRef(code), Py_XNewRef(name)};
    kept->text.next = atomic_load(&attached->texts.first);
    attached->text_count++;
    attached->text_bytes += text->length;
    atomic_store(&attached->texts.first, &kept->text);
    return true;
}

/* What this thread runs as a whole.  Greenlets may end in any order, so their chunks are only counted. */
static _Thread_local struct {
    unsigned count;
    uint64_t number;         /* of the one that began when none ran */
    const sspy_attached *in; /* NULL: it has ended */
    ss_lua_text text;
} whole;

static const ss_lua_text *running(const ss_lua_texts *texts)
{
    bool is_it = whole.count == 1 && whole.in && &whole.in->texts == texts && whole.text.text;

    return is_it && !atomic_load(&whole.in->has_functions) ? &whole.text : NULL;
}

/* What this thread compiled last; IN is NULL once lupa has returned. */
static _Thread_local struct {
    sspy_attached *in;
    ss_lua_text text;
} compiled;

sspy_attached *sspy_lupa_compiles(sspy_state *state, ss_lua_text *text)
{
    sspy_attached *attached = sspy_attached_first(state);

    *text = compiled.text;
    while (attached && attached != compiled.in)
        attached = sspy_attached_after(attached);
    return attached; /* if it was not detached meanwhile */
}

static bool has_text_named(const sspy_attached *attached, const char *name)
{
    const ss_lua_text *one = atomic_load(&attached->texts.first);

    while (one && strcmp(one->name, name) != 0)
        one = one->next;
    return one != NULL;
}

/* Whether NAME was noted, or another one that has its place. */
static bool is_noted(sspy_attached *attached, const char *name, bool note)
{
    uint64_t place = ss_mix_text(UINT64_C(0x2545F4914F6CDD1D), name) % (64 * SSPY_NAME_WORDS);
    uint64_t bit = UINT64_C(1) << place % 64, *word = &attached->unkept[place / 64];
    bool was = *word & bit;

    if (note)
        *word |= bit;
    return was;
}

/*
 * Whether the text of a chunk called NAME is to be kept.  Where it is called after a file, reports read that,
 * unless there is none.  If a chunk of that name has a text that was not kept, nobody can tell the two apart.
 */
static bool is_to_be_kept(sspy_attached *attached, const char *name)
{
    struct stat status;

    if (!name || *name != '@' || has_text_named(attached, name))
        return true;
    if (stat(name + 1, &status)) /* a name in sys.path is no file for reports, either */
        return !is_noted(attached, name, false);
    (void)is_noted(attached, name, true);
    return false;
}

static void keep_or_count(sspy_attached *attached, const ss_lua_text *text, PyObject *code,
                          PyObject *name)
{
    int lines = INT_MAX;

    if (text->text && (is_kept(attached, text) || keep(attached, text, code, name)))
        return;
    if (text->name && *text->name == '@' && !has_text_named(attached, text->name)) {
        (void)is_noted(attached, text->name, true); /* other names lose nothing by it */
        return;
    }
    if (text->text)
        lines = ss_lua_count_lines(text->text, text->length);
    if (lines > atomic_load(&attached->texts.unknown))
        atomic_store(&attached->texts.unknown, lines);
}

uint64_t sspy_lupa_begin_chunk(sspy_attached *attached, PyObject *code, PyObject *name, bool runs)
{
    static const char dumped = 033; /* how string.dump begins */
    static _Thread_local uint64_t number;
    ss_lua_text text = {.name = "<python>"};
    size_t length;

    if (name)
        text.name = bytes_of(name, &length);
    if (text.name)
        text.text = bytes_of(code, &text.length);
    if (text.text && *text.text == dumped)
        text.text = NULL;
    compiled.in = attached;
    compiled.text = text;
    if (is_to_be_kept(attached, text.name))
        keep_or_count(attached, &text, code, name);
    else
        text.text = NULL; /* the file has the lines */
    if (!runs)
        atomic_store(&attached->has_functions, true);
    if (!runs || whole.count++)
        return !runs ? 0 : UINT64_MAX;
    whole.number = ++number;
    whole.in = attached;
    whole.text = text;
    return number;
}

void sspy_lupa_end_chunk(uint64_t number)
{
    compiled.in = NULL;
    if (!number)
        return;
    whole.count--;
    if (number == whole.number)
        whole.in = NULL;
}

/* Whether frames of a chunk that was compiled by NAME have FILE as its name. */
static bool is_shown_as(const char *name, const char *file)
{
    static const char begin[] = "[string \"", end[] = "\"]";
    size_t length = strlen(name);

    if (*name == '@' || *name == '=')
        return !strcmp(name + 1, file);
    return !strncmp(file, begin, sizeof begin - 1) &&
           !strncmp(file + sizeof begin - 1, name, length) &&
           !strcmp(file + sizeof begin - 1 + length, end);
}

/* The one text of a chunk FILE whose LINE is SOURCE, among those of ATTACHED and the runtimes after it; NULL
   if there is none, or there are *SEVERAL. */
static const ss_lua_text *find_text(const sspy_attached *attached, const char *file, int line,
                                    const char *source, bool *several)
{
    const ss_lua_text *found = NULL;
    char here[SS_LUA_LINE_ROOM];

    for (; attached; attached = sspy_attached_after((sspy_attached *)(uintptr_t)attached))
        for (const ss_lua_text *one = atomic_load(&attached->texts.first); one; one = one->next) {
            if (!is_shown_as(one->name, file) ||
                !ss_lua_line_of(one->text, one->length, line, here) || strcmp(here, source) != 0)
                continue;
            *several |= found && (found->length != one->length ||
                                  memcmp(found->text, one->text, one->length) != 0);
            found = one;
        }
    return *several ? NULL : found;
}

PyObject *sspy_lupa_chunk(PyObject *module, PyObject *arguments)
{
    const ss_lua_text *found;
    const char *file, *source;
    bool several = false;
    int line;

    if (!PyArg_ParseTuple(arguments, "sis:_lupa_chunk", &file, &line, &source))
        return NULL;
    found = find_text(sspy_attached_first(PyModule_GetState(module)), file, line, source, &several);
    if (!found)
        Py_RETURN_NONE;
    return PyUnicode_DecodeUTF8(found->text, (Py_ssize_t)found->length, "replace");
}

/* ---- The list ---------------------------------------------------------------------------------*/

/* The hook of ss_lua_hooks: the state was closed. */
static void close_runtime(void *data)
{
    sspy_attached *attached = data;

    atomic_store(&attached->closed, true);
}

static void free_runtime(sspy_attached *attached)
{
    const ss_lua_text *text = atomic_load(&attached->texts.first);

    while (text) {
        const kept_text *kept = (const kept_text *)text;

        text = text->next;
        Py_DECREF(kept->code);
        Py_XDECREF(kept->name);
        free((void *)(uintptr_t)kept);
    }
    free_recorded(atomic_exchange(&attached->recorded, NULL));
    Py_XDECREF(attached->lock);
    free(attached);
}

/* The state stays as it is, attached if it is open; RESTORE: it gets its former functions back. */
static void release(sspy_attached *attached, bool restore)
{
    attached->calls->release(attached->attachment, restore);
    free_runtime(attached);
}

static void sweep(sspy_lupa *lupa)
{
    sspy_attached **place = &lupa->attached;

    while (*place) {
        sspy_attached *attached = *place;

        if (!atomic_load(&attached->closed)) {
            place = &attached->next;
            continue;
        }
        *place = attached->next;
        release(attached, false);
    }
}

sspy_attached *sspy_attached_first(sspy_state *state)
{
    sspy_lupa *lupa = sspy_lupa_of(state);

    if (!lupa)
        return NULL;
    sweep(lupa);
    return lupa->attached;
}

sspy_attached *sspy_attached_after(sspy_attached *attached)
{
    do
        attached = attached->next;
    while (attached && atomic_load(&attached->closed));
    return attached;
}

void sspy_lupa_end(sspy_state *state)
{
    sspy_lupa *lupa = sspy_lupa_of(state);

    if (!lupa)
        return;
    Py_CLEAR(lupa->created);
    Py_CLEAR(lupa->innermost);
    sweep(lupa);
    for (sspy_attached *one = lupa->attached; one; one = one->next)
        atomic_store(&one->texts.unknown, INT_MAX); /* which go with the interpreter */
    lupa->attached =
        NULL; /* the states may still call our hooks, so the records of open ones stay */
}

sspy_attached *sspy_attached_find(sspy_state *state, uintptr_t key)
{
    sspy_attached *attached = sspy_attached_first(state);

    while (attached && attached->key != key)
        attached = sspy_attached_after(attached);
    return attached;
}

/* ---- Functions --------------------------------------------------------------------------------*/

/* -1 with an exception. */
static int attach_state(sspy_attached *attached, void *L, const char *library,
                        const ss_lua_hooks *hooks)
{
    ss_lua_reason reason = {""};

    attached->calls = sspy_lua_instance(library);
    if (!attached->calls)
        return -1;
    attached->attachment = attached->calls->attach(L, hooks, &reason);
    if (attached->attachment)
        return 0;
    PyErr_Format(PyExc_RuntimeError, "the Lua state could not be attached: %s", reason.text);
    return -1;
}

int sspy_attached_add(sspy_state *state, const sspy_new_runtime *new, const char *library)
{
    sspy_lupa *lupa = sspy_record(state, SSPY_OF_LUPA, sizeof *lupa);
    sspy_attached *attached = lupa ? calloc(1, sizeof *attached) : NULL;
    const ss_lua_hooks hooks = {.raised = new->raised,
                                .caught = new->caught,
                                .find_in = new->find_in,
                                .recorded = record,
                                .closed = close_runtime,
                                .metatable = "POBJECT",
                                .data = attached,
                                .texts = attached ? &attached->texts : NULL};

    if (!attached) {
        PyErr_NoMemory();
        return -1;
    }
    attached->key = new->key;
    attached->globals = new->globals;
    attached->texts.running = running;
    atomic_store(&attached->has_functions, !new->is_fresh);
    atomic_store(&attached->texts.unknown, new->is_fresh ? 0 : INT_MAX);
    attached->coroutines = new->coroutines;
    attached->lock = new->lock == Py_None ? NULL : Py_NewRef(new->lock);
    if (attach_state(attached, new->L, library, &hooks)) {
        free_runtime(attached);
        return -1;
    }
    attached->next = lupa->attached;
    lupa->attached = attached;
    return 0;
}

PyObject *sspy_lupa_detach(PyObject *module, PyObject *key)
{
    sspy_state *state = PyModule_GetState(module);
    sspy_attached *attached = sspy_attached_find(state, (uintptr_t)PyLong_AsVoidPtr(key)), **place;

    if (PyErr_Occurred())
        return NULL;
    if (!attached)
        Py_RETURN_FALSE;
    for (place = &sspy_lupa_of(state)->attached; *place != attached;)
        place = &(*place)->next;
    *place = attached->next;
    release(attached, true);
    Py_RETURN_TRUE;
}

PyObject *sspy_lupa_keep_caught(PyObject *module, PyObject *key)
{
    sspy_attached *attached =
        sspy_attached_find(PyModule_GetState(module), (uintptr_t)PyLong_AsVoidPtr(key));
    ss_lua_reason reason = {""};

    if (PyErr_Occurred())
        return NULL;
    if (attached && !attached->calls->keep_caught(attached->attachment, &reason))
        return PyErr_Format(PyExc_RuntimeError, "pcall could not be replaced: %s", reason.text);
    Py_RETURN_NONE;
}

PyObject *sspy_lupa_is_attached(PyObject *module, PyObject *key)
{
    bool found =
        sspy_attached_find(PyModule_GetState(module), (uintptr_t)PyLong_AsVoidPtr(key)) != NULL;

    return PyErr_Occurred() ? NULL : PyBool_FromLong(found);
}

/* ---- The runtimes that exist, from the garbage collector --------------------------------------*/

/*
 * gc.get_objects() also refers to tuples that other threads are just making, which then fail.  So
 * from 3.12 on the objects are visited here, and only runtimes get a reference.
 */

#if PY_VERSION_HEX >= 0x030C0000
typedef struct search {
    PyObject *kinds; /* a tuple of types */
    PyObject *found; /* a list */
    bool failed;
} search;

/* A list that grows makes no object, which would not be allowed here. */
static int look_at(PyObject *object, void *data)
{
    search *s = data;

    for (Py_ssize_t i = 0; !s->failed && i < PyTuple_GET_SIZE(s->kinds); i++)
        if (PyObject_TypeCheck(object, (PyTypeObject *)PyTuple_GET_ITEM(s->kinds, i))) {
            s->failed = PyList_Append(s->found, object) != 0;
            break;
        }
    return !s->failed;
}

PyObject *sspy_lupa_existing(PyObject *module, PyObject *arguments)
{
    search s = {.kinds = arguments, .found = PyList_New(0)};

    (void)module;
    if (s.found)
        PyUnstable_GC_VisitObjects(look_at, &s);
    if (s.failed)
        Py_CLEAR(s.found);
    return s.found;
}
#endif
