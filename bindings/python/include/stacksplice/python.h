/*
 * For C and C++ programs that embed or extend CPython: errors cross between Python and HRESULTs
 * with their identity, stack and propagation chain.
 *
 * The functions call through a table in a capsule of the Python package, so a program links only
 * libstacksplice.  All translation units of one binary share the table: call
 * stacksplice_python_import once, in any of them.
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
#else
#define STACKSPLICE_PYTHON_INLINE static inline
#define STACKSPLICE_PYTHON_STAY() ((void)0)
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

/* CO_E_NOTINITIALIZED: what functions return before stacksplice_python_import. */
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

/* Private: turn the pending Python exception into the thread's error, keeping only its message. */
STACKSPLICE_PYTHON_INLINE stacksplice_hresult stacksplice_python_import_failed(void)
{
    stacksplice_python_pending pending;
    stacksplice_hresult hr = (stacksplice_hresult)0x80004005; /* E_FAIL */

    if (PyErr_ExceptionMatches(PyExc_MemoryError))
        hr = (stacksplice_hresult)0x8007000E; /* E_OUTOFMEMORY */
    else if (PyErr_ExceptionMatches(PyExc_ImportError))
        hr = (stacksplice_hresult)0x8007007E; /* HRESULT_FROM_WIN32(ERROR_MOD_NOT_FOUND) */
    stacksplice_python_save(&pending);
#ifndef STACKSPLICE_NO_WINRT
    {
        PyObject *text = pending.value ? PyObject_Str(pending.value) : NULL;
        Py_ssize_t length = 0;
        const char *message = text ? PyUnicode_AsUTF8AndSize(text, &length) : NULL;

        if (message)
            (void)stacksplice_originate(hr, message, (size_t)length, NULL, NULL);
        Py_XDECREF(text);
    }
#endif
    Py_XDECREF(pending.type);
    Py_XDECREF(pending.value);
    Py_XDECREF(pending.traceback);
    PyErr_Clear();
    return hr;
}

/*
 * Import the package and share its table.  Calling it again is cheap and changes nothing.  If the
 * host registered the extension in the inittab as "_stacksplice", the function uses that one.
 *
 * Returns S_OK.  Errors: CO_E_NOTINITIALIZED without an interpreter; 8007007E when the package
 * cannot be imported (the thread's error has the reason); E_NOINTERFACE when it is too old for this
 * header; E_OUTOFMEMORY.  It sets no Python exception; one that was pending stays.
 * [own: nothing | gil: held | alloc: yes | signal: no]
 */
STACKSPLICE_PYTHON_INLINE stacksplice_hresult stacksplice_python_import(void)
{
    const stacksplice_python_api *table = NULL;
    stacksplice_python_pending pending;
    PyObject *builtin, *module = NULL;
    int is_builtin;
    stacksplice_hresult hr = 0;

    if (stacksplice_python_table)
        return 0;
    if (!Py_IsInitialized())
        return STACKSPLICE_PYTHON_NOT_IMPORTED;
    stacksplice_python_save(&pending);
    builtin = PyUnicode_FromString("_stacksplice");
    is_builtin =
        builtin ? PySequence_Contains(PySys_GetObject("builtin_module_names"), builtin) : -1;
    Py_XDECREF(builtin);
    if (is_builtin >= 0) /* first, because PyCapsule_Import hides why an import failed */
        module = PyImport_ImportModule(is_builtin ? "_stacksplice" : "stacksplice._stacksplice");
    if (module)
        table = (const stacksplice_python_api *)PyCapsule_Import(
            is_builtin ? "_stacksplice._C_API" : "stacksplice._stacksplice._C_API", 0);
    Py_XDECREF(module);
    if (!table)
        hr = stacksplice_python_import_failed();
    else if (table->version != STACKSPLICE_PYTHON_API_VERSION || table->size < sizeof *table)
        hr = (stacksplice_hresult)0x80004002; /* E_NOINTERFACE */
    else
        stacksplice_python_table = table;
    stacksplice_python_restore(&pending);
    return hr;
}

/*
 * Make the pending Python exception the thread's error, with its type, message, traceback frames
 * and the combined stack here, and clear it.  An exception that already has an error object,
 * because it crossed a border before, keeps that object with its chain.
 *
 * Returns the failing HRESULT, for the caller to return.  Without a pending exception it originates
 * and returns E_UNEXPECTED.  Before stacksplice_python_import it returns CO_E_NOTINITIALIZED, and
 * the exception stays.
 * [own: clears the exception | gil: held | alloc: yes | signal: no]
 */
STACKSPLICE_PYTHON_INLINE stacksplice_hresult stacksplice_python_originate(void)
{
    stacksplice_hresult hr = STACKSPLICE_PYTHON_NOT_IMPORTED;

    if (stacksplice_python_table)
        hr = stacksplice_python_table->originate();
    STACKSPLICE_PYTHON_STAY();
    return hr;
}

/*
 * Raise the thread's error as a Python exception: the same object if it was raised in this
 * interpreter, else an HResultError (for E_INVALIDARG also a ValueError, and so on).  The exception
 * then owns the error, the slot is empty, and the error has one more propagation node, for Python.
 * An error with another HRESULT in the slot is stale: the function raises a new one for HR.
 *
 * Always returns NULL, so write `return stacksplice_python_raise(hr);`.  It always sets an
 * exception, for a success code a SystemError, even while the interpreter shuts down and the
 * package is gone from it.  After finalization there is no interpreter to set one in.
 * [own: takes the thread's error | gil: held | alloc: yes | signal: no]
 */
STACKSPLICE_PYTHON_INLINE PyObject *stacksplice_python_raise(stacksplice_hresult hr)
{
    if (stacksplice_python_table)
        (void)stacksplice_python_table->raise(hr);
    else
        PyErr_SetString(PyExc_SystemError, "stacksplice_python_import() has not been called");
    STACKSPLICE_PYTHON_STAY();
    return NULL;
}

/*
 * The language exception of EXC, an exception instance: the same one for as long as EXC lives.  The
 * thread's slot does not change.
 *
 * Returns S_OK.  Errors: E_POINTER if exc or out is NULL; E_INVALIDARG if exc is not an exception
 * instance; E_OUTOFMEMORY; CO_E_NOTINITIALIZED.  It sets no Python exception.
 * [own: caller releases *out | gil: held | alloc: yes | signal: no]
 */
STACKSPLICE_PYTHON_INLINE stacksplice_hresult stacksplice_python_exception(PyObject *exc,
                                                                           IUnknown **out)
{
    return stacksplice_python_table ? stacksplice_python_table->exception(exc, out)
                                    : STACKSPLICE_PYTHON_NOT_IMPORTED;
}

/*
 * The exception object of LANGUAGE_EXCEPTION.  NULL, without a Python exception, if it belongs to
 * another language or interpreter.
 * [own: new reference | gil: held | alloc: no | signal: no]
 */
STACKSPLICE_PYTHON_INLINE PyObject *stacksplice_python_object(IUnknown *language_exception)
{
    return stacksplice_python_table ? stacksplice_python_table->object(language_exception) : NULL;
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
 * E_UNEXPECTED if no exception is pending; CO_E_NOTINITIALIZED, and the exception stays.
 * [own: clears the exception | gil: held, runs Python code | alloc: yes | signal: no]
 */
STACKSPLICE_PYTHON_INLINE stacksplice_hresult stacksplice_python_unhandled(int *exit_status)
{
    stacksplice_hresult hr = STACKSPLICE_PYTHON_NOT_IMPORTED;

    if (stacksplice_python_table)
        hr = stacksplice_python_table->unhandled(exit_status);
    STACKSPLICE_PYTHON_STAY();
    return hr;
}

#ifdef __cplusplus
}
#endif
#endif
