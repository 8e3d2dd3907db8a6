/*
 * The C functions behind methods that Cython compiled.  What Python sees of a method stays the same
 * when its C function is replaced.
 */
#include "lupa/lupa.h"

#include <dlfcn.h>
#include <string.h>

/* Cython's functions begin as the interpreter's own do, but say so nowhere.  So the pointer is
   followed only into the file that TYPE itself is from. */
PyMethodDef *sspy_lupa_method(PyTypeObject *type, const char *name)
{
    PyObject *function = PyDict_GetItemString(type->tp_dict, name);
    Dl_info here, there;
    PyMethodDef *found;

    if (!function || Py_TYPE(function)->tp_basicsize < (Py_ssize_t)sizeof(PyCFunctionObject))
        return NULL;
    found = ((PyCFunctionObject *)function)->m_ml;
    if (!dladdr((void *)(uintptr_t)type->tp_dealloc, &here) || !dladdr(found, &there) ||
        here.dli_fbase != there.dli_fbase)
        return NULL;
    return found->ml_flags == (METH_FASTCALL | METH_KEYWORDS) && !strcmp(found->ml_name, name)
               ? found
               : NULL;
}
