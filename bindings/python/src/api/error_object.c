/*
 * ErrorHandle: Python's handle of an error object.
 *
 * For an error born in this interpreter it holds the inside of the error and the exception, where
 * the garbage collector sees it.  Any other error it holds by a plain reference.  The public class
 * ErrorInfo, in Python, is built on it.
 */
#include "api/api.h"
#include "traceback/traceback.h"

IScriptErrorInfo *sspy_error_hold(sspy_error_object *self)
{
    sspy_ties *ties = self->exception ? sspy_ties_of(self->interp, self->exception) : NULL;

    /* While the handle keeps the exception, the error can return it. */
    if (!ties || ties->core.error != self->error || !sspy_ties_hold(ties, self->exception))
        self->error->lpVtbl->AddRef(self->error);
    return self->error;
}

void sspy_error_let_go(sspy_error_object *self)
{
    stacksplice_section section = sspy_enter(self->interp);

    self->error->lpVtbl->Release(self->error);
    sspy_leave(section);
}

/* ---- Making one -------------------------------------------------------------------------------*/

static PyObject *handle_new(sspy_state *state, IScriptErrorInfo *error, PyObject *exc)
{
    sspy_error_object *self =
        (sspy_error_object *)state->error_type->tp_alloc(state->error_type, 0);
    stacksplice_section section;

    if (!self)
        return NULL;
    section = sspy_enter(state->interp);
    self->inside = exc != NULL;
    if (self->inside)
        error->lpVtbl->AddInside(error);
    else
        error->lpVtbl->AddRef(error);
    self->error = error;
    self->exception = Py_XNewRef(exc);
    self->interp = state->interp;
    sspy_interp_ref(state->interp);
    sspy_leave(section);
    return (PyObject *)self;
}

/* The first member is HANDLE, the others are None: nothing was read yet.  Python's code for this
   would take as long as to find a stack. */
static int set_members(const sspy_state *state, PyObject *info, PyObject *handle)
{
    PyObject *value = handle;

    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(state->error_info_members); i++) {
        if (PyObject_SetAttr(info, PyTuple_GET_ITEM(state->error_info_members, i), value))
            return -1;
        value = Py_None;
    }
    return 0;
}

PyObject *sspy_error_wrap(sspy_state *state, IScriptErrorInfo *error, PyObject *exc)
{
    PyObject *handle = handle_new(state, error, exc), *info;
    PyTypeObject *type = (PyTypeObject *)state->error_info;

    if (!handle || !type)
        return handle;
    info = type->tp_alloc(type, 0);
    if (info && set_members(state, info, handle))
        Py_CLEAR(info);
    Py_DECREF(handle);
    return info;
}

PyObject *sspy_error_wrap_unknown(sspy_state *state, IUnknown *error)
{
    IScriptErrorInfo *script = sspy_query(error, &stacksplice_IID_IScriptErrorInfo);
    PyObject *exc = script ? sspy_own_object(state, error) : NULL;
    PyObject *result = script ? sspy_error_wrap(state, script, exc) : Py_NewRef(Py_None);
    sspy_release(state->interp, script);
    Py_XDECREF(exc);
    return result;
}

int sspy_error_update(sspy_error_object *self, IScriptErrorInfo *error)
{
    sspy_state *state = sspy_state_current();
    PyObject *exc;
    int failed = 0;

    if (!state)
        return -1;
    exc =
        self->exception ? Py_NewRef(self->exception) : sspy_known_object(state, (IUnknown *)error);
    if (self->exception)
        failed = sspy_notes_update(state, exc, error);
    if (!failed && exc)
        sspy_lengthen(state, exc, error, SSPY_READ_ALL);
    Py_XDECREF(exc);
    return failed;
}

PyObject *sspy_error_wrap_taken(sspy_state *state, void *error)
{
    PyObject *result = sspy_error_wrap_unknown(state, error);

    sspy_release(state->interp, error);
    return result;
}

static int handle_traverse(sspy_error_object *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->exception);
    return 0;
}

static int handle_clear(sspy_error_object *self)
{
    Py_CLEAR(self->exception);
    return 0;
}

static void handle_dealloc(sspy_error_object *self)
{
    PyTypeObject *type = Py_TYPE(self);
    stacksplice_section section;

    PyObject_GC_UnTrack(self);
    Py_CLEAR(self->exception);
    if (self->error) {
        section = sspy_enter(self->interp);
        if (self->inside)
            self->error->lpVtbl->ReleaseInside(self->error);
        else
            self->error->lpVtbl->Release(self->error);
        sspy_leave(section);
        sspy_interp_unref(self->interp);
    }
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *handle_exception(sspy_error_object *self, void *unused)
{
    (void)unused;
    return Py_NewRef(self->exception ? self->exception : Py_None);
}

static PyObject *handle_key(sspy_error_object *self, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(self->error);
}

static PyObject *handle_remote(sspy_error_object *self, void *unused)
{
    PyObject *report = self->exception ? sspy_remote_report(self->interp, self->exception) : NULL;

    (void)unused;
    return Py_NewRef(report ? report : Py_None);
}

static PyGetSetDef handle_getset[] = {
    {"exception", (getter)handle_exception, NULL, "The exception, if it was born here.", NULL},
    {"remote", (getter)handle_remote, NULL,
     "The report that the exception brought from another process, or None.", NULL},
    {"key", (getter)handle_key, NULL, "Equal for handles of one error object.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

PyTypeObject *sspy_error_type(PyObject *module, PyMethodDef *methods)
{
    PyType_Slot slots[] = {
        {Py_tp_dealloc, handle_dealloc},
        {Py_tp_traverse, handle_traverse},
        {Py_tp_clear, handle_clear},
        {Py_tp_methods, methods},
        {Py_tp_getset, handle_getset},
        {Py_tp_doc, "An error object.  ErrorInfo is what programs use."},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "stacksplice._stacksplice.ErrorHandle",
        .basicsize = sizeof(sspy_error_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
                 Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };

    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}
