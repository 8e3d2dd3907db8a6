/*
 * A native module whose errors are born in C, with causes, members and notes; and which reads those
 * of Python through the interfaces.  What it offers is said at each function.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stacksplice/python.h>
#include <stacksplice/source.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 8 };

/* A language exception of C: all counts are one. */
typedef struct exception {
    IScriptException script;
    ILanguageExceptionTransform transform;
    IScriptExceptionDetails details;
    atomic_int count;
    IRestrictedErrorInfo *cause;
    stacksplice_relation relation;
    IRestrictedErrorInfo *members[MOST];
    uint32_t member_count;
    char *notes[MOST];
    uint32_t note_count;
} exception;

static void drop(void *object)
{
    IUnknown *unknown = object;

    if (unknown)
        unknown->lpVtbl->Release(unknown);
}

static ULONG exception_drop(exception *x)
{
    int left = atomic_fetch_sub(&x->count, 1) - 1;

    if (left)
        return (ULONG)left;
    drop(x->cause);
    for (uint32_t i = 0; i < x->member_count; i++)
        drop(x->members[i]);
    for (uint32_t i = 0; i < x->note_count; i++)
        free(x->notes[i]);
    free(x);
    return 0;
}

static HRESULT find(exception *x, REFIID iid, void **out)
{
    *out = NULL;
    if (IsEqualIID(iid, &IID_IUnknown) || IsEqualIID(iid, &stacksplice_IID_IScriptException))
        *out = &x->script;
    else if (x->cause && IsEqualIID(iid, &IID_ILanguageExceptionTransform))
        *out = &x->transform;
    else if (IsEqualIID(iid, &stacksplice_IID_IScriptExceptionDetails))
        *out = &x->details;
    if (!*out)
        return E_NOINTERFACE;
    atomic_fetch_add(&x->count, 1);
    return S_OK;
}

#define FORWARD(iface, member)                                                           \
    static exception *from_##member(iface *self)                                         \
    {                                                                                    \
        return (exception *)(void *)((char *)self - offsetof(exception, member));        \
    }                                                                                    \
    static HRESULT STDMETHODCALLTYPE member##_query(iface *self, REFIID iid, void **out) \
    {                                                                                    \
        return find(from_##member(self), iid, out);                                      \
    }                                                                                    \
    static ULONG STDMETHODCALLTYPE member##_add_ref(iface *self)                         \
    {                                                                                    \
        return (ULONG)atomic_fetch_add(&from_##member(self)->count, 1) + 1;              \
    }                                                                                    \
    static ULONG STDMETHODCALLTYPE member##_release(iface *self)                         \
    {                                                                                    \
        return exception_drop(from_##member(self));                                      \
    }

FORWARD(IScriptException, script)
FORWARD(ILanguageExceptionTransform, transform)
FORWARD(IScriptExceptionDetails, details)

static const char *STDMETHODCALLTYPE script_language(IScriptException *self)
{
    (void)self;
    return "c";
}

static const char *STDMETHODCALLTYPE script_type(IScriptException *self)
{
    (void)self;
    return "failure";
}

static const char *STDMETHODCALLTYPE script_message(IScriptException *self, size_t *length)
{
    (void)self;
    *length = 4;
    return "in C";
}

static void STDMETHODCALLTYPE script_add_inside(IScriptException *self)
{
    (void)script_add_ref(self);
}

static void STDMETHODCALLTYPE script_release_inside(IScriptException *self)
{
    (void)script_release(self);
}

static HRESULT STDMETHODCALLTYPE transform_get(ILanguageExceptionTransform *self,
                                               IRestrictedErrorInfo **out)
{
    *out = from_transform(self)->cause;
    (*out)->lpVtbl->AddRef(*out);
    return S_OK;
}

static stacksplice_relation STDMETHODCALLTYPE details_relation(IScriptExceptionDetails *self,
                                                               uint32_t *left_out)
{
    *left_out = 0;
    return from_details(self)->relation;
}

static int STDMETHODCALLTYPE details_group(IScriptExceptionDetails *self, uint32_t *members,
                                           uint32_t *left_out)
{
    *members = from_details(self)->member_count;
    *left_out = 0;
    return *members != 0;
}

static HRESULT STDMETHODCALLTYPE details_member(IScriptExceptionDetails *self, uint32_t index,
                                                IRestrictedErrorInfo **member)
{
    exception *x = from_details(self);

    *member = index < x->member_count ? x->members[index] : NULL;
    if (!*member)
        return S_FALSE;
    (*member)->lpVtbl->AddRef(*member);
    return S_OK;
}

static const char *STDMETHODCALLTYPE details_note(IScriptExceptionDetails *self, uint32_t index,
                                                  size_t *length)
{
    exception *x = from_details(self);

    if (index >= x->note_count)
        return NULL;
    *length = strlen(x->notes[index]);
    return x->notes[index];
}

static const IScriptExceptionVtbl script_vtbl = {
    script_query, script_add_ref, script_release,    script_language,
    script_type,  script_message, script_add_inside, script_release_inside};
static const ILanguageExceptionTransformVtbl transform_vtbl = {transform_query, transform_add_ref,
                                                               transform_release, transform_get};
static const IScriptExceptionDetailsVtbl details_vtbl = {
    details_query, details_add_ref, details_release, details_relation,
    details_group, details_member,  details_note};

/* EXC's error with a reference, or NULL with an exception. */
static IRestrictedErrorInfo *error_of(PyObject *exc)
{
    IRestrictedErrorInfo *error = NULL;

    PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
    (void)stacksplice_python_originate();
    if (GetRestrictedErrorInfo(&error) != S_OK)
        PyErr_SetString(PyExc_RuntimeError, "no error");
    return error;
}

/* fail(cause, is_context, members, notes): an error of C, E_FAIL, arrives in Python. */
static PyObject *fail(PyObject *self, PyObject *arguments)
{
    PyObject *cause, *members, *notes;
    exception *x = calloc(1, sizeof *x);
    int is_context;

    (void)self;
    if (!x || !PyArg_ParseTuple(arguments, "OpO!O!", &cause, &is_context, &PyList_Type, &members,
                                &PyList_Type, &notes)) {
        free(x);
        return NULL;
    }
    x->script.lpVtbl = &script_vtbl;
    x->transform.lpVtbl = &transform_vtbl;
    x->details.lpVtbl = &details_vtbl;
    atomic_init(&x->count, 1);
    x->relation = is_context ? STACKSPLICE_RELATION_CONTEXT : STACKSPLICE_RELATION_CAUSE;
    if (cause != Py_None)
        x->cause = error_of(cause);
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(members) && i < MOST; i++)
        x->members[x->member_count++] = error_of(PyList_GET_ITEM(members, i));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(notes) && i < MOST; i++)
        x->notes[x->note_count++] = strdup(PyUnicode_AsUTF8(PyList_GET_ITEM(notes, i)));
    (void)stacksplice_originate(E_FAIL, "in C", 4, (IUnknown *)(void *)&x->script, NULL);
    (void)exception_drop(x);
    return stacksplice_python_raise(E_FAIL);
}

/* transform(exc, hresult): C makes an error of its own of the one that EXC leaves with. */
static PyObject *transform(PyObject *self, PyObject *arguments)
{
    PyObject *exc;
    unsigned int hr;
    HRESULT old;

    (void)self;
    if (!PyArg_ParseTuple(arguments, "OI", &exc, &hr))
        return NULL;
    PyErr_SetObject((PyObject *)Py_TYPE(exc), exc);
    old = stacksplice_python_originate();
    (void)RoTransformError(old, (HRESULT)hr, NULL);
    return stacksplice_python_raise((HRESULT)hr);
}

/* note(exc, text): C adds a note to the error that EXC leaves with, which comes back. */
static PyObject *note(PyObject *self, PyObject *arguments)
{
    IRestrictedErrorInfo *error;
    const char *text;
    PyObject *exc;
    HRESULT hr;

    (void)self;
    if (!PyArg_ParseTuple(arguments, "Os", &exc, &text))
        return NULL;
    error = error_of(exc);
    hr = error ? stacksplice_add_note((IUnknown *)error, text, strlen(text)) : E_FAIL;
    drop(error);
    return PyLong_FromLong(hr);
}

static ILanguageExceptionTransform *transform_of(IUnknown *exception)
{
    void *out = NULL;

    return SUCCEEDED(
               exception->lpVtbl->QueryInterface(exception, &IID_ILanguageExceptionTransform, &out))
               ? out
               : NULL;
}

/* The language exception of ERROR with a reference; takes ERROR over. */
static IUnknown *exception_of(IRestrictedErrorInfo *error)
{
    ILanguageExceptionErrorInfo *info = NULL;
    IUnknown *exception = NULL;

    (void)error->lpVtbl->QueryInterface(error, &IID_ILanguageExceptionErrorInfo, (void **)&info);
    (void)info->lpVtbl->GetLanguageException(info, &exception);
    drop(info);
    drop(error);
    return exception;
}

/* walk(exc): the type names from EXC's language exception to the root, by
   ILanguageExceptionTransform alone. */
static PyObject *walk(PyObject *self, PyObject *exc)
{
    PyObject *names = PyList_New(0);
    IUnknown *object = NULL;

    (void)self;
    if (FAILED(stacksplice_python_exception(exc, &object)))
        return PyErr_Format(PyExc_RuntimeError, "no language exception");
    while (object) {
        ILanguageExceptionTransform *next = transform_of(object);
        IRestrictedErrorInfo *error = NULL;
        IScriptException *script = NULL;
        PyObject *name;

        (void)object->lpVtbl->QueryInterface(object, &stacksplice_IID_IScriptException,
                                             (void **)&script);
        name = PyUnicode_FromString(script->lpVtbl->GetTypeName(script));
        drop(script);
        (void)PyList_Append(names, name);
        Py_DECREF(name);
        drop(object);
        object = NULL;
        if (next)
            (void)next->lpVtbl->GetTransformedRestrictedErrorInfo(next, &error);
        drop(next);
        if (error)
            object = exception_of(error);
    }
    return names;
}

static int append(const char *text, size_t length, void *data)
{
    PyObject *item = PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "replace");
    int failed = PyList_Append(data, item);

    Py_DECREF(item);
    return failed;
}

/* read(exc): (relation, members, members left out, notes, depth) of EXC's error, as C reads them.
 */
static PyObject *read_error(PyObject *self, PyObject *exc)
{
    IRestrictedErrorInfo *error = error_of(exc), *cause = NULL, *member = NULL;
    stacksplice_relation relation = STACKSPLICE_RELATION_NONE;
    uint32_t members = 0, left_out = 0, depth = 0, found = 0;
    PyObject *notes = PyList_New(0);

    (void)self;
    (void)stacksplice_error_cause((IUnknown *)error, &cause, &relation);
    (void)stacksplice_error_group((IUnknown *)error, &members, &left_out);
    while (stacksplice_error_member((IUnknown *)error, found, &member) == S_OK) {
        drop(member);
        found++;
    }
    (void)stacksplice_error_notes((IUnknown *)error, append, notes);
    (void)stacksplice_error_depth((IUnknown *)error, &depth);
    drop(cause);
    drop(error);
    if (found != members)
        return PyErr_Format(PyExc_AssertionError, "%u members, not %u", found, members);
    return Py_BuildValue("(iIINI)", (int)relation, members, left_out, notes, depth);
}

/* set_cause(exc, object): what only C can do. */
static PyObject *set_cause(PyObject *self, PyObject *arguments)
{
    PyObject *exc, *cause;

    (void)self;
    if (!PyArg_ParseTuple(arguments, "OO", &exc, &cause))
        return NULL;
    PyException_SetCause(exc, Py_NewRef(cause));
    Py_RETURN_NONE;
}

static PyMethodDef methods[] = {{"fail", fail, METH_VARARGS, NULL},
                                {"transform", transform, METH_VARARGS, NULL},
                                {"note", note, METH_VARARGS, NULL},
                                {"walk", walk, METH_O, NULL},
                                {"read", read_error, METH_O, NULL},
                                {"set_cause", set_cause, METH_VARARGS, NULL},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "related_module",
                                        .m_methods = methods, .m_size = -1};

PyMODINIT_FUNC PyInit_related_module(void);
PyMODINIT_FUNC PyInit_related_module(void)
{
    return FAILED(stacksplice_python_import()) ? NULL : PyModule_Create(&definition);
}
