/* What reports leave out, as Python sets it.  The hook is called where its interpreter runs. */
#include "api/api.h"
#include "life/compat.h"
#include "life/text.h"

#include <stacksplice/redact.h>

#include <stdlib.h>
#include <string.h>

static const char *const kind_names[] = {"message", "source", "path", "local"};

static _Thread_local bool is_in_hook; /* what the hook reports itself has no hook */

/* Whether this thread runs code of INTERP. */
static bool runs_here(const sspy_interp *interp)
{
    PyThreadState *now = sspy_thread_state_here();

    return now && !interp->ends && PyThreadState_GetInterpreter(now) == interp->state;
}

/* The hook's text as bytes, or NULL.  No caller can take its exception; an interrupt comes later.
 */
static PyObject *call(PyObject *hook, const char *text, size_t length, const char *kind)
{
    PyObject *given = sspy_text_from_utf8(text, length);
    PyObject *made = given ? PyObject_CallFunction(hook, "Os", given, kind) : NULL;
    PyObject *bytes = made && PyUnicode_Check(made) ? sspy_utf8_from_text(made) : NULL;

    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        PyErr_SetInterrupt();
    PyErr_Clear();
    Py_XDECREF(given);
    Py_XDECREF(made);
    return bytes;
}

/* A stacksplice_redact_callback; DATA is the interpreter. */
static int call_hook(const char *text, size_t length, stacksplice_text_kind kind,
                     stacksplice_write_callback write, void *write_data, void *data)
{
    const sspy_interp *interp = data;
    PyObject *hook, *bytes, *pending;
    int failed;

    if (is_in_hook || !runs_here(interp) || !interp->module_state ||
        !interp->module_state->redact_hook)
        return 1;
    hook = Py_NewRef(interp->module_state->redact_hook);
    pending = sspy_take_pending();
    is_in_hook = true;
    bytes = call(hook, text, length, kind_names[kind - 1]);
    is_in_hook = false;
    failed = !bytes || write(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes), write_data);
    Py_XDECREF(bytes);
    Py_DECREF(hook);
    sspy_set_pending(pending);
    return failed;
}

static int read_names(PyObject *names, const char *out[STACKSPLICE_REDACT_NAMES_MAX])
{
    if (PyTuple_GET_SIZE(names) > STACKSPLICE_REDACT_NAMES_MAX) {
        PyErr_Format(PyExc_ValueError, "names has more than %d names",
                     STACKSPLICE_REDACT_NAMES_MAX);
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); i++) {
        out[i] = PyUnicode_AsUTF8(PyTuple_GET_ITEM(names, i));
        if (!out[i])
            return -1;
    }
    return 0;
}

PyObject *sspy_set_redaction(PyObject *module, PyObject *arguments)
{
    sspy_state *state = PyModule_GetState(module);
    const char *texts[STACKSPLICE_REDACT_NAMES_MAX];
    stacksplice_redaction redaction = {.size = sizeof redaction, .names = texts};
    PyObject *names, *hook, *before;
    HRESULT hr;

    if (!PyArg_ParseTuple(arguments, "IO!O:_set_redaction", &redaction.rules, &PyTuple_Type, &names,
                          &hook) ||
        read_names(names, texts))
        return NULL;
    redaction.name_count = (uint32_t)PyTuple_GET_SIZE(names);
    if (hook != Py_None) {
        sspy_interp_ref(state->interp); /* which the core may ask for as long as the process runs */
        redaction.hook = call_hook;
        redaction.hook_data = state->interp;
    }
    before = state->redact_hook;
    state->redact_hook = hook != Py_None ? Py_NewRef(hook) : NULL;
    hr = stacksplice_set_redaction(&redaction);
    if (FAILED(hr)) {
        Py_XSETREF(state->redact_hook, before);
        return hr == E_OUTOFMEMORY
                   ? PyErr_NoMemory()
                   : PyErr_Format(PyExc_ValueError,
                                  "a name has up to %d letters and digits, '_' and '-', in ASCII",
                                  STACKSPLICE_REDACT_NAME_MAX);
    }
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

/* TEXT as reports have it; the same object if nothing was removed. */
PyObject *sspy_redact(PyObject *module, PyObject *arguments)
{
    sspy_text_buffer buffer = {NULL, 0, 0};
    PyObject *text, *bytes, *result = NULL;
    int kind;
    HRESULT hr;

    (void)module;
    if (!PyArg_ParseTuple(arguments, "Ui:_redact", &text, &kind))
        return NULL;
    bytes = sspy_utf8_from_text(text);
    if (!bytes)
        return NULL;
    hr = stacksplice_redact(PyBytes_AS_STRING(bytes), (size_t)PyBytes_GET_SIZE(bytes),
                            (stacksplice_text_kind)kind, sspy_text_append, &buffer);
    if (hr == E_INVALIDARG)
        PyErr_SetString(PyExc_ValueError, "kind is invalid");
    else if (hr != S_OK)
        PyErr_NoMemory();
    else if (buffer.length == (size_t)PyBytes_GET_SIZE(bytes) &&
             (!buffer.length || !memcmp(buffer.text, PyBytes_AS_STRING(bytes), buffer.length)))
        result = Py_NewRef(text);
    else
        result = sspy_text_from_utf8(buffer.text ? buffer.text : "", buffer.length);
    free(buffer.text);
    Py_DECREF(bytes);
    return result;
}

PyObject *sspy_redact_name(PyObject *module, PyObject *name)
{
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8(name) : NULL;

    (void)module;
    PyErr_Clear(); /* a name with surrogates is none of ours */
    return sspy_text_or_none(text ? stacksplice_redact_name(text) : NULL);
}
