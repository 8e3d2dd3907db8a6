/*
 * A LuaError gets the error of which it tells: the one that this thread asked a traceback for last,
 * if its text begins with that error's message.
 */
#include "lupa/lupa.h"
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
 * Whether TEXT, which lupa made of what debug.traceback returned, tells of ERROR.  lupa moves lines
 * below the first one, decodes bytes that are not UTF-8, and makes "" of a value that is no string.
 */
static bool tells_of(const char *text, size_t length, IUnknown *error)
{
    ILanguageExceptionErrorInfo *info = sspy_query(error, &IID_ILanguageExceptionErrorInfo);
    IUnknown *unknown = NULL;
    IScriptException *script;
    const char *message = NULL;
    size_t size = 0, line;
    bool same = length == 0;

    if (info)
        (void)info->lpVtbl->GetLanguageException(info, &unknown);
    script = sspy_query(unknown, &stacksplice_IID_IScriptException);
    if (script)
        message = script->lpVtbl->GetMessage(script, &size);
    if (message && !same) {
        line = plain_length(message, size);
        same = line == plain_length(text, length) && !memcmp(text, message, line);
    }
    sspy_unknown_release(script);
    sspy_unknown_release(unknown);
    sspy_unknown_release(info);
    return same;
}

/* The error of this thread that TEXT tells of, with a reference; or NULL. */
static IScriptErrorInfo *find_error(sspy_state *state, const char *text, size_t length)
{
    IScriptErrorInfo *found = NULL;
    sspy_attached *attached = sspy_attached_first(state);

    for (; attached && !found; attached = sspy_attached_after(attached)) {
        IUnknown *error = sspy_lua_take_last(attached->lua, NULL, 0);

        if (error && tells_of(text, length, error))
            found = sspy_query(error, &stacksplice_IID_IScriptErrorInfo);
        sspy_unknown_release(error);
    }
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
    sspy_ties *ties = sspy_ties_make(state->interp, exc);

    if (!ties)
        return -1;
    sspy_ties_set_error(ties, error, true);
    if (state->shows_locals)
        find_by_error(state, exc, error);
    sspy_show_error(state, exc, error);
    return 0;
}

void sspy_lupa_error_made(sspy_state *state, PyObject *exc)
{
    stacksplice_section section;
    IScriptErrorInfo *error;
    size_t length = 0;
    const char *text = sspy_lupa_message(exc, &length);

    if (!text)
        return;
    section = sspy_enter(state->interp);
    error = find_error(state, text, length);
    sspy_leave(section);
    if (error && sspy_lupa_tie(state, exc, error))
        PyErr_Clear(); /* without memory lupa's exception stays as it is */
    sspy_release(state->interp, error);
}
