/*
 * Pins: keep an exception alive before code outside gets a reference on its error.
 *
 * An error at rest does not keep its exception, which would otherwise live for ever.  A caller that
 * has the exception makes the language exception keep it, and the exceptions it was made from, as
 * far as the exception still names them.  Then one reference on the error counts for all.
 */
#include "value/value.h"

static void keep(sspy_interp *interp, stacksplice_exception *x, PyObject *exc);

/* If ERROR was made for EXC, which may be NULL, let its language exception keep EXC.  Returns
   whether it was. */
static bool keep_for(sspy_interp *interp, const IScriptErrorInfo *error, PyObject *exc)
{
    sspy_ties *ties = exc ? sspy_ties_of(interp, exc) : NULL;

    if (!ties || ties->core.error != error || ties->core.foreign || !ties->core.exception)
        return false;
    keep(interp, ties->core.exception, exc);
    return true;
}

/* The same for X's cause, if EXC still names it. */
static void keep_cause(sspy_interp *interp, stacksplice_exception *x, PyObject *exc)
{
    IScriptErrorInfo *error = stacksplice_exception_related(x, 0);
    PyObject *cause = error ? PyException_GetCause(exc) : NULL;
    PyObject *context = error ? PyException_GetContext(exc) : NULL;

    if (error && !keep_for(interp, error, cause))
        (void)keep_for(interp, error, context);
    Py_XDECREF(cause); /* EXC keeps both */
    Py_XDECREF(context);
}

/* The errors of members are in the order of the members, but not every member has one. */
static void keep_members(sspy_interp *interp, stacksplice_exception *x, PyObject *exc)
{
    PyObject *members = sspy_group_members(exc);
    Py_ssize_t count = members ? PyTuple_GET_SIZE(members) : 0, next = 0;
    IScriptErrorInfo *error;

    for (uint32_t i = 1; count && (error = stacksplice_exception_related(x, i)) != NULL; i++) {
        Py_ssize_t at = next;

        while (at < count && !keep_for(interp, error, PyTuple_GET_ITEM(members, at)))
            at++;
        if (at < count)
            next = at + 1;
    }
}

static void keep(sspy_interp *interp, stacksplice_exception *x, PyObject *exc)
{
    if (interp->ends || stacksplice_exception_is_held(x))
        return;
    if (!stacksplice_exception_keep(x, Py_NewRef(exc)))
        Py_DECREF(exc);
    keep_cause(interp, x, exc);
    keep_members(interp, x, exc);
}

IUnknown *sspy_ties_pin(sspy_interp *interp, const stacksplice_ties *ties, PyObject *exc)
{
    IUnknown *unknown;

    if (!ties->exception)
        return NULL;
    keep(interp, ties->exception, exc);
    unknown = stacksplice_exception_unknown(ties->exception);
    unknown->lpVtbl->AddRef(unknown);
    return unknown;
}

IScriptErrorInfo *sspy_ties_hold(sspy_ties *ties, PyObject *exc)
{
    IScriptErrorInfo *error = ties ? ties->core.error : NULL;
    IUnknown *pinned;

    if (!error)
        return NULL;
    pinned = sspy_ties_pin(ties->interp, &ties->core, exc);
    error->lpVtbl->AddRef(error);
    sspy_unknown_release(pinned); /* ERROR holds it, or another error does */
    return error;
}
