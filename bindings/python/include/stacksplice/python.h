/*
 * For C and C++ programs that embed or extend CPython: errors cross between Python and HRESULTs
 * with their identity, stack and propagation chain.
 *
 * The functions call through a table in a capsule of the Python package, so a program links only
 * libstacksplice.  All translation units of one binary share the table.  The first call of a
 * function imports the package.  A host that calls stacksplice_python_import at its start learns
 * there what is missing, and the stacks of errors born in C have Python's frames from then on.
 *
 *     static HRESULT call_python(PyObject *callable)
 *     {
 *         PyObject *result = PyObject_CallNoArgs(callable);
 *         if (!result)
 *             return stacksplice_python_originate();   // Python -> HRESULT
 *         Py_DECREF(result);
 *         return S_OK;
 *     }
 *     static PyObject *method(PyObject *self, PyObject *unused)
 *     {
 *         HRESULT hr = native_work();
 *         if (FAILED(hr))
 *             return stacksplice_python_raise(hr);    // HRESULT -> Python
 *         Py_RETURN_NONE;
 *     }
 *
 * Every function needs the GIL: "gil: held" in its mark.
 */
#ifndef STACKSPLICE_PYTHON_H
#define STACKSPLICE_PYTHON_H

#include <Python.h>

#include <stacksplice/script.h>
#include <stacksplice/stacksplice.h>

#if defined(__GNUC__)
#define STACKSPLICE_PYTHON_INLINE static inline __attribute__((always_inline, unused))
/* `return stacksplice_python_raise(hr);` must stay a call: a jump would remove the caller's frame
   from the captured stack. */
#define STACKSPLICE_PYTHON_STAY() __asm__ volatile("" ::: "memory")
/* What happens at most once stays out of the callers' code. */
#define STACKSPLICE_PYTHON_RARE static __attribute__((noinline, cold, unused))
#else
#define STACKSPLICE_PYTHON_INLINE static inline
#define STACKSPLICE_PYTHON_STAY() ((void)0)
#define STACKSPLICE_PYTHON_RARE static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define STACKSPLICE_PYTHON_API_VERSION 1

/* The table in the capsule.  It only grows; size is that of the table that was loaded. */
typedef struct stacksplice_python_api {
    size_t size;
    uint32_t version; /* STACKSPLICE_PYTHON_API_VERSION */
    stacksplice_hresult (*originate)(void);
    PyObject *(*raise)(stacksplice_hresult hr);
    stacksplice_hresult (*exception)(PyObject *exc, IUnknown **out);
    PyObject *(*object)(IUnknown *language_exception);
    stacksplice_hresult (*unhandled)(int *exit_status);
} stacksplice_python_api;

/* One variable per binary, however many translation units include this header. */
#if defined(__cplusplus) && __cplusplus >= 201703L
__attribute__((
    visibility("hidden"))) inline const stacksplice_python_api *stacksplice_python_table = nullptr;
#else
__attribute__((weak, visibility("hidden"))) const stacksplice_python_api *stacksplice_python_table;
#endif

/* CO_E_NOTINITIALIZED: what functions return without an interpreter. */
#define STACKSPLICE_PYTHON_NOT_IMPORTED ((stacksplice_hresult)0x800401F0)

/* Private: the pending Python exception, saved (in one object from 3.12 on) and restored. */
typedef struct stacksplice_python_pending {
    PyObject *type, *value, *traceback;
} stacksplice_python_pending;

STACKSPLICE_PYTHON_INLINE void stacksplice_python_save(stacksplice_python_pending *pending)
{
    pending->type = pending->traceback = NULL;
#if PY_VERSION_HEX >= 0x030C0000
    pending->value = PyErr_GetRaisedException();
#else
    PyErr_Fetch(&pending->type, &pending->value, &pending->traceback);
    if (pending->type)
        PyErr_NormalizeException(&pending->type, &pending->value, &pending->traceback);
#endif
}

STACKSPLICE_PYTHON_INLINE void stacksplice_python_restore(stacksplice_python_pending *pending)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyErr_SetRaisedException(pending->value);
#else
    PyErr_Restore(pending->type, pending->value, pending->traceback);
#endif
}

/* Private: the message of VALUE, then what to do about it; NULL without an exception set. */
STACKSPLICE_PYTHON_RARE PyObject *stacksplice_python_text(PyObject *value)
{
    PyObject *text =
        PyErr_GivenExceptionMatches(value, PyExc_ModuleNotFoundError)
            ? PyUnicode_FromFormat("%S: install the package with pip, or put the folder that it is "
                                   "in into PYTHONPATH",
                                   value)
            : PyObject_Str(value);

    if (!text)
        PyErr_Clear();
    return text;
}

/* Private: make TEXT, which may be NULL and is consumed, the message of the thread's error HR. */
STACKSPLICE_PYTHON_RARE stacksplice_hresult stacksplice_python_tell(stacksplice_hresult hr,
                                                                    PyObject *text)
{
#ifndef STACKSPLICE_NO_WINRT
    stacksplice_python_pending pending;
    Py_ssize_t length = 0;
    const char *message;

    stacksplice_python_save(&pending);
    message = text ? PyUnicode_AsUTF8AndSize(text, &length) : NULL;
    PyErr_Clear();
    (void)stacksplice_originate(hr, message ? message : "", message ? (size_t)length : 0, NULL,
                                NULL);
    stacksplice_python_restore(&pending);
#endif
    Py_XDECREF(text);
    return hr;
}

/* Private: the HRESULT and the message of the pending Python exception, which is cleared. */
STACKSPLICE_PYTHON_RARE stacksplice_hresult stacksplice_python_reason(PyObject **text)
{
    stacksplice_python_pending pending;
    stacksplice_hresult hr = (stacksplice_hresult)0x80004005; /* E_FAIL */

    if (PyErr_ExceptionMatches(PyExc_MemoryError))
        hr = (stacksplice_hresult)0x8007000E; /* E_OUTOFMEMORY */
    else if (PyErr_ExceptionMatches(PyExc_ImportError))
        hr = (stacksplice_hresult)0x8007007E; /* HRESULT_FROM_WIN32(ERROR_MOD_NOT_FOUND) */
    stacksplice_python_save(&pending);
    *text = pending.value ? stacksplice_python_text(pending.value) : NULL;
    Py_XDECREF(pending.type);
    Py_XDECREF(pending.value);
    Py_XDECREF(pending.traceback);
    return hr;
}

/* Private: turn the pending Python exception into the thread's error, keeping only its message. */
STACKSPLICE_PYTHON_RARE stacksplice_hresult stacksplice_python_import_failed(void)
{
    PyObject *text;
    stacksplice_hresult hr = stacksplice_python_reason(&text);

    return stacksplice_python_tell(hr, text);
}

/* Private: the table of the package, which is imported; NULL with a Python exception. */
STACKSPLICE_PYTHON_RARE const stacksplice_python_api *stacksplice_python_find(void)
{
    PyObject *name = PyUnicode_FromString("_stacksplice"), *module = NULL;
    const stacksplice_python_api *table = NULL;
    int is_builtin = name ? PySequence_Contains(PySys_GetObject("builtin_module_names"), name) : -1;

    Py_XDECREF(name);
    if (is_builtin >= 0) /* first, because PyCapsule_Import hides why an import failed */
        module = PyImport_ImportModule(is_builtin ? "_stacksplice" : "stacksplice._stacksplice");
    if (module)
        table = (const stacksplice_python_api *)PyCapsule_Import(
            is_builtin ? "_stacksplice._C_API" : "stacksplice._stacksplice._C_API", 0);
    Py_XDECREF(module);
    return table;
}

/*
 * Private: import the package and share its table.  On failure *TEXT is the message, or NULL.
 * The pending exception and the thread's error stay as they are, whatever the import does.
 */
STACKSPLICE_PYTHON_RARE stacksplice_hresult stacksplice_python_load(PyObject **text)
{
    const stacksplice_python_api *table;
    stacksplice_python_pending pending;
    stacksplice_saved_error error;
    stacksplice_hresult hr = 0;

    *text = NULL;
    if (!Py_IsInitialized())
        return STACKSPLICE_PYTHON_NOT_IMPORTED;
    stacksplice_python_save(&pending);
    (void)stacksplice_save_error(&error);
    table = stacksplice_python_find();
    if (!table) {
        hr = stacksplice_python_reason(text);
    } else if (table->version != STACKSPLICE_PYTHON_API_VERSION || table->size < sizeof *table) {
        hr = (stacksplice_hresult)0x80004002; /* E_NOINTERFACE */
        *text = PyUnicode_FromString("the Python package stacksplice is too old for this program");
    } else {
        stacksplice_python_table = table;
    }
    (void)stacksplice_restore_error(&error);
    stacksplice_python_restore(&pending);
    return hr;
}

/* Private: originate before the package could be imported: the message is all there is. */
STACKSPLICE_PYTHON_RARE stacksplice_hresult stacksplice_python_lost(stacksplice_hresult hr,
                                                                    PyObject *reason)
{
    stacksplice_python_pending pending;
    PyObject *text = NULL;

    stacksplice_python_save(&pending);
    if (reason && pending.value)
        text = PyUnicode_FromFormat("%s: %S (without its stack: %U)",
                                    Py_TYPE(pending.value)->tp_name, pending.value, reason);
    PyErr_Clear();
    Py_XDECREF(pending.type);
    Py_XDECREF(pending.value);
    Py_XDECREF(pending.traceback);
    if (text)
        Py_SETREF(reason, text);
    return stacksplice_python_tell(hr, reason);
}

/*
 * Import the package and share its table.  Calling it again is cheap and changes nothing.  If the
 * host registered the extension in the inittab as "_stacksplice", the function uses that one.  The
 * other functions call it when they need it.
 *
 * Returns S_OK.  Errors: CO_E_NOTINITIALIZED without an interpreter; 8007007E when the package
 * cannot be imported; E_NOINTERFACE when it is too old for this header; E_OUTOFMEMORY.  The
 * thread's error has the reason (but not without an interpreter).  It sets no Python exception; one
 * that was pending stays.
 * [own: nothing | gil: held | alloc: yes | signal: no]
 */
STACKSPLICE_PYTHON_INLINE stacksplice_hresult stacksplice_python_import(void)
{
    PyObject *reason;
    stacksplice_hresult hr;

    if (stacksplice_python_table)
        return 0;
    hr = stacksplice_python_load(&reason);
    if (hr < 0 && hr != STACKSPLICE_PYTHON_NOT_IMPORTED)
        (void)stacksplice_python_tell(hr, reason);
    return hr;
}

/*
 * Make the pending Python exception the thread's error, with its type, message, traceback frames
 * and the combined stack here, and clear it.  An exception that already has an error object,
 * because it crossed a border before, keeps that object with its chain.
 *
 * Returns the failing HRESULT, for the caller to return.  Without a pending exception it originates
 * and returns E_UNEXPECTED.  When the package cannot be imported, it returns the HRESULT of
 * stacksplice_python_import, and the thread's error has the exception's type and message and the
 * reason.  Without an interpreter it returns CO_E_NOTINITIALIZED.
 * [own: clears the exception | gil: held | alloc: yes | signal: no]
 */
STACKSPLICE_PYTHON_INLINE stacksplice_hresult stacksplice_python_originate(void)
{
    PyObject *reason = NULL;
    stacksplice_hresult hr = stacksplice_python_table ? 0 : stacksplice_python_load(&reason);

    if (hr >= 0)
        hr = stacksplice_python_table->originate();
    else if (hr != STACKSPLICE_PYTHON_NOT_IMPORTED)
        hr = stacksplice_python_lost(hr, reason);
    STACKSPLICE_PYTHON_STAY();
    return hr;
}

/* Private: raise before the package could be imported.  REASON is consumed. */
STACKSPLICE_PYTHON_RARE void stacksplice_python_refuse(stacksplice_hresult hr, PyObject *reason)
{
    if (reason)
        PyErr_Format(PyExc_SystemError, "the error 0x%08x cannot be raised. %U", (unsigned)hr,
                     reason);
    else
        PyErr_NoMemory();
    Py_XDECREF(reason);
}

/*
 * Raise the thread's error as a Python exception: the same object if it was raised in this
 * interpreter, else an HResultError (for E_INVALIDARG also a ValueError, and so on).  The exception
 * then owns the error, the slot is empty, and the error has one more propagation node, for Python.
 * An error with another HRESULT in the slot is stale: the function raises a new one for HR.
 *
 * Always returns NULL, so write `return stacksplice_python_raise(hr);`.  It always sets an
 * exception, for a success code a SystemError, even while the interpreter shuts down and the
 * package is gone from it.  When the package cannot be imported, it is a SystemError with the
 * reason, and the thread's error stays.  Without an interpreter there is nothing to set it in.
 * [own: takes the thread's error | gil: held | alloc: yes | signal: no]
 */
STACKSPLICE_PYTHON_INLINE PyObject *stacksplice_python_raise(stacksplice_hresult hr)
{
    PyObject *reason = NULL;
    const stacksplice_hresult loaded =
        stacksplice_python_table ? 0 : stacksplice_python_load(&reason);

    if (loaded >= 0)
        (void)stacksplice_python_table->raise(hr);
    else if (loaded != STACKSPLICE_PYTHON_NOT_IMPORTED)
        stacksplice_python_refuse(hr, reason);
    STACKSPLICE_PYTHON_STAY();
    return NULL;
}

/*
 * The language exception of EXC, an exception instance: the same one for as long as EXC lives.  The
 * thread's slot does not change.
 *
 * Returns S_OK.  Errors: E_POINTER if exc or out is NULL; E_INVALIDARG if exc is not an exception
 * instance; E_OUTOFMEMORY; those of stacksplice_python_import.  It sets no Python exception.
 * [own: caller releases *out | gil: held | alloc: yes | signal: no]
 */
STACKSPLICE_PYTHON_INLINE stacksplice_hresult stacksplice_python_exception(PyObject *exc,
                                                                           IUnknown **out)
{
    const stacksplice_hresult hr = stacksplice_python_import();

    return hr < 0 ? hr : stacksplice_python_table->exception(exc, out);
}

/*
 * The exception object of LANGUAGE_EXCEPTION.  NULL, without a Python exception, if it belongs to
 * another language or interpreter.
 * [own: new reference | gil: held | alloc: no | signal: no]
 */
STACKSPLICE_PYTHON_INLINE PyObject *stacksplice_python_object(IUnknown *language_exception)
{
    PyObject *reason = NULL;

    if (!stacksplice_python_table && stacksplice_python_load(&reason) < 0) {
        Py_XDECREF(reason);
        return NULL;
    }
    return stacksplice_python_table->object(language_exception);
}

/*
 * Report and clear the pending Python exception where no caller can handle an error: the host
 * itself called Python.  The process continues.
 *
 * The handler of stacksplice_set_unhandled_handler comes first, if the host has one.  What it does
 * not handle goes to sys.excepthook, as with PyErr_Print: that shows the combined report after
 * stacksplice.install(), else the interpreter's own traceback.  Unlike PyErr_Print, the function
 * does not end the process for a SystemExit and does not set sys.last_exc.
 *
 * Returns S_OK when the exception was reported; S_FALSE for a SystemExit, which is a request and
 * not an error.  *exit_status (unless exit_status is NULL) is then the exit status that the
 * interpreter would have used; a message in place of a number was written to sys.stderr.  Errors:
 * E_UNEXPECTED if no exception is pending; those of stacksplice_python_import, and the exception
 * stays.
 * [own: clears the exception | gil: held, runs Python code | alloc: yes | signal: no]
 */
STACKSPLICE_PYTHON_INLINE stacksplice_hresult stacksplice_python_unhandled(int *exit_status)
{
    stacksplice_hresult hr = stacksplice_python_import();

    if (hr >= 0)
        hr = stacksplice_python_table->unhandled(exit_status);
    STACKSPLICE_PYTHON_STAY();
    return hr;
}

#ifdef __cplusplus
}
#endif
#endif
