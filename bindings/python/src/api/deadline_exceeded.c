/* The exception of a missed deadline. */
#include "api/deadline.h"

#include "api/api.h"

/* The text of the exception that is being raised in this thread, borrowed; or NULL. */
static PyObject *take_text(void)
{
    unsigned long me = PyThread_get_thread_ident();
    sspy_interp *interp = sspy_interp_current();

    for (sspy_block *b = interp ? interp->blocks : NULL; b; b = b->outer) {
        if (b->struck == me) {
            b->struck = 0; /* it is raised */
            /* Before 3.12 it gets here late, and a second one may have come in between. */
            (void)PyThreadState_SetAsyncExc(me, NULL);
            atomic_store(&interp->has_mark, true);
            return b->text;
        }
    }
    PyErr_Clear();
    return NULL;
}

/* The interpreter makes it without arguments.  In C, so that nothing can be raised meanwhile: of
   two exceptions at once, one would be lost. */
static int exceeded_init(PyObject *self, PyObject *arguments, PyObject *keywords)
{
    PyObject *text = PyTuple_GET_SIZE(arguments) ? NULL : take_text();
    PyObject *given = text ? PyTuple_Pack(1, text) : Py_NewRef(arguments);
    int result = -1;

    if (given)
        result = ((PyTypeObject *)PyExc_TimeoutError)->tp_init(self, given, keywords);
    Py_XDECREF(given);
    return result;
}

int sspy_add_deadline_exceeded(PyObject *module)
{
    PyType_Slot slots[] = {
        {Py_tp_init, exceeded_init},
        {Py_tp_doc, "Raised in a block of deadline(..., interrupt=True) that is not done in time."},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "stacksplice.DeadlineExceeded",
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
        .slots = slots,
    };
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, PyExc_TimeoutError);
    int result = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;

    Py_XDECREF(type);
    return result;
}
