/*
 * The module "bench_once" for Python, around work that a process does once: begin(), end().  It is not the
 * bridge, whose copy of Lua would be learnt with the first stack.
 */
#include <Python.h>

#include "bench.h"

static PyObject *begin(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    bench_once_begin();
    Py_RETURN_NONE;
}

static PyObject *end(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(args))
{
    bench_once_end();
    Py_RETURN_NONE;
}

PyMODINIT_FUNC PyInit_bench_once(void);

PyMODINIT_FUNC PyInit_bench_once(void)
{
    static PyMethodDef methods[] = {{"begin", begin, METH_NOARGS, NULL},
                                    {"end", end, METH_NOARGS, NULL},
                                    {NULL, NULL, 0, NULL}};
    static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "bench_once", .m_size = -1,
                                     .m_methods = methods};

    return PyModule_Create(&definition);
}
