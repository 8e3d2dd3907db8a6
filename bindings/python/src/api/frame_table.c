/* Elements of stacks, and frames, as Python values. */
#include "api/visit.h"
#include "life/text.h"

#include <stacksplice/debugger.h>

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

static int add_frame(const stacksplice_frame *frame, void *data)
{
    sspy_builder builder = sspy_new_builder(NULL);
    HRESULT hr = stacksplice_frame_visit(frame, NULL, &builder.visitor);

    return sspy_append_new(data, sspy_end_builder(&builder, hr));
}

const char sspy_resolve_doc[] =
    "resolve(address, /)\n--\n\n"
    "The frames an element of a stack stands for, as dicts of the fields of\n"
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

PyObject *sspy_code_epoch(PyObject *module, PyObject *nothing)
{
    (void)module, (void)nothing;
    return PyLong_FromUnsignedLongLong(stacksplice_code_epoch());
}

/* (address, epoch): the element that stands for ADDRESS of a stack of EPOCH now. */
PyObject *sspy_settle(PyObject *module, PyObject *arguments)
{
    unsigned long long address, epoch;
    uintptr_t element;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "KK:_settle", &address, &epoch))
        return NULL;
    element = (uintptr_t)address;
    (void)stacksplice_settle(&element, 1, epoch);
    return PyLong_FromUnsignedLongLong(element);
}

typedef struct file_frames {
    const char *module; /* where the binary was when the frame was captured */
    PyObject *list;
} file_frames;

static int add_file_frame(const stacksplice_frame *frame, void *data)
{
    const file_frames *frames = data;
    stacksplice_frame there = *frame;

    there.module = frames->module;
    return add_frame(&there, frames->list);
}

/* (path, module, build-id, offset): the frames there as dicts, or the HRESULT why there are none.
 */
PyObject *sspy_resolve_file(PyObject *module, PyObject *arguments)
{
    file_frames frames = {NULL, NULL};
    const char *path, *build_id;
    unsigned long long offset;
    HRESULT hr;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "yyyK:_resolve_file", &path, &frames.module, &build_id,
                          &offset) ||
        (frames.list = PyList_New(0)) == NULL)
        return NULL;
    hr = stacksplice_resolve_file(path, build_id, offset, add_file_frame, &frames);
    if (!PyErr_Occurred() && SUCCEEDED(hr))
        return frames.list;
    Py_DECREF(frames.list);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLong((uint32_t)hr);
}

/* (module, function): whether reports hide a frame in the binary MODULE for its name and that of its
   FUNCTION, or None. */
PyObject *sspy_is_glue(PyObject *module, PyObject *arguments)
{
    stacksplice_frame frame = {
        .size = sizeof frame, .kind = STACKSPLICE_FRAME_NATIVE, .language = "native"};

    (void)module;
    if (!PyArg_ParseTuple(arguments, "yz:_is_glue", &frame.module, &frame.function))
        return NULL;
    return PyBool_FromLong(stacksplice_frame_role(&frame) == STACKSPLICE_ROLE_GLUE);
}
