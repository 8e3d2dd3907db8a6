/*
 * unread_program WAY: embeds Python, and runs a function of C below it whose stack is reported, in
 * the program's own interpreter or in a second one.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stacksplice/crash.h>
#include <stacksplice/script.h>
#include <stacksplice/source.h>
#include <stacksplice/stacksplice.h>

#include <stdio.h>
#include <string.h>

static int crashes;
static volatile int *volatile nowhere = (volatile int *)16;

static int put(const char *text, size_t length, void *data)
{
    (void)data;
    return fwrite(text, 1, length, stdout) != length;
}

/* Exported, so that the report of a crash has the names. */
PyObject *fail(PyObject *module, PyObject *unused);
PyObject *call(PyObject *module, PyObject *function);

/* Ends here, with a text or a crash. */
PyObject *fail(PyObject *module, PyObject *unused)
{
    IRestrictedErrorInfo *error = NULL;

    (void)module;
    (void)unused;
    if (crashes)
        *nowhere = 1;
    (void)stacksplice_originate(E_BOUNDS, "below Python", 12, NULL, NULL);
    if (GetRestrictedErrorInfo(&error) == S_OK) {
        (void)stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL, put, NULL);
        error->lpVtbl->Release(error);
    }
    Py_RETURN_NONE;
}

/* Calls Python again: the loop is entered twice. */
PyObject *call(PyObject *module, PyObject *function)
{
    PyObject *result = PyObject_CallNoArgs(function);

    (void)module;
    Py_XDECREF(result); /* after the call: this function has a frame there */
    return result ? Py_NewRef(Py_None) : NULL;
}

static PyMethodDef functions[] = {
    {"fail", fail, METH_NOARGS, NULL}, {"call", call, METH_O, NULL}, {NULL, NULL, 0, NULL}};
static PyModuleDef_Slot slots[] = {{0, NULL}};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "ext", NULL, 0, functions, slots, NULL, NULL, NULL};

static PyObject *start(void)
{
    return PyModuleDef_Init(&definition);
}

static const char code[] = "import ext\n"
                           "def inner():\n"
                           "    ext.fail()\n"
                           "def outer():\n"
                           "    ext.call(inner)\n"
                           "outer()\n";

int main(int count, char **arguments)
{
    const char *way = count > 1 ? arguments[1] : "";
    int status;

    setvbuf(stdout, NULL, _IONBF, 0);
    PyImport_AppendInittab("ext", start);
    Py_Initialize();
    if (strstr(way, "imported"))
        (void)PyRun_SimpleString("import stacksplice");
    if (strstr(way, "crash"))
        crashes = stacksplice_install_crash_handler(NULL) == S_OK;
    if (strstr(way, "second"))
        (void)Py_NewInterpreter();
    status = PyRun_SimpleString(code);
    return status != 0;
}
