/*
 * Frame objects for frames of other languages: their globals mark them, and hold their stack
 * element.
 */
#include "stack/stack.h"

#define ELEMENT_KEY "__stacksplice__"
#define ELEMENT_NAME "stacksplice.element"

/* The address 1 is no element: it stands for a function that was inlined into the next one. */
static void *const inlined_part = (void *)1;

bool sspy_foreign_frame(PyFrameObject *frame, uintptr_t *element)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    bool other = !sspy_may_be_foreign(code);
    PyObject *globals, *capsule;
    void *found = NULL;

    Py_DECREF(code);
    if (other)
        return false;
    globals = PyFrame_GetGlobals(frame);
    capsule = PyDict_GetItemString(globals, ELEMENT_KEY);
    if (capsule && PyCapsule_IsValid(capsule, ELEMENT_NAME))
        found = PyCapsule_GetPointer(capsule, ELEMENT_NAME);
    Py_DECREF(globals);
    if (element)
        *element = found == inlined_part ? 0 : (uintptr_t)found;
    return found != NULL;
}

static int set_item(PyObject *dict, const char *key, PyObject *value)
{
    int failed = !value || PyDict_SetItemString(dict, key, value);

    Py_XDECREF(value);
    return failed;
}

PyObject *sspy_foreign_globals(const stacksplice_frame *frame, PyObject *file)
{
    void *element = frame->inlined ? inlined_part : (void *)frame->address;
    PyObject *globals = PyDict_New();

    if (globals && (set_item(globals, "__name__", PyUnicode_FromString(frame->language)) ||
                    (file && set_item(globals, "__file__", Py_NewRef(file))) ||
                    set_item(globals, ELEMENT_KEY, PyCapsule_New(element, ELEMENT_NAME, NULL))))
        Py_CLEAR(globals);
    return globals;
}
