/*
 * A host whose calls of Python end where nobody takes an error: stacksplice_python_unhandled().
 * usage: unhandled_program SCRIPT [handled|refused]
 *
 * Runs SCRIPT, which defines functions, then calls each name of the list `calls` in it, and prints
 * what became of each.  With a second argument the host has a handler that says so.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "check.h"

#include <stacksplice/python.h>
#include <string.h>

static int print_head(const char *text, size_t length, void *data)
{
    int *left = data;
    const char *end = memchr(text, '\n', length);
    size_t shown = end ? (size_t)(end - text) : length;

    if (*left)
        printf("%.*s", (int)shown, text);
    *left = *left && !end;
    return 0;
}

static int handle(IRestrictedErrorInfo *error, void *data)
{
    int left = 1;

    printf("handler: ");
    CHECK(stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL, print_head, &left) ==
          S_OK);
    printf(", %s\n", (const char *)data);
    return !strcmp(data, "handled");
}

static void call(PyObject *function)
{
    PyObject *name = PyObject_GetAttrString(function, "__name__");
    PyObject *result = PyObject_CallNoArgs(function);
    int status = -1;
    HRESULT hr;

    CHECK(name);
    if (result) {
        printf("%s: returned\n", PyUnicode_AsUTF8(name));
    } else {
        hr = stacksplice_python_unhandled(&status);
        printf("%s: 0x%08x, %d\n", PyUnicode_AsUTF8(name), (unsigned)hr, status);
    }
    fflush(stdout);
    CHECK(!PyErr_Occurred());
    Py_XDECREF(result);
    Py_DECREF(name);
}

int main(int count, char **arguments)
{
    IRestrictedErrorInfo *left = NULL;
    PyObject *module, *calls;

    CHECK(count > 1);
    CHECK(stacksplice_python_unhandled(NULL) == (HRESULT)0x800401F0); /* nothing is there yet */
    if (count > 2)
        CHECK(stacksplice_set_unhandled_handler(handle, arguments[2]) == S_OK);
    Py_Initialize();
    CHECK(stacksplice_python_import() == S_OK);
    CHECK(stacksplice_python_unhandled(NULL) == E_UNEXPECTED); /* nothing is pending */
    CHECK(PyRun_SimpleString(arguments[1]) == 0);
    module = PyImport_AddModule("__main__");
    calls = PyObject_GetAttrString(module, "calls");
    CHECK(calls && PyList_Check(calls));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(calls); i++)
        call(PyList_GET_ITEM(calls, i));
    Py_DECREF(calls);
    CHECK(stacksplice_peek_error(&left) == S_FALSE && !left);
    CHECK(Py_FinalizeEx() == 0);
    puts("ended");
    return 0;
}
