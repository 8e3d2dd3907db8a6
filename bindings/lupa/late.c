/*
 * Deadlines that end what Lua runs.  In the late thread's signal handler, each copy of Lua is asked to
 * call back at the next instruction.  There, with the interpreter's lock, the exception is made: by a
 * function that the runtime calls like any other of Python's, so that lupa hands the exception on.
 */
#include "lupa/lupa.h"
#include "traceback/traceback.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How many of the interrupts, 20 ms each, that follow the first exception are left out, so that
   clean-up code may run, and that follow later ones. */
enum { RESTS = 50, INSISTENT_RESTS = 10 };

static _Thread_local unsigned rests;  /* interrupts to leave out */
static _Thread_local bool has_raised; /* since work of this thread was begun */
static _Thread_local sspy_resumed resumed;
static atomic_uint open_count; /* in all threads */

/* In a signal handler. */
static void interrupt(void *number)
{
    if (rests)
        rests--;
    else
        sspy_lua_interrupt((uintptr_t)number, resumed.calls, resumed.coroutine);
}

/* The handler sees no coroutine of another copy. */
void sspy_late_set_resumed(sspy_resumed now)
{
    resumed.coroutine = NULL;
    atomic_signal_fence(memory_order_seq_cst);
    resumed.calls = now.calls;
    atomic_signal_fence(memory_order_seq_cst);
    resumed.coroutine = now.coroutine;
}

/* Asking for the address of a coroutine takes longer than to resume it. */
sspy_resumed sspy_late_resuming(PyObject *coroutine)
{
    sspy_state *state = atomic_load(&open_count) ? sspy_state_current() : NULL;
    sspy_attached *attached = state ? sspy_attached_first(state) : NULL;
    sspy_resumed former = resumed, now = {NULL, NULL};

    while (attached && attached->coroutines != Py_TYPE(coroutine))
        attached = sspy_attached_after(attached);
    if (attached)
        now = (sspy_resumed){attached->calls, sspy_lupa_address_of(coroutine)};
    PyErr_Clear();
    sspy_late_set_resumed(now);
    return former;
}

/* ---- Contexts ----------------------------------------------------------------------------------*/

/*
 * A block may be suspended while its thread does other work, as where a task awaits something.  So the
 * context of a block has a link for it, with that of the block outside: work inside of the block finds
 * the link.
 */

/* The link of the innermost block here, counted; None without one, NULL with an exception. */
static PyObject *link_here(const sspy_lupa *lupa)
{
    PyObject *link = NULL;

    return PyContextVar_Get(lupa->innermost, Py_None, &link) ? NULL : link;
}

static int set_link(const sspy_lupa *lupa, PyObject *link)
{
    PyObject *token = PyContextVar_Set(lupa->innermost, link);

    Py_XDECREF(token);
    return token ? 0 : -1;
}

static int enter(sspy_late *late)
{
    sspy_lupa *lupa = late->lupa;
    PyObject *outer;

    if (!lupa->innermost)
        lupa->innermost = PyContextVar_New("stacksplice.deadline", NULL);
    outer = lupa->innermost ? link_here(lupa) : NULL;
    late->link = outer ? PyTuple_Pack(1, outer) : NULL;
    Py_XDECREF(outer);
    if (late->link && set_link(lupa, late->link))
        Py_CLEAR(late->link);
    return late->link ? 0 : -1;
}

/* Another context keeps its link: its work is over, too. */
static void leave(sspy_late *late)
{
    PyObject *pending = sspy_take_pending();
    PyObject *here = link_here(late->lupa);

    if (here == late->link && set_link(late->lupa, PyTuple_GET_ITEM(here, 0)))
        PyErr_Clear();
    Py_XDECREF(here);
    Py_CLEAR(late->link);
    PyErr_Clear();
    sspy_set_pending(pending);
}

/* Whether this thread is in that work. */
static bool is_here(const sspy_late *late)
{
    bool same = late->thread == PyThread_get_thread_ident();
    PyObject *here = same ? link_here(late->lupa) : NULL;
    const PyObject *link = here;

    while (link && link != late->link)
        link = PyTuple_Check(link) ? PyTuple_GET_ITEM(link, 0) : NULL;
    Py_XDECREF(here);
    PyErr_Clear();
    return link;
}

/* ---- Begin and end -----------------------------------------------------------------------------*/

/* Whether install() attaches runtimes; -1 with an exception. */
static int is_installed(void)
{
    PyObject *hooks = PyImport_ImportModule("stacksplice._hooks.lupa");
    PyObject *begun = hooks ? PyObject_GetAttrString(hooks, "is_begun") : NULL;
    int installed = begun ? PyObject_IsTrue(begun) : -1;

    Py_XDECREF(begun);
    Py_XDECREF(hooks);
    return installed;
}

static int check_attached(sspy_state *state)
{
    int installed = sspy_attached_first(state) ? 1 : is_installed();

    if (!installed)
        PyErr_SetString(PyExc_RuntimeError,
                        "interrupt=True ends Lua in attached runtimes, and there are none: call "
                        "stacksplice.install() or stacksplice.attach() first");
    return installed == 1 ? 0 : -1;
}

int sspy_late_begin(sspy_state *state, sspy_late *late, bool interrupts,
                    const stacksplice_deadline_options *wanted)
{
    static _Atomic uint64_t numbers;
    stacksplice_deadline_options options = *wanted;
    HRESULT hr;

    late->raised = false;
    late->frames = NULL;
    late->count = 0;
    late->lupa = sspy_record(state, SSPY_OF_LUPA, sizeof *late->lupa);
    if (!late->lupa) {
        PyErr_NoMemory();
        return -1;
    }
    if (interrupts) {
        if (check_attached(state) || enter(late))
            return -1;
        late->number = atomic_fetch_add(&numbers, 1) + 1;
        late->thread = PyThread_get_thread_ident();
        late->outer = late->lupa->late;
        late->lupa->late = late;
        atomic_fetch_add(&open_count, 1);
        options.interrupt = interrupt;
        options.data = (void *)(uintptr_t)late->number;
    }
    hr = stacksplice_deadline_begin(late->milliseconds, &options, &late->deadline);
    if (SUCCEEDED(hr))
        return 0;
    sspy_late_end(late);
    if (hr == E_OUTOFMEMORY)
        PyErr_NoMemory();
    else
        PyErr_Format(PyExc_RuntimeError, "no deadline can be begun here, HRESULT 0x%08x",
                     (unsigned)hr);
    return -1;
}

int sspy_late_begin_call(sspy_state *state, sspy_late *late, const sspy_attached *attached)
{
    const stacksplice_deadline_options quiet = {
        .size = sizeof quiet, .flags = STACKSPLICE_DEADLINE_NO_TEXT | STACKSPLICE_DEADLINE_NO_FILE};
    const sspy_late *outer = attached ? sspy_lupa_of(state)->late : NULL;

    *late = (sspy_late){.name = "this call of Lua", .of = attached};
    if (!attached || !attached->limit)
        return 0;
    while (outer && !(outer->of == attached && outer->thread == PyThread_get_thread_ident()))
        outer = outer->outer;
    late->milliseconds = attached->limit;
    return outer ? 0 : sspy_late_begin(state, late, true, &quiet);
}

void sspy_late_end(sspy_late *late)
{
    sspy_late **place;

    (void)stacksplice_deadline_end(late->deadline); /* 0: refused */
    late->deadline = 0;
    if (!late->link)
        return;
    for (place = &late->lupa->late; *place && *place != late;)
        place = &(*place)->outer;
    if (*place)
        *place = late->outer;
    leave(late);
    free(late->frames);
    late->frames = NULL;
    atomic_fetch_sub(&open_count, 1);
    if (late->raised)
        rests = 0;
    has_raised = has_raised && late->lupa->late;
}

/* ---- The exception -----------------------------------------------------------------------------*/

static PyObject *raise_late(sspy_late *late, bool again)
{
    char text[STACKSPLICE_DEADLINE_NAME_MAX + 64];

    if (!again)
        rests = late->raised ? INSISTENT_RESTS : RESTS;
    late->raised = has_raised = true;
    (void)snprintf(text, sizeof text, "%.*s did not finish within %.14g s",
                   (int)stacksplice_deadline_name_length(late->name), late->name,
                   late->milliseconds / 1000.0);
    PyErr_SetString(PyExc_TimeoutError, text);
    return NULL;
}

/* ---- Its stack ---------------------------------------------------------------------------------*/

/*
 * What a function of C catches, as LuaJIT's `load`, is lost with its stack.  So each stack is kept, and an
 * exception that is made for one that was lost has the one where Lua was interrupted.
 */

/* Keep the stack of the interrupt, which the caller raises: from the innermost frame of Lua on. */
static void keep_stack(sspy_state *state, sspy_late *late, const void *above)
{
    uint32_t count, inner = 0;
    sspy_room room;

    free(late->frames);
    late->frames = NULL;
    if (sspy_room_begin(&room, SSPY_NEAR_FRAMES)) {
        PyErr_Clear();
        return;
    }
    count = sspy_capture(above, room.limit, room.frames);
    while (inner < count && (sspy_is_frame_of(state, room.frames[inner]) ||
                             !sspy_facts_of(state, room.frames[inner]).is_in_file))
        inner++;
    late->count = count - inner;
    if (late->count)
        late->frames = malloc(late->count * sizeof *late->frames);
    if (late->frames)
        memcpy(late->frames, room.frames + inner, late->count * sizeof *late->frames);
    sspy_room_end(&room);
}

/* The pending exception, made for the one of LATE that was lost, gets the stack of that. */
static void restore_stack(sspy_state *state, const sspy_late *late)
{
    PyObject *exc = sspy_take_pending();
    IScriptErrorInfo *error = NULL;

    if (late->frames && !sspy_raised_at(state, exc, late->frames, late->count) &&
        !sspy_error_for(state, exc, __builtin_frame_address(0), &error))
        sspy_show_error(state, exc, error);
    PyErr_Clear(); /* without memory the exception has no stack */
    sspy_release(state->interp, error);
    sspy_set_pending(exc);
}

/* LuaJIT does not keep the exception, which else has become the cause of EXC; the text is empty. */
PyObject *sspy_late_error(sspy_state *state, PyObject *exc)
{
    sspy_late *late = sspy_lupa_of(state)->late;
    PyObject *cause, *text;
    bool made;

    while (late && !(late->raised && is_here(late)))
        late = late->outer;
    if (!late)
        return NULL;
    cause = PyException_GetCause(exc);
    if (cause && Py_IS_TYPE(cause, (PyTypeObject *)PyExc_TimeoutError)) {
        PyException_SetCause(exc, NULL);
        return cause;
    }
    text = PyObject_Str(exc);
    made = !cause && text && PyUnicode_GET_LENGTH(text) == 0;
    Py_XDECREF(text);
    Py_XDECREF(cause);
    PyErr_Clear();
    if (made) {
        (void)raise_late(late, true);
        restore_stack(state, late);
    }
    return sspy_take_pending();
}

bool sspy_late_has_raised(void)
{
    return has_raised;
}

PyObject *sspy_late_result(sspy_state *state, const sspy_attached *attached, PyObject *result)
{
    uint64_t number = attached->calls->find_lost(attached->attachment);
    PyObject *pending = sspy_take_pending();
    sspy_late *late = number ? sspy_lupa_of(state)->late : NULL;

    while (late && !(late->number == number && late->raised && is_here(late)))
        late = late->outer;
    if (!late) {
        sspy_set_pending(pending);
        return result;
    }
    Py_XDECREF(pending);
    Py_XDECREF(result);
    (void)raise_late(late, true);
    restore_stack(state, late);
    return NULL;
}

PyObject *sspy_lupa_late(PyObject *module, PyObject *arguments)
{
    sspy_state *state = PyModule_GetState(module);
    sspy_lupa *lupa = sspy_lupa_of(state);
    unsigned long long number;
    int again;

    if (!PyArg_ParseTuple(arguments, "Kp:_lupa_late", &number, &again))
        return NULL;
    for (sspy_late *late = lupa ? lupa->late : NULL; late; late = late->outer)
        if (late->number == number && is_here(late)) {
            keep_stack(state, late, __builtin_frame_address(0));
            return raise_late(late, again);
        }
    Py_RETURN_NONE;
}
