/*
 * The stack at the raise, for exceptions that will be unwound before they reach a border.
 *
 * sys.monitoring (3.12 on) calls `_raised` in each Python frame that an exception enters, before
 * that frame is unwound.  The first call for an exception object captures its stack, with native
 * frames, into the exception's own ties.  The stack dies with the exception and keeps nothing
 * alive.
 */
#include "stack/stack.h"

#include <stdlib.h>
#include <string.h>

/* Loops and generators end with these; they are no errors, and frequent. */
static bool is_end_of_iteration(PyObject *exc)
{
    PyObject *type = (PyObject *)Py_TYPE(exc);

    return type == PyExc_StopIteration || type == PyExc_StopAsyncIteration ||
           type == PyExc_GeneratorExit;
}

int sspy_keep_raised(sspy_interp *interp, PyObject *exc, sspy_room *room, uint32_t count)
{
    sspy_ties *ties;

    count = stacksplice_copy_ends(room->frames, count, room->limit, room->frames);
    ties = sspy_ties_make(interp, exc);
    if (!ties || !count || ties->raised)
        return ties ? 0 : -1;
    ties->raised = malloc(count * sizeof *ties->raised);
    if (!ties->raised) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(ties->raised, room->frames, count * sizeof *ties->raised);
    ties->raised_count = count;
    ties->raised_epoch = stacksplice_code_epoch();
    return 0;
}

/* Capture the current stack into EXC's ties; -1 with an exception. */
static int take_stack(sspy_interp *interp, PyObject *exc, sspy_room *room)
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

    if (ties && (ties->raised || ties->core.exception || ties->core.error))
        return 0;
    if (sspy_room_begin(&room, stacksplice_max_frames()))
        return -1;
    result = take_stack(interp, exc, &room);
    sspy_room_end(&room);
    return result;
}

PyObject *sspy_raised(PyObject *module, PyObject *const *arguments, Py_ssize_t count)
{
    sspy_interp *interp;

    (void)module;
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
