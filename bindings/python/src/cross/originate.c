/*
 * Python -> HRESULT: the language exception of an exception and its error object, and those of its
 * causes and of a group's members.
 */
#include "cross/cross.h"
#include "traceback/traceback.h"

#include <stdlib.h>

/* ---- Errors that leave -------------------------------------------------------------------------*/

/* Makes errors. */
typedef struct maker {
    sspy_state *state;
    const void *above;
    uint32_t errors;   /* made for causes and members */
    bool leaves_alone; /* exceptions keep nothing of the errors that are made */
    bool is_whole;     /* the error of the newest exception has all that its traceback has */
    bool has_no_loop;  /* no asyncio loop runs in this thread */
} maker;

/* Set *ERROR to the error of STEP's exception, new or existing, with an outside reference and its newest
   notes; NULL when none is wanted (switched off, or too many).  With HR the error also goes into the
   slot. -1 with an exception. */
static int take_error(maker *m, const sspy_step *step, HRESULT *hr, IScriptErrorInfo **error);

/* ---- Related ---------------------------------------------------------------------------------*/

/*
 * The exceptions that leave Python with another one: its cause or context, the members of a group,
 * and their causes and members in turn.  Each gets its own error object.
 */

/* The exception that a traceback would print as EXC's reason, new reference; or NULL. */
static PyObject *cause_of(PyObject *exc, stacksplice_relation *relation)
{
    PyObject *cause = PyException_GetCause(exc);

    *relation = STACKSPLICE_RELATION_CAUSE;
    if (cause)
        return cause;
    *relation = STACKSPLICE_RELATION_CONTEXT;
    return ((PyBaseExceptionObject *)exc)->suppress_context ? NULL : PyException_GetContext(exc);
}

/* Whether a step further out is making EXC's error. */
static bool is_in(const sspy_step *step, PyObject *exc)
{
    while (step && step->exc != exc)
        step = step->outer;
    return step != NULL;
}

/* Make the error of EXC, which belongs to STEP's exception, in *ERROR.  It is NULL if EXC is left
   out: there are too many, or EXC is too many steps away. */
static int make_one(maker *m, const sspy_step *step, PyObject *exc, IScriptErrorInfo **error)
{
    const sspy_step next = {exc, step, step->number + 1};
    uint32_t depth = 0;
    int failed = 0;

    *error = NULL;
    if (next.number < SSPY_MAX_STEPS)
        failed = take_error(m, &next, NULL, error);
    if (!*error)
        return failed;
    (void)stacksplice_error_depth((IUnknown *)*error, &depth);
    if (depth >= STACKSPLICE_MAX_DEPTH) {
        sspy_release(m->state->interp, *error);
        *error = NULL;
    }
    return failed;
}

static int begin_cause(maker *m, const sspy_step *step, sspy_related *related)
{
    stacksplice_relation relation;
    PyObject *cause = cause_of(step->exc, &relation);
    int failed = 0;

    /* A circle ends before its first exception would repeat, as in a traceback.  C code can set a
       cause that is no exception. */
    if (cause && !is_in(step, cause)) {
        if (PyExceptionInstance_Check(cause))
            failed = make_one(m, step, cause, &related->cause);
        if (related->cause)
            related->relation = relation;
        else
            related->causes_left_out = 1;
    }
    Py_XDECREF(cause);
    return failed;
}

/* A group can contain itself only through a member's cause, so members need no check for
   circles. */
static int begin_members(maker *m, const sspy_step *step, sspy_related *related)
{
    PyObject *members = sspy_group_members(step->exc);
    Py_ssize_t count = members ? PyTuple_GET_SIZE(members) : 0;
    int failed = 0;

    if (!members)
        return 0;
    related->is_group = true;
    related->members = malloc((size_t)(count < SSPY_MAX_RELATED ? count + 1 : SSPY_MAX_RELATED) *
                              sizeof *related->members);
    if (!related->members) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count && !failed; i++) {
        PyObject *exc = PyTuple_GET_ITEM(members, i);
        IScriptErrorInfo *error = NULL;

        if (PyExceptionInstance_Check(exc) && !is_in(step, exc) &&
            related->member_count < SSPY_MAX_RELATED)
            failed = make_one(m, step, exc, &error);
        if (error)
            related->members[related->member_count++] = error;
        else
            related->members_left_out++;
    }
    return failed;
}

/* Fill RELATED, which is zero, for STEP's exception; -1 with an exception.  Call end_related
   in any case. */
static int begin_related(maker *m, const sspy_step *step, sspy_related *related)
{
    return begin_cause(m, step, related) || begin_members(m, step, related) ? -1 : 0;
}

static void end_related(sspy_state *state, sspy_related *related)
{
    stacksplice_section section = sspy_enter(state->interp);

    sspy_unknown_release(related->cause);
    for (uint32_t i = 0; i < related->member_count; i++)
        sspy_unknown_release(related->members[i]);
    free(related->members);
    sspy_leave(section);
}

/* Exceptions to look at, each once. */
typedef struct shown {
    PyObject *all[SSPY_MAX_RELATED]; /* references */
    uint32_t count;
} shown;

static void add_shown(shown *s, PyObject *exc)
{
    uint32_t at = 0;

    if (!exc || !PyExceptionInstance_Check(exc) || s->count == SSPY_MAX_RELATED)
        return;
    while (at < s->count && s->all[at] != exc)
        at++;
    if (at == s->count)
        s->all[s->count++] = Py_NewRef(exc);
}

PyObject *sspy_first_shown(sspy_state *state, PyObject *exc, sspy_test test)
{
    shown s = {.count = 0};
    PyObject *result = NULL;
    int found = 0;

    add_shown(&s, exc);
    for (uint32_t at = 0; at < s.count && !found; at++) {
        PyObject *members = sspy_group_members(s.all[at]), *cause;
        stacksplice_relation relation;

        found = test(state, s.all[at]);
        if (found > 0)
            result = Py_NewRef(s.all[at]);
        for (Py_ssize_t i = 0; members && i < PyTuple_GET_SIZE(members); i++)
            add_shown(&s, PyTuple_GET_ITEM(members, i));
        cause = cause_of(s.all[at], &relation);
        add_shown(&s, cause);
        Py_XDECREF(cause);
    }
    while (s.count)
        Py_DECREF(s.all[--s.count]);
    return result;
}

/* ---- The language exception -------------------------------------------------------------------*/

/* A new one with the stack that was kept at the raise, RAISED, in ROOM or as it is. */
static stacksplice_exception *new_with_raised(maker *m, const sspy_step *step, HRESULT hr,
                                              const sspy_related *related, const uintptr_t *raised,
                                              uint32_t count, sspy_room *room)
{
    sspy_placed placed = sspy_place_made(m->state, step->exc, raised, count, room, &count);
    const uintptr_t *frames = placed == SSPY_PLACED ? room->frames : raised;

    if (placed == SSPY_NO_MEMORY)
        return NULL;
    return sspy_exception_new(m->state, step->exc, hr, frames, count, related);
}

/* A new one with the stack that was kept at the raise, or else the exception's stack now. */
static stacksplice_exception *new_with_stack(maker *m, const sspy_step *step, HRESULT hr,
                                             const sspy_related *related)
{
    sspy_ties *ties = sspy_ties_of(m->state->interp, step->exc);
    stacksplice_exception *x = NULL;
    uintptr_t *raised = NULL;
    uint32_t count = 0;
    sspy_room room;

    if (ties)
        raised = sspy_ties_raised(ties, !m->leaves_alone, &count);
    if (sspy_room_begin(&room, stacksplice_max_frames())) {
        free(raised);
        return NULL;
    }
    if (raised)
        x = new_with_raised(m, step, hr, related, raised, count, &room);
    else if (!sspy_stack_of(m->state, step->exc, step->outer, m->above, &room, &count))
        x = sspy_exception_new(m->state, step->exc, hr, room.frames, count, related);
    m->is_whole = !raised && room.is_whole; /* those behind it were made before */
    m->has_no_loop |= room.has_no_loop;
    sspy_room_end(&room);
    free(raised);
    return x;
}

/* A new one with its causes, members and notes. */
static stacksplice_exception *new_exception(maker *m, const sspy_step *step)
{
    HRESULT hr = sspy_hresult_of(m->state, step->exc);
    sspy_related related = {.cause = NULL};
    stacksplice_exception *x = NULL;

    if (!begin_related(m, step, &related))
        x = new_with_stack(m, step, hr, &related);
    end_related(m->state, &related);
    return x;
}

/* ---- Ties for one crossing --------------------------------------------------------------------*/

/* The ties of an exception in a section, which keeps them alive. */
typedef struct crossing {
    stacksplice_ties *ties;
    stacksplice_ties spare; /* for an exception that can carry none: only its return is anonymous */
    IUnknown *exception;    /* an outside reference, which keeps the Python object; or NULL */
    stacksplice_section section;
    sspy_critical alone; /* no other thread changes the same ties */
} crossing;

static void begin_crossing(crossing *c, sspy_interp *interp, sspy_ties *own,
                           stacksplice_exception *x, PyObject *exc)
{
    c->section = sspy_enter(interp);
    SSPY_CRITICAL_BEGIN(&c->alone, own ? (PyObject *)own : exc);
    c->spare = (stacksplice_ties){NULL, NULL, 0};
    c->ties = own ? &own->core : &c->spare;
    if (x && !c->ties->exception)
        stacksplice_ties_set_exception(c->ties, x);
    else if (x)
        stacksplice_exception_unref(x); /* our questions to EXC made it leave before */
    c->exception = sspy_ties_pin(interp, c->ties, exc);
}

static void end_crossing(crossing *c)
{
    sspy_unknown_release(c->exception);
    stacksplice_ties_drop(&c->spare);
    SSPY_CRITICAL_END(&c->alone);
    sspy_leave(c->section); /* may run code of the program, which must find no lock of ours */
}

/* Begin for STEP's exception, whose ties are OWN or NULL.  Ties without a language exception get
   one (and no error, unless WANTED). -1 with an exception: then there is nothing to end. */
static int cross(crossing *c, maker *m, const sspy_step *step, sspy_ties *own, bool wanted)
{
    sspy_interp *interp = m->state->interp;
    stacksplice_exception *x = NULL;

    if (!sspy_ties_exception(own) && (wanted || !sspy_ties_error(own))) {
        x = new_exception(m, step);
        own = x && !m->leaves_alone ? sspy_ties_make_to_cross(interp, step->exc) : NULL;
        if (!own && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_MemoryError)) {
            stacksplice_section section = sspy_enter(interp);

            stacksplice_exception_unref(x);
            sspy_leave(section);
            return -1;
        }
        if (!x)
            return -1;
        PyErr_Clear();
    }
    begin_crossing(c, interp, own, x, step->exc);
    return 0;
}

/* ---- The error object -------------------------------------------------------------------------*/

/* What EXC got since its error was made; -1 with an exception. */
static int update(sspy_state *state, PyObject *exc, IScriptErrorInfo *error, bool passes)
{
    (void)sspy_lengthen(state, exc, error, passes); /* without memory who reads it does */
    return sspy_notes_update(state, exc, error);
}

static int take_error(maker *m, const sspy_step *step, HRESULT *hr, IScriptErrorInfo **error)
{
    sspy_ties *own = sspy_ties_of(m->state->interp, step->exc);
    bool known = sspy_ties_error(own) != NULL;
    HRESULT result;
    crossing c;

    *error = NULL;
    if (!known && step->outer) {
        if (m->errors == SSPY_MAX_RELATED)
            return 0;
        m->errors++;
    }
    m->is_whole = false;
    if (cross(&c, m, step, own, false))
        return -1;
    if (hr) {
        result = stacksplice_leave(c.ties, hr);
        *error = c.ties->error;
        if (*error)
            (*error)->lpVtbl->AddRef(*error);
    } else {
        result = stacksplice_make_error(c.ties, error);
    }
    end_crossing(&c);
    if (result == E_OUTOFMEMORY)
        PyErr_NoMemory();
    else if (!known || !*error) {
        if (*error && m->leaves_alone && !m->is_whole) /* who reads it cannot add to it */
            m->is_whole = !sspy_lengthen(m->state, step->exc, *error, hr != NULL);
        return 0;
    } else if (!update(m->state, step->exc, *error, hr != NULL)) {
        m->is_whole = true;
        return 0;
    }
    sspy_release(m->state->interp, *error);
    *error = NULL;
    return -1;
}

int sspy_error_for(sspy_state *state, PyObject *exc, const void *above, IScriptErrorInfo **error)
{
    maker m = {.state = state, .above = above};
    const sspy_step step = {exc, NULL, 0};

    return take_error(&m, &step, NULL, error);
}

int sspy_describe(sspy_state *state, PyObject *exc, IScriptErrorInfo **error)
{
    maker m = {.state = state, .leaves_alone = true};
    const sspy_step step = {exc, NULL, 0};

    return take_error(&m, &step, NULL, error);
}

IUnknown *sspy_language_exception(sspy_state *state, PyObject *exc, const void *above)
{
    maker m = {.state = state, .above = above};
    const sspy_step step = {exc, NULL, 0};
    IUnknown *unknown;
    crossing c;

    if (cross(&c, &m, &step, sspy_ties_of(state->interp, exc), true))
        return NULL;
    unknown = c.exception;
    c.exception = NULL; /* passed to the caller */
    end_crossing(&c);
    return unknown;
}

int sspy_put(sspy_state *state, PyObject *exc, const void *above, HRESULT *hr, bool *is_whole)
{
    maker m = {.state = state, .above = above};
    const sspy_step step = {exc, NULL, 0};
    IScriptErrorInfo *error;

    if (take_error(&m, &step, hr, &error))
        return -1;
    *is_whole = m.is_whole;
    if (!error)
        return 0; /* origination is switched off */
    sspy_release(state->interp, error);
    if (!m.has_no_loop)
        sspy_slot_note(state);
    return 0;
}

HRESULT sspy_originate(sspy_state *state, PyObject *exc, const void *above)
{
    bool is_whole;
    HRESULT hr;

    if (!sspy_put(state, exc, above, &hr, &is_whole))
        return hr;
    PyErr_Clear();
    RoOriginateError(E_OUTOFMEMORY, NULL);
    return E_OUTOFMEMORY;
}

/* ---- Exceptions that nobody handles ------------------------------------------------------------*/

/*
 * Exceptions that nobody handles in a process that must go on.  The host's handler gets them first,
 * then sys.excepthook.
 */

/* The exception that this thread has already offered to the handler and is showing; borrowed. */
static _Thread_local const PyObject *asked;

/* Whether the host's handler handles EXC; -1 with an exception. */
static int offer(sspy_state *state, PyObject *exc, const void *above)
{
    IScriptErrorInfo *error = NULL;
    IRestrictedErrorInfo *restricted;
    HRESULT hr;

    if (exc == asked || stacksplice_offer_unhandled(NULL) != S_OK)
        return 0;
    if (sspy_error_for(state, exc, above, &error))
        return -1;
    if (!error)
        return 0; /* origination is switched off, so there is nothing to offer */
    restricted = sspy_query(error, &IID_IRestrictedErrorInfo);
    hr = stacksplice_offer_unhandled(restricted);
    sspy_release(state->interp, restricted);
    sspy_release(state->interp, error);
    return hr == S_OK;
}

PyObject *sspy_offer_unhandled(PyObject *module, PyObject *exc)
{
    int handled;

    if (!PyExceptionInstance_Check(exc))
        return PyErr_Format(PyExc_TypeError, "exc must be an exception, not %.200s",
                            Py_TYPE(exc)->tp_name);
    handled = offer(PyModule_GetState(module), exc, NULL);
    return handled < 0 ? NULL : PyBool_FromLong(handled);
}

PyObject *sspy_is_asked(PyObject *Py_UNUSED(module), PyObject *exc)
{
    return PyBool_FromLong(exc == asked);
}

/* Write to sys.stderr, as the interpreter does with the message of a SystemExit. */
static void print_message(PyObject *message)
{
    PyObject *file = PySys_GetObject("stderr"); /* borrowed */

    Py_XINCREF(file);
    if (file && file != Py_None &&
        (PyFile_WriteObject(message, file, Py_PRINT_RAW) || PyFile_WriteString("\n", file)))
        PyErr_Clear();
    Py_XDECREF(file);
}

/* The exit status that the interpreter would use for EXC, a SystemExit. */
static int exit_status_of(PyObject *exc)
{
    PyObject *code = sspy_attribute(exc, "code");
    int status = 1;

    if (code == Py_None)
        status = 0;
    else if (code && PyLong_Check(code))
        status = (int)PyLong_AsLong(code);
    else if (code)
        print_message(code);
    Py_XDECREF(code);
    PyErr_Clear();
    return status;
}

HRESULT sspy_report_unhandled(sspy_state *state, PyObject *exc, const void *above, int *exit_status)
{
    const PyObject *outer = asked;
    int handled;

    if (PyErr_GivenExceptionMatches(exc, PyExc_SystemExit)) {
        int status = exit_status_of(exc);

        if (exit_status)
            *exit_status = status;
        return S_FALSE;
    }
    handled = state ? offer(state, exc, above) : 0;
    if (handled < 0)
        PyErr_Clear(); /* no memory for an error object: show the exception anyway */
    if (handled > 0)
        return S_OK;
    asked = exc;
    sspy_set_pending(Py_NewRef(exc));
    PyErr_PrintEx(0); /* 0: sys.last_exc would keep it alive */
    asked = outer;
    return S_OK;
}
