/*
 * A host that never calls stacksplice_python_import.
 * usage: first_use leave|enter [package]: without the word there is no package.  Prints the report of
 * an exception that leaves Python, or what Python receives of an error of C.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "check.h"

#include <stacksplice/python.h>
#include <string.h>

static int has_package;

static int to_stdout(const char *text, size_t length, void *data)
{
    return fwrite(text, 1, length, stdout) != length;
}

/* Called by Python: C fails, and Python receives it. */
static PyObject *fail(PyObject *self, PyObject *unused)
{
    IRestrictedErrorInfo *error = NULL;

    (void)stacksplice_originate(E_BOUNDS, "born in C", 9, NULL, NULL);
    CHECK(stacksplice_python_raise(E_BOUNDS) == NULL && PyErr_Occurred());
    /* An error that could not be raised is still there. */
    CHECK(stacksplice_peek_error(&error) == (has_package ? S_FALSE : S_OK));
    if (error)
        error->lpVtbl->Release(error);
    return NULL;
}

static PyMethodDef method = {"fail", fail, METH_NOARGS, NULL};

static HRESULT call(const char *function)
{
    PyObject *module = PyImport_AddModule("__main__");
    PyObject *result = PyObject_CallMethod(module, function, NULL);

    CHECK(!result && PyErr_Occurred());
    return stacksplice_python_originate();
}

static void show(HRESULT hr)
{
    IRestrictedErrorInfo *error = NULL;

    CHECK(FAILED(hr) && !PyErr_Occurred());
    CHECK(GetRestrictedErrorInfo(&error) == S_OK);
    CHECK(stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL, to_stdout, NULL) ==
          S_OK);
    error->lpVtbl->Release(error);
}

static void begin(void)
{
    PyObject *module, *function;

    Py_Initialize();
    module = PyImport_AddModule("__main__");
    function = PyCFunction_New(&method, NULL);
    CHECK(function && PyObject_SetAttrString(module, "fail", function) == 0);
    Py_DECREF(function);
    CHECK(PyRun_SimpleString("def rate():\n    return {}['XXX']\n"
                             "def receive():\n"
                             "    try:\n        fail()\n"
                             "    except Exception as exc:\n"
                             "        print(repr(exc), flush=True)\n") == 0);
}

int main(int count, char **arguments)
{
    CHECK(count > 1);
    has_package = count > 2;
    CHECK(stacksplice_python_raise(E_FAIL) == NULL); /* no interpreter */
    CHECK(stacksplice_python_object(NULL) == NULL);
    begin();
    if (!strcmp(arguments[1], "enter"))
        CHECK(PyRun_SimpleString("receive()") == 0);
    else
        show(call("rate"));
    CHECK(Py_FinalizeEx() == 0);
    return 0;
}
