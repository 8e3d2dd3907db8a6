/*
 * The language exception of a Python exception: the values that the core's object gets from it.
 */
#include "life/text.h"
#include "value/parts.h"

#include <string.h>

PyObject *sspy_group_members(PyObject *exc)
{
    PyObject *members;

    if (!PyObject_TypeCheck(exc, (PyTypeObject *)PyExc_BaseExceptionGroup))
        return NULL;
    members = ((PyBaseExceptionGroupObject *)exc)->excs;
    return members && PyTuple_Check(members) ? members : NULL;
}

static PyObject *message_of(PyObject *object)
{
    const char *name = Py_TYPE(object)->tp_name, *dot;
    PyObject *text = PyObject_Str(object);

    if (text || PyErr_ExceptionMatches(PyExc_MemoryError))
        return text;
    PyErr_Clear(); /* an exception whose message fails is still an exception */
    dot = strrchr(name, '.');
    return PyUnicode_FromFormat("<unprintable %s object>", dot ? dot + 1 : name);
}

/* Convert NOTES, a list of bytes, for the core (PyMem); NULL with a MemoryError. */
static stacksplice_told_text *lend_notes(PyObject *notes)
{
    Py_ssize_t count = PyList_GET_SIZE(notes);
    stacksplice_told_text *lent = PyMem_New(stacksplice_told_text, (size_t)count + 1);

    if (!lent)
        PyErr_NoMemory();
    for (Py_ssize_t i = 0; lent && i < count; i++) {
        PyObject *note = PyList_GET_ITEM(notes, i);

        lent[i] = (stacksplice_told_text){PyBytes_AS_STRING(note), (size_t)PyBytes_GET_SIZE(note)};
    }
    return lent;
}

/* What we ask of the exception; lends its texts to the core's object. */
typedef struct asked {
    sspy_type_names types;
    PyObject *message; /* bytes, or a str that is ASCII */
    PyObject *notes;   /* list of bytes, or NULL */
    stacksplice_told_text *lent_notes;
} asked;

/* Returns -1 with an exception.  Call the end in any case. */
static int ask(asked *a, sspy_state *state, PyObject *exc)
{
    if (sspy_type_names_begin(&a->types, Py_TYPE(exc)))
        return -1;
    a->message = message_of(exc);
    if (a->message && !PyUnicode_IS_COMPACT_ASCII(a->message))
        Py_SETREF(a->message, sspy_utf8_from_text(a->message));
    if (!a->message)
        return -1;
    a->notes = sspy_notes_of(state, exc);
    if (a->notes)
        a->lent_notes = lend_notes(a->notes);
    return PyErr_Occurred() ? -1 : 0;
}

static void end_asking(asked *a)
{
    sspy_type_names_end(&a->types);
    PyMem_Free(a->lent_notes);
    Py_XDECREF(a->message);
    Py_XDECREF(a->notes);
}

static void lend_message(PyObject *message, stacksplice_exception_parts *parts)
{
    if (PyUnicode_Check(message)) {
        parts->message = (const char *)PyUnicode_DATA(message);
        parts->message_length = (size_t)PyUnicode_GET_LENGTH(message);
    } else {
        parts->message = PyBytes_AS_STRING(message);
        parts->message_length = (size_t)PyBytes_GET_SIZE(message);
    }
}

stacksplice_exception *sspy_exception_new(sspy_state *state, PyObject *exc, HRESULT hr,
                                          const uintptr_t *frames, uint32_t frame_count,
                                          const sspy_related *related)
{
    stacksplice_exception_parts parts = {.size = sizeof parts,
                                         .hresult = hr,
                                         .frames = frames,
                                         .frame_count = frame_count,
                                         .group = related->is_group,
                                         .members = related->members,
                                         .member_count = related->member_count,
                                         .members_left_out = related->members_left_out};
    stacksplice_exception *x = NULL;
    asked a = {.message = NULL};

    if (!ask(&a, state, exc)) {
        parts.interrupt = !PyObject_TypeCheck(exc, (PyTypeObject *)PyExc_Exception);
        parts.types = a.types.names;
        parts.type_count = a.types.count;
        lend_message(a.message, &parts);
        parts.notes = a.lent_notes;
        parts.note_count = a.notes ? (uint32_t)PyList_GET_SIZE(a.notes) : 0;
        x = stacksplice_exception_new(state->interp->owner, &parts);
        if (!x)
            PyErr_NoMemory();
    }
    end_asking(&a);
    if (x)
        stacksplice_exception_set_cause(x, related->cause, related->relation,
                                        related->causes_left_out);
    return x;
}
