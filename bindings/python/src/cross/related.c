/*
 * The exceptions that leave Python with another one: its cause or context, the members of a group,
 * and their causes and members in turn.  Each gets its own error object.
 */
#include "cross/related.h"

#include <stdlib.h>

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
static int make_one(sspy_maker *maker, const sspy_step *step, PyObject *exc,
                    IScriptErrorInfo **error)
{
    const sspy_step next = {exc, step, step->number + 1};
    uint32_t depth = 0;
    int failed = 0;

    *error = NULL;
    if (next.number < SSPY_MAX_STEPS)
        failed = maker->error_for(maker, &next, NULL, error);
    if (!*error)
        return failed;
    (void)stacksplice_error_depth((IUnknown *)*error, &depth);
    if (depth >= STACKSPLICE_MAX_DEPTH) {
        sspy_release(maker->state->interp, *error);
        *error = NULL;
    }
    return failed;
}

static int begin_cause(sspy_maker *maker, const sspy_step *step, sspy_related *related)
{
    stacksplice_relation relation;
    PyObject *cause = cause_of(step->exc, &relation);
    int failed = 0;

    /* A circle ends before its first exception would repeat, as in a traceback.  C code can set a
       cause that is no exception. */
    if (cause && !is_in(step, cause)) {
        if (PyExceptionInstance_Check(cause))
            failed = make_one(maker, step, cause, &related->cause);
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
static int begin_members(sspy_maker *maker, const sspy_step *step, sspy_related *related)
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
            failed = make_one(maker, step, exc, &error);
        if (error)
            related->members[related->member_count++] = error;
        else
            related->members_left_out++;
    }
    return failed;
}

int sspy_related_begin(sspy_maker *maker, const sspy_step *step, sspy_related *related)
{
    return begin_cause(maker, step, related) || begin_members(maker, step, related) ? -1 : 0;
}

void sspy_related_end(sspy_state *state, sspy_related *related)
{
    stacksplice_section section = sspy_enter(state->interp);

    sspy_unknown_release(related->cause);
    for (uint32_t i = 0; i < related->member_count; i++)
        sspy_unknown_release(related->members[i]);
    free(related->members);
    sspy_leave(section);
}
