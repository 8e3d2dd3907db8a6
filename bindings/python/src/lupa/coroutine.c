/*
 * lupa's coroutine objects: Python resumes them without a message handler, so their errors are
 * found afterwards, in the dead coroutine.  Its frames are still there then.
 *
 * Replaced are the slot that next() and loops call and the C function of send().
 */
#include "lupa/lupa.h"
#include "traceback/traceback.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TYPES = 16 };

/* lupa's type of coroutines with its former functions; SEND is NULL if that is no function that we
   know.  Never freed. */
typedef struct resumed_type {
    PyTypeObject *type; /* counted */
    iternextfunc next;
    PyMethodDef *send;
    PyCFunction former_send;
} resumed_type;
static resumed_type table[MAX_TYPES];
static int table_count; /* (GIL) */

static const resumed_type *row_of(const PyTypeObject *type)
{
    for (int i = 0; i < table_count; i++)
        if (table[i].type == type)
            return &table[i];
    return NULL;
}

/* ---- A failure --------------------------------------------------------------------------------*/

/* The lua_State of COROUTINE, which only its repr() tells; NULL without an exception if not even
   that does. */
static void *address_of(PyObject *coroutine)
{
    PyObject *text = PyObject_Repr(coroutine);
    const char *utf8 = text ? PyUnicode_AsUTF8(text) : NULL;
    const char *number = utf8 ? strstr(utf8, "0x") : NULL;
    void *address = number ? (void *)(uintptr_t)strtoull(number, NULL, 16) : NULL;

    Py_XDECREF(text);
    PyErr_Clear();
    return address;
}

static sspy_attached *runtime_of(sspy_state *state, void *L)
{
    sspy_attached *attached = sspy_attached_first(state);

    while (attached && !sspy_lua_owns(attached->lua, L))
        attached = sspy_attached_after(attached);
    return attached;
}

/* Tie EXC to the error that COROUTINE failed with. */
static void tie(sspy_state *state, PyObject *coroutine, PyObject *exc, const void *above)
{
    void *L = address_of(coroutine);
    sspy_attached *attached = L ? runtime_of(state, L) : NULL;
    size_t length = 0;
    const char *text = sspy_lupa_message(exc, &length);
    stacksplice_section section;
    IUnknown *unknown;
    IScriptErrorInfo *error;

    if (!attached || !text)
        return;
    section = sspy_enter(state->interp);
    unknown = sspy_lua_find_failed(attached->lua, L, text, length, above);
    error = sspy_query(unknown, &stacksplice_IID_IScriptErrorInfo);
    sspy_unknown_release(unknown);
    sspy_leave(section);
    if (error && sspy_lupa_tie(state, exc, error))
        PyErr_Clear(); /* without memory lupa's exception stays as it is */
    sspy_release(state->interp, error);
}

/* Look at the exception that resuming COROUTINE raised. */
static void look_at_failure(PyObject *coroutine, const void *above)
{
    sspy_state *state = sspy_state_current();
    PyObject *exc = state && state->attached ? sspy_take_pending() : NULL;
    sspy_ties *ties = exc ? sspy_ties_of(state->interp, exc) : NULL;

    if (!exc)
        return;
    if (PyErr_GivenExceptionMatches(exc, PyExc_StopIteration) == 0 && (!ties || !ties->core.error))
        tie(state, coroutine, exc, above);
    sspy_set_pending(exc);
}

/* ---- The functions ----------------------------------------------------------------------------*/

static PyObject *next_value(PyObject *coroutine)
{
    PyObject *value = row_of(Py_TYPE(coroutine))->next(coroutine);

    if (!value && PyErr_Occurred())
        look_at_failure(coroutine, __builtin_frame_address(0));
    return value;
}

static PyObject *send_value(PyObject *coroutine, PyObject *const *arguments, Py_ssize_t count,
                            PyObject *names)
{
    const resumed_type *row = row_of(Py_TYPE(coroutine));
    PyObject *result = sspy_lupa_fast(row->former_send)(coroutine, arguments, count, names);

    if (!result)
        look_at_failure(coroutine, __builtin_frame_address(0));
    return result;
}

int sspy_lupa_watch_coroutines(PyTypeObject *type)
{
    resumed_type *row = (resumed_type *)row_of(type);

    if (!row && (table_count == MAX_TYPES || !type->tp_iternext)) {
        PyErr_SetString(PyExc_RuntimeError, "too many copies of lupa");
        return -1;
    }
    if (!row) {
        row = &table[table_count];
        *row = (resumed_type){type, type->tp_iternext, sspy_lupa_method(type, "send"), NULL};
        Py_INCREF(type);
        table_count++;
        if (row->send)
            row->former_send = row->send->ml_meth;
    }
    type->tp_iternext = next_value;
    if (row->send)
        row->send->ml_meth = (PyCFunction)(void (*)(void))send_value;
    return 0;
}

void sspy_lupa_unwatch_coroutines(void)
{
    for (int i = 0; i < table_count; i++) {
        if (table[i].type->tp_iternext == next_value)
            table[i].type->tp_iternext = table[i].next;
        if (table[i].send && table[i].send->ml_meth == (PyCFunction)(void (*)(void))send_value)
            table[i].send->ml_meth = table[i].former_send;
    }
}
