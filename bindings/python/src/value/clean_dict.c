/*
 * A __dict__ that carries ties beside its items, not among them.
 *
 * When an exception is unpickled or copied, each item of its __dict__ is restored with setattr.  A
 * class with its own __setattr__ may refuse a name that it does not know.  For such classes no item
 * may hold the ties.
 */
#include "value/parts.h"

/* The slot follows the members of dict, whose size is known only at run time. */
static PyObject **ties_slot(PyObject *dict)
{
    return (PyObject **)((char *)dict + PyDict_Type.tp_basicsize);
}

static int clean_dict_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(*ties_slot(self));
    return PyDict_Type.tp_traverse(self, visit, arg);
}

static int clean_dict_clear(PyObject *self)
{
    return PyDict_Type.tp_clear(self);
}

static void clean_dict_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject *ties = *ties_slot(self);

    PyDict_Type.tp_dealloc(self);
    Py_DECREF(type);
    Py_XDECREF(ties);
}

/* Reduce to dict(items): unpickling does not need this module. */
static PyObject *clean_dict_reduce(PyObject *self, PyObject *arguments)
{
    (void)arguments;
    return Py_BuildValue("(O(N))", (PyObject *)&PyDict_Type, PyDict_Copy(self));
}

PyTypeObject *sspy_clean_dict_type(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"__reduce__", clean_dict_reduce, METH_NOARGS, NULL},
        {"__reduce_ex__", clean_dict_reduce, METH_O, NULL},
        {NULL, NULL, 0, NULL},
    };
    static PyType_Slot slots[] = {
        {Py_tp_traverse, clean_dict_traverse},
        {Py_tp_clear, clean_dict_clear},
        {Py_tp_dealloc, clean_dict_dealloc},
        {Py_tp_methods, methods},
        {Py_tp_doc, "The __dict__ of an exception whose class has a __setattr__.  Private."},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "stacksplice._stacksplice.CleanDict",
        .basicsize = (int)(PyDict_Type.tp_basicsize + (Py_ssize_t)sizeof(PyObject *)),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    PyObject *bases = PyTuple_Pack(1, (PyObject *)&PyDict_Type);
    PyObject *type = bases ? PyType_FromModuleAndSpec(module, &spec, bases) : NULL;

    Py_XDECREF(bases);
    return (PyTypeObject *)type;
}

PyObject *sspy_clean_dict_install(PyTypeObject *type, PyObject *exc, PyObject *dict)
{
    PyObject *clean = PyObject_CallOneArg((PyObject *)type, dict);

    if (clean && PyObject_GenericSetDict(exc, clean, NULL))
        Py_CLEAR(clean);
    return clean;
}

PyObject **sspy_clean_dict_ties(PyTypeObject *type, PyObject *dict)
{
    return type && Py_IS_TYPE(dict, type) ? ties_slot(dict) : NULL;
}
