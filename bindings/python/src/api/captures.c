/* The functions with which scripts capture a stack and limit its length. */
#include "api/api.h"

enum { MOST_FRAMES = 65535 };

/* Read a number of frames: None (the default) or an int that is not negative. */
static int count_from(PyObject *number, const char *argument, uint32_t fallback, uint32_t *count)
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
    *count = overflow || value > MOST_FRAMES ? MOST_FRAMES : (uint32_t)value;
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
    "follow, those of each task after a gap \"" SSPY_AWAITED "\".\n\n"
    "Raises TypeError or ValueError when skip or limit is not a non-negative integer.";

/* FRAMES holds the newest elements, as many as SKIP and LIMIT ask for, and the oldest ones. */
static int capture_whole(sspy_state *state, bool awaited_by, sspy_room *room, uint32_t *count)
{
    *count = sspy_capture(NULL, 2 * room->limit + 2, room->frames);
    return awaited_by ? sspy_awaited_by(state, room->limit, room->frames, count) : 0;
}

PyObject *sspy_capture_function(PyObject *module, PyObject *arguments, PyObject *keywords)
{
    static char *names[] = {"skip", "limit", "awaited_by", NULL};
    sspy_state *state = PyModule_GetState(module);
    PyObject *skip_object = NULL, *limit_object = NULL, *tuple = NULL;
    uint32_t skip, limit, count, max = stacksplice_max_frames();
    int awaited_by = 0;
    sspy_room room;

    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "|OO$p:capture", names, &skip_object,
                                     &limit_object, &awaited_by) ||
        count_from(skip_object, "skip", 0, &skip) ||
        count_from(limit_object, "limit", max, &limit) || sspy_room_begin(&room, skip + limit))
        return NULL;
    if (!capture_whole(state, awaited_by, &room, &count)) {
        skip = skip < count ? skip : count;
        count -= skip;
        if (!limit_object || limit_object == Py_None)
            count = stacksplice_copy_ends(room.frames + skip, count, max, room.frames + skip);
        tuple = sspy_tuple_of(room.frames + skip, count < limit ? count : limit);
    }
    sspy_room_end(&room);
    if (tuple && state->wrap_stack)
        Py_SETREF(tuple, PyObject_CallOneArg(state->wrap_stack, tuple));
    return tuple;
}

PyObject *sspy_frames_left_out(PyObject *module, PyObject *addresses)
{
    unsigned long long sum = 0;

    (void)module;
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

PyObject *sspy_set_max_frames(PyObject *module, PyObject *number)
{
    uint32_t before = stacksplice_max_frames();
    int overflow = 0;
    long value;

    (void)module;
    if (!PyLong_Check(number))
        return PyErr_Format(PyExc_TypeError, "max_frames must be int, not %.200s",
                            Py_TYPE(number)->tp_name);
    value = PyLong_AsLongAndOverflow(number, &overflow);
    if (overflow || value < 1 || value > MOST_FRAMES)
        return PyErr_Format(PyExc_ValueError, "max_frames must be in 1 to %d", MOST_FRAMES);
    (void)stacksplice_set_max_frames((uint32_t)value);
    return PyLong_FromUnsignedLong(before);
}
