/* Reports of crashes, for a program of Python. */
#include "api/api.h"
#include "life/compat.h"

#include <stacksplice/crash.h>

/* True if the handler was not installed before. */
PyObject *sspy_install_crash_handler(PyObject *module, PyObject *others_first)
{
    const stacksplice_crash_options options = {.size = sizeof options, .others_first = 1};
    HRESULT hr = stacksplice_install_crash_handler(others_first == Py_True ? &options : NULL);

    (void)module;
    return FAILED(hr) ? PyErr_NoMemory() : PyBool_FromLong(hr == S_OK);
}

PyObject *sspy_remove_crash_handler(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    (void)stacksplice_remove_crash_handler();
    Py_RETURN_NONE;
}

/* Without memory for it the thread goes on as it was. */
PyObject *sspy_crash_thread(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    (void)stacksplice_crash_thread();
    Py_RETURN_NONE;
}
