/* A second translation unit: it imports nothing itself, the table is shared. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stacksplice/python.h>

#include "border.h"

PyObject *border_raise(HRESULT hr)
{
    return stacksplice_python_raise(hr);
}
