/* A host whose Python says that it is one of the future: 3.99. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stacksplice/python.h>
#include <stdio.h>

/* Found before the library's own. */
extern const unsigned long Py_Version;
const unsigned long Py_Version = 0x036300f0;

int main(int count, char **arguments)
{
    Py_Initialize();
    if (count != 2 || stacksplice_python_import() != S_OK || PyRun_SimpleString(arguments[1]))
        return 1;
    return Py_FinalizeEx() ? 2 : 0;
}
