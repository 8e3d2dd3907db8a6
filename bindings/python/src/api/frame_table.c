/* Elements of stacks and frames as values of Python. */
#include "api/api.h"
#include "life/text.h"

#include <string.h>

PyObject *sspy_tuple_of(const uintptr_t *frames, uint32_t count)
{
    PyObject *tuple = PyTuple_New(count);

    for (uint32_t i = 0; tuple && i < count; i++) {
        PyObject *frame = PyLong_FromUnsignedLongLong(frames[i]);

        if (!frame)
            Py_CLEAR(tuple);
        else
            PyTuple_SET_ITEM(tuple, i, frame);
    }
    return tuple;
}

static PyObject *number_or_none(uint32_t number)
{
    return number ? PyLong_FromUnsignedLong(number) : Py_NewRef(Py_None);
}

static int add_frame(const stacksplice_frame *frame, void *data)
{
    static const char *const kinds[] = {"native", "script", "gap"};
    static const char *const trusts[] = {"exact", "inferred", "traceback"};
    PyObject *list = data;
    PyObject *item = Py_BuildValue(
        "(ssNNNNNNNNNNONNKOON)", kinds[frame->kind - STACKSPLICE_FRAME_NATIVE],
        frame->language ? frame->language : "native", sspy_text_or_none(frame->function),
        sspy_text_or_none(frame->file), number_or_none(frame->line),
        number_or_none(frame->end_line), number_or_none(frame->column),
        number_or_none(frame->end_column), sspy_text_or_none(frame->module),
        frame->module ? PyLong_FromUnsignedLongLong(frame->module_offset) : Py_NewRef(Py_None),
        sspy_text_or_none(frame->build_id),
        sspy_text_or_none(trusts[frame->trust - STACKSPLICE_TRUST_EXACT]),
        frame->inlined ? Py_True : Py_False, sspy_text_or_none(frame->reason),
        sspy_text_or_none(frame->interpreter), (unsigned long long)frame->address,
        frame->asynchronous ? Py_True : Py_False,
        stacksplice_frame_role(frame) == STACKSPLICE_ROLE_GLUE ? Py_True : Py_False,
        frame->function_offset ? PyLong_FromUnsignedLongLong(frame->function_offset)
                               : Py_NewRef(Py_None));

    return sspy_append_new(list, item);
}

const char sspy_resolve_doc[] =
    "resolve(address, /)\n--\n\n"
    "The frames an element of a stack stands for, as tuples of the fields of\n"
    "stacksplice.Frame; several where functions were inlined.";
PyObject *sspy_resolve(PyObject *module, PyObject *address)
{
    unsigned long long value;
    PyObject *list;

    (void)module;
    if (!PyLong_Check(address))
        return PyErr_Format(PyExc_TypeError, "address must be int, not %.200s",
                            Py_TYPE(address)->tp_name);
    value = PyLong_AsUnsignedLongLong(address);
    if (value == (unsigned long long)-1 && PyErr_Occurred()) {
        PyErr_SetString(PyExc_OverflowError, "address must fit in 64 bits and not be negative");
        return NULL;
    }
    list = PyList_New(0);
    if (list && FAILED(stacksplice_resolve((uintptr_t)value, add_frame, list)))
        PyErr_NoMemory();
    if (PyErr_Occurred())
        Py_CLEAR(list);
    return list;
}
