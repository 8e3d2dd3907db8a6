/*
 * A LuaError that lupa makes gets the error of the call that failed: the one that the call's
 * message handler was told of.
 */
#include "lupa/lupa.h"
#include "traceback/match.h"
#include "traceback/traceback.h"

#include <string.h>

/* The length of the first line of TEXT, or of its beginning that all encodings have in common. */
static size_t plain_length(const char *text, size_t length)
{
    size_t i = 0;

    while (i < length && text[i] != '\n' && text[i] != '\r' && !((unsigned char)text[i] & 0x80))
        i++;
    return i;
}

const char *sspy_lupa_message(PyObject *exc, size_t *length)
{
    PyObject *arguments = ((PyBaseExceptionObject *)exc)->args, *first;
    const char *text;
    Py_ssize_t size = 0;

    if (!arguments || !PyTuple_Check(arguments) || PyTuple_GET_SIZE(arguments) != 1)
        return NULL;
    first = PyTuple_GET_ITEM(arguments, 0);
    text = PyUnicode_Check(first) ? PyUnicode_AsUTF8AndSize(first, &size) : NULL;
    if (!text)
        PyErr_Clear();
    *length = (size_t)size;
    return text;
}

/*
 * Whether TEXT, which lupa made of what debug.traceback returned, may tell of ERROR: the script may
 * have exchanged the handler.  lupa moves lines below the first one, decodes bytes that are not
 * UTF-8, and makes "" of a value that is no string.
 */
static bool tells_of(const char *text, size_t length, IUnknown *error)
{
    IScriptException *script = sspy_script_of(error);
    size_t size = 0, line;
    const char *message = script ? script->lpVtbl->GetMessage(script, &size) : NULL;
    bool same = length == 0;

    if (message && !same) {
        line = plain_length(message, size);
        same = line == plain_length(text, length) && !memcmp(text, message, line);
    }
    sspy_unknown_release(script);
    return same;
}

/* Whether Lua runs nothing between the caller, which is outside of ABOVE, and Python's innermost
   frame.  Else a script makes a LuaError, by the class that it was given. */
static bool has_returned(sspy_state *state, const void *above)
{
    enum { NEAR = 64 };
    uintptr_t frames[SSPY_ROOM(NEAR)];
    uint32_t count = sspy_capture(above, NEAR, frames);

    for (uint32_t i = 0; i < count && !sspy_is_frame_of(state, frames[i]); i++)
        if (sspy_lupa_is_script(frames[i]))
            return false;
    return true;
}

/* The last error that a handler of this thread was told of in the call that is HERE, with a
   reference; or NULL. */
static IUnknown *take_last(sspy_state *state, sspy_call here)
{
    sspy_attached *attached = sspy_attached_first(state);
    IUnknown *last = NULL;
    uint64_t last_number = 0;

    for (; attached; attached = sspy_attached_after(attached)) {
        uint64_t number = 0;
        IUnknown *error = sspy_lupa_take_recorded(attached, here, &number);

        if (error && number >= last_number && sspy_attached_is_called(attached)) {
            sspy_release(state->interp, last);
            last = error;
            last_number = number;
        } else {
            sspy_release(state->interp, error);
        }
    }
    return last;
}

/* The error of the call that fails with TEXT, with a reference; or NULL. */
static IScriptErrorInfo *find_error(sspy_state *state, const char *text, size_t length,
                                    const void *above)
{
    IUnknown *error = take_last(state, sspy_call_now(PyThreadState_Get()));
    IScriptErrorInfo *found = NULL;
    stacksplice_section section = sspy_enter(state->interp);

    if (error && tells_of(text, length, error) && has_returned(state, above))
        found = sspy_query(error, &stacksplice_IID_IScriptErrorInfo);
    sspy_unknown_release(error);
    sspy_leave(section);
    return found;
}

/* Reports of ERROR get their local variables from EXC; without memory they do without. */
static void find_by_error(sspy_state *state, PyObject *exc, IScriptErrorInfo *error)
{
    PyObject *key = PyLong_FromVoidPtr(error);
    PyObject *reference = key ? PyWeakref_NewRef(exc, NULL) : NULL;

    if (reference)
        (void)PyDict_SetItem(state->told, key, reference);
    PyErr_Clear();
    Py_XDECREF(reference);
    Py_XDECREF(key);
}

int sspy_lupa_tie(sspy_state *state, PyObject *exc, IScriptErrorInfo *error)
{
    sspy_ties *ties = sspy_ties_make_to_cross(state->interp, exc);

    if (!ties)
        return -1;
    sspy_ties_set_error(ties, error, true);
    if (state->shows_locals)
        find_by_error(state, exc, error);
    sspy_show_error(state, exc, error);
    return 0;
}

void sspy_lupa_error_made(sspy_state *state, PyObject *exc, const void *above)
{
    IScriptErrorInfo *error;
    size_t length = 0;
    const char *text = sspy_lupa_message(exc, &length);

    if (!text)
        return;
    error = find_error(state, text, length, above);
    if (error && sspy_lupa_tie(state, exc, error))
        PyErr_Clear(); /* without memory lupa's exception stays as it is */
    sspy_release(state->interp, error);
}
