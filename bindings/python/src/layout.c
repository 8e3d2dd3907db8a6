/*
 * Frame layouts by version, and the check that the row is true.
 *
 * 3.11 and 3.12 get security fixes only, so their layout is frozen and stands here.  From 3.13 on
 * the interpreter describes itself in a table of its own (_Py_DebugOffsets); the order of that
 * table's words is what a row holds.  Public structures (code objects) come from the headers we
 * are compiled with, which is why the versions must agree.
 */
#include "layout.h"
#include "positions.h"

#include <stdio.h>
#include <string.h>

sspy_layout sspy_layout_now;
static char reason[160] = "python frames unavailable: the interpreter was not examined yet";
static bool usable;

/* _PyRuntime, as bytes: only its self-description is read.  A host may not export it. */
extern const char runtime_start[] __asm__("_PyRuntime") __attribute__((weak));

typedef struct layout_row {
    uint16_t version; /* 0x030B: 3.11 */
    sspy_layout fixed;
    /* Words of each group of the table before the one for frames; 0: no table in this version. */
    uint8_t runtime_words, interpreter_words, thread_words, between_words;
    uint8_t lock_word; /* in the interpreter's group */
    uintptr_t code_mask;
} layout_row;

static const layout_row rows[] = {
    {0x030B, {true, true, 56, 8, 16, 32, 48, 56, 69, 68, ~(uintptr_t)0, 0}, 0, 0, 0, 0, 0, 0},
    {0x030C, {true, false, 56, 0, 8, 0, 8, 56, 70, 0, ~(uintptr_t)0, 0}, 0, 0, 0, 0, 0, 0},
    {0x030D, {0}, 3, 13, 9, 0, 8, ~(uintptr_t)7},
    {0x030E, {0}, 3, 16, 9, 0, 9, ~(uintptr_t)7},
    {0x030F, {0}, 3, 16, 16, 1, 9, ~(uintptr_t)7},
};

const char *sspy_layout_reason(void)
{
    return usable ? NULL : reason;
}

static void refuse(const char *why)
{
    usable = false;
    snprintf(reason, sizeof reason, "python frames unavailable: %s (CPython %lu.%lu.%lu)", why,
             Py_Version >> 24, Py_Version >> 16 & 0xff, Py_Version >> 8 & 0xff);
}

/* The interpreter's description of itself: "xdebugpy", version, free-threading, then the groups. */
static const char *read_offsets(const layout_row *row)
{
    const uint64_t *words = (const uint64_t *)(const void *)runtime_start;
    const uint64_t *interpreter, *thread, *frame;

    if (!runtime_start)
        return "it does not export _PyRuntime";
    if (memcmp(runtime_start, "xdebugpy", 8) != 0 || words[1] >> 16 != Py_Version >> 16)
        return "its table of offsets is of another version";
    if (words[2])
        return "it is free-threaded";
    interpreter = words + 3 + row->runtime_words;
    thread = interpreter + row->interpreter_words;
    frame = thread + row->thread_words + row->between_words;
    sspy_layout_now.cframe = false;
    sspy_layout_now.head = (uint32_t)thread[4];
    sspy_layout_now.frame_previous = (uint32_t)frame[1];
    sspy_layout_now.frame_code = (uint32_t)frame[2];
    sspy_layout_now.frame_instruction = (uint32_t)frame[3];
    sspy_layout_now.frame_owner = (uint32_t)frame[5];
    sspy_layout_now.code_mask = row->code_mask;
    sspy_layout_now.interpreter_lock = (uint32_t)interpreter[row->lock_word];
    /* Offsets that cannot be are never followed. */
    if (interpreter[row->lock_word] >= interpreter[0] || thread[4] >= thread[0] ||
        frame[0] > 1024 || frame[1] >= frame[0] || frame[2] >= frame[0] || frame[3] >= frame[0] ||
        frame[5] >= frame[0])
        return "its table of offsets cannot be read";
    return NULL;
}

static const char *choose_row(void)
{
    uint16_t version = (uint16_t)(Py_Version >> 16);
    size_t i = 0;

#ifdef Py_GIL_DISABLED
    return "it is free-threaded";
#endif
    if (version != (uint16_t)(PY_VERSION_HEX >> 16))
        return "the extension was built for another version";
    while (i < SSPY_COUNT_OF(rows) && rows[i].version != version)
        i++;
    if (i == SSPY_COUNT_OF(rows))
        return "its version is not known";
    if (rows[i].runtime_words)
        return read_offsets(&rows[i]);
    sspy_layout_now = rows[i].fixed;
    return NULL;
}

/* ---- Reading a frame --------------------------------------------------------------------------*/

PyCodeObject *sspy_frame_code(uintptr_t frame)
{
    PyCodeObject *code;
    unsigned owner = sspy_frame_owner(frame);
    uintptr_t start;

    if (owner >= SSPY_FRAME_OF_C)
        return NULL;
    code =
        (PyCodeObject *)(sspy_word(frame, sspy_layout_now.frame_code) & sspy_layout_now.code_mask);
    if (!code || !PyCode_Check(code))
        return NULL;
    start = (uintptr_t)code + offsetof(PyCodeObject, co_code_adaptive);
    if (owner != SSPY_FRAME_GENERATOR &&
        sspy_word(frame, sspy_layout_now.frame_instruction) <
            start + (uintptr_t)code->_co_firsttraceable * SSPY_CODE_UNIT)
        return NULL;
    return code;
}

int sspy_frame_lasti(uintptr_t frame, const PyCodeObject *code)
{
    return (int)(sspy_word(frame, sspy_layout_now.frame_instruction) - (uintptr_t)code -
                 offsetof(PyCodeObject, co_code_adaptive));
}

uintptr_t sspy_frame_current(PyThreadState *thread_state)
{
    uintptr_t head = sspy_word((uintptr_t)thread_state, sspy_layout_now.head);

    return head && sspy_layout_now.cframe ? sspy_word(head, sspy_layout_now.cframe_current) : head;
}

/* struct _frame has begun with the object head, f_back and f_frame since 3.11. */
uintptr_t sspy_frame_data(PyFrameObject *frame)
{
    return sspy_word((uintptr_t)frame, sizeof(PyObject) + sizeof(void *));
}

/* ---- The check --------------------------------------------------------------------------------*/

/* The stack of the function that started the check, and what the check found. */
typedef struct check_result {
    uintptr_t outer;
    bool ran, equal;
} check_result;

/* The table of locations of a code object that this interpreter compiled is read as it reads it. */
static bool position_is_equal(PyCodeObject *code, int lasti)
{
    sspy_position found = sspy_position_of(code, lasti);
    int line = 0, column = 0, end_line = 0, end_column = 0;

    return PyCode_Addr2Location(code, lasti, &line, &column, &end_line, &end_column) &&
           (int)found.line == line && (int)found.end_line == end_line &&
           (int)found.column == column + 1 && (int)found.end_column == end_column + 1;
}

/* The frame objects of this thread, innermost first, say the same as the frame data. */
static bool chain_is_equal(PyThreadState *thread_state)
{
    uintptr_t frame = sspy_frame_current(thread_state);
    PyFrameObject *object = PyThreadState_GetFrame(thread_state);
    unsigned compared = 0;
    bool equal = true;

    for (; object && equal && compared < 64; compared++) {
        PyFrameObject *back = PyFrame_GetBack(object);
        PyCodeObject *code = PyFrame_GetCode(object);

        while (frame && !sspy_frame_code(frame))
            frame = sspy_frame_previous(frame);
        equal = frame && sspy_frame_code(frame) == code && sspy_frame_data(object) == frame &&
                sspy_frame_lasti(frame, code) == PyFrame_GetLasti(object) &&
                (compared || position_is_equal(code, PyFrame_GetLasti(object)));
        if (frame)
            frame = sspy_frame_previous(frame);
        Py_DECREF(code);
        Py_DECREF(object);
        object = back;
    }
    Py_XDECREF(object);
    return equal && compared > 0;
}

/* The innermost marker lies between us and the function that called the interpreter. */
static bool marker_is_between(PyThreadState *thread_state, uintptr_t inner, uintptr_t outer)
{
    uintptr_t marker = sspy_word((uintptr_t)thread_state, sspy_layout_now.head);

    if (!sspy_layout_now.cframe)
        while (marker && sspy_frame_owner(marker) < SSPY_FRAME_OF_C)
            marker = sspy_frame_previous(marker);
    return marker > inner && marker < outer;
}

static PyObject *check_inside(PyObject *self, PyObject *arguments)
{
    check_result *result = PyCapsule_GetPointer(self, NULL);
    PyThreadState *thread_state = PyThreadState_Get();

    (void)arguments;
    if (!result)
        return NULL;
    result->ran = true;
    result->equal =
        chain_is_equal(thread_state) &&
        marker_is_between(thread_state, (uintptr_t)__builtin_frame_address(0), result->outer);
    Py_RETURN_NONE;
}

/* Call CHECK from a Python frame in an interpreter loop of its own. */
static int run_check(PyObject *check)
{
    PyObject *globals = PyDict_New();
    PyObject *result = NULL;

    if (globals && PyDict_SetItemString(globals, "check", check) == 0 &&
        PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins()) == 0)
        result = PyRun_String("(lambda: check())()", Py_eval_input, globals, globals);
    Py_XDECREF(result);
    Py_XDECREF(globals);
    return result ? 0 : -1;
}

static PyMethodDef check_def = {"check", check_inside, METH_NOARGS, NULL};

int sspy_layout_check(void)
{
    static bool done;
    check_result result = {(uintptr_t)__builtin_frame_address(0), false, false};
    const char *why;
    PyObject *capsule, *check;
    int failed = -1;

    if (done)
        return 0;
    why = choose_row();
    if (why) {
        refuse(why);
        done = true;
        return 0;
    }
    capsule = PyCapsule_New(&result, NULL, NULL);
    check = capsule ? PyCFunction_New(&check_def, capsule) : NULL;
    if (check)
        failed = run_check(check);
    Py_XDECREF(check);
    Py_XDECREF(capsule);
    if (failed)
        return -1;
    usable = result.ran && result.equal;
    if (!usable)
        refuse("its frames are not where they were expected");
    done = true;
    return 0;
}
