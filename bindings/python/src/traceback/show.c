/*
 * Puts the frames between the border and an exception's __traceback__ before it, for the exception
 * that arrives and for those that arrive with it.
 */
#include "traceback/between.h"
#include "traceback/entries.h"

#include <string.h>

enum { SHOWN_MAX = 100 /* elements between; half of them at each end */ };

/* Both ends of BETWEEN, or its inner end if its outermost frames were left out already. */
static uint32_t shown_of(const sspy_between *between, uintptr_t *shown)
{
    uint32_t count = between->count - 1, inner = count < SHOWN_MAX ? count : SHOWN_MAX, left_out;

    if (!between->count || !between->outermost)
        return stacksplice_copy_ends(between->frames, between->count, SHOWN_MAX + 1, shown);
    memcpy(shown, between->frames, inner * sizeof *shown);
    left_out = stacksplice_frames_left_out(&between->outermost, 1) + (count - inner);
    shown[inner] = stacksplice_left_out(left_out);
    return inner + 1;
}

/* Put the elements of BETWEEN before *TRACEBACK; -1 with an exception. */
static int put_between(sspy_kept_frames *all, PyObject **traceback, const sspy_between *between)
{
    uintptr_t shown[SHOWN_MAX + 1];
    uint32_t count = shown_of(between, shown);

    for (uint32_t i = 0; i < count; i++)
        if (sspy_put_element(all, traceback, shown[i]))
            return -1;
    return between->seam ? sspy_put_element(all, traceback, sspy_gap(between->seam)) : 0;
}

static void show(sspy_state *state, PyObject *exc, const sspy_between *between)
{
    sspy_kept_frames *all = sspy_kept_frames_now(state);
    PyObject *traceback = sspy_traceback_of(exc);

    if (!all || put_between(all, &traceback, between) ||
        (traceback && PyException_SetTraceback(exc, traceback)))
        PyErr_Clear(); /* without memory the exception stays unchanged */
    Py_XDECREF(traceback);
}

static void show_one(sspy_state *state, PyObject *exc, IScriptErrorInfo *error,
                     IScriptErrorInfo *border)
{
    sspy_between between;
    bool elsewhere;

    sspy_between_find(state, exc, error, border, &between);
    elsewhere = between.seam && (between.arrives || !strcmp(between.seam, SSPY_OTHER_THREAD));
    if (between.count || between.seam)
        show(state, exc, &between);
    sspy_between_end(&between);
    if (!elsewhere)
        return;
    sspy_between_arrival(state, error, border, &between);
    if (between.count)
        show(state, exc, &between);
    sspy_between_end(&between);
}

/* EXC's ties if EXC was made for an error born elsewhere and was never raised here; else NULL. */
static sspy_ties *newly_arrived(sspy_state *state, PyObject *exc)
{
    sspy_ties *ties = exc ? sspy_ties_of(state->interp, exc) : NULL;
    PyObject *traceback = exc ? sspy_traceback_of(exc) : NULL;
    bool is_new = ties && ties->core.foreign && !ties->received && !traceback;

    Py_XDECREF(traceback);
    return is_new ? ties : NULL;
}

static void show_related(sspy_state *state, PyObject *exc, IScriptErrorInfo *border, int depth);

/* EXC, which is borrowed and may be NULL, arrives with another exception at BORDER. */
static void show_arrived(sspy_state *state, PyObject *exc, IScriptErrorInfo *border, int depth)
{
    sspy_ties *ties = newly_arrived(state, exc);

    if (!ties || depth > SSPY_MAX_STEPS)
        return;
    show_one(state, exc, ties->core.error, border);
    show_related(state, exc, border, depth + 1);
}

static void show_related(sspy_state *state, PyObject *exc, IScriptErrorInfo *border, int depth)
{
    PyObject *cause = PyException_GetCause(exc), *members = sspy_group_members(exc);

    if (!cause)
        cause = PyException_GetContext(exc);
    show_arrived(state, cause, border, depth);
    Py_XDECREF(cause);
    Py_XINCREF(members);
    for (Py_ssize_t i = 0; members && i < PyTuple_GET_SIZE(members); i++)
        show_arrived(state, PyTuple_GET_ITEM(members, i), border, depth);
    Py_XDECREF(members);
}

void sspy_show_foreign(sspy_state *state, PyObject *exc, IScriptErrorInfo *error)
{
    bool is_new;

    if (!state->shows_foreign)
        return;
    is_new = newly_arrived(state, exc) != NULL;
    show_one(state, exc, error, error);
    if (is_new)
        show_related(state, exc, error, 0);
}
