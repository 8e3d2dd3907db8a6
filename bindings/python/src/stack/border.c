/*
 * Stacks at borders to code of other languages.
 *
 * sys.monitoring (3.12 on) calls `_unwound` in each Python frame that an exception leaves, while
 * the frame and all native frames outside of it are still there.  Native frames end only where the
 * exception leaves a loop of the interpreter: every other frame is passed by after a few loads.
 * Where code of another language called the loop, the stack is taken.  The frames that the
 * exception left before are in its traceback.  The native ones between them, by which Python's own
 * C code had called an inner loop, were noted when that loop was left.
 */
#include "stack/stack.h"
#include "frames/layout.h"

#include <stddef.h>
#include <string.h>
#include <structmember.h>

/* ---- Whose code it is --------------------------------------------------------------------------*/

/*
 * Whose code native frames are in: Python's own, or that of another language.  Each exception that
 * leaves a loop of the interpreter asks, so the answer is found by addresses and names of binaries,
 * without a search of symbols, and nothing is kept by address.
 */

typedef enum owner { UNKNOWN, PYTHON, ASYNCIO, OTHERS } owner;

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* A module of Python's library, greenlet, or ours.  Not so _ctypes, whose calls are those of other
   languages. */
static owner owner_by_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;

    if (begins(name, "_stacksplice.") || begins(name, "libstacksplice") ||
        begins(name, "_greenlet."))
        return PYTHON;
    if (!strstr(path, "/lib-dynload/") || begins(name, "_ctypes."))
        return OTHERS;
    return begins(name, "_asyncio.") ? ASYNCIO : PYTHON;
}

/* Python's own binary, which is never unloaded.  Interpreters with own locks find the same. */
static atomic_uintptr_t python_begin, python_end;

static uintptr_t find_python(void)
{
    sspy_binary python;

    if (!sspy_find_binary((uintptr_t)&PyType_Type, &python))
        return 0;
    atomic_store_explicit(&python_end, python.end, memory_order_relaxed);
    atomic_store_explicit(&python_begin, python.begin, memory_order_relaxed);
    return python.begin;
}

/* Whose code the call before ADDRESS is in; UNKNOWN: made at run time, its callers tell. */
static owner owner_of(uintptr_t address)
{
    uintptr_t python = atomic_load_explicit(&python_begin, memory_order_relaxed);
    sspy_binary here;

    if (!python)
        python = find_python();
    if (!sspy_find_binary(address - 1, &here))
        return UNKNOWN;
    return here.begin == python ? PYTHON : owner_by_path(here.path);
}

bool sspy_is_foreign_code(uintptr_t address)
{
    return owner_of(address) == OTHERS;
}

/* ---- Leaving a loop -----------------------------------------------------------------------------------*/

/* The chain of loops is in a structure of its own; never from 3.13 on. */
static inline bool has_cframe(const sspy_layout *layout)
{
    return PY_VERSION_HEX < 0x030D0000 && layout->cframe;
}

/* The loop around the running one, as an address on its stack; NULL if there is none. */
static const void *outer_marker(const sspy_layout *layout, uintptr_t marker)
{
    uintptr_t outer = has_cframe(layout)
                          ? sspy_word(marker, layout->cframe_previous)
                          : sspy_entry_frame(sspy_word(marker, layout->frame_previous));

    return (const void *)outer;
}

/* Loops and generators end with these; they are no errors, and frequent. */
static bool is_end_of_iteration(PyObject *exc)
{
    PyObject *type = (PyObject *)Py_TYPE(exc);

    return type == PyExc_StopIteration || type == PyExc_StopAsyncIteration ||
           type == PyExc_GeneratorExit;
}

/* Of the exceptions of a task the loop raises only these again. */
static bool ends_tasks(PyObject *exc)
{
    return PyErr_GivenExceptionMatches(exc, PyExc_KeyboardInterrupt) ||
           PyErr_GivenExceptionMatches(exc, PyExc_SystemExit);
}

/* Where an exception gets on its way outward through native frames: to code of others, nowhere because a
   task of asyncio keeps it, or through Python's own code. */
typedef enum way { PYTHONS_OWN, KEPT_BY_TASK, OF_OTHERS } way;

static inline way way_through(const uintptr_t *frames, uint32_t count, PyObject *exc)
{
    uintptr_t begin = atomic_load_explicit(&python_begin, memory_order_relaxed);
    uintptr_t end = atomic_load_explicit(&python_end, memory_order_relaxed);

    for (uint32_t i = 0; i < count; i++) {
        owner whose = frames[i] > begin && frames[i] <= end ? PYTHON : owner_of(frames[i]);

        if (whose == OTHERS)
            return OF_OTHERS;
        if (whose == ASYNCIO && !ends_tasks(exc))
            return KEPT_BY_TASK;
    }
    return PYTHONS_OWN;
}

/* Without memory, or for an exception that can carry no ties, its traceback must do. */
static void take_stack(sspy_interp *interp, PyObject *exc)
{
    uint32_t count = 0;
    sspy_room room;

    if (sspy_room_begin(&room, stacksplice_max_frames()) == 0) {
        if (sspy_stack_at_border(interp->module_state, exc, &room, &count) == 0)
            (void)sspy_keep_raised(interp, exc, &room, count);
        sspy_room_end(&room);
    }
    PyErr_Clear();
}

static __attribute__((noinline)) void leave_loop(const sspy_layout *layout, uintptr_t marker,
                                                 PyObject *exc)
{
    const void *outer = outer_marker(layout, marker);
    uintptr_t frames[SSPY_LEFT_FRAMES];
    sspy_interp *interp;
    sspy_ties *ties;
    uint32_t count;

    if (is_end_of_iteration(exc) || (uintptr_t)outer <= marker)
        return;
    /* If not all of them are known, code of others may be among them. */
    if (stacksplice_native_between((const void *)marker, outer, SSPY_LEFT_FRAMES, frames, &count) ==
        S_OK) {
        way goes = way_through(frames, count, exc);

        if (goes == PYTHONS_OWN && count)
            sspy_keep_left(exc, frames, count);
        if (goes != OF_OTHERS)
            return;
    }
    interp = sspy_interp_current();
    ties = interp ? sspy_ties_of(interp, exc) : NULL;
    if (interp && interp->module_state && !sspy_ties_have_stack(ties))
        take_stack(interp, exc);
}

/* The marker of the running loop if its outermost frame is the innermost one, and a frame of
   another loop called it; else 0. */
static inline uintptr_t left_loop(const sspy_layout *layout)
{
    uintptr_t head = sspy_word((uintptr_t)sspy_current_thread_state(), layout->thread_head);
    uintptr_t frame = has_cframe(layout) ? sspy_word(head, layout->cframe_current) : head;
    uintptr_t entry = frame ? sspy_word(frame, layout->frame_previous) : 0;

    if (!entry || *(const unsigned char *)(entry + layout->frame_owner) < SSPY_FRAME_OF_C ||
        !sspy_word(entry, layout->frame_previous))
        return 0;
    return has_cframe(layout) ? head : entry;
}

/* ---- The callback -----------------------------------------------------------------------------*/

/* A callable whose call is this function and nothing around it: around a built-in function the
   interpreter does half as much again. */
typedef struct callback {
    PyObject_HEAD vectorcallfunc call;
} callback;

/* Whether EXC is in its first frame that ran. */
static bool is_new(PyObject *exc)
{
    PyObject *traceback = sspy_traceback_of(exc); /* another thread may give it another one */
    const PyTracebackObject *entry = traceback ? ((PyTracebackObject *)traceback)->tb_next : NULL;
    bool is_first;

    while (entry && sspy_entry_is_made(entry))
        entry = entry->tb_next;
    is_first = !entry;
    Py_XDECREF(traceback);
    return is_first;
}

static PyObject *unwound(PyObject *Py_UNUSED(self), PyObject *const *arguments, size_t count,
                         PyObject *names)
{
    const sspy_verdict *verdict = atomic_load_explicit(&sspy_layout_verdict, memory_order_acquire);
    uintptr_t marker;

    if (PyVectorcall_NARGS(count) != 3 || names || !PyExceptionInstance_Check(arguments[2])) {
        PyErr_SetString(PyExc_TypeError, "_unwound() takes a code object, an offset, an exception");
        return NULL;
    }
    if (sspy_left_by(arguments[2]) && is_new(arguments[2]))
        sspy_forget_left(arguments[2]);
    if (verdict && !verdict->reason[0] && (marker = left_loop(&verdict->layout)) != 0)
        leave_loop(&verdict->layout, marker, arguments[2]);
    Py_RETURN_NONE;
}

static void callback_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);

    type->tp_free(self);
    Py_DECREF(type);
}

int sspy_add_unwound(PyObject *module)
{
    PyMemberDef members[] = {
        {"__vectorcalloffset__", T_PYSSIZET, offsetof(callback, call), READONLY, NULL},
        {NULL, 0, 0, 0, NULL}};
    PyType_Slot slots[] = {{Py_tp_dealloc, callback_dealloc},
                           {Py_tp_call, PyVectorcall_Call},
                           {Py_tp_members, members},
                           {0, NULL}};
    PyType_Spec spec = {.name = "stacksplice._stacksplice.Unwound",
                        .basicsize = sizeof(callback),
                        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL |
                                 Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
                        .slots = slots};
    PyTypeObject *type = (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
    callback *object = type ? (callback *)type->tp_alloc(type, 0) : NULL;
    int failed = -1;

    if (object) {
        object->call = unwound;
        failed = PyModule_AddObjectRef(module, "_unwound", (PyObject *)object);
    }
    Py_XDECREF(object);
    Py_XDECREF(type);
    return failed;
}

/* ---- At the raise -----------------------------------------------------------------------------*/

/*
 * For exceptions that will be unwound before they reach a border.
 *
 * sys.monitoring (3.12 on) calls `_raised` in each Python frame that an exception enters, before
 * that frame is unwound.  The first call for an exception object captures its stack, with native
 * frames, into the exception's own ties.  The stack dies with the exception and keeps nothing
 * alive.
 */

/* Capture the current stack into EXC's ties; -1 with an exception. */
static int take_live_stack(sspy_interp *interp, PyObject *exc, sspy_room *room)
{
    /* Start at the frame that EXC is in: the native frames inside it belong to the callback. */
    uint32_t count = sspy_capture(NULL, room->limit, room->frames);

    if (interp->module_state)
        sspy_append_awaiting(interp->module_state, room, &count);
    return sspy_keep_raised(interp, exc, room, count);
}

/* -1 with an exception. */
static int keep_stack(sspy_interp *interp, PyObject *exc)
{
    sspy_ties *ties = sspy_ties_of(interp, exc);
    sspy_room room;
    int result;

    if (sspy_ties_have_stack(ties))
        return 0;
    if (sspy_room_begin(&room, stacksplice_max_frames()))
        return -1;
    result = take_live_stack(interp, exc, &room);
    sspy_room_end(&room);
    return result;
}

PyObject *sspy_raised(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count)
{
    sspy_interp *interp;

    if (count != 3 || !PyExceptionInstance_Check(arguments[2])) {
        PyErr_SetString(PyExc_TypeError, "_raised() takes a code object, an offset, an exception");
        return NULL;
    }
    if (is_end_of_iteration(arguments[2]))
        Py_RETURN_NONE;
    interp = sspy_interp_current();
    /* Without memory, or for an exception that can carry no ties, its traceback must do. */
    if (!interp || keep_stack(interp, arguments[2]))
        PyErr_Clear();
    Py_RETURN_NONE;
}
