/* Elements of stacks, and frames, as Python values. */
#include "api/api.h"

#include <stacksplice/debugger.h>
#include <string.h>

static PyObject *tuple_of(const uintptr_t *frames, uint32_t count)
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
PyObject *sspy_resolve(PyObject *Py_UNUSED(module), PyObject *address)
{
    unsigned long long value;
    PyObject *list;

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

PyObject *sspy_code_epoch(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing))
{
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
PyObject *sspy_frames_of(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    unsigned long long epoch;
    PyObject *addresses, *frames = NULL;
    new_frames made = {NULL, NULL};

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

typedef stacksplice_hresult (*resolver)(const char *, const char *, uint64_t,
                                        stacksplice_frame_callback, void *);

static PyObject *resolve_by(resolver resolve, PyObject *arguments)
{
    file_frames frames = {NULL, NULL};
    const char *path, *build_id;
    unsigned long long offset;
    HRESULT hr;

    if (!PyArg_ParseTuple(arguments, "yyyK", &path, &frames.module, &build_id, &offset) ||
        (frames.list = PyList_New(0)) == NULL)
        return NULL;
    hr = resolve(path, build_id, offset, add_file_frame, &frames);
    if (!PyErr_Occurred() && SUCCEEDED(hr))
        return frames.list;
    Py_DECREF(frames.list);
    return PyErr_Occurred() ? NULL : PyLong_FromUnsignedLong((uint32_t)hr);
}

/* (path, module, build-id, offset): the frames there as dicts, or the HRESULT why there are none.
 */
PyObject *sspy_resolve_file(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    return resolve_by(stacksplice_resolve_file, arguments);
}

/* The same without lines and inlined functions. */
PyObject *sspy_resolve_symbol(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    return resolve_by(stacksplice_resolve_symbol, arguments);
}

/* (module, function): whether reports hide a frame in the binary MODULE for its name and that of its
   FUNCTION, or None. */
PyObject *sspy_is_glue(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    stacksplice_frame frame = {
        .size = sizeof frame, .kind = STACKSPLICE_FRAME_NATIVE, .language = "native"};

    if (!PyArg_ParseTuple(arguments, "yz:_is_glue", &frame.module, &frame.function))
        return NULL;
    return PyBool_FromLong(stacksplice_frame_role(&frame) == STACKSPLICE_ROLE_GLUE);
}

/* ---- Captures ----------------------------------------------------------------------------------*/

/* The functions with which scripts capture a stack and limit its length. */

enum { MOST_FRAMES = 65535, MOST_SKIPPED = 1 << 24 /* deeper stacks than memory has room for */ };

/* Read a number of frames: None (the default) or an int that is not negative; at most MOST. */
static int count_from(PyObject *number, const char *argument, uint32_t fallback, uint32_t most,
                      uint32_t *count)
{
    long long value;
    int overflow;

    *count = fallback;
    if (!number || number == Py_None)
        return 0;
    if (!PyLong_Check(number)) {
        PyErr_Format(PyExc_TypeError, "%s must be int or None, not %.200s", argument,
                     Py_TYPE(number)->tp_name);
        return -1;
    }
    value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow < 0 || (!overflow && value < 0)) {
        PyErr_Format(PyExc_ValueError, "%s must not be negative", argument);
        return -1;
    }
    *count = overflow || value > most ? most : (uint32_t)value;
    return 0;
}

const char sspy_capture_doc[] =
    "capture(skip=0, limit=None, *, awaited_by=False)\n--\n\n"
    "Take one combined stack of this thread: native, Python and Lua frames in true order,\n"
    "newest first, beginning with the calling Python frame.\n\n"
    "skip leaves out that many of the newest elements; limit returns at most that many of the\n"
    "newest.  Without limit the stack is whole.  If it is longer than set_max_frames() allows, it\n"
    "keeps both ends, with a gap between them that counts the frames left out.\n"
    "With awaited_by, the suspended frames of the asyncio tasks that await the running task\n"
    "follow its own, those of each task after a gap \"" SSPY_AWAITED "\".\n\n"
    "Raises TypeError or ValueError when skip or limit is not a non-negative integer.";

/*
 * Capture into ROOM the newest elements, as many as SKIP and LIMIT ask for, and the oldest ones.  Few
 * stacks have more elements than MOST_FRAMES: only those get room for more.
 */
static int capture_whole(sspy_state *state, bool awaited_by, uint32_t skip, uint32_t limit,
                         sspy_room *room, uint32_t *count)
{
    uint32_t reach = skip < MOST_FRAMES ? skip : MOST_FRAMES;

    if (sspy_room_begin(room, reach + limit))
        return -1;
    *count = sspy_capture(NULL, 2 * room->limit + 2, room->frames);
    if (reach < skip && *count == 2 * room->limit + 2) {
        sspy_room_end(room);
        if (sspy_room_begin(room, skip + limit))
            return -1;
        *count = sspy_capture(NULL, 2 * room->limit + 2, room->frames);
    }
    if (!awaited_by || !sspy_awaited_by(state, room->limit, room->frames, count))
        return 0;
    sspy_room_end(room);
    return -1;
}

PyObject *sspy_capture_function(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"skip", "limit", "awaited_by", NULL};
    sspy_state *state = PyModule_GetState(module);
    PyObject *skip_object = NULL, *limit_object = NULL, *tuple;
    uint32_t skip, limit, count, max = stacksplice_max_frames();
    int awaited_by = 0;
    sspy_room room;

    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|OO$p:capture", names, &skip_object,
                                     &limit_object, &awaited_by) ||
        count_from(skip_object, "skip", 0, MOST_SKIPPED, &skip) ||
        count_from(limit_object, "limit", max, MOST_FRAMES, &limit) ||
        capture_whole(state, awaited_by, skip, limit, &room, &count))
        return NULL;
    skip = skip < count ? skip : count;
    count -= skip;
    if (!limit_object || limit_object == Py_None)
        count = stacksplice_copy_ends(room.frames + skip, count, max, room.frames + skip);
    tuple = tuple_of(room.frames + skip, count < limit ? count : limit);
    sspy_room_end(&room);
    if (tuple && state->wrap_stack)
        Py_SETREF(tuple, PyObject_CallOneArg(state->wrap_stack, tuple));
    return tuple;
}

PyObject *sspy_frames_left_out(PyObject *Py_UNUSED(module), PyObject *addresses)
{
    unsigned long long sum = 0;

    if (!PyTuple_Check(addresses))
        return PyErr_Format(PyExc_TypeError, "addresses must be a tuple, not %.200s",
                            Py_TYPE(addresses)->tp_name);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(addresses); i++) {
        uintptr_t element = PyLong_AsUnsignedLongLongMask(PyTuple_GET_ITEM(addresses, i));

        if (element == (uintptr_t)-1 && PyErr_Occurred())
            return NULL;
        sum += stacksplice_frames_left_out(&element, 1);
    }
    return PyLong_FromUnsignedLongLong(sum);
}

const char sspy_set_max_frames_doc[] =
    "set_max_frames(max_frames, /)\n--\n\n"
    "Set how many elements the stack of an error, a propagation node or capture() may have, for\n"
    "the whole process; the default is 512.  A longer stack keeps both ends, with a gap between\n"
    "them that counts the frames left out.  Returns the previous number.\n\n"
    "Raises TypeError when max_frames is not an int, ValueError when it is not in 1 to 65535.";

PyObject *sspy_set_max_frames(PyObject *Py_UNUSED(module), PyObject *number)
{
    uint32_t before = stacksplice_max_frames();
    int overflow = 0;
    long value;

    if (!PyLong_Check(number))
        return PyErr_Format(PyExc_TypeError, "max_frames must be int, not %.200s",
                            Py_TYPE(number)->tp_name);
    value = PyLong_AsLongAndOverflow(number, &overflow);
    if (overflow || value < 1 || value > MOST_FRAMES)
        return PyErr_Format(PyExc_ValueError, "max_frames must be in 1 to %d", MOST_FRAMES);
    (void)stacksplice_set_max_frames((uint32_t)value);
    return PyLong_FromUnsignedLong(before);
}
