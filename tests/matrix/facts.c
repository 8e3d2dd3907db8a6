/* What is found of an error on its way and where it is caught. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stacksplice/python.h>
#include <stdlib.h>
#include <string.h>

#include "../support/frame_lists.h"
#include "facts.h"

enum { MAX_FRAMES = 4000 };

static PyObject *facts; /* dict */
static const void *passed;
static int wrong_slots, changed_errors;

/* PyGILState_Check says yes to every thread once there has been a sub-interpreter. */
static int holds_the_lock(void)
{
    PyThreadState *mine = PyGILState_GetThisThreadState();

#if PY_VERSION_HEX >= 0x030D0000
    return mine && mine == PyThreadState_GetUnchecked();
#else
    return mine && mine == _PyThreadState_UncheckedGet();
#endif
}

void *matrix_unlock(void)
{
    return holds_the_lock() ? PyEval_SaveThread() : NULL;
}

void matrix_lock(void *unlocked)
{
    if (unlocked)
        PyEval_RestoreThread(unlocked);
}

/* ---- The catcher's own words ------------------------------------------------------------------*/

static void add_fact(const char *name, PyObject *value)
{
    if (!value || !facts || PyDict_SetItemString(facts, name, value) != 0)
        abort();
    Py_DECREF(value);
}

void matrix_fact_text(const char *name, const char *text, size_t length)
{
    add_fact(name, PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "surrogateescape"));
}

void matrix_fact_number(const char *name, long long number)
{
    add_fact(name, PyLong_FromLongLong(number));
}

/* ---- On the way -------------------------------------------------------------------------------*/

void matrix_passed(HRESULT hr)
{
    IRestrictedErrorInfo *error = NULL;
    HRESULT stored = S_OK;

    if (stacksplice_peek_error(&error) != S_OK)
        return;
    if (passed && passed != error)
        changed_errors++;
    if (FAILED(stacksplice_error_hresult((IUnknown *)error, &stored)) || stored != hr)
        changed_errors++;
    passed = error;
    error->lpVtbl->Release(error);
}

void matrix_check_slot(void)
{
    IRestrictedErrorInfo *error = NULL;

    if (stacksplice_peek_error(&error) == S_FALSE)
        return;
    error->lpVtbl->Release(error);
    wrong_slots++;
}

/* ---- What the error object says ---------------------------------------------------------------*/

/* Of an error object or a node. */
static PyObject *stack_of(IUnknown *error)
{
    static uintptr_t frames[MAX_FRAMES];
    PyObject *stack = PyList_New(0);
    uint32_t count = 0;

    if (FAILED(stacksplice_error_stack(error, MAX_FRAMES, frames, &count)) || !stack)
        abort();
    for (uint32_t i = 0; i < count; i++)
        add_frames(stack, frames[i]);
    return stack;
}

/* (language, stack) of the nodes, oldest first. */
static PyObject *chain_of(IRestrictedErrorInfo *error)
{
    ILanguageExceptionErrorInfo2 *info = NULL, *node = NULL, *older;
    PyObject *chain = PyList_New(0);

    if (FAILED(error->lpVtbl->QueryInterface(error, &IID_ILanguageExceptionErrorInfo2,
                                             (void **)&info)) ||
        !chain)
        abort();
    (void)info->lpVtbl->GetPropagationContextHead(info, &node);
    info->lpVtbl->Release(info);
    while (node) {
        const char *language = NULL;
        PyObject *pair;

        if (stacksplice_node_language((IUnknown *)node, &language) != S_OK)
            abort();
        pair = Py_BuildValue("(sN)", language, stack_of((IUnknown *)node));
        if (!pair || PyList_Insert(chain, 0, pair) != 0)
            abort();
        Py_DECREF(pair);
        older = NULL;
        (void)node->lpVtbl->GetPreviousLanguageExceptionErrorInfo(node, &older);
        node->lpVtbl->Release(node);
        node = older;
    }
    return chain;
}

static IUnknown *language_exception_of(IRestrictedErrorInfo *error)
{
    ILanguageExceptionErrorInfo *info = NULL;
    IUnknown *exception = NULL;

    if (SUCCEEDED(error->lpVtbl->QueryInterface(error, &IID_ILanguageExceptionErrorInfo,
                                                (void **)&info))) {
        (void)info->lpVtbl->GetLanguageException(info, &exception);
        info->lpVtbl->Release(info);
    }
    return exception;
}

/* The language and the whole message, as the language exception tells them. */
static void add_script_facts(IUnknown *exception)
{
    IScriptException *script = NULL;
    const char *message;
    size_t length = 0;

    if (!exception || FAILED(exception->lpVtbl->QueryInterface(
                          exception, &stacksplice_IID_IScriptException, (void **)&script)))
        return;
    message = script->lpVtbl->GetMessage(script, &length);
    matrix_fact_text("whole message", message ? message : "", length);
    message = script->lpVtbl->GetLanguage(script);
    matrix_fact_text("language", message, strlen(message));
    script->lpVtbl->Release(script);
}

static int is_thrown(IUnknown *exception)
{
    switch (matrix.path[matrix.length - 1]) {
    case 'P':
        return matrix_is_thrown_by_python(exception);
    case 'L':
    case 'M':
        return matrix_is_thrown_by_lua(exception);
    case 'T':
        return matrix_is_thrown_by_tiny(exception);
    default:
        return -1;
    }
}

void matrix_collect(HRESULT hr)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    IRestrictedErrorInfo *error = NULL;
    BSTR description = NULL, message = NULL, sid = NULL;
    HRESULT stored = S_OK;
    IUnknown *exception;
    char text[2000];

    matrix_fact_number("hr", hr);
    if (stacksplice_peek_error(&error) == S_OK) {
        if (passed && passed != error)
            changed_errors++;
        (void)error->lpVtbl->GetErrorDetails(error, &description, &stored, &message, &sid);
        matrix_fact_number("stored", stored);
        (void)stacksplice_utf8(message, SysStringLen(message), text, sizeof text);
        matrix_fact_text("message", text, strlen(text));
        SysFreeString(description);
        SysFreeString(message);
        SysFreeString(sid);
        add_fact("stack", stack_of((IUnknown *)error));
        add_fact("chain", chain_of(error));
        exception = language_exception_of(error);
        add_script_facts(exception);
        matrix_fact_number("identity", is_thrown(exception));
        if (exception)
            exception->lpVtbl->Release(exception);
        if (matrix.path[matrix.length - 1] == 'X')
            matrix_fact_number("identity", matrix_is_thrown_by_cpp(hr));
        error->lpVtbl->Release(error);
    }
    RoClearError();
    PyGILState_Release(lock);
}

/* ---- For the module ---------------------------------------------------------------------------*/

void matrix_facts_reset(void)
{
    Py_XSETREF(facts, PyDict_New());
    passed = NULL;
    wrong_slots = changed_errors = 0;
}

PyObject *matrix_facts_take(void)
{
    PyObject *taken = facts;

    facts = NULL;
    if (PyDict_SetItemString(taken, "wrong slots", PyLong_FromLong(wrong_slots)) != 0 ||
        PyDict_SetItemString(taken, "changed errors", PyLong_FromLong(changed_errors)) != 0)
        abort();
    return taken;
}

PyObject *matrix_facts(void)
{
    return facts;
}
