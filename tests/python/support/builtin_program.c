/*
 * A host with the extension in its inittab, which runs the script of its argument.  Prints "ok" at its
 * end.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stacksplice/python.h>
#include <stdio.h>

PyMODINIT_FUNC PyInit__stacksplice(void);

static int crosses(void)
{
    PyObject *value = PyObject_CallFunction(PyExc_KeyError, "s", "k"), *again;
    HRESULT hr;

    PyErr_SetObject(PyExc_KeyError, value);
    hr = stacksplice_python_originate();
    if (hr != (HRESULT)0x8000000B || stacksplice_python_raise(hr) != NULL)
        return 0;
#if PY_VERSION_HEX >= 0x030C0000
    again = PyErr_GetRaisedException();
#else
    PyObject *type, *traceback;
    PyErr_Fetch(&type, &again, &traceback);
#endif
    return again == value;
}

/* A new interpreter imports what the table needs by the name in the inittab. */
static int crosses_elsewhere(void)
{
    PyThreadState *mine = PyThreadState_Get(), *other = Py_NewInterpreter();
    int good = other && crosses();

    if (other)
        Py_EndInterpreter(other);
    PyThreadState_Swap(mine);
    return good;
}

int main(int count, char **arguments)
{
    if (PyImport_AppendInittab("_stacksplice", PyInit__stacksplice))
        return 2;
    Py_Initialize();
    if (stacksplice_python_import() != S_OK || !crosses() || !crosses_elsewhere())
        return 3;
    if (count > 1 && PyRun_SimpleString(arguments[1]))
        return 4;
    if (Py_FinalizeEx())
        return 5;
    puts("ok");
    return 0;
}
