/*
 * The extension module "matrix": Python's side, and what runs a path.
 *
 *   open(steps, chunk, source)   the function that Python steps are, the source of the Lua ones and
 *                        of the tiny ones
 *   run(path, modes, styles, kind) -> facts     runs the path; a dict of what was found
 *   log() -> list        what was called, with marks; borders() -> list of places in it
 *   forget_python()      drops what Python threw
 *   forget() -> (Lua values, tiny values, C++ exceptions) that are still alive, all else dropped
 *   close()
 * and for the steps:
 *   call(i)              step i, whose error is raised here
 *   thread()             a thread of Python's begins
 *   thrown(exc)          is about to be raised
 *   traceback() -> list  what the origin's traceback said at the first border
 *   fact(name, value), collect(hr), check_slot(), fail()
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stacksplice/python.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"

matrix_run matrix;

static PyObject *step_function, *tiny_source, *thrown, *traceback;
static PyFrameObject *base; /* borrowed: the frame that a native step was called by */

/* ---- The log: Python's own word ---------------------------------------------------------------*/

static void log_frame(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyObject *name = PyObject_GetAttrString((PyObject *)code, "co_qualname");

    matrix_log_add('p', name ? PyUnicode_AsUTF8(name) : "?", PyFrame_GetLineNumber(frame));
    Py_XDECREF(name);
    Py_DECREF(code);
}

/* The frames from FRAME out to the base, outermost first. */
static void log_frames(PyFrameObject *frame)
{
    PyFrameObject *outer;

    if (!frame || frame == base)
        return;
    outer = PyFrame_GetBack(frame);
    log_frames(outer);
    Py_XDECREF(outer);
    log_frame(frame);
}

/* ---- Out of Python and into it ----------------------------------------------------------------*/

MATRIX_NODE PyObject *matrix_from_python(PyObject *module, PyObject *argument)
{
    long i = PyLong_AsLong(argument);
    PyFrameObject *before = base;
    HRESULT hr;

    (void)module;
    log_frames(PyEval_GetFrame());
    matrix_enter();
    matrix_border((int)i - 1);
    base = PyEval_GetFrame();
    hr = matrix_step((int)i);
    base = before;
    if (FAILED(hr)) {
        matrix_passed(hr);
        return stacksplice_python_raise(hr);
    }
    Py_RETURN_NONE;
}

static void keep_traceback(void)
{
    PyObject *type, *value, *found;

    PyErr_Fetch(&type, &value, &found);
    Py_XSETREF(traceback, Py_XNewRef(found));
    PyErr_Restore(type, value, found);
}

MATRIX_NODE HRESULT matrix_to_python(int i)
{
    PyGILState_STATE lock = PyGILState_Ensure();
    PyFrameObject *before = base;
    PyObject *result;
    HRESULT hr = S_OK;

    matrix_enter();
    base = PyEval_GetFrame();
    result = PyObject_CallFunction(step_function, "i", i);
    base = before;
    if (!result) {
        if (i == matrix.length - 1)
            keep_traceback();
        hr = stacksplice_python_originate();
    }
    Py_XDECREF(result);
    PyGILState_Release(lock);
    return hr;
}

MATRIX_NODE HRESULT matrix_step(int i)
{
    HRESULT hr;

    matrix_enter();
    switch (matrix.path[i]) {
    case 'P':
        hr = matrix_to_python(i);
        break;
    case 'L':
    case 'M':
        hr = matrix_to_lua(i);
        break;
    case 'T':
        hr = matrix_to_tiny(i);
        break;
    case 'C':
        hr = matrix_c_step(i);
        break;
    default:
        hr = matrix_cpp_step(i);
    }
    MATRIX_AFTER();
    return hr;
}

MATRIX_NODE HRESULT matrix_root(void)
{
    HRESULT hr;

    matrix_enter();
    hr = matrix_step(0);
    MATRIX_AFTER();
    return hr;
}

int matrix_is_thrown_by_python(IUnknown *language_exception)
{
    PyObject *object = stacksplice_python_object(language_exception);
    int same = object && object == thrown;

    Py_XDECREF(object);
    return same;
}

/* ---- For the steps ----------------------------------------------------------------------------*/

static PyObject *py_thread(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    matrix_log_add('t', "", 0);
    Py_RETURN_NONE;
}

static PyObject *py_thrown(PyObject *module, PyObject *exception)
{
    (void)module;
    Py_XSETREF(thrown, Py_NewRef(exception));
    Py_RETURN_NONE;
}

static PyObject *py_fact(PyObject *module, PyObject *args)
{
    const char *name;
    PyObject *value;

    (void)module;
    if (!PyArg_ParseTuple(args, "sO", &name, &value) ||
        PyDict_SetItemString(matrix_facts(), name, value) != 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *py_collect(PyObject *module, PyObject *hr)
{
    (void)module;
    matrix_collect((HRESULT)PyLong_AsLong(hr));
    Py_RETURN_NONE;
}

static PyObject *py_check_slot(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    matrix_check_slot();
    Py_RETURN_NONE;
}

static PyObject *py_fail(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    (void)stacksplice_originate(E_ABORT, "clean-up", 8, NULL, NULL);
    return stacksplice_python_raise(E_ABORT);
}

/* ---- For the test -----------------------------------------------------------------------------*/

static PyObject *py_open(PyObject *module, PyObject *args)
{
    const char *chunk, *wrong;
    Py_ssize_t length;
    PyObject *step, *source;

    (void)module;
    if (!PyArg_ParseTuple(args, "Os#U", &step, &chunk, &length, &source))
        return NULL;
    Py_XSETREF(step_function, Py_NewRef(step));
    Py_XSETREF(tiny_source, Py_NewRef(source));
    wrong = matrix_lua_open(chunk, (size_t)length);
    if (!wrong)
        wrong = matrix_tiny_open(PyUnicode_AsUTF8(source));
    if (wrong)
        return PyErr_Format(PyExc_RuntimeError, "%s", wrong);
    Py_RETURN_NONE;
}

static PyObject *py_run(PyObject *module, PyObject *args)
{
    const char *path, *modes, *styles;
    int kind;
    HRESULT hr;

    (void)module;
    if (!PyArg_ParseTuple(args, "sssC", &path, &modes, &styles, &kind))
        return NULL;
    memset(&matrix, 0, sizeof matrix);
    matrix.length = (int)strlen(path);
    if (matrix.length >= MATRIX_MAX_PATH || strlen(modes) != strlen(path) ||
        strlen(styles) != strlen(path))
        return PyErr_Format(PyExc_ValueError, "a path of at most %d", MATRIX_MAX_PATH - 1);
    memcpy(matrix.path, path, strlen(path));
    memcpy(matrix.modes, modes, strlen(path));
    memcpy(matrix.styles, styles, strlen(path));
    matrix.kind = (char)kind;
    matrix_log_reset();
    matrix_lua_reset();
    matrix_facts_reset();
    Py_CLEAR(traceback);
    base = PyEval_GetFrame();
    hr = matrix_root();
    base = NULL;
    if (FAILED(hr))
        return stacksplice_python_raise(hr);
    matrix_check_slot();
    matrix_fact_number("LUA_VERSION_NUM", LUA_VERSION_NUM);
    return matrix_facts_take();
}

static PyObject *py_log(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(matrix_log_count());

    (void)module;
    (void)unused;
    for (int i = 0; list && i < matrix_log_count(); i++) {
        const matrix_entry *e = matrix_log_entry(i);

        PyList_SET_ITEM(list, i, Py_BuildValue("(Csi)", e->what, e->name, e->line));
    }
    return list;
}

static PyObject *py_borders(PyObject *module, PyObject *unused)
{
    PyObject *list = PyList_New(matrix.length);

    (void)module;
    (void)unused;
    for (int i = 0; list && i < matrix.length; i++)
        PyList_SET_ITEM(list, i, PyLong_FromLong(matrix_border_of(i)));
    return list;
}

static PyObject *py_traceback(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return Py_NewRef(traceback ? traceback : Py_None);
}

static PyObject *py_forget_python(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    Py_CLEAR(thrown);
    Py_CLEAR(traceback);
    Py_RETURN_NONE;
}

static PyObject *py_forget(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    return Py_BuildValue("(iii)", matrix_lua_forget(), matrix_tiny_forget(), matrix_cpp_alive());
}

static PyObject *py_close(PyObject *module, PyObject *unused)
{
    (void)module;
    (void)unused;
    Py_CLEAR(step_function);
    matrix_lua_close();
    matrix_tiny_close();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"open", py_open, METH_VARARGS, NULL},
                                  {"run", py_run, METH_VARARGS, NULL},
                                  {"log", py_log, METH_NOARGS, NULL},
                                  {"borders", py_borders, METH_NOARGS, NULL},
                                  {"traceback", py_traceback, METH_NOARGS, NULL},
                                  {"forget_python", py_forget_python, METH_NOARGS, NULL},
                                  {"forget", py_forget, METH_NOARGS, NULL},
                                  {"close", py_close, METH_NOARGS, NULL},
                                  {"call", matrix_from_python, METH_O, NULL},
                                  {"thread", py_thread, METH_NOARGS, NULL},
                                  {"thrown", py_thrown, METH_O, NULL},
                                  {"fact", py_fact, METH_VARARGS, NULL},
                                  {"collect", py_collect, METH_O, NULL},
                                  {"check_slot", py_check_slot, METH_NOARGS, NULL},
                                  {"fail", py_fail, METH_NOARGS, NULL},
                                  {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "matrix", .m_size = -1,
                                        .m_methods = functions};

PyMODINIT_FUNC PyInit_matrix(void);

PyMODINIT_FUNC PyInit_matrix(void)
{
    HRESULT hr = stacksplice_python_import();

    return FAILED(hr) ? stacksplice_python_raise(hr) : PyModule_Create(&definition);
}
