/*
 * lupa's coroutine objects: Python resumes them without a message handler, so their errors are
 * found afterwards, in the dead coroutine.  Its frames are still there then.
 *
 * Replaced are the slot that next() and loops call and the C functions of __next__() and send().
 */
#include "lupa/lupa.h"
#include "traceback/match.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_TYPES = 16 };

/* lupa's type of coroutines with its former functions; NEXT_METHOD and SEND are NULL if they are no
   functions that we know.  Never freed. */
typedef struct resumed_type {
    PyTypeObject *type; /* counted */
    iternextfunc next;
    PyMethodDef *next_method, *send;
    PyCFunction former_next_method, former_send;
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

/* Make CAUSE, which ended the coroutine of ERROR, the cause of EXC. */
static void set_cause(sspy_state *state, const sspy_attached *attached, PyObject *exc,
                      PyObject *cause, IScriptErrorInfo *error)
{
    sspy_stack_copy copy;
    sspy_elements stack = sspy_shown(error, &copy);

    Py_INCREF(cause);
    if (stack.count)
        sspy_lupa_came_out(state, cause, attached, stack.frames, stack.count);
    free(copy.far);
    PyException_SetCause(exc, cause);
}

/* Tie EXC to the error that COROUTINE failed with. */
static void tie(sspy_state *state, PyObject *coroutine, PyObject *exc, const void *above)
{
    void *L = address_of(coroutine), *block = NULL;
    sspy_attached *attached = L ? runtime_of(state, L) : NULL;
    PyObject *cause;
    size_t length = 0;
    const char *text = sspy_lupa_message(exc, &length);
    stacksplice_section section;
    IUnknown *unknown;
    IScriptErrorInfo *error;

    if (!attached || !text)
        return;
    section = sspy_enter(state->interp);
    unknown = sspy_lua_find_failed(attached->lua, L, text, length, above, &block);
    error = sspy_query(unknown, &stacksplice_IID_IScriptErrorInfo);
    sspy_unknown_release(unknown);
    sspy_leave(section);
    cause = error && block ? sspy_lupa_exception(block) : NULL;
    if (cause)
        set_cause(state, attached, exc, cause, error);
    if (error && sspy_lupa_tie(state, exc, error))
        PyErr_Clear(); /* without memory lupa's exception stays as it is */
    sspy_release(state->interp, error);
}

/* Look at the exception that resuming COROUTINE raised. */
static void look_at_failure(PyObject *coroutine, const void *above)
{
    sspy_state *state = sspy_state_current();
    PyObject *exc = state && sspy_lupa_has_runtimes(state) ? sspy_take_pending() : NULL;
    sspy_ties *ties = exc ? sspy_ties_of(state->interp, exc) : NULL;

    if (!exc)
        return;
    if (sspy_lupa_is_error(exc) && (!ties || !ties->core.error))
        tie(state, coroutine, exc, above);
    sspy_set_pending(exc);
}

/* ---- The functions ----------------------------------------------------------------------------*/

static PyObject *next_value(PyObject *coroutine)
{
    sspy_call former = sspy_lupa_resuming(sspy_call_now(PyThreadState_Get()));
    PyObject *value = row_of(Py_TYPE(coroutine))->next(coroutine);

    (void)sspy_lupa_resuming(former);
    if (!value && PyErr_Occurred())
        look_at_failure(coroutine, __builtin_frame_address(0));
    return value;
}

static PyObject *next_method(PyObject *coroutine, PyObject *unused)
{
    sspy_call former = sspy_lupa_resuming(sspy_call_now(PyThreadState_Get()));
    PyObject *value = row_of(Py_TYPE(coroutine))->former_next_method(coroutine, unused);

    (void)sspy_lupa_resuming(former);
    if (!value)
        look_at_failure(coroutine, __builtin_frame_address(0));
    return value;
}

static PyObject *send_value(PyObject *coroutine, PyObject *const *arguments, Py_ssize_t count,
                            PyObject *names)
{
    const resumed_type *row = row_of(Py_TYPE(coroutine));
    sspy_call former = sspy_lupa_resuming(sspy_call_now(PyThreadState_Get()));
    PyObject *result = sspy_lupa_fast(row->former_send)(coroutine, arguments, count, names);

    (void)sspy_lupa_resuming(former);
    if (!result)
        look_at_failure(coroutine, __builtin_frame_address(0));
    return result;
}

/* The definition of __next__ in TYPE; NULL if TYPE has only the slot. */
static PyMethodDef *find_next_method(PyTypeObject *type)
{
    PyObject *method = PyDict_GetItemString(type->tp_dict, "__next__");
    PyMethodDef *found = NULL;

    if (method && Py_IS_TYPE(method, &PyMethodDescr_Type))
        found = ((PyMethodDescrObject *)method)->d_method;
    return found && (found->ml_flags & ~METH_COEXIST) == METH_NOARGS ? found : NULL;
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
        *row = (resumed_type){.type = type,
                              .next = type->tp_iternext,
                              .next_method = find_next_method(type),
                              .send = sspy_lupa_method(type, "send")};
        Py_INCREF(type);
        table_count++;
        if (row->next_method)
            row->former_next_method = row->next_method->ml_meth;
        if (row->send)
            row->former_send = row->send->ml_meth;
    }
    type->tp_iternext = next_value;
    if (row->next_method)
        row->next_method->ml_meth = next_method;
    if (row->send)
        row->send->ml_meth = (PyCFunction)(void (*)(void))send_value;
    return 0;
}

void sspy_lupa_unwatch_coroutines(void)
{
    for (int i = 0; i < table_count; i++) {
        if (table[i].type->tp_iternext == next_value)
            table[i].type->tp_iternext = table[i].next;
        if (table[i].next_method && table[i].next_method->ml_meth == next_method)
            table[i].next_method->ml_meth = table[i].former_next_method;
        if (table[i].send && table[i].send->ml_meth == (PyCFunction)(void (*)(void))send_value)
            table[i].send->ml_meth = table[i].former_send;
    }
}
