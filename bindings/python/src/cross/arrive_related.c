/*
 * HRESULT -> Python, of an error that was not born here: what belongs to its exception.  Its causes
 * and members arrive as it does: the same object where they were born here, else HResultErrors.
 */
#include "life/binding.h"

/* The exception that stands for ERROR, which is released. */
static PyObject *object_of(sspy_state *state, IRestrictedErrorInfo *error)
{
    PyObject *exc = sspy_object_for(state, error);
    sspy_section section = sspy_enter(state->interp);

    sspy_unknown_release(error);
    sspy_leave(section);
    return exc;
}

/* ---- Groups -----------------------------------------------------------------------------------*/

static PyObject *member_objects(sspy_state *state, IUnknown *error, uint32_t members)
{
    PyObject *list = PyList_New(0);

    for (uint32_t i = 0; list && i < members; i++) {
        IRestrictedErrorInfo *member = NULL;
        PyObject *exc;

        if (stacksplice_error_member(error, i, &member) != S_OK)
            break;
        exc = object_of(state, member);
        if (!exc || PyList_Append(list, exc))
            Py_CLEAR(list);
        Py_XDECREF(exc);
    }
    return list;
}

PyObject *sspy_foreign_group(sspy_state *state, IUnknown *error, HRESULT hr, PyObject *message)
{
    PyObject *list, *exc = NULL;
    uint32_t members = 0;

    if (!state->group_error || stacksplice_error_group(error, &members, NULL) != S_OK || !members)
        return NULL;
    list = member_objects(state, error, members);
    if (list)
        exc = PyObject_CallFunction(state->group_error, "iOO", (int)hr, message, list);
    Py_XDECREF(list);
    /* A group of Exceptions holds no KeyboardInterrupt of ours: that one arrives as a single error.
     */
    if (!exc && PyErr_ExceptionMatches(PyExc_TypeError))
        PyErr_Clear();
    return exc;
}

/* ---- Cause and notes --------------------------------------------------------------------------*/

static int set_cause(sspy_state *state, PyObject *exc, IUnknown *error)
{
    IRestrictedErrorInfo *cause = NULL;
    stacksplice_relation relation = STACKSPLICE_RELATION_NONE;
    PyObject *object;

    if (stacksplice_error_cause(error, &cause, &relation) != S_OK)
        return 0;
    object = object_of(state, cause);
    if (!object)
        return -1;
    if (relation == STACKSPLICE_RELATION_CONTEXT)
        PyException_SetContext(exc, object); /* takes the reference */
    else
        PyException_SetCause(exc, object); /* the same; a context is hidden then */
    return 0;
}

static int append_note(const char *text, size_t length, void *data)
{
    PyObject *note = sspy_text_from_utf8(text, length);
    int failed = note ? PyList_Append(data, note) : -1;

    Py_XDECREF(note);
    return failed;
}

static int add_notes(PyObject *exc, IUnknown *error)
{
    PyObject *notes = PyList_New(0);
    int failed = !notes || stacksplice_error_notes(error, append_note, notes) != S_OK ? -1 : 0;

    if (failed && !PyErr_Occurred())
        PyErr_NoMemory(); /* the core's */
    for (Py_ssize_t i = 0; !failed && i < PyList_GET_SIZE(notes); i++) {
        PyObject *done = PyObject_CallMethod(exc, "add_note", "O", PyList_GET_ITEM(notes, i));

        failed = done ? 0 : -1;
        Py_XDECREF(done);
    }
    Py_XDECREF(notes);
    return failed;
}

int sspy_arrive(sspy_state *state, PyObject *exc, IUnknown *error)
{
    return set_cause(state, exc, error) || add_notes(exc, error) ? -1 : 0;
}
