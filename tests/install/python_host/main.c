/* A host that embeds Python: an exception leaves it as an HRESULT and comes back as itself. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stacksplice/stacksplice.h>
#include <stacksplice/python.h>

#include "../shared/check.h"

PyObject *second_raise(HRESULT hr);

static const char script[] = "def settle(order):\n"
                             "    raise LookupError('no rate for ' + order)\n"
                             "def run(order):\n"
                             "    settle(order)\n";

static PyObject *pending_exception(void)
{
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
}

static void run_script(void)
{
    PyObject *globals = PyDict_New(), *code, *result;
    CHECK(globals != NULL);
    CHECK(PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins()) == 0);
    code = Py_CompileString(script, "settle.py", Py_file_input);
    CHECK(code != NULL);
    result = PyEval_EvalCode(code, globals, globals);
    CHECK(result != NULL);
    Py_DECREF(result);
    Py_DECREF(code);
    result = PyObject_CallFunction(PyDict_GetItemString(globals, "run"), "s", "EUR");
    CHECK(result == NULL && PyErr_Occurred() != NULL);
    Py_DECREF(globals);
}

int main(void)
{
    static report r;
    IRestrictedErrorInfo *error = NULL;
    PyObject *first, *again;
    HRESULT hr;

    Py_Initialize();
    CHECK(stacksplice_python_import() == S_OK);
    run_script();
    first = pending_exception();
    PyErr_SetObject((PyObject *)Py_TYPE(first), first);

    hr = stacksplice_python_originate();
    CHECK(hr < 0 && PyErr_Occurred() == NULL);
    CHECK(stacksplice_peek_error(&error) == S_OK && error != NULL);
    CHECK(stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL, report_write, &r) ==
          S_OK);
    REPORT_HOLDS(&r, "no rate for EUR");
    REPORT_HOLDS(&r, "settle.py");
    REPORT_HOLDS(&r, "line 2, in settle");
    REPORT_HOLDS(&r, "line 4, in run");
    REPORT_HOLDS(&r, "in main");
    error->lpVtbl->Release(error);

    CHECK(second_raise(hr) == NULL && PyErr_Occurred() != NULL);
    again = pending_exception();
    CHECK(again == first);
    Py_DECREF(first);
    Py_DECREF(again);
    CHECK(Py_FinalizeEx() == 0);
    printf("\nok\n");
    return 0;
}
