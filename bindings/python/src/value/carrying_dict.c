/*
 * A __dict__ that adds the report of an error where it is pickled, and nowhere else.
 *
 * BaseException.__reduce__ gives the __dict__ to the pickler as it is.  So the dict of an exception
 * that crossed a border is of a type of ours, which has the items of the former one and knows the
 * ties (api/pickling.c says what it writes).
 *
 * When an exception is unpickled, its class may restore the items by its own __setstate__ or
 * __setattr__, which need not accept a name that it does not know.  Such exceptions keep the dict
 * that they have.
 */
#include "value/parts.h"

/* The slot follows the members of dict, whose size is known only at run time. */
static PyObject **ties_slot(PyObject *dict)
{
    return (PyObject **)((char *)dict + PyDict_Type.tp_basicsize);
}

sspy_ties *sspy_carrying_dict_ties(PyObject *dict)
{
    return (sspy_ties *)*ties_slot(dict);
}

static int carrying_dict_traverse(PyObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(*ties_slot(self));
    return PyDict_Type.tp_traverse(self, visit, arg);
}

static int carrying_dict_clear(PyObject *self)
{
    return PyDict_Type.tp_clear(self);
}

static void carrying_dict_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    PyObject *ties = *ties_slot(self);

    PyDict_Type.tp_dealloc(self);
    Py_DECREF(type);
    Py_XDECREF(ties);
}

PyTypeObject *sspy_carrying_dict_type(PyObject *module, PyMethodDef *methods)
{
    PyType_Slot slots[] = {
        {Py_tp_traverse, carrying_dict_traverse},
        {Py_tp_clear, carrying_dict_clear},
        {Py_tp_dealloc, carrying_dict_dealloc},
        {Py_tp_methods, methods},
        {Py_tp_doc, "The __dict__ of an exception whose report is pickled.  Private."},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "stacksplice._stacksplice.CarryingDict",
        .basicsize = (int)(PyDict_Type.tp_basicsize + (Py_ssize_t)sizeof(PyObject *)),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    PyObject *bases = PyTuple_Pack(1, (PyObject *)&PyDict_Type);
    PyObject *type = bases ? PyType_FromModuleAndSpec(module, &spec, bases) : NULL;

    Py_XDECREF(bases);
    return (PyTypeObject *)type;
}

/* Whether instances of TYPE get each item back as an attribute when they are unpickled. */
static bool restores_items(PyTypeObject *type)
{
    PyObject *method, *plain;

    if (type->tp_setattro != PyObject_GenericSetAttr)
        return false;
    method = PyObject_GetAttrString((PyObject *)type, "__setstate__");
    plain = PyObject_GetAttrString(PyExc_BaseException, "__setstate__");
    Py_XDECREF(method); /* the types keep both */
    Py_XDECREF(plain);
    return method && method == plain;
}

/* Without memory the exception keeps its dict: it pickles as it would without us. */
void sspy_carrying_dict_install(PyTypeObject *type, PyObject *exc, sspy_ties *ties)
{
    PyObject *dict = restores_items(Py_TYPE(exc)) ? PyObject_GenericGetDict(exc, NULL) : NULL;
    PyObject *carrying = NULL;

    if (dict && PyDict_CheckExact(dict))
        carrying = PyObject_CallOneArg((PyObject *)type, dict);
    if (carrying) {
        *ties_slot(carrying) = Py_NewRef(ties);
        (void)PyObject_GenericSetDict(exc, carrying, NULL);
        Py_DECREF(carrying);
    }
    Py_XDECREF(dict);
    PyErr_Clear();
}
