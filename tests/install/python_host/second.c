/* A second translation unit that uses the table which the first one imported. */
#include <Python.h>
#include <stacksplice/stacksplice.h>
#include <stacksplice/python.h>

PyObject *second_raise(HRESULT hr);

PyObject *second_raise(HRESULT hr)
{
    return stacksplice_python_raise(hr);
}
