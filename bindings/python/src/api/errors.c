/*
 * ErrorHandle: Python's handle of an error object.
 *
 * For an error born in this interpreter it holds the inside of the error and the exception, where
 * the garbage collector sees it.  Any other error it holds by a plain reference.  The public class
 * ErrorInfo, in Python, is built on it.
 */
#include "api/api.h"
#include "traceback/traceback.h"

#include <string.h>

/* ---- ErrorHandle -------------------------------------------------------------------------------*/

typedef struct error_object {
    PyObject_HEAD IScriptErrorInfo *error; /* (RO) inside if it was born here, else outside */
    bool inside;                           /* (RO) */
    PyObject *exception;                   /* (GIL) or NULL */
    sspy_interp *interp;                   /* (RO) counted */
} error_object;

/* Take an outside reference on the error for the length of a call.  While the caller holds it, no
   other release can drop the last reference, so only letting go needs a section. */
static IScriptErrorInfo *error_hold(error_object *self)
{
    sspy_ties *ties = self->exception ? sspy_ties_of(self->interp, self->exception) : NULL;

    IScriptErrorInfo *held = NULL;

    /* While the handle keeps the exception, the error can return it. */
    if (sspy_ties_error(ties) == self->error)
        held = sspy_ties_hold(ties, self->exception);
    if (held == self->error)
        return held;
    self->error->lpVtbl->AddRef(self->error);
    sspy_release(self->interp, held); /* that another thread tied to the exception meanwhile */
    return self->error;
}

static void error_let_go(error_object *self)
{
    sspy_release(self->interp, self->error);
}

/* ---- Making one -------------------------------------------------------------------------------*/

static PyObject *handle_new(sspy_state *state, IScriptErrorInfo *error, PyObject *exc)
{
    error_object *self = (error_object *)state->error_type->tp_alloc(state->error_type, 0);
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
static void set_members(const sspy_state *state, PyObject *info, PyObject *handle)
{
    PyObject *value = handle;

    for (unsigned i = 0; i < SSPY_INFO_MEMBERS; i++) {
        *(PyObject **)(void *)((char *)info + state->info_members[i]) = Py_NewRef(value);
        value = Py_None;
    }
}

/* Make a handle of ERROR, on which the caller has an outside reference.  EXC is its exception if it
   was born in this interpreter, else NULL.  The result is an ErrorInfo that has the handle. */
static PyObject *error_wrap(sspy_state *state, IScriptErrorInfo *error, PyObject *exc)
{
    PyObject *handle = handle_new(state, error, exc), *info;
    PyTypeObject *type = (PyTypeObject *)state->error_info;

    if (!handle || !type)
        return handle;
    info = type->tp_alloc(type, 0);
    if (info)
        set_members(state, info, handle);
    Py_DECREF(handle);
    return info;
}

/* An ErrorInfo of an interface of any kind; None for NULL or a foreign object. */
static PyObject *error_wrap_unknown(sspy_state *state, IUnknown *error)
{
    IScriptErrorInfo *script = sspy_query(error, &stacksplice_IID_IScriptErrorInfo);
    PyObject *exc = script ? sspy_own_object(state, error) : NULL;
    PyObject *result = script ? error_wrap(state, script, exc) : Py_NewRef(Py_None);
    sspy_release(state->interp, script);
    Py_XDECREF(exc);
    return result;
}

/* An sspy_test that none passes: gives the error of EXC, if it has one, what its traceback has besides. */
static int lengthen(sspy_state *state, PyObject *exc)
{
    IScriptErrorInfo *error = sspy_ties_hold(sspy_ties_of(state->interp, exc), exc);
    int failed = error && sspy_lengthen(state, exc, error, false) ? -1 : 0;

    if (error)
        sspy_release(state->interp, error);
    if (failed)
        PyErr_NoMemory();
    return failed;
}

/* Add the notes and callers that the exception, and those that a report shows with it, got since to
   ERROR, which the caller holds; -1 with an exception. */
static int error_update(error_object *self, IScriptErrorInfo *error)
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
    if (!failed && exc) {
        PyObject *pending = sspy_take_pending();

        (void)sspy_first_shown(state, exc, lengthen);
        failed = PyErr_Occurred() ? -1 : 0;
        if (!failed)
            sspy_set_pending(pending);
        else
            Py_XDECREF(pending);
    }
    Py_XDECREF(exc);
    return failed;
}

PyObject *sspy_error_wrap_taken(sspy_state *state, void *error)
{
    PyObject *result = error_wrap_unknown(state, error);

    sspy_release(state->interp, error);
    return result;
}

static int handle_traverse(error_object *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->exception);
    return 0;
}

static int handle_clear(error_object *self)
{
    Py_CLEAR(self->exception);
    return 0;
}

static void handle_dealloc(error_object *self)
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

static PyObject *handle_exception(error_object *self, void *Py_UNUSED(unused))
{
    return Py_NewRef(self->exception ? self->exception : Py_None);
}

/* Whether it describes an exception that has no error of its own. */
static bool is_description(error_object *self)
{
    sspy_ties *ties = self->exception ? sspy_ties_of(self->interp, self->exception) : NULL;

    return self->exception && sspy_ties_error(ties) != self->error;
}

static PyObject *handle_key(error_object *self, void *Py_UNUSED(unused))
{
    return PyLong_FromVoidPtr(is_description(self) ? (void *)self->exception : self->error);
}

static int has_remote_report(sspy_state *state, PyObject *exc)
{
    PyObject *report = sspy_remote_report(state->interp, exc);

    Py_XDECREF(report);
    return report != NULL;
}

static PyObject *handle_remote(error_object *self, void *Py_UNUSED(unused))
{
    PyObject *report = self->exception ? sspy_remote_report(self->interp, self->exception) : NULL;

    return report ? report : Py_NewRef(Py_None);
}

static PyObject *handle_came(error_object *self, void *Py_UNUSED(unused))
{
    sspy_state *state = self->interp->module_state;
    PyObject *exc = state && self->exception
                        ? sspy_first_shown(state, self->exception, has_remote_report)
                        : NULL;

    Py_XDECREF(exc);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(exc != NULL);
}

static PyObject *handle_is_description(error_object *self, void *Py_UNUSED(unused))
{
    return PyBool_FromLong(is_description(self));
}

static PyGetSetDef handle_getset[] = {
    {"exception", (getter)handle_exception, NULL, "The exception, if it was born here.", NULL},
    {"remote", (getter)handle_remote, NULL,
     "The report that the exception brought from another process, or None.", NULL},
    {"came", (getter)handle_came, NULL,
     "Whether it, or one of those that led to it, brought such a report.", NULL},
    {"is_description", (getter)handle_is_description, NULL,
     "Whether it was made for a reader: the exception has no error of its own.", NULL},
    {"key", (getter)handle_key, NULL, "Equal for handles of one error.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- What the core's visitor reads -------------------------------------------------------------*/

static sspy_builder *builder_of(stacksplice_visitor *visitor)
{
    return SSPY_CONTAINER(visitor, sspy_builder, visitor);
}

/* Put VALUE, which is taken over, into the row; the names are nearly in the order of the members. */
static int put_in_row(sspy_builder *b, const char *key, PyObject *value)
{
    for (unsigned i = 0; value && i < b->name_count; i++) {
        unsigned at = (b->at + i) % b->name_count;

        if (strcmp(b->names[at], key))
            continue;
        b->row[at] = value;
        b->at = at + 1;
        return 0;
    }
    if (value)
        PyErr_Format(PyExc_SystemError, "a row has no member %s", key);
    Py_XDECREF(value);
    return -1;
}

/* Put VALUE, which is taken over, into the innermost container.  Nonzero with an exception. */
static int put(stacksplice_visitor *visitor, const char *key, PyObject *value)
{
    sspy_builder *b = builder_of(visitor);
    PyObject *container = b->depth ? b->open[b->depth - 1] : NULL;
    int failed = value ? 0 : -1;

    if (b->row)
        return put_in_row(b, key ? key : "", value); /* an element of a list has none */
    if (value && !container)
        b->result = Py_NewRef(value);
    else if (value && PyDict_CheckExact(container))
        failed = PyDict_SetItemString(container, key, value);
    else if (value)
        failed = PyList_Append(container, value);
    Py_XDECREF(value);
    return failed;
}

static int begin(stacksplice_visitor *visitor, const char *key, stacksplice_container container)
{
    sspy_builder *b = builder_of(visitor);
    PyObject *value;

    if (b->row)
        return 0;
    value = container == STACKSPLICE_OBJECT ? PyDict_New() : PyList_New(0);
    if (b->depth == SSPY_MAX_OPEN || put(visitor, key, value))
        return -1;
    b->open[b->depth++] = value; /* its container holds a reference */
    return 0;
}

static int end(stacksplice_visitor *visitor, stacksplice_container Py_UNUSED(container))
{
    sspy_builder *b = builder_of(visitor);

    b->depth -= !b->row;
    return 0;
}

static int null(stacksplice_visitor *visitor, const char *key)
{
    return put(visitor, key, Py_NewRef(Py_None));
}

static int boolean(stacksplice_visitor *visitor, const char *key, int value)
{
    return put(visitor, key, PyBool_FromLong(value));
}

static int integer(stacksplice_visitor *visitor, const char *key, int64_t value)
{
    return put(visitor, key, PyLong_FromLongLong(value));
}

static int hex(stacksplice_visitor *visitor, const char *key, uint64_t value,
               unsigned Py_UNUSED(digits))
{
    return put(visitor, key, PyLong_FromUnsignedLongLong(value));
}

static int utf8(stacksplice_visitor *visitor, const char *key, const char *text, size_t length)
{
    return put(visitor, key, sspy_text_from_utf8(text, length));
}

static int utf16(stacksplice_visitor *visitor, const char *key, const uint16_t *text, size_t length)
{
    return put(visitor, key, sspy_text_from_wide(text, (uint32_t)length));
}

static int element(stacksplice_visitor *visitor, uintptr_t address)
{
    return put(visitor, NULL, PyLong_FromUnsignedLongLong(address));
}

static int put_error(stacksplice_visitor *visitor, const char *key, IUnknown *related)
{
    return put(visitor, key, error_wrap_unknown(builder_of(visitor)->state, related));
}

sspy_builder sspy_new_builder(sspy_state *state)
{
    return (sspy_builder){.visitor = {.size = sizeof(stacksplice_visitor),
                                      .begin = begin,
                                      .end = end,
                                      .null = null,
                                      .boolean = boolean,
                                      .integer = integer,
                                      .hex = hex,
                                      .utf8 = utf8,
                                      .utf16 = utf16,
                                      .element = element,
                                      .error = put_error},
                          .state = state};
}

PyObject *sspy_end_builder(sspy_builder *builder, HRESULT hr)
{
    if (hr == S_OK)
        return builder->result;
    Py_CLEAR(builder->result);
    if (!PyErr_Occurred())
        PyErr_NoMemory();
    return NULL;
}

/* ---- Its methods -------------------------------------------------------------------------------*/

/* Reading an error through its ErrorHandle, and writing its reports. */

/* The parts are those of stacksplice_read_options.  The notes and callers of an error are those that
   its exception has now. */
static PyObject *handle_read(error_object *self, PyObject *parts)
{
    stacksplice_read_options options = {.size = sizeof options, .without_source = 1};
    sspy_state *state = sspy_state_current();
    sspy_builder builder = sspy_new_builder(state);
    IScriptErrorInfo *error;
    PyObject *result = NULL;

    options.parts = (uint32_t)PyLong_AsUnsignedLong(parts);
    if (!state || PyErr_Occurred())
        return NULL;
    error = error_hold(self);
    if (!(options.parts & (STACKSPLICE_READ_NOTES | STACKSPLICE_READ_STACK)) ||
        !error_update(self, error))
        result = sspy_end_builder(
            &builder, stacksplice_error_visit((IUnknown *)error, &options, &builder.visitor));
    error_let_go(self);
    return result;
}

/* The language of the error's exception: reports also name the language of a script that called
   C. */
static PyObject *handle_language(error_object *self, PyObject *Py_UNUSED(unused))
{
    IScriptErrorInfo *error = error_hold(self);
    const char *language = "native";
    PyObject *text;

    (void)stacksplice_error_language((IUnknown *)error, &language);
    text = PyUnicode_FromString(language);
    error_let_go(self);
    return text;
}

/* Why reports show no line of a file, or None. */
static PyObject *handle_source_reason(error_object *self, PyObject *file)
{
    const char *reason = NULL;
    PyObject *name = NULL, *result;

    if (!PyUnicode_FSConverter(file, &name))
        return NULL;
    (void)stacksplice_error_source_reason((IUnknown *)error_hold(self), PyBytes_AS_STRING(name),
                                          &reason);
    error_let_go(self);
    result = reason ? PyUnicode_FromString(reason) : Py_NewRef(Py_None);
    Py_DECREF(name);
    return result;
}

/* Whether the traceback of EXC, whose error this is, has entries that are neither in the error's stack nor
   counted there. */
static PyObject *handle_loses(error_object *self, PyObject *exc)
{
    sspy_state *state = sspy_state_current();
    bool loses = false;

    if (state && PyExceptionInstance_Check(exc)) {
        loses = sspy_loses_entries(state, exc, error_hold(self));
        error_let_go(self);
    }
    return PyBool_FromLong(loses);
}

static PyObject *handle_format(error_object *self, PyObject *arguments)
{
    stacksplice_format_options options = {.size = sizeof options};
    int kind, order;
    sspy_text_buffer buffer = {NULL, 0, 0};
    sspy_look look = {Py_None, NULL};
    IScriptErrorInfo *error;
    HRESULT hr = E_FAIL;

    if (!PyArg_ParseTuple(arguments, "iipp|pOp:format", &kind, &order, &options.all_frames,
                          &options.color, &options.alone, &look.callable, &options.shorten))
        return NULL;
    options.order = (stacksplice_order)order;
    sspy_look_take(&look, &options);
    error = error_hold(self);
    if (!error_update(self, error))
        hr = stacksplice_format((IUnknown *)error, (stacksplice_format_kind)kind, &options,
                                sspy_text_append, &buffer);
    error_let_go(self);
    return sspy_look_finish(&look, &buffer, hr);
}

#define METHOD(name, flags, doc)                                      \
    {                                                                 \
#name, (PyCFunction)(void (*)(void))handle_##name, flags, doc \
    }

static PyMethodDef error_methods[] = {
    METHOD(read, METH_O,
           "read($self, parts, /)\n--\n\nA dict of what those parts of a report have."),
    METHOD(language, METH_NOARGS, "language($self, /)\n--\n\nOf its exception, or \"native\"."),
    METHOD(source_reason, METH_O,
           "source_reason($self, file, /)\n--\n\nWhy reports show no line of it, or None."),
    METHOD(loses, METH_O,
           "loses($self, exc, /)\n--\n\nWhether the traceback of exc, whose error this is, tells "
           "more."),
    METHOD(format, METH_VARARGS,
           "format($self, kind, order, all_frames, color, alone=False, look=None, shorten=False, /)"
           "\n--\n\nA report."),
    {NULL, NULL, 0, NULL},
};

PyTypeObject *sspy_error_type(PyObject *module)
{
    PyType_Slot slots[] = {
        {Py_tp_dealloc, handle_dealloc},
        {Py_tp_traverse, handle_traverse},
        {Py_tp_clear, handle_clear},
        {Py_tp_methods, error_methods},
        {Py_tp_getset, handle_getset},
        {Py_tp_doc, "An error object.  ErrorInfo is what programs use."},
        {0, NULL},
    };
    PyType_Spec spec = {
        .name = "stacksplice._stacksplice.ErrorHandle",
        .basicsize = sizeof(error_object),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION |
                 Py_TPFLAGS_IMMUTABLETYPE,
        .slots = slots,
    };

    return (PyTypeObject *)PyType_FromModuleAndSpec(module, &spec, NULL);
}

/* ---- Pickles -----------------------------------------------------------------------------------*/

/*
 * Errors in other processes.
 *
 * An exception that crossed a border pickles with one item more in its state: the report of its error
 * in JSON.  Names mean something in another process and addresses do not, and unpickling needs none of
 * our code.  Where we are, the item goes to the ties (value/ties.c).  Copies have no item more.
 */

static PyObject *info_of(sspy_state *state, PyObject *exc, bool is_whole);

/* The report of the error of TIES for another process, with what it brought from a former one; NULL,
   maybe with an exception, when there is none. */
static PyObject *report_of(sspy_ties *ties)
{
    sspy_state *state = ties->interp->module_state;
    PyObject *module, *info, *report, *traceback;

    report = sspy_ties_member(ties, &ties->remote);
    if (!state || (!sspy_ties_error(ties) && !report)) {
        Py_XDECREF(report);
        return NULL;
    }
    traceback = sspy_traceback_of(ties->exception);
    Py_XDECREF(traceback);
    if (!sspy_ties_error(ties) && !traceback)
        return report; /* nothing happened to it since */
    Py_XDECREF(report);
    info = info_of(state, ties->exception, false);
    module = info ? PyImport_ImportModule("stacksplice._errors.remote") : NULL;
    report = module ? PyObject_CallMethod(module, "report", "O", info) : NULL;
    Py_XDECREF(info);
    Py_XDECREF(module);
    return report;
}

/* Put the report of the error of TIES, which may be NULL, into ITEMS; -1 with an exception. */
static int add_report(PyObject *items, sspy_ties *ties)
{
    PyObject *report = ties ? report_of(ties) : NULL;
    int failed = 0;

    if (report)
        failed = PyDict_SetItemString(items, SSPY_REPORT_KEY, report);
    else if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_Exception))
        return -1; /* an interrupt */
    else
        PyErr_Clear(); /* an exception always pickles */
    Py_XDECREF(report);
    return failed;
}

/* Reduce to dict(items), with the report. */
static PyObject *carrying_dict_reduce(PyObject *self, PyObject *Py_UNUSED(arguments))
{
    PyObject *items = PyDict_Copy(self);
    sspy_ties *ties = sspy_carrying_dict_ties(self);
    sspy_state *state = ties ? ties->interp->module_state : NULL;

    /* The report has the words. */
    if (items && state && sspy_drop_words(ties, items, state->notes_key))
        Py_CLEAR(items);
    if (items && add_report(items, ties))
        Py_CLEAR(items);
    return items ? Py_BuildValue("(O(N))", (PyObject *)&PyDict_Type, items) : NULL;
}

static PyObject *carrying_dict_copy(PyObject *self, PyObject *Py_UNUSED(arguments))
{
    return PyDict_Copy(self);
}

static PyObject *carrying_dict_deepcopy(PyObject *self, PyObject *memo)
{
    PyObject *module = PyImport_ImportModule("copy"), *items = PyDict_Copy(self);
    PyObject *result =
        module && items ? PyObject_CallMethod(module, "deepcopy", "OO", items, memo) : NULL;

    Py_XDECREF(items);
    Py_XDECREF(module);
    return result;
}

PyMethodDef sspy_carrying_dict_methods[] = {
    {"__reduce__", carrying_dict_reduce, METH_NOARGS, NULL},
    {"__reduce_ex__", carrying_dict_reduce, METH_O, NULL},
    {"__copy__", carrying_dict_copy, METH_NOARGS, NULL},
    {"__deepcopy__", carrying_dict_deepcopy, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};

/* The report that EXC brought from another process, or None. */
static PyObject *remote_info(sspy_state *state, PyObject *exc)
{
    PyObject *report = sspy_remote_report(state->interp, exc), *module, *info;

    if (!report)
        Py_RETURN_NONE;
    module = PyImport_ImportModule("stacksplice._errors.remote");
    info = module ? PyObject_CallMethod(module, "read", "O", report) : NULL;
    Py_XDECREF(module);
    Py_DECREF(report);
    return info;
}

/* ---- Functions ---------------------------------------------------------------------------------*/

/* The functions for errors: each reads its arguments, makes one call and returns the result. */

static bool is_exception(PyObject *exc)
{
    if (PyExceptionInstance_Check(exc))
        return true;
    PyErr_Format(PyExc_TypeError, "exc must be an exception, not %.200s", Py_TYPE(exc)->tp_name);
    return false;
}

/* An sspy_test: whether EXC itself has an error, or brought a report. */
static int has_own(sspy_state *state, PyObject *exc)
{
    PyObject *came;
    int is_report;

    if (sspy_error_of_way(state, exc))
        return -1;
    if (sspy_ties_error(sspy_ties_of(state->interp, exc)))
        return 1;
    came = remote_info(state, exc);
    is_report = came ? came != Py_None : -1;
    Py_XDECREF(came);
    return is_report;
}

PyDoc_STRVAR(crossed_doc, "_crossed(exc, /)\n--\n\n"
                          "Whether exc, or an exception that led to it, crossed a border.");
static PyObject *crossed(PyObject *module, PyObject *exc)
{
    PyObject *found =
        is_exception(exc) ? sspy_first_shown(PyModule_GetState(module), exc, has_own) : NULL;
    bool is_found = found != NULL;

    Py_XDECREF(found);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(is_found);
}

/* The ErrorInfo of EXC, which crossed no border itself. */
static PyObject *description_of(sspy_state *state, PyObject *exc)
{
    IScriptErrorInfo *error;
    PyObject *info;

    if (sspy_describe(state, exc, &error))
        return NULL;
    info = error ? error_wrap(state, error, exc) : Py_NewRef(Py_None);
    sspy_release(state->interp, error);
    return info;
}

/* The ErrorInfo of EXC, which crossed no border in this process: what it brought from another one, and
   what it went through here since; None if it brought nothing. */
static PyObject *continued_info(sspy_state *state, PyObject *exc)
{
    PyObject *came = remote_info(state, exc), *info;

    if (!came || came == Py_None)
        return came;
    info = description_of(state, exc);
    if (info == Py_None) { /* origination is switched off */
        Py_DECREF(info);
        return came;
    }
    Py_DECREF(came);
    return info;
}

/* The ErrorInfo of EXC, or None.  IS_WHOLE: its error has all of the traceback. */
static PyObject *info_of(sspy_state *state, PyObject *exc, bool is_whole)
{
    sspy_ties *ties;
    IScriptErrorInfo *error;
    PyObject *result;

    if (!is_whole && sspy_error_of_way(state, exc))
        return NULL;
    ties = sspy_ties_of(state->interp, exc);
    error = sspy_ties_hold(ties, exc);
    if (!error)
        return continued_info(state, exc);
    if (!is_whole)
        (void)sspy_lengthen(state, exc, error, false); /* without memory who reads the stack does */
    result = error_wrap(state, error, sspy_ties_are_foreign(ties) ? NULL : exc);
    sspy_release(state->interp, error);
    return result;
}

PyDoc_STRVAR(own_info_doc,
             "_own_info(exc, /)\n--\n\n"
             "The ErrorInfo of an exception that crossed a border, or came from another process,\n"
             "itself; or None.");
static PyObject *own_info(PyObject *module, PyObject *exc)
{
    return is_exception(exc) ? info_of(PyModule_GetState(module), exc, false) : NULL;
}

PyDoc_STRVAR(own_words_doc, "_own_words(exc, /)\n--\n\n"
                            "The note of an exception that says what its error says, or None.");
static PyObject *own_words(PyObject *module, PyObject *exc)
{
    const sspy_state *state = PyModule_GetState(module);
    sspy_ties *ties = is_exception(exc) ? sspy_ties_of(state->interp, exc) : NULL;
    PyObject *words = ties ? sspy_ties_member(ties, &ties->words) : NULL;

    if (PyErr_Occurred())
        return NULL;
    return words ? words : Py_NewRef(Py_None);
}

PyDoc_STRVAR(described_doc, "_described(exc, /)\n--\n\n"
                            "The ErrorInfo of an exception as it is now, whatever it crossed.");
static PyObject *described(PyObject *module, PyObject *exc)
{
    return is_exception(exc) ? description_of(PyModule_GetState(module), exc) : NULL;
}

PyDoc_STRVAR(
    error_info_doc,
    "error_info(exc, /)\n--\n\n"
    "Return the ErrorInfo of an exception that crossed a border, or of one that was raised\n"
    "from such, while such was handled, or that is a group of such; else None.\n\n"
    "An exception that crossed none itself is described as it is now and gets nothing from\n"
    "it: each call reads its stack, causes and members again, and a border later does what\n"
    "it does with any exception.  Like any, the ErrorInfo keeps the exception alive.  An\n"
    "unpickled exception has the values that it brought from where it was pickled.\n\n"
    "Raises TypeError when exc is not an exception; MemoryError.");
static PyObject *error_info(PyObject *module, PyObject *exc)
{
    PyObject *info = own_info(module, exc), *found;

    if (info != Py_None)
        return info;
    found = sspy_first_shown(PyModule_GetState(module), exc, has_own);
    if (found) {
        Py_DECREF(found);
        Py_SETREF(info, description_of(PyModule_GetState(module), exc));
    } else if (PyErr_Occurred()) {
        Py_CLEAR(info);
    }
    return info;
}

PyDoc_STRVAR(
    originate_doc,
    "originate(exc, /)\n--\n\n"
    "Put exc into the thread's error slot, for code that is about to return an HRESULT to\n"
    "native code, and return its ErrorInfo.  An exception that has an error object keeps\n"
    "it.  None when the reporting flags disable error origination.\n\n"
    "Raises TypeError when exc is not an exception; MemoryError.");
static PyObject *originate(PyObject *module, PyObject *exc)
{
    sspy_state *state = PyModule_GetState(module);
    bool is_whole;
    HRESULT hr;

    if (!is_exception(exc) || sspy_put(state, exc, NULL, &hr, &is_whole))
        return NULL;
    return info_of(state, exc, is_whole);
}

PyDoc_STRVAR(
    propagate_doc,
    "propagate(exc, /)\n--\n\n"
    "Say that exc arrives here from another language: one propagation node with the stack\n"
    "of this moment is added to its error object, which is then in the thread's slot.  An\n"
    "exception without an error object is originated, which adds no node.  Returns the\n"
    "ErrorInfo, or None when origination is switched off.\n\n"
    "Raises TypeError when exc is not an exception; MemoryError.");
static PyObject *propagate(PyObject *module, PyObject *exc)
{
    sspy_state *state = PyModule_GetState(module);
    stacksplice_section section;
    HRESULT hr, failed;
    bool is_whole;

    if (!is_exception(exc))
        return NULL;
    if (!sspy_ties_error(sspy_ties_of(state->interp, exc)))
        return originate(module, exc);
    if (sspy_put(state, exc, NULL, &hr, &is_whole))
        return NULL;
    section = sspy_enter(state->interp);
    failed = stacksplice_propagate_above(__builtin_frame_address(0), hr, "python");
    sspy_leave(section);
    return failed == E_OUTOFMEMORY ? PyErr_NoMemory() : info_of(state, exc, is_whole);
}

PyDoc_STRVAR(peek_error_doc, "peek_error()\n--\n\n"
                             "The ErrorInfo of the thread's error, which stays; or None.");
static PyObject *peek_error(PyObject *module, PyObject *Py_UNUSED(unused))
{
    IRestrictedErrorInfo *error = NULL;

    (void)stacksplice_peek_error(&error);
    return sspy_error_wrap_taken(PyModule_GetState(module), error);
}

PyDoc_STRVAR(take_error_doc, "take_error()\n--\n\n"
                             "Take the thread's error out of its slot: its ErrorInfo, or None.");
PyObject *sspy_take_error(PyObject *module, PyObject *Py_UNUSED(unused))
{
    IRestrictedErrorInfo *error = NULL;

    (void)GetRestrictedErrorInfo(&error);
    return sspy_error_wrap_taken(PyModule_GetState(module), error);
}

PyDoc_STRVAR(raise_error_doc,
             "raise_error(hresult, /)\n--\n\n"
             "Raise the thread's error: what Python code does that received a failing HRESULT.\n\n"
             "The same exception object if the error was born in this interpreter, else an\n"
             "HResultError.  Raises ValueError when hresult is a success code.");
static PyObject *raise_error(PyObject *module, PyObject *number)
{
    HRESULT hr;

    if (sspy_hresult_from(number, "hresult", &hr))
        return NULL;
    if (SUCCEEDED(hr))
        return PyErr_Format(PyExc_ValueError, "hresult must be a failure code, got %d", (int)hr);
    return sspy_raise(PyModule_GetState(module), hr, __builtin_frame_address(0));
}

PyDoc_STRVAR(hresult_of_doc, "hresult_of(exc, /)\n--\n\n"
                             "The HRESULT that exc has, or would get, as a signed int.");
static PyObject *hresult_of(PyObject *module, PyObject *exc)
{
    sspy_state *state = PyModule_GetState(module);

    return is_exception(exc) ? PyLong_FromLong(sspy_hresult_of(state, exc)) : NULL;
}

PyDoc_STRVAR(exception_for_doc, "exception_for(hresult, message='', /)\n--\n\n"
                                "A new HResultError of the class that hresult has in Python.");
static PyObject *exception_for(PyObject *module, PyObject *arguments)
{
    sspy_state *state = PyModule_GetState(module);
    PyObject *number, *message = NULL, *exc;
    HRESULT hr;

    if (!PyArg_ParseTuple(arguments, "O|U:exception_for", &number, &message) ||
        sspy_hresult_from(number, "hresult", &hr))
        return NULL;
    if (SUCCEEDED(hr))
        return PyErr_Format(PyExc_ValueError, "hresult must be a failure code");
    message = message ? Py_NewRef(message) : PyUnicode_FromString("");
    exc = message ? sspy_hresult_error_new(state, hr, message) : NULL;
    Py_XDECREF(message);
    return exc;
}

/* ---- Unhandled exceptions ---------------------------------------------------------------------*/

PyDoc_STRVAR(fail_fast_doc,
             "fail_fast(exc, /)\n--\n\n"
             "End the process now with a crash report of exc; no handler runs.\n\n"
             "Raises TypeError when exc is not an exception; never returns otherwise.");
static PyObject *fail_fast(PyObject *module, PyObject *exc)
{
    if (!is_exception(exc))
        return NULL;
    RoFailFastWithErrorContext(sspy_originate(PyModule_GetState(module), exc, NULL));
    Py_RETURN_NONE;
}

PyDoc_STRVAR(report_unhandled_doc,
             "report_unhandled(exc, /)\n--\n\n"
             "Give exc to the host's unhandled-error handler; without one, or when it does not\n"
             "handle the error, the process fails fast.\n\n"
             "Raises TypeError when exc is not an exception; RuntimeError when origination is\n"
             "switched off, so that there is nothing to report.");
static PyObject *report_unhandled(PyObject *module, PyObject *exc)
{
    sspy_state *state = PyModule_GetState(module);
    IScriptErrorInfo *error = NULL;
    IRestrictedErrorInfo *restricted;

    if (!is_exception(exc) || sspy_error_for(state, exc, NULL, &error))
        return NULL;
    if (!error) {
        PyErr_SetString(PyExc_RuntimeError, "the reporting flags disable error origination");
        return NULL;
    }
    restricted = sspy_query(error, &IID_IRestrictedErrorInfo);
    (void)RoReportUnhandledError(restricted);
    sspy_release(state->interp, restricted);
    sspy_release(state->interp, error);
    Py_RETURN_NONE;
}

PyMethodDef sspy_error_functions[] = {
    {"error_info", error_info, METH_O, error_info_doc},
    {"_own_info", own_info, METH_O, own_info_doc},
    {"_own_words", own_words, METH_O, own_words_doc},
    {"_described", described, METH_O, described_doc},
    {"_crossed", crossed, METH_O, crossed_doc},
    {"originate", originate, METH_O, originate_doc},
    {"propagate", propagate, METH_O, propagate_doc},
    {"peek_error", peek_error, METH_NOARGS, peek_error_doc},
    {"take_error", sspy_take_error, METH_NOARGS, take_error_doc},
    {"raise_error", raise_error, METH_O, raise_error_doc},
    {"hresult_of", hresult_of, METH_O, hresult_of_doc},
    {"exception_for", exception_for, METH_VARARGS, exception_for_doc},
    {"fail_fast", fail_fast, METH_O, fail_fast_doc},
    {"report_unhandled", report_unhandled, METH_O, report_unhandled_doc},
    {"_save_error", sspy_save_error, METH_NOARGS, NULL},
    {"_restore_error", sspy_restore_error, METH_O, NULL},
    {"_offer_unhandled", sspy_offer_unhandled, METH_O, NULL},
    {"_is_asked", sspy_is_asked, METH_O, NULL},
    {NULL, NULL, 0, NULL},
};
