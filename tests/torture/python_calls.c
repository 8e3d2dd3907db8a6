/* Calls of Python functions of every kind; the lock is let go at every other call back into C. */
#ifdef TORTURE_PYTHON
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#endif

#include "torture.h"

#include <stdlib.h>
#include <string.h>

#ifndef TORTURE_PYTHON

bool python_initialize(void)
{
    return false;
}

void python_finalize(void)
{
}

void python_begin(worker *w)
{
}

void python_end(worker *w)
{
}

void python_step(worker *w)
{
}

void python_overflow(worker *w)
{
}

#else

#include <stacksplice/python.h>

/* The lines of the frames below are counted here. */
static const char script[] = "def plain():\n"
                             "    return down()\n"
                             "def recurse(n=3):\n"
                             "    return recurse(n - 1) if n else down()\n"
                             "def numbers():\n"
                             "    yield down()\n"
                             "def more_numbers():\n"
                             "    yield from numbers()\n"
                             "def generate():\n"
                             "    return next(more_numbers())\n"
                             "class Rich:\n"
                             "    def __init__(self, deep=False):\n"
                             "        deep and down()\n"
                             "    def __getattr__(self, name):\n"
                             "        return down()\n"
                             "    def __add__(self, other):\n"
                             "        return down()\n"
                             "    value = property(lambda self: down())\n"
                             "rich = Rich()\n"
                             "def attribute(): return rich.absent\n"
                             "def add(): return rich + 1\n"
                             "def value(): return rich.value\n"
                             "def init(): return Rich(True)\n"
                             "def sort(): return sorted([1], key=lambda _: down())\n"
                             "def each(): return list(map(lambda _: down(), [1]))\n"
                             "def overflow(): return overflow() + 1\n";
enum { OVERFLOW_LINE = 26 };

/* Outermost first. */
static const struct {
    const char *name;
    uint32_t lines[4];
} functions[] = {
    {"plain", {2}},          {"recurse", {4, 4, 4, 4}}, {"generate", {10, 8, 6}},
    {"attribute", {20, 15}}, {"add", {21, 17}},         {"value", {22, 18}},
    {"init", {23, 13}},      {"sort", {24, 24}},        {"each", {25, 25}},
};

static PyObject *globals;
static PyThreadState *first_thread;

static NODE PyObject *down(PyObject *module, PyObject *unused)
{
    worker *w = self;
    PyThreadState *saved = NULL;

    journal_c(w, (uintptr_t)down, __builtin_frame_address(0));
    if (draw(w, 2))
        saved = PyEval_SaveThread();
    path_step(w);
    AFTER();
    if (saved)
        PyEval_RestoreThread(saved);
    w->depth--;
    Py_RETURN_NONE;
}

static void open_python(void)
{
    static PyMethodDef method = {"down", down, METH_NOARGS, NULL};
    PyObject *code, *function, *result = NULL;

    if (stacksplice_python_import() < 0)
        stop("the package stacksplice could not be imported");
    globals = PyDict_New();
    function = PyCFunction_New(&method, NULL);
    code = Py_CompileString(script, "torture.py", Py_file_input);
    if (globals && function && code && PyDict_SetItemString(globals, "down", function) == 0 &&
        PyDict_SetItemString(globals, "__builtins__", PyEval_GetBuiltins()) == 0)
        result = PyEval_EvalCode(code, globals, globals);
    if (!result) {
        PyErr_Print();
        stop("the Python script failed");
    }
    Py_DECREF(result);
    Py_DECREF(code);
    Py_DECREF(function);
}

bool python_initialize(void)
{
    PyStatus status;
    PyConfig config;

    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0;
    status = PyConfig_SetBytesString(&config, &config.executable, TORTURE_PYTHON);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (PyStatus_Exception(status))
        stop("Python does not start: %s", status.err_msg);
    open_python();
    first_thread = PyEval_SaveThread();
    return true;
}

void python_finalize(void)
{
    PyEval_RestoreThread(first_thread);
    Py_CLEAR(globals);
    (void)Py_FinalizeEx();
}

/* The thread state lives as long as the thread, as it does for a thread of Python's own. */
void python_begin(worker *w)
{
    (void)PyGILState_Ensure();
    w->python = PyEval_SaveThread();
}

void python_end(worker *w)
{
    PyEval_RestoreThread(w->python);
    PyGILState_Release(PyGILState_UNLOCKED);
}

static NODE void call_python(worker *w, unsigned function)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    unsigned depth = w->depth;
    PyObject *result;

    journal_c(w, (uintptr_t)call_python, __builtin_frame_address(0));
    for (int i = 0; i < 4 && functions[function].lines[i]; i++)
        journal_script(w, "python", functions[function].lines[i]);
    result = PyObject_CallNoArgs(PyDict_GetItemString(globals, functions[function].name));
    if (!result) {
        PyErr_Print();
        stop("Python's %s failed", functions[function].name);
    }
    Py_DECREF(result);
    w->depth = depth;
    PyGILState_Release(lock);
}

void python_step(worker *w)
{
    call_python(w, draw(w, sizeof functions / sizeof *functions));
    AFTER();
}

void python_overflow(worker *w)
{
    PyGILState_STATE lock = PyGILState_Ensure();

    w->depth = w->base = 0;
    if (PyObject_CallNoArgs(PyDict_GetItemString(globals, "overflow")))
        stop("Python's stack did not overflow");
    if (stacksplice_python_originate() >= 0)
        stop("no error came out of Python");
    journal_check_error(w, "python", OVERFLOW_LINE, true);
    PyGILState_Release(lock);
}

#endif
