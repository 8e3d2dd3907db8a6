/* The type below stacksplice.deadline.  Its methods are C, so that an exception of a missed
   deadline cannot be raised in the end of the block. */
#include "api/deadline.h"

#include "api/api.h"

#include <string.h>

typedef struct deadline_object {
    PyObject_HEAD unsigned int milliseconds, flags;
    PyObject *name;      /* str or None; NULL before __init__ */
    PyObject *exception; /* the class, or None: nothing is interrupted */
    PyObject *text;
    stacksplice_deadline deadline; /* (GIL) 0: not in a block */
    sspy_block *block;             /* (GIL) NULL: nothing is interrupted */
} deadline_object;

static int deadline_init(deadline_object *self, PyObject *arguments, PyObject *keywords)
{
    PyObject *name, *exception, *text;

    if (keywords && PyDict_GET_SIZE(keywords)) {
        PyErr_SetString(PyExc_TypeError, "_Deadline takes no keyword arguments");
        return -1;
    }
    if (!PyArg_ParseTuple(arguments, "IIOOU", &self->milliseconds, &self->flags, &name, &exception,
                          &text))
        return -1;
    Py_XSETREF(self->name, Py_NewRef(name));
    Py_XSETREF(self->exception, Py_NewRef(exception));
    Py_XSETREF(self->text, Py_NewRef(text));
    return 0;
}

/* ---- The block -------------------------------------------------------------------------------*/

static PyObject *begin_failed(HRESULT hr)
{
    if (hr == E_OUTOFMEMORY)
        return PyErr_NoMemory();
    PyErr_Format(PyExc_RuntimeError, "no deadline can be begun here, HRESULT 0x%08x", (unsigned)hr);
    return NULL;
}

static PyObject *deadline_enter(deadline_object *self, PyObject *unused)
{
    stacksplice_deadline_options options = {.size = sizeof options, .flags = self->flags};
    HRESULT hr;

    (void)unused;
    if (!self->name || self->deadline) {
        PyErr_SetString(PyExc_RuntimeError, self->name
                                                ? "this deadline is in use: make one for each block"
                                                : "deadline.__init__ was not called");
        return NULL;
    }
    options.name = self->name == Py_None ? NULL : PyUnicode_AsUTF8(self->name);
    if (!options.name && self->name != Py_None)
        return NULL;
    if (self->exception != Py_None) {
        self->block = sspy_block_begin(self->exception, self->text);
        if (!self->block)
            return NULL;
        if (!self->block->interp->strikes_no_more)
            options.missed = sspy_block_missed;
        options.data = self->block;
    }
    hr = stacksplice_deadline_begin(self->milliseconds, &options, &self->deadline);
    if (self->block)
        self->block->deadline = self->deadline;
    if (FAILED(hr)) {
        if (self->block)
            sspy_block_end(self->block);
        self->block = NULL;
        return begin_failed(hr);
    }
    return Py_NewRef((PyObject *)self);
}

/* The function that this may wait for needs no lock of Python's. */
static void end_block(deadline_object *self)
{
    stacksplice_deadline deadline = self->deadline;
    sspy_block *block = self->block;

    self->deadline = 0;
    self->block = NULL;
    if (deadline)
        (void)stacksplice_deadline_end(deadline);
    if (block)
        sspy_block_end(block);
}

static PyObject *deadline_exit(deadline_object *self, PyObject *const *arguments, Py_ssize_t count)
{
    (void)arguments;
    (void)count;
    end_block(self);
    Py_RETURN_NONE;
}

/* ---- Of hosts --------------------------------------------------------------------------------*/

/* "pricing has not ended within 0.25 s", as deadline.__init__ makes it. */
static PyObject *make_text(PyObject *name, uint32_t milliseconds)
{
    char *seconds = PyOS_double_to_string(milliseconds / 1000.0, 'g', 6, 0, NULL);
    PyObject *text = NULL;

    if (seconds && name == Py_None)
        text = PyUnicode_FromFormat("this block has not ended within %s s", seconds);
    else if (seconds)
        text = PyUnicode_FromFormat("%U has not ended within %s s", name, seconds);
    PyMem_Free(seconds);
    return text;
}

static PyObject *begin_named(PyObject *module, uint32_t milliseconds, uint32_t flags,
                             PyObject *name)
{
    PyObject *text = make_text(name, milliseconds);
    PyObject *exception = text ? PyObject_GetAttrString(module, "DeadlineExceeded") : NULL;
    PyObject *deadline = NULL, *entered = NULL;

    if (exception)
        deadline = PyObject_CallMethod(module, "_Deadline", "IIOOO", (unsigned)milliseconds,
                                       (unsigned)flags, name, exception, text);
    if (deadline)
        entered = deadline_enter((deadline_object *)deadline, NULL);
    if (!entered)
        Py_CLEAR(deadline);
    Py_XDECREF(entered);
    Py_XDECREF(exception);
    Py_XDECREF(text);
    return deadline;
}

PyObject *sspy_deadline_begin(PyObject *module, uint32_t milliseconds, uint32_t flags,
                              const char *name)
{
    const uint32_t known = STACKSPLICE_DEADLINE_NO_TEXT | STACKSPLICE_DEADLINE_NO_FILE;
    PyObject *text, *deadline;

    if (flags & ~known) {
        PyErr_SetString(PyExc_ValueError, "unknown flags");
        return NULL;
    }
    text =
        name ? PyUnicode_DecodeUTF8(name, (Py_ssize_t)strlen(name), "replace") : Py_NewRef(Py_None);
    deadline = text ? begin_named(module, milliseconds, flags, text) : NULL;
    Py_XDECREF(text);
    return deadline;
}

void sspy_deadline_end(PyObject *deadline)
{
    PyObject *pending = sspy_take_pending();

    end_block((deadline_object *)deadline);
    Py_DECREF(deadline);
    sspy_set_pending(pending);
}

/* ---- The type --------------------------------------------------------------------------------*/

static int deadline_traverse(deadline_object *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->name);
    Py_VISIT(self->exception);
    Py_VISIT(self->text);
    if (self->block)
        Py_VISIT(self->block->frame); /* whose variables may have this object */
    return 0;
}

static int deadline_clear(deadline_object *self)
{
    end_block(self);
    Py_CLEAR(self->name);
    Py_CLEAR(self->exception);
    Py_CLEAR(self->text);
    return 0;
}

static void deadline_dealloc(deadline_object *self)
{
    PyTypeObject *type = Py_TYPE(self);

    PyObject_GC_UnTrack(self);
    (void)deadline_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef deadline_methods[] = {
    {"__enter__", (PyCFunction)(void (*)(void))deadline_enter, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))deadline_exit, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

int sspy_add_deadline_type(PyObject *module)
{
    PyType_Slot slots[] = {
        {Py_tp_init, deadline_init},
        {Py_tp_dealloc, deadline_dealloc},
        {Py_tp_traverse, deadline_traverse},
        {Py_tp_clear, deadline_clear},
        {Py_tp_methods, deadline_methods},
        {Py_tp_doc, "What stacksplice.deadline is made of."},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "stacksplice._stacksplice._Deadline",
        .basicsize = sizeof(deadline_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE |
                 Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };
    PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
    int result = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;

    Py_XDECREF(type);
    return result;
}
