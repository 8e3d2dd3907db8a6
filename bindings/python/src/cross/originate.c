/*
 * Python -> HRESULT: the language exception of an exception and its error object, those of its
 * causes and of a group's members with them.
 */
#include "cross/related.h"

#include <stdlib.h>
#include <string.h>

/* ---- One exception ----------------------------------------------------------------------------*/

/* A new language exception with the stack that was kept when the exception was raised, or the one
   it has now. */
static sspy_exception *wrap_new(sspy_maker *maker, sspy_ties *ties, const sspy_step *step,
                                sspy_related *related)
{
    sspy_exception *wrapped = NULL;
    uintptr_t *raised = NULL;
    uint32_t count = 0;
    sspy_room room;

    if (ties)
        raised = sspy_ties_take_raised(ties, &count);
    if (raised) {
        wrapped = sspy_exception_new(maker->state->interp, step->exc, raised, count, related);
        free(raised);
        return wrapped;
    }
    if (sspy_room_begin(&room, stacksplice_max_frames()))
        return NULL;
    if (!sspy_stack_of(maker->state, step->exc, step->outer, maker->above, &room, &count))
        wrapped = sspy_exception_new(maker->state->interp, step->exc, room.frames, count, related);
    sspy_room_end(&room);
    return wrapped;
}

/* A new one with all that belongs to it, tied. */
static sspy_exception *wrap_all(sspy_maker *maker, const sspy_step *step)
{
    sspy_interp *interp = maker->state->interp;
    sspy_related related = {.cause = NULL};
    sspy_exception *wrapped = NULL;
    sspy_ties *ties;

    if (!sspy_related_begin(maker, step, &related))
        wrapped = wrap_new(maker, sspy_ties_of(interp, step->exc), step, &related);
    sspy_related_end(maker->state, &related);
    if (!wrapped)
        return NULL;
    ties = sspy_ties_make(interp, step->exc);
    if (ties) {
        sspy_ties_set_exception(ties, wrapped);
    } else if (PyErr_ExceptionMatches(PyExc_MemoryError)) {
        sspy_exception_release(wrapped);
        return NULL;
    } else { /* it can carry none, and is wrapped all the same: only its return is anonymous */
        PyErr_Clear();
    }
    return wrapped;
}

/* The exception's language exception with an outside reference. */
static sspy_exception *wrap(sspy_maker *maker, const sspy_step *step)
{
    sspy_ties *ties = sspy_ties_of(maker->state->interp, step->exc);

    if (!ties || !ties->exception)
        return wrap_all(maker, step);
    sspy_exception_hold(ties->exception, step->exc);
    return ties->exception;
}

/* Originate WRAPPED with HR; *ERROR has an outside reference, or is NULL when that is switched off.
 */
static HRESULT originate_wrapped(sspy_state *state, sspy_exception *wrapped, HRESULT hr,
                                 bool in_slot, IScriptErrorInfo **error)
{
    sspy_section section = sspy_enter(state->interp);
    stacksplice_saved_error saved = {NULL, NULL};
    IRestrictedErrorInfo *restricted = NULL;
    HRESULT result;

    if (!in_slot)
        (void)stacksplice_save_error(&saved);
    result = stacksplice_originate(hr, wrapped->message, wrapped->message_length,
                                   (IUnknown *)&wrapped->backtrace, &restricted);
    if (!in_slot)
        (void)stacksplice_restore_error(&saved);
    *error = sspy_query(restricted, &stacksplice_IID_IScriptErrorInfo);
    sspy_unknown_release(restricted);
    sspy_leave(section);
    return result;
}

/* A new error, with an outside reference in *ERROR; its HRESULT is *HR. */
static int make_error(sspy_maker *maker, const sspy_step *step, bool in_slot,
                      IScriptErrorInfo **error, HRESULT *hr)
{
    sspy_state *state = maker->state;
    sspy_exception *wrapped;
    sspy_ties *ties;
    HRESULT result;

    *hr = sspy_hresult_of(state, step->exc);
    wrapped = wrap(maker, step);
    if (!wrapped)
        return -1;
    result = originate_wrapped(state, wrapped, *hr, in_slot, error);
    ties = *error ? sspy_ties_of(state->interp, step->exc) : NULL;
    if (ties)
        sspy_ties_set_error(ties, *error, false);
    sspy_exception_release(wrapped);
    if (result == E_OUTOFMEMORY)
        PyErr_NoMemory();
    return result == E_OUTOFMEMORY ? -1 : 0;
}

/* The error that EXC has already, with an outside reference and its newest notes; or NULL, with an
   exception when memory ran out. */
static IScriptErrorInfo *known_error(sspy_state *state, PyObject *exc)
{
    sspy_ties *ties = sspy_ties_of(state->interp, exc);
    IScriptErrorInfo *error = ties && ties->error ? sspy_ties_hold(ties, exc) : NULL;

    if (error && sspy_notes_update(state, exc, error)) {
        sspy_release(state->interp, error);
        return NULL;
    }
    return error;
}

static int related_error(sspy_maker *maker, const sspy_step *step, IScriptErrorInfo **error)
{
    HRESULT hr;

    *error = known_error(maker->state, step->exc);
    if (*error || PyErr_Occurred())
        return *error ? 0 : -1;
    if (maker->errors == SSPY_MAX_RELATED)
        return 0;
    maker->errors++;
    return make_error(maker, step, false, error, &hr);
}

/* sspy_error_for; *HR is that of a new error, S_OK when EXC had one. */
static int error_for(sspy_state *state, PyObject *exc, const void *above, bool in_slot,
                     IScriptErrorInfo **error, HRESULT *hr)
{
    sspy_maker maker = {state, above, 0, related_error};
    const sspy_step step = {exc, NULL, 0};

    *hr = S_OK;
    *error = known_error(state, exc);
    if (*error || PyErr_Occurred())
        return *error ? 0 : -1;
    return make_error(&maker, &step, in_slot, error, hr);
}

int sspy_error_for(sspy_state *state, PyObject *exc, const void *above, bool in_slot,
                   IScriptErrorInfo **error)
{
    HRESULT hr;

    return error_for(state, exc, above, in_slot, error, &hr);
}

sspy_exception *sspy_language_exception(sspy_state *state, PyObject *exc, const void *above)
{
    sspy_maker maker = {state, above, 0, related_error};
    const sspy_step step = {exc, NULL, 0};

    return wrap(&maker, &step);
}

/* ---- Into the slot ----------------------------------------------------------------------------*/

static HRESULT put_into_slot(sspy_state *state, IScriptErrorInfo *error)
{
    sspy_section section = sspy_enter(state->interp);
    IRestrictedErrorInfo *restricted = sspy_query(error, &IID_IRestrictedErrorInfo);
    HRESULT hr = E_FAIL;

    (void)stacksplice_error_hresult((IUnknown *)restricted, &hr);
    (void)SetRestrictedErrorInfo(restricted);
    sspy_unknown_release(restricted);
    sspy_leave(section);
    return hr;
}

int sspy_put(sspy_state *state, PyObject *exc, const void *above, HRESULT *hr)
{
    IScriptErrorInfo *error = NULL;

    if (error_for(state, exc, above, true, &error, hr))
        return -1;
    if (!error)
        return 0; /* origination is switched off */
    if (SUCCEEDED(*hr))
        *hr = put_into_slot(state, error); /* an old one; a new one is there */
    sspy_release(state->interp, error);
    sspy_slot_note(state);
    return 0;
}

HRESULT sspy_originate(sspy_state *state, PyObject *exc, const void *above)
{
    HRESULT hr;

    if (!sspy_put(state, exc, above, &hr))
        return hr;
    PyErr_Clear();
    RoOriginateError(E_OUTOFMEMORY, NULL);
    return E_OUTOFMEMORY;
}
