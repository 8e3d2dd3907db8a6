/*
 * Storms of equal exceptions: stacksplice/dedup.h for Python's handlers and hooks.
 */
#include "api/api.h"

#include <stacksplice/dedup.h>

static const char COUNTS_NAME[] = "stacksplice.counts";

static stacksplice_dedup *counts_of(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, COUNTS_NAME);
}

static void counts_free(PyObject *capsule)
{
    stacksplice_dedup_free(counts_of(capsule));
}

PyObject *sspy_new_counts(PyObject *Py_UNUSED(module), PyObject *milliseconds)
{
    stacksplice_dedup_options options = {.size = sizeof options};
    stacksplice_dedup *dedup;
    PyObject *capsule;

    options.window = (uint32_t)PyLong_AsUnsignedLong(milliseconds);
    if (PyErr_Occurred())
        return NULL;
    if (FAILED(stacksplice_dedup_new(&options, &dedup)))
        return PyErr_NoMemory();
    capsule = PyCapsule_New(dedup, COUNTS_NAME, counts_free);
    if (!capsule)
        stacksplice_dedup_free(dedup);
    return capsule;
}

PyObject *sspy_count(PyObject *module, PyObject *arguments)
{
    sspy_state *state = PyModule_GetState(module);
    IScriptErrorInfo *error = NULL;
    PyObject *capsule, *exc;
    stacksplice_dedup *dedup;
    HRESULT hr;

    if (!PyArg_ParseTuple(arguments, "OO:_count", &capsule, &exc))
        return NULL;
    if (!PyExceptionInstance_Check(exc))
        return PyErr_Format(PyExc_TypeError, "exc must be an exception, not %.200s",
                            Py_TYPE(exc)->tp_name);
    dedup = counts_of(capsule);
    if (!dedup || sspy_error_of_way(state, exc) || sspy_describe(state, exc, &error))
        return NULL;
    if (!error)
        Py_RETURN_FALSE; /* origination is switched off: there is nothing to count by */
    hr = stacksplice_dedup_add(dedup, (IUnknown *)error);
    sspy_release(state->interp, error);
    return PyBool_FromLong(hr == S_FALSE);
}

/* A stacksplice_write_callback: has DATA, a callable, take the line. */
static int hand_over(const char *line, size_t length, void *data)
{
    PyObject *text = sspy_text_from_utf8(line, length);
    PyObject *result = text ? PyObject_CallOneArg(data, text) : NULL;

    Py_XDECREF(text);
    Py_XDECREF(result);
    return !result;
}

PyObject *sspy_tell_counts(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    PyObject *capsule, *take;
    stacksplice_dedup *dedup;
    HRESULT hr;
    int all;

    if (!PyArg_ParseTuple(arguments, "OpO:_tell_counts", &capsule, &all, &take))
        return NULL;
    dedup = counts_of(capsule);
    if (!dedup)
        return NULL;
    hr = stacksplice_dedup_flush(dedup, all, hand_over, take);
    if (PyErr_Occurred())
        return NULL;
    if (FAILED(hr)) {
        PyErr_SetString(PyExc_TimeoutError, "another thread holds the counts of equal errors");
        return NULL;
    }
    Py_RETURN_NONE;
}
