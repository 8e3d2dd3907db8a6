/*
 * The tasks that await the running one.  Suspended coroutines are on no native stack.  The Python
 * file _awaiting.py finds them in asyncio's own records; this file makes tokens of them.
 *
 * Outside of asyncio an error costs one lookup in sys.modules; while a loop runs in its thread, a
 * search.
 */
#include "stack/stack.h"

/* The token of ITEM.  A str is the reason of a gap; a tuple of a str that of a seam; a tuple of a
   code object and a number a place.  0 with an exception. */
static uintptr_t token_of(PyObject *item)
{
    PyObject *first = PyTuple_Check(item) ? PyTuple_GetItem(item, 0) : NULL;
    const char *reason;
    PyObject *code;
    int lasti;

    if (!first || PyUnicode_Check(first)) {
        reason = PyUnicode_AsUTF8(first ? first : item);
        if (!reason)
            return 0;
        return first ? sspy_seam_gap(reason) : sspy_gap(reason);
    }
    if (!PyArg_ParseTuple(item, "O!i", &PyCode_Type, &code, &lasti))
        return 0;
    return sspy_token_known((PyCodeObject *)code, lasti, 0, STACKSPLICE_TRUST_EXACT);
}

static int append_awaiting(uint32_t max, uintptr_t *frames, uint32_t *count)
{
    PyObject *module = PyImport_ImportModule("stacksplice._errors.awaiting");
    PyObject *list = module ? PyObject_CallMethod(module, "awaited_by", NULL) : NULL;
    PyObject *items = list ? PySequence_Fast(list, "awaited_by() must return a list") : NULL;
    Py_ssize_t size = items ? PySequence_Fast_GET_SIZE(items) : 0;
    Py_ssize_t left_out = size > max ? size - max : 0;
    int result = items ? 0 : -1;

    for (Py_ssize_t i = 0; !result && i < size; i++) {
        if (left_out && i == max / 2) {
            frames[(*count)++] = stacksplice_left_out((uint32_t)left_out);
            i += left_out;
        }
        frames[*count] = token_of(PySequence_Fast_GET_ITEM(items, i));
        *count += frames[*count] != 0;
        result = PyErr_Occurred() ? -1 : 0;
    }
    Py_XDECREF(items);
    Py_XDECREF(list);
    Py_XDECREF(module);
    return result;
}

int sspy_loop_runs(sspy_state *state)
{
    PyObject *events, *loop;

    if (!Py_IsInitialized()) /* or is finalized: it has no loop then, and at its end no modules */
        return 0;
    events = PyImport_GetModule(state->asyncio_key);
    if (!events)
        return PyErr_Occurred() ? -1 : 0;
    loop = PyObject_CallMethodNoArgs(events, state->running_loop_key);
    Py_DECREF(events);
    Py_XDECREF(loop);
    return loop ? loop != Py_None : -1;
}

int sspy_awaited_by(sspy_state *state, uint32_t max, uintptr_t *frames, uint32_t *count)
{
    PyThreadState *thread = PyThreadState_Get();
    int result = sspy_loop_runs(state);

    if (result <= 0)
        return result;
    /* Hide the code that we run here from tracers, profilers and sys.monitoring. */
    PyThreadState_EnterTracing(thread);
    result = append_awaiting(max, frames, count);
    PyThreadState_LeaveTracing(thread);
    return result;
}

void sspy_clear_but_interrupts(void)
{
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        PyErr_SetInterrupt(); /* raise it again when we are done */
    PyErr_Clear();
}

void sspy_append_awaiting(sspy_state *state, sspy_room *room, uint32_t *count)
{
    if (sspy_awaited_by(state, room->limit, room->frames, count) == 0)
        return;
    sspy_clear_but_interrupts();
    room->frames[(*count)++] = sspy_gap("awaiting task unknown: the search failed");
}
