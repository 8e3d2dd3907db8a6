/* python.h: a host calls Python, and Python calls the host. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <assert.h>
#include <stacksplice/python.h>
#include <stdio.h>

/* The host learns at its start whether the package is there. */
static int start(void)
{
    Py_Initialize();
    return SUCCEEDED(stacksplice_python_import());
}

/* Python's exception leaves as an HRESULT; the thread's error keeps it. */
static HRESULT call(PyObject *callable, const char *currency)
{
    PyObject *result = PyObject_CallFunction(callable, "s", currency);

    if (!result)
        return stacksplice_python_originate();
    Py_DECREF(result);
    return S_OK;
}

/* Python calls this: the thread's error becomes an exception. */
static PyObject *rate(PyObject *self, PyObject *currency)
{
    (void)self;
    if (PyUnicode_CompareWithASCIIString(currency, "EUR") != 0) {
        stacksplice_originate(E_BOUNDS, "no such rate", 12, NULL, NULL);
        return stacksplice_python_raise(E_BOUNDS); /* an IndexError and HResultError */
    }
    return PyFloat_FromDouble(1);
}

/* The exception as an object of COM, and the same exception again. */
static int is_kept(PyObject *exception)
{
    IUnknown *language_exception;
    PyObject *same;

    if (FAILED(stacksplice_python_exception(exception, &language_exception)))
        return 0;
    same = stacksplice_python_object(language_exception);
    language_exception->lpVtbl->Release(language_exception);
    Py_XDECREF(same);
    return same == exception;
}

/* The main loop of a host: nobody could handle the exception of an event. */
static int run_event(PyObject *callable)
{
    PyObject *result = PyObject_CallNoArgs(callable);
    int status = 0;

    if (!result && stacksplice_python_unhandled(&status) == S_FALSE)
        return status; /* the event has called sys.exit */
    Py_XDECREF(result);
    return -1;
}

int main(void)
{
    static PyMethodDef method = {"rate", rate, METH_O, NULL};
    PyObject *globals, *callable, *exception;

    if (!start())
        return 1;
    callable = PyCFunction_New(&method, NULL);
    assert(call(callable, "EUR") == S_OK && call(callable, "XXX") == E_BOUNDS);
    RoClearError();
    exception = PyObject_CallFunction(PyExc_ValueError, "s", "no price");
    assert(is_kept(exception));
    globals = PyDict_New();
    Py_XDECREF(
        PyRun_String("import sys\nend = lambda: sys.exit(3)", Py_file_input, globals, globals));
    assert(run_event(PyDict_GetItemString(globals, "end")) == 3);
    Py_DECREF(globals);
    Py_DECREF(exception);
    Py_DECREF(callable);
    Py_Finalize();
    puts("\nok");
    return 0;
}
