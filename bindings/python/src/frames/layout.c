/*
 * The choice of a layout for the running interpreter, and how frames are read by it.
 *
 * Public structures (code objects) come from the headers that we compile with, so the versions must
 * agree.
 */
#include "frames/layout.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- The check ---------------------------------------------------------------------------------*/

/*
 * The check of a layout against the running interpreter, before anything relies on it.
 *
 * It runs three frames of known shape in two loops of the interpreter: a generator's inside a
 * function's inside that of an expression.  Each offset of the layout must give what the frame
 * objects give, and the loops must be at their known places on the stack.  The check reads memory
 * through a pipe: a wrong offset may point to unmapped memory, and then the read fails instead of
 * the process.
 */

enum {
    MAX_FRAMES = 64, /* in the chain; the innermost three have a known shape */
    MAX_SKIPPED = 16,
    LOCK_SEARCH = 2048 /* bytes of the interpreter's state; 3.12.1 has its lock at 384 */
};

typedef struct check {
    sspy_layout *layout;  /* the layout to check */
    int in, out;          /* the pipe */
    uintptr_t outer;      /* stack address of the function that started the check */
    uintptr_t markers[2]; /* of the two loops, inner first */
    bool ran;
    const char *why; /* what is wrong */
} check;

typedef struct seen_frame {
    uintptr_t code, start, instruction, previous; /* START: of the code's instructions */
    unsigned char owner;
} seen_frame;

/* ---- Reads that may fail ----------------------------------------------------------------------*/

static bool peek(const check *c, uintptr_t address, void *out, size_t size)
{
    /* Read aligned whole words only: half a word would stay in the pipe. */
    return address && address % size == 0 &&
           write(c->out, (const void *)address, size) == (ssize_t)size &&
           read(c->in, out, size) == (ssize_t)size;
}

static bool peek_word(const check *c, uintptr_t base, size_t offset, uintptr_t *out)
{
    return base && peek(c, base + offset, out, sizeof *out);
}

#if SSPY_HAS_COPIES
/* Set where the copy of the instructions begins that FRAME runs. */
static bool peek_start(const check *c, uintptr_t frame, seen_frame *seen)
{
    uintptr_t type = 0, copies = 0, size = 0;
    int32_t number = 0;

    seen->start = 0;
    if (!seen->code || !peek_word(c, seen->code, offsetof(PyObject, ob_type), &type) ||
        type != (uintptr_t)&PyCode_Type)
        return true; /* an entry frame */
    return peek_word(c, seen->code, offsetof(PyCodeObject, co_tlbc), &copies) &&
           peek(c, frame + c->layout->frame_copy, &number, sizeof number) &&
           peek_word(c, copies, offsetof(_PyCodeArray, size), &size) && number >= 0 &&
           (uintptr_t)number < size &&
           peek_word(c, copies, offsetof(_PyCodeArray, entries) + (size_t)number * sizeof(char *),
                     &seen->start);
}
#else
static bool peek_start(const check *Py_UNUSED(c), uintptr_t Py_UNUSED(frame), seen_frame *seen)
{
    seen->start = seen->code + offsetof(PyCodeObject, co_code_adaptive);
    return true;
}
#endif

static bool peek_frame(const check *c, uintptr_t frame, seen_frame *seen)
{
    if (!peek_word(c, frame, c->layout->frame_code, &seen->code) ||
        !peek_word(c, frame, c->layout->frame_instruction, &seen->instruction) ||
        !peek_word(c, frame, c->layout->frame_previous, &seen->previous) ||
        !peek(c, frame + c->layout->frame_owner, &seen->owner, 1))
        return false;
    seen->code &= ~(uintptr_t)SSPY_CODE_TAG;
    return peek_start(c, frame, seen);
}

/* By the same rule as sspy_frame_code. */
static bool is_shown(const check *c, const seen_frame *seen)
{
    uintptr_t type = 0;
    int first_traceable = 0;

    if (seen->owner >= SSPY_FRAME_OF_C ||
        !peek_word(c, seen->code, offsetof(PyObject, ob_type), &type) ||
        type != (uintptr_t)&PyCode_Type ||
        !peek(c, seen->code + offsetof(PyCodeObject, _co_firsttraceable), &first_traceable,
              sizeof first_traceable))
        return false;
    return sspy_has_begun(seen->owner, seen->start, seen->instruction, first_traceable);
}

/* ---- What is compared -------------------------------------------------------------------------*/

/* Our reader and the interpreter must agree on the location table of a code object it compiled. */
static bool position_is_equal(PyCodeObject *code, int lasti)
{
    sspy_position found = sspy_position_of(code, lasti);
    int line = 0, column = 0, end_line = 0, end_column = 0;

    return PyCode_Addr2Location(code, lasti, &line, &column, &end_line, &end_column) &&
           (int)found.line == line && (int)found.end_line == end_line &&
           (int)found.column == column + 1 && (int)found.end_column == end_column + 1;
}

/* Compare FRAME, found in the chain, with the frame object; NULL when they agree. */
static const char *compare_frame(uintptr_t frame, const seen_frame *seen, PyFrameObject *object,
                                 unsigned number)
{
    PyCodeObject *code = PyFrame_GetCode(object);
    int lasti = PyFrame_GetLasti(object);
    int generates = code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
    const char *why = NULL;

    if (seen->code != (uintptr_t)code || sspy_frame_data(object) != frame)
        why = "frames not at their expected place";
    else if (seen->instruction - seen->start != (uintptr_t)lasti)
        why = "instruction of a frame not at its expected place";
    else if ((seen->owner == SSPY_FRAME_GENERATOR) != (generates != 0))
        why = "owner of a frame not at its expected place";
    else if (!number && !position_is_equal(code, lasti))
        why = "line tables in an unknown format";
    Py_DECREF(code);
    return why;
}

/* Move *FRAME outward to the next frame that Python shows, and note the entry frames on the way. */
static bool find_shown(check *c, uintptr_t *frame, seen_frame *seen, unsigned number)
{
    for (int skipped = 0; skipped < MAX_SKIPPED; skipped++) {
        if (!peek_frame(c, *frame, seen))
            return false;
        if (is_shown(c, seen))
            return true;
        if (!c->layout->cframe && seen->owner >= SSPY_FRAME_OF_C) {
            if (number == 1 && !c->markers[0])
                c->markers[0] = *frame;
            if (number == 3 && !c->markers[1])
                c->markers[1] = *frame;
        }
        *frame = seen->previous;
    }
    return false;
}

/* The frame objects of this thread, innermost first, must agree with the frame data. */
static const char *compare_chain(check *c, PyThreadState *thread_state, uintptr_t frame)
{
    PyFrameObject *object = PyThreadState_GetFrame(thread_state);
    const char *why = NULL;
    unsigned number = 0;
    seen_frame seen;

    for (; object && !why && number < MAX_FRAMES; number++) {
        PyFrameObject *back = PyFrame_GetBack(object);

        why = find_shown(c, &frame, &seen, number) ? compare_frame(frame, &seen, object, number)
                                                   : "frames not at their expected place";
        frame = seen.previous;
        Py_DECREF(object);
        object = back;
    }
    Py_XDECREF(object);
    if (!why && number < 3)
        why = "frames not at their expected place";
    /* Nothing called Python: the entry frame of the outer loop comes last. */
    if (!why && number == 3)
        (void)find_shown(c, &frame, &seen, number);
    return why;
}

/* 3.11, 3.12: both loops keep a _PyCFrame; the outer one's newest frame is the function's. */
static bool find_cframes(check *c, uintptr_t head)
{
    uintptr_t function = 0;
    seen_frame seen;

    c->markers[0] = head;
    return peek_word(c, head, c->layout->cframe_previous, &c->markers[1]) &&
           peek_word(c, c->markers[1], c->layout->cframe_current, &function) &&
           peek_frame(c, function, &seen) && is_shown(c, &seen) &&
           strcmp(PyUnicode_AsUTF8(((PyCodeObject *)seen.code)->co_name), "<lambda>") == 0;
}

/* ---- The interpreter's lock -------------------------------------------------------------------*/

/* Whether OFFSET in the interpreter's state leads to the lock that this thread holds.  The lock's
   second word is the thread state that took it last; its third says whether it is taken. */
static bool is_lock(const check *c, PyThreadState *thread_state, size_t offset)
{
    uintptr_t lock = 0, holder = 0, thread = 0;
    int taken = 0;

    return peek_word(c, (uintptr_t)thread_state->interp, offset, &lock) &&
           peek_word(c, lock, sizeof(void *), &holder) &&
           peek(c, lock + 2 * sizeof(void *), &taken, sizeof taken) && taken == 1 &&
           (holder == (uintptr_t)thread_state ||
            (peek_word(c, holder, offsetof(PyThreadState, thread_id), &thread) &&
             thread == (uintptr_t)pthread_self()));
}

static bool find_lock(const check *c, PyThreadState *thread_state)
{
    if (c->layout->is_free_threaded)
        return true; /* it says nothing of who runs */
    if (Py_Version < 0x030C0000)
        return true; /* one lock for all interpreters */
    if (Py_Version >= 0x030D0000)
        return is_lock(c, thread_state, c->layout->interpreter_lock);
    for (uint32_t offset = sizeof(void *); offset < LOCK_SEARCH; offset += sizeof(void *))
        if (is_lock(c, thread_state, offset)) {
            c->layout->interpreter_lock = offset;
            return true;
        }
    return false;
}

/* ---- The check --------------------------------------------------------------------------------*/

static const char *examine(check *c, PyThreadState *thread_state)
{
    uintptr_t inner = (uintptr_t)__builtin_frame_address(0);
    uintptr_t head = 0, frame = 0;
    const char *why;

    if (!peek_word(c, (uintptr_t)thread_state, c->layout->thread_head, &head))
        return "frames not at their expected place";
    if (!c->layout->cframe)
        frame = head;
    else if (!peek_word(c, head, c->layout->cframe_current, &frame))
        return "frames not at their expected place";
    why = compare_chain(c, thread_state, frame);
    if (why)
        return why;
    if ((c->layout->cframe && !find_cframes(c, head)) || c->markers[0] <= inner ||
        c->markers[1] <= c->markers[0] || c->markers[1] >= c->outer)
        return "evaluation loops not at their expected place";
    if (!find_lock(c, thread_state))
        return "interpreter lock not at its expected place";
    return NULL;
}

static PyObject *check_inside(PyObject *self, PyObject *Py_UNUSED(arguments))
{
    check *c = PyCapsule_GetPointer(self, NULL);

    if (!c)
        return NULL;
    c->why = examine(c, PyThreadState_Get());
    c->ran = true;
    Py_RETURN_NONE;
}

static PyMethodDef check_def = {"check", check_inside, METH_NOARGS, NULL};

/* Call FUNCTION from a generator that a function runs: two loops of the interpreter. */
static int run_check(PyObject *function)
{
    PyObject *globals = PyDict_New();
    PyObject *result = NULL;

    if (globals && PyDict_SetItemString(globals, "check", function) == 0 &&
        PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins()) == 0)
        result = PyRun_String("(lambda: next(check() for _ in (0,)))()", Py_eval_input, globals,
                              globals);
    Py_XDECREF(result);
    Py_XDECREF(globals);
    return result ? 0 : -1;
}

/* Compare LAYOUT with the interpreter's own answers, and complete it.  *WHY is what is wrong, or
   NULL.  A wrong layout is detected, not followed.  GIL held. -1 with an exception when memory runs
   out. */
static int layout_examine(sspy_layout *layout, const char **why)
{
    int ends[2];
    check c = {.layout = layout, .outer = (uintptr_t)__builtin_frame_address(0)};
    PyObject *capsule, *function;
    int failed = -1;

    *why = "could not create a pipe to examine it";
    if (pipe2(ends, O_CLOEXEC))
        return 0;
    c.in = ends[0];
    c.out = ends[1];
    capsule = PyCapsule_New(&c, NULL, NULL);
    function = capsule ? PyCFunction_New(&check_def, capsule) : NULL;
    if (function)
        failed = run_check(function);
    Py_XDECREF(function);
    Py_XDECREF(capsule);
    close(ends[0]);
    close(ends[1]);
    *why = c.ran ? c.why : "could not examine its frames";
    return failed;
}

/* ---- The choice of a layout --------------------------------------------------------------------*/

_Atomic(const sspy_verdict *) sspy_layout_verdict;

/* _PyRuntime, of which we read only its self-description.  A host may not export it. */
extern const uint64_t runtime_words[] __asm__("_PyRuntime") __attribute__((weak));

const char *sspy_layout_reason(void)
{
    const sspy_verdict *verdict = atomic_load(&sspy_layout_verdict);

    if (!verdict)
        return "cannot read Python frames: interpreter not examined yet";
    return verdict->reason[0] ? verdict->reason : NULL;
}

static const char *choose_layout(sspy_layout *layout)
{
    const char *why = Py_Version >> 16 == PY_VERSION_HEX >> 16
                          ? sspy_layout_of(Py_Version, runtime_words, layout)
                          : "extension was built for another version";

    if (!why && layout->is_free_threaded != SSPY_IS_FREE_THREADED)
        why = SSPY_IS_FREE_THREADED ? "extension was built for a free-threaded interpreter"
                                    : "it is a free-threaded build";
    return why;
}

/* ---- Reading a frame --------------------------------------------------------------------------*/

PyCodeObject *sspy_frame_code(uintptr_t frame)
{
    PyCodeObject *code;
    unsigned owner = sspy_frame_owner(frame);

    if (owner >= SSPY_FRAME_OF_C)
        return NULL;
    code = (PyCodeObject *)(sspy_word(frame, sspy_layout_now()->frame_code) &
                            ~(uintptr_t)SSPY_CODE_TAG);
    if (!code || !PyCode_Check(code))
        return NULL;
    return sspy_has_begun(owner, sspy_frame_start(frame, code),
                          sspy_word(frame, sspy_layout_now()->frame_instruction),
                          code->_co_firsttraceable)
               ? code
               : NULL;
}

int sspy_frame_lasti(uintptr_t frame, const PyCodeObject *code)
{
    return (int)(sspy_word(frame, sspy_layout_now()->frame_instruction) -
                 sspy_frame_start(frame, code));
}

uintptr_t sspy_frame_current(PyThreadState *thread_state)
{
    uintptr_t head = sspy_word((uintptr_t)thread_state, sspy_layout_now()->thread_head);

    return head && sspy_layout_now()->cframe ? sspy_word(head, sspy_layout_now()->cframe_current)
                                             : head;
}

/* ---- The choice -------------------------------------------------------------------------------*/

/* The first verdict to be published wins; it lives as long as the process. */
static void publish(sspy_verdict *found)
{
    const sspy_verdict *none = NULL;

    if (!atomic_compare_exchange_strong(&sspy_layout_verdict, &none, found))
        free(found);
}

int sspy_layout_check(void)
{
    sspy_verdict *found;
    const char *why;

    if (atomic_load(&sspy_layout_verdict))
        return 0;
    found = calloc(1, sizeof *found);
    if (!found) {
        PyErr_NoMemory();
        return -1;
    }
    why = choose_layout(&found->layout);
    if (!why && layout_examine(&found->layout, &why)) {
        free(found);
        return -1;
    }
    if (why)
        snprintf(found->reason, sizeof found->reason,
                 "cannot read Python frames: %s (CPython %lu.%lu.%lu)", why, Py_Version >> 24,
                 Py_Version >> 16 & 0xff, Py_Version >> 8 & 0xff);
    publish(found);
    return 0;
}
