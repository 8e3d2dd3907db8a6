/* The reader of location tables alone, as a module: position(code, lasti). */
#include "frames/positions.h"

static PyObject *position(PyObject *self, PyObject *arguments)
{
    PyObject *code;
    int lasti;
    sspy_position found;

    if (!PyArg_ParseTuple(arguments, "O!i", &PyCode_Type, &code, &lasti))
        return NULL;
    found = sspy_position_of((PyCodeObject *)code, lasti);
    return Py_BuildValue("(IIII)", found.line, found.end_line, found.column, found.end_column);
}

static PyMethodDef methods[] = {{"position", position, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "positions", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_positions(void)
{
    return PyModule_Create(&definition);
}
