/* What extension modules of tests tell Python of a stack. */
#ifndef FRAME_LISTS_H
#define FRAME_LISTS_H

#include <Python.h>

#include <stacksplice/stacksplice.h>
#include <stdlib.h>

/* (language or "gap", function or reason, file, line) */
static int add_frame(const stacksplice_frame *frame, void *data)
{
    const char *what = frame->kind == STACKSPLICE_FRAME_GAP ? "gap" : frame->language;
    const char *function = frame->kind == STACKSPLICE_FRAME_GAP ? frame->reason : frame->function;
    PyObject *item = Py_BuildValue("(zzzI)", what, function, frame->file, (unsigned)frame->line);

    if (!item || PyList_Append(data, item) != 0)
        abort();
    Py_DECREF(item);
    return 0;
}

/* Append what ADDRESS stands for; looking it up takes longest by far, so that is kept. */
static void add_frames(PyObject *stack, uintptr_t address)
{
    static PyObject *known;
    PyObject *key = PyLong_FromUnsignedLongLong(address), *frames;

    if (!known)
        known = PyDict_New();
    if (!key || !known)
        abort();
    frames = PyDict_GetItem(known, key);
    if (!frames) {
        frames = PyList_New(0);
        (void)stacksplice_resolve(address, add_frame, frames);
        if (PyDict_SetItem(known, key, frames) != 0)
            abort();
        Py_DECREF(frames);
    }
    (void)PyList_SetSlice(stack, PyList_GET_SIZE(stack), PyList_GET_SIZE(stack), frames);
    Py_DECREF(key);
}

#endif
