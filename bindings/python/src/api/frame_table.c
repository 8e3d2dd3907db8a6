/* Elements of stacks, and frames, as Python values. */
#include "api/visit.h"
#include "life/text.h"

#include <string.h>

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

/* ---- Frames of a stack -----------------------------------------------------------------------*/

/* The arguments of stacksplice.Frame. */
static const char *const arguments_of_frame[] = {
    "kind",         "language",      "function",        "file",
    "line",         "end_line",      "column",          "end_column",
    "module",       "module_offset", "build_id",        "trust",
    "inlined",      "reason",        "interpreter",     "address",
    "asynchronous", "glue",          "function_offset", "calls"};
enum { ARGUMENTS = sizeof arguments_of_frame / sizeof *arguments_of_frame };

typedef struct new_frames {
    PyObject *type, *list;
} new_frames;

/* What a member is that the walk leaves out. */
static PyObject *default_of(const char *name)
{
    bool is_flag =
        !strcmp(name, "inlined") || !strcmp(name, "asynchronous") || !strcmp(name, "glue");

    return Py_NewRef(is_flag ? Py_False : Py_None);
}

static int add_new_frame(const stacksplice_frame *frame, void *data)
{
    const new_frames *made = data;
    PyObject *row[ARGUMENTS] = {NULL}, *object = NULL;
    sspy_builder builder = sspy_new_builder(NULL);
    HRESULT hr;

    builder.row = row;
    builder.names = arguments_of_frame;
    builder.name_count = ARGUMENTS;
    hr = stacksplice_frame_visit(frame, NULL, &builder.visitor);
    for (unsigned i = 0; i < ARGUMENTS; i++)
        if (!row[i])
            row[i] = default_of(arguments_of_frame[i]);
    if (hr == S_OK)
        object = PyObject_Vectorcall(made->type, row, ARGUMENTS, NULL);
    for (unsigned i = 0; i < ARGUMENTS; i++)
        Py_DECREF(row[i]);
    return sspy_append_new(made->list, object);
}

/* (addresses, epoch, Frame): the frames that a stack of EPOCH stands for now, as a tuple. */
PyObject *sspy_frames_of(PyObject *module, PyObject *arguments)
{
    unsigned long long epoch;
    PyObject *addresses, *frames = NULL;
    new_frames made = {NULL, NULL};

    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!KO:_frames_of", &PyTuple_Type, &addresses, &epoch,
                          &made.type) ||
        (made.list = PyList_New(0)) == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(addresses) && !PyErr_Occurred(); i++) {
        unsigned long long address = PyLong_AsUnsignedLongLong(PyTuple_GET_ITEM(addresses, i));
        uintptr_t element = (uintptr_t)address;

        if (address == (unsigned long long)-1 && PyErr_Occurred())
            break;
        (void)stacksplice_settle(&element, 1, epoch);
        if (FAILED(stacksplice_resolve(element, add_new_frame, &made)))
            PyErr_NoMemory();
    }
    if (!PyErr_Occurred())
        frames = PyList_AsTuple(made.list);
    Py_DECREF(made.list);
    return frames;
}

/* ---- Frames in files -------------------------------------------------------------------------*/

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
