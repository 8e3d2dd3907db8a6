/*
 * For C and C++ programs that embed or extend CPython: errors cross between Python and HRESULTs
 * with their identity, stack and propagation chain.
 *
 * The functions are reached through a table in a capsule of the Python package, so nothing has to
 * be linked but libstacksplice.  All translation units of one binary share the table: call
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
 * Every function needs the GIL, which its mark says as "gil: held".
 */
#ifndef STACKSPLICE_PYTHON_H
#define STACKSPLICE_PYTHON_H

#include <Python.h>

#include <stacksplice/source.h>
#include <stacksplice/stacksplice.h>

#if defined(__GNUC__)
#define STACKSPLICE_PYTHON_INLINE static inline __attribute__((always_inline, unused))
/* `return stacksplice_python_raise(hr);` must stay a call: a jump would take the caller's frame out
   of the stack that is captured there. */
#define STACKSPLICE_PYTHON_STAY() __asm__ volatile("" ::: "memory")
#else
#define STACKSPLICE_PYTHON_INLINE static inline
#define STACKSPLICE_PYTHON_STAY() ((void)0)
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define STACKSPLICE_PYTHON_API_VERSION 1

/* The table in the capsule.  It only grows; size says how far it reaches. */
typedef struct stacksplice_python_api {
    size_t size;
    uint32_t version; /* STACKSPLICE_PYTHON_API_VERSION */
    stacksplice_hresult (*originate)(void);
    PyObject *(*raise)(stacksplice_hresult hr);
    stacksplice_hresult (*exception)(PyObject *exc, IUnknown **out);
    PyObject *(*object)(IUnknown *language_exception);
    stacksplice_hresult (*unhandled)(int *exit_status);
} stacksplice_python_api;

/* One variable for each binary, however many translation units include this header. */
#if defined(__cplusplus) && __cplusplus >= 201703L
__attribute__((
    visibility("hidden"))) inline const stacksplice_python_api *stacksplice_python_table = nullptr;
#else
__attribute__((weak, visibility("hidden"))) const stacksplice_python_api *stacksplice_python_table;
#endif

/* CO_E_NOTINITIALIZED: what HRESULT functions give without an imported table. */
#define STACKSPLICE_PYTHON_NOT_IMPORTED ((stacksplice_hresult)0x800401F0)

/* Private: the pending Python exception, put aside (in one object from 3.12 on) and back. */
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

/* Private: the pending Python exception becomes the thread's error, by its message only. */
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
 * host put the extension into the inittab as "_stacksplice", that one is used.
 *
 * Returns S_OK.  Errors: CO_E_NOTINITIALIZED without an interpreter; 8007007E when the package
 * cannot be imported (the thread's error has the reason); E_NOINTERFACE when it is too old for this
 * header; E_OUTOFMEMORY.  No Python exception is left set; one that was pending stays.
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
 * The pending Python exception becomes the thread's error, with its type, message, traceback frames
 * and the combined stack here; the exception is cleared.  An exception that already has an error
 * object (it came through here before) keeps it, with its chain.
 *
 * Returns the failing HRESULT, which the caller hands on.  Without a pending exception:
 * E_UNEXPECTED, originated as such.  Before stacksplice_python_import: CO_E_NOTINITIALIZED, and the
 * exception stays.
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
 * The thread's error becomes the pending Python exception: the same object if it was born in this
 * interpreter, else an HResultError (a ValueError too for E_INVALIDARG, and so on).  The exception
 * then owns the error and the slot is empty; one propagation node says that Python received it.  An
 * error of another HRESULT is stale: a fresh one is raised for HR.
 *
 * Always returns NULL, so that `return stacksplice_python_raise(hr);` is all there is to write.
 * An exception is always set, for a success code a SystemError; also while the interpreter ends and
 * the package is gone from it already.  After its end there is nothing to set one in.
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
 * thread's slot is not touched.
 *
 * Returns S_OK.  Errors: E_POINTER if exc or out is NULL; E_INVALIDARG if exc is not an exception
 * instance; E_OUTOFMEMORY; CO_E_NOTINITIALIZED.  No Python exception is left set.
 * [own: caller releases *out | gil: held | alloc: yes | signal: no]
 */
STACKSPLICE_PYTHON_INLINE stacksplice_hresult stacksplice_python_exception(PyObject *exc,
                                                                           IUnknown **out)
{
    return stacksplice_python_table ? stacksplice_python_table->exception(exc, out)
                                    : STACKSPLICE_PYTHON_NOT_IMPORTED;
}

/*
 * The exception object that LANGUAGE_EXCEPTION stands for.  NULL, without a Python exception, when
 * it is not Python's, or not of this interpreter.
 * [own: new reference | gil: held | alloc: no | signal: no]
 */
STACKSPLICE_PYTHON_INLINE PyObject *stacksplice_python_object(IUnknown *language_exception)
{
    return stacksplice_python_table ? stacksplice_python_table->object(language_exception) : NULL;
}

/*
 * The pending Python exception has nowhere to go: the host called Python itself, and nobody outside
 * takes an error.  It is reported as one that nobody caught, and cleared; the process goes on.
 *
 * First the handler of stacksplice_set_unhandled_handler is asked, if the host has one.  What that
 * does not handle goes to sys.excepthook, as with PyErr_Print: with stacksplice.install() the
 * combined report is shown, without it the interpreter's own traceback.  Unlike PyErr_Print it does
 * not end the process at a SystemExit and keeps the exception in no sys.last_exc.
 *
 * Returns S_OK when it was reported; S_FALSE for a SystemExit, which is a wish and no error: then
 * *exit_status (unless exit_status is NULL) is the status that the interpreter would have ended
 * with, and a message in place of a number has been written to sys.stderr.  Errors: E_UNEXPECTED
 * when no exception is pending; CO_E_NOTINITIALIZED, and the exception stays.
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
