/*
 * The record of one interpreter, which outlives it.
 *
 * Errors outlive the interpreter, in slots and in C code, but only by value: an exception that one
 * of them held would keep its frames and their modules for ever.  So we drop each exception when
 * the program ends (atexit), and again when the record is destroyed.
 */
#include "life/life.h"

#include <stdlib.h>
#include <string.h>

/* ---- Sections ----------------------------------------------------------------------------------*/

/*
 * What the core asks of an interpreter: to drop an exception, and to wake up.
 *
 * A release asks the interpreter nothing.  After finalization even PyGILState_Check is wrong.  Only
 * a section that we entered on this thread proves that we hold the lock.  Elsewhere the core puts
 * what was released on the owner's list, and asks for one pending call.
 */

static _Thread_local unsigned sections; /* that this thread is in */

static struct {
    _Atomic(void (*)(void)) left;
    _Atomic(void (*)(PyInterpreterState *)) ended;
} watcher;

void sspy_interp_ref(sspy_interp *interp)
{
    atomic_fetch_add(&interp->refs, 1);
}

void sspy_interp_unref(sspy_interp *interp)
{
    if (!interp || atomic_fetch_sub(&interp->refs, 1) != 1)
        return;
    stacksplice_owner_unref(interp->owner);
    free(interp);
}

/* Dropping may run any Python code; the pending exception stays. */
static void drop(void *Py_UNUSED(context), void *Py_UNUSED(data), void *value)
{
    PyObject *pending = sspy_take_pending();

    Py_DECREF((PyObject *)value);
    sspy_set_pending(pending);
}

/* The callback of Py_AddPendingCall.  It may run in another interpreter than intended.  Then the
   list waits for that interpreter's next section. */
static int drain_pending(void *data)
{
    stacksplice_owner *owner = data;
    const sspy_interp *interp = stacksplice_owner_data(owner); /* NULL once it is closed */

    if (interp && PyInterpreterState_Get() == interp->state)
        stacksplice_owner_drain(owner, NULL);
    stacksplice_owner_unref(owner);
    return 0;
}

static int wake(stacksplice_owner *owner)
{
    stacksplice_owner_ref(owner);
    if (Py_AddPendingCall(drain_pending, owner) == 0)
        return 1;
    stacksplice_owner_unref(owner);
    return 0;
}

static const stacksplice_language python = {
    .size = sizeof python,
    .name = "python",
    .flags = SSPY_IS_FREE_THREADED ? STACKSPLICE_LANGUAGE_MANY_THREADS : 0,
    .drop = drop,
    .wake = wake};

/* Give INTERP its owner; false without memory.  At the end of the owner, errors live on by
   value. */
static bool owner_begin(sspy_interp *interp)
{
    interp->owner = stacksplice_owner_new(&python, interp);
    if (!interp->owner)
        return false;
    stacksplice_owner_show(interp->owner, interp->state, Py_GetVersion());
    stacksplice_owner_ref(interp->owner); /* closing gives up the other reference */
    return true;
}

static void owner_end(sspy_interp *interp)
{
    void (*ended)(PyInterpreterState *) = atomic_load(&watcher.ended);

    interp->ends = true;
    stacksplice_owner_drop_all(interp->owner, NULL);
    stacksplice_owner_close(interp->owner);
    if (ended)
        ended(interp->state);
}

/* ---- Sections ---------------------------------------------------------------------------------*/

void sspy_watch_sections(void (*left)(void), void (*ended)(PyInterpreterState *interp))
{
    atomic_store(&watcher.left, left);
    atomic_store(&watcher.ended, ended);
}

bool sspy_is_in_section(void)
{
    return sections != 0;
}

stacksplice_section sspy_enter(sspy_interp *interp)
{
    sections++;
    return stacksplice_section_enter(interp->owner);
}

void sspy_leave(stacksplice_section section)
{
    void (*left)(void) = atomic_load_explicit(&watcher.left, memory_order_relaxed);

    sections--;
    if (left)
        left();
    stacksplice_section_leave(section, NULL);
}

void sspy_release(sspy_interp *interp, void *object)
{
    stacksplice_section section = sspy_enter(interp);

    sspy_unknown_release(object);
    sspy_leave(section);
}

/* ---- The record --------------------------------------------------------------------------------*/

#define RECORD_KEY "stacksplice._stacksplice.interp"

static _Atomic(sspy_interp *) main_record; /* (ATOMIC) of the main interpreter, for quick lookup */

static PyObject *let_go_at_exit(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(unused))
{
    sspy_interp *interp = sspy_interp_current();

    if (!interp)
        return NULL;
    stacksplice_owner_drop_all(interp->owner, NULL);
    Py_RETURN_NONE;
}

static PyMethodDef let_go_def = {"let_go", let_go_at_exit, METH_NOARGS, NULL};

/* -1 with an exception. */
static int let_go_when_it_ends(void)
{
    PyObject *module = PyImport_ImportModule("atexit");
    PyObject *function = module ? PyCFunction_New(&let_go_def, NULL) : NULL;
    PyObject *result = function ? PyObject_CallMethod(module, "register", "O", function) : NULL;

    Py_XDECREF(function);
    Py_XDECREF(module);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* Runs when the interpreter's dict is cleared: after all modules, but with a thread state. */
static void record_destructor(PyObject *capsule)
{
    sspy_interp *interp = PyCapsule_GetPointer(capsule, RECORD_KEY);

    owner_end(interp);
    interp->ties_type = NULL;
    if (atomic_load(&main_record) == interp)
        atomic_store(&main_record, NULL);
    Py_CLEAR(interp->ties_key);
    sspy_interp_unref(interp);
}

static sspy_interp *record_new(PyObject *dict)
{
    sspy_interp *interp = calloc(1, sizeof *interp);
    PyObject *capsule = NULL;
    int failed;

    if (!interp) {
        PyErr_NoMemory();
        return NULL;
    }
    atomic_init(&interp->refs, 1);
    interp->state = PyInterpreterState_Get();
    interp->id = PyInterpreterState_GetID(interp->state);
    interp->ties_key = PyUnicode_InternFromString(SSPY_REPORT_KEY);
    if (!owner_begin(interp))
        PyErr_NoMemory();
    else if (interp->ties_key)
        capsule = PyCapsule_New(interp, RECORD_KEY, record_destructor);
    if (!capsule) {
        Py_XDECREF(interp->ties_key);
        if (interp->owner)
            stacksplice_owner_close(interp->owner);
        sspy_interp_unref(interp);
        return NULL;
    }
    failed = PyDict_SetItemString(dict, RECORD_KEY, capsule);
    Py_DECREF(capsule);
    if (failed)
        return NULL;
    if (interp->state == PyInterpreterState_Main())
        atomic_store(&main_record, interp);
    if (let_go_when_it_ends())
        PyErr_Clear(); /* the end of the record drops the exceptions */
    return interp;
}

bool sspy_interp_lives(void)
{
    /* Py_IsInitialized is already false while modules, and the objects in them, are finalized. */
    return Py_IsInitialized() || atomic_load(&main_record);
}

PyThreadState *sspy_thread_state_here(void)
{
    PyThreadState *now = sspy_current_thread_state();

#if !SSPY_CURRENT_IS_THREAD_LOCAL
    if (now && now != PyGILState_GetThisThreadState())
        return NULL;
#endif
    return now;
}

sspy_interp *sspy_interp_current(void)
{
    PyInterpreterState *state = PyInterpreterState_Get();
    PyObject *dict, *capsule;

    /* The main interpreter outlives the others, and its record exists while its lock is held. */
    if (state == PyInterpreterState_Main() && atomic_load(&main_record))
        return atomic_load(&main_record);
    dict = PyInterpreterState_GetDict(state);
    capsule = dict ? PyDict_GetItemString(dict, RECORD_KEY) : NULL;
    if (!dict) {
        PyErr_SetString(PyExc_RuntimeError, "this interpreter has no dict");
        return NULL;
    }
    return capsule ? PyCapsule_GetPointer(capsule, RECORD_KEY) : record_new(dict);
}

sspy_state *sspy_state_current(void)
{
    sspy_interp *interp = sspy_interp_current();

    if (interp && !interp->module_state)
        PyErr_SetString(PyExc_SystemError, "stacksplice is not imported in this interpreter");
    return interp ? interp->module_state : NULL;
}

void *sspy_record(sspy_state *state, unsigned whose, size_t size)
{
    void *record = __atomic_load_n(&state->records[whose], __ATOMIC_ACQUIRE), *there = NULL;

    if (record)
        return record;
    record = calloc(1, size);
    if (record && !__atomic_compare_exchange_n(&state->records[whose], &there, record, false,
                                               __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
        free(record); /* another thread made it meanwhile */
        record = there;
    }
    return record;
}

/* ---- Texts -------------------------------------------------------------------------------------*/

/* Conversion between texts of the core and of Python. */

PyObject *sspy_text_from_wide(const WCHAR *text, uint32_t units)
{
    int order = PY_BIG_ENDIAN ? 1 : -1;

    return PyUnicode_DecodeUTF16((const char *)text, (Py_ssize_t)units * 2, "surrogatepass",
                                 &order);
}

PyObject *sspy_text_from_utf8(const char *bytes, size_t length)
{
    PyObject *text = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)length, "surrogatepass");

    if (!text && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        PyErr_Clear(); /* not even that: the bytes come from another language */
        text = PyUnicode_DecodeUTF8(bytes, (Py_ssize_t)length, "replace");
    }
    return text;
}

PyObject *sspy_text_or_none(const char *text)
{
    return text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace")
                : Py_NewRef(Py_None);
}

PyObject *sspy_utf8_from_text(PyObject *text)
{
    return PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
}

PyObject *sspy_utf16_from_text(PyObject *text)
{
    return PyUnicode_AsEncodedString(text, "utf-16-le", "surrogatepass");
}

int sspy_append_new(PyObject *list, PyObject *item)
{
    int failed = item ? PyList_Append(list, item) : -1;

    Py_XDECREF(item);
    return failed;
}

int sspy_append_note(const char *text, size_t length, void *data)
{
    return sspy_append_new(data, sspy_text_from_utf8(text, length));
}

/* ---- Reports ----------------------------------------------------------------------------------*/

int sspy_text_append(const char *text, size_t length, void *data)
{
    sspy_text_buffer *b = data;

    if (b->length + length > b->capacity) {
        size_t capacity = 2 * (b->length + length) + 1024;
        char *grown = realloc(b->text, capacity);

        if (!grown)
            return 1;
        b->text = grown;
        b->capacity = capacity;
    }
    memcpy(b->text + b->length, text, length);
    b->length += length;
    return 0;
}

PyObject *sspy_text_finish(sspy_text_buffer *buffer, HRESULT hr)
{
    PyObject *result = NULL;

    if (hr == S_OK)
        result = PyUnicode_DecodeUTF8(buffer->text ? buffer->text : "", (Py_ssize_t)buffer->length,
                                      "replace");
    else if (hr == E_INVALIDARG)
        PyErr_SetString(PyExc_ValueError, "kind or order is invalid");
    else if (!PyErr_Occurred())
        PyErr_NoMemory();
    free(buffer->text);
    return result;
}
