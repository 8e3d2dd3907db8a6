/*
 * The language exception: a Python exception as a COM object.
 *
 * OUTSIDE counts COM references; while it is above 0 the Python object is held strongly.  INSIDE
 * keeps the memory; all outside references together hold one of it.  OUTSIDE rises from 0 only with
 * the interpreter's lock held and the exception in hand, which `hand` says: without it the
 * language exception lives on by value (type, message, frames).
 */
#include "binding.h"

#include <stdlib.h>
#include <string.h>

/* What sspy_exception_hold has in hand on this thread. */
static _Thread_local struct {
    sspy_exception *exception;
    PyObject *object;
} hand;

static const IScriptExceptionVtbl script_vtbl;

static void exception_free(sspy_exception *self)
{
    if (self->cause)
        self->cause->lpVtbl->ReleaseInside(self->cause);
    sspy_interp_unref(self->interp);
    free(self->type_name);
    free(self->message);
    free(self->frames);
    free(self);
}

void sspy_exception_ref_inside(sspy_exception *self)
{
    atomic_fetch_add(&self->inside, 1);
}

void sspy_exception_unref_inside(sspy_exception *self)
{
    if (atomic_fetch_sub(&self->inside, 1) == 1)
        exception_free(self);
}

/* The exception that CAUSE belongs to, if OBJECT still names it as its cause; borrowed. */
static PyObject *cause_in_hand(sspy_exception *self, PyObject *object)
{
    PyObject *candidates[2];
    PyObject *found = NULL;

    candidates[0] = PyException_GetCause(object);
    candidates[1] = PyException_GetContext(object);
    for (size_t i = 0; i < SSPY_COUNT_OF(candidates); i++) {
        sspy_anchor *anchor = candidates[i] ? sspy_anchor_of(self->interp, candidates[i]) : NULL;

        if (!found && anchor && anchor->error == self->cause && !anchor->foreign)
            found = candidates[i];
        Py_XDECREF(candidates[i]); /* OBJECT keeps it */
    }
    return found;
}

/* The cause's error object is held as long as somebody outside can ask for it. */
static void hold_cause(sspy_exception *self)
{
    PyObject *cause = self->object ? cause_in_hand(self, self->object) : NULL;
    sspy_anchor *anchor = cause ? sspy_anchor_of(self->interp, cause) : NULL;

    if (!anchor || !sspy_anchor_hold(anchor, cause))
        self->cause->lpVtbl->AddRef(self->cause);
}

static ULONG exception_add_ref(sspy_exception *self)
{
    ULONG count = atomic_fetch_add(&self->outside, 1) + 1;

    if (count == 1) {
        sspy_exception_ref_inside(self);
        /* An object that waits to be dropped is still held: it simply stays. */
        if (hand.exception == self && !self->object)
            self->object = Py_NewRef(hand.object);
        if (self->cause)
            hold_cause(self);
    }
    return count;
}

static ULONG exception_release(sspy_exception *self)
{
    ULONG count = atomic_fetch_sub(&self->outside, 1) - 1;

    if (count == 0) {
        if (self->cause)
            self->cause->lpVtbl->Release(self->cause);
        sspy_interp_released(self->interp, self);
    }
    return count;
}

void sspy_exception_hold(sspy_exception *exception, PyObject *object)
{
    sspy_exception *outer_exception = hand.exception;
    PyObject *outer_object = hand.object;

    hand.exception = exception;
    hand.object = object;
    exception_add_ref(exception);
    hand.exception = outer_exception;
    hand.object = outer_object;
}

void sspy_exception_release(sspy_exception *exception)
{
    exception_release(exception);
}

void sspy_exception_drop(sspy_exception *self)
{
    PyObject *object = self->object;

    if (atomic_load(&self->outside) != 0)
        return;
    self->object = NULL;
    Py_XDECREF(object);
}

/* ---- IUnknown ---------------------------------------------------------------------------------*/

static HRESULT exception_query(sspy_exception *self, REFIID iid, void **out)
{
    if (!out)
        return E_POINTER;
    *out = NULL;
    if (IsEqualIID(iid, &IID_IUnknown) || IsEqualIID(iid, &IID_ILanguageExceptionStackBackTrace) ||
        (self->is_interrupt && IsEqualIID(iid, &stacksplice_IID_IScriptInterrupt)))
        *out = &self->backtrace;
    else if (IsEqualIID(iid, &IID_IAgileObject))
        *out = &self->agile;
    else if (IsEqualIID(iid, &stacksplice_IID_IScriptException))
        *out = &self->script;
    else if (self->cause && IsEqualIID(iid, &IID_ILanguageExceptionTransform))
        *out = &self->transform;
    else
        return E_NOINTERFACE;
    exception_add_ref(self);
    return S_OK;
}

/* Every interface forwards to the object: IFACE is its type, MEMBER where it stands. */
#define FORWARD_UNKNOWN(iface, member)                                                            \
    static HRESULT STDMETHODCALLTYPE member##_QueryInterface(iface *self, REFIID iid, void **out) \
    {                                                                                             \
        return exception_query(SSPY_CONTAINER(self, sspy_exception, member), iid, out);           \
    }                                                                                             \
    static ULONG STDMETHODCALLTYPE member##_AddRef(iface *self)                                   \
    {                                                                                             \
        return exception_add_ref(SSPY_CONTAINER(self, sspy_exception, member));                   \
    }                                                                                             \
    static ULONG STDMETHODCALLTYPE member##_Release(iface *self)                                  \
    {                                                                                             \
        return exception_release(SSPY_CONTAINER(self, sspy_exception, member));                   \
    }

FORWARD_UNKNOWN(ILanguageExceptionStackBackTrace, backtrace)
FORWARD_UNKNOWN(ILanguageExceptionTransform, transform)
FORWARD_UNKNOWN(IScriptException, script)
FORWARD_UNKNOWN(IAgileObject, agile)

/* ---- The interfaces' own methods --------------------------------------------------------------*/

static HRESULT STDMETHODCALLTYPE backtrace_GetStackBackTrace(
    ILanguageExceptionStackBackTrace *iface, ULONG max_frames, UINT_PTR *frames, ULONG *captured)
{
    sspy_exception *self = SSPY_CONTAINER(iface, sspy_exception, backtrace);
    uint32_t count = self->frame_count < max_frames ? self->frame_count : max_frames;

    if (!captured || (!frames && max_frames))
        return E_POINTER;
    if (count)
        memcpy(frames, self->frames, count * sizeof *frames);
    *captured = count;
    return S_OK;
}

static HRESULT STDMETHODCALLTYPE transform_GetTransformedRestrictedErrorInfo(
    ILanguageExceptionTransform *iface, IRestrictedErrorInfo **out)
{
    sspy_exception *self = SSPY_CONTAINER(iface, sspy_exception, transform);

    if (!out)
        return E_POINTER;
    return self->cause->lpVtbl->QueryInterface(self->cause, &IID_IRestrictedErrorInfo,
                                               (void **)out);
}

static const char *STDMETHODCALLTYPE script_GetLanguage(IScriptException *iface)
{
    (void)iface;
    return "python";
}

static const char *STDMETHODCALLTYPE script_GetTypeName(IScriptException *iface)
{
    return SSPY_CONTAINER(iface, sspy_exception, script)->type_name;
}

static const char *STDMETHODCALLTYPE script_GetMessage(IScriptException *iface, size_t *length)
{
    sspy_exception *self = SSPY_CONTAINER(iface, sspy_exception, script);

    if (length)
        *length = self->message_length;
    return self->message;
}

static void STDMETHODCALLTYPE script_AddInside(IScriptException *iface)
{
    sspy_exception_ref_inside(SSPY_CONTAINER(iface, sspy_exception, script));
}

static void STDMETHODCALLTYPE script_ReleaseInside(IScriptException *iface)
{
    sspy_exception_unref_inside(SSPY_CONTAINER(iface, sspy_exception, script));
}

static const ILanguageExceptionStackBackTraceVtbl backtrace_vtbl = {
    backtrace_QueryInterface, backtrace_AddRef, backtrace_Release, backtrace_GetStackBackTrace};
static const ILanguageExceptionTransformVtbl transform_vtbl = {
    transform_QueryInterface, transform_AddRef, transform_Release,
    transform_GetTransformedRestrictedErrorInfo};
static const IScriptExceptionVtbl script_vtbl = {
    script_QueryInterface, script_AddRef,     script_Release,   script_GetLanguage,
    script_GetTypeName,    script_GetMessage, script_AddInside, script_ReleaseInside};
static const IAgileObjectVtbl agile_vtbl = {agile_QueryInterface, agile_AddRef, agile_Release};

sspy_exception *sspy_exception_from(IUnknown *unknown)
{
    IScriptException *script = sspy_query(unknown, &stacksplice_IID_IScriptException);
    bool own = script && script->lpVtbl == &script_vtbl;

    sspy_unknown_release(script); /* the caller's reference keeps it */
    return own ? SSPY_CONTAINER(script, sspy_exception, script) : NULL;
}

/* ---- Making one -------------------------------------------------------------------------------*/

/* TEXT as UTF-8 with surrogates kept, allocated with malloc; NULL with an exception. */
static char *utf8_copy(PyObject *text, size_t *length)
{
    PyObject *bytes = NULL;
    const char *utf8;
    char *copy;

    if (PyUnicode_IS_COMPACT_ASCII(text)) {
        utf8 = (const char *)PyUnicode_DATA(text);
        *length = (size_t)PyUnicode_GET_LENGTH(text);
    } else {
        bytes = PyUnicode_AsEncodedString(text, "utf-8", "surrogatepass");
        if (!bytes)
            return NULL;
        utf8 = PyBytes_AS_STRING(bytes);
        *length = (size_t)PyBytes_GET_SIZE(bytes);
    }
    copy = malloc(*length + 1);
    if (copy)
        memcpy(copy, utf8, *length + 1);
    else
        PyErr_NoMemory();
    Py_XDECREF(bytes);
    return copy;
}

/* The type as a traceback prints it: without its module where that is builtins or __main__. */
static PyObject *type_name_of(PyObject *object)
{
    PyObject *type = (PyObject *)Py_TYPE(object);
    const char *own = Py_TYPE(object)->tp_name;
    PyObject *name, *module, *full = NULL;

    /* A type of the interpreter's own is called what its structure says. */
    if (!(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) && !strchr(own, '.'))
        return PyUnicode_FromString(own);
    name = PyObject_GetAttrString(type, "__qualname__");
    module = PyObject_GetAttrString(type, "__module__");
    if (name && PyUnicode_Check(name)) {
        if (!module || !PyUnicode_Check(module) ||
            PyUnicode_CompareWithASCIIString(module, "builtins") == 0 ||
            PyUnicode_CompareWithASCIIString(module, "__main__") == 0)
            full = Py_NewRef(name);
        else
            full = PyUnicode_FromFormat("%U.%U", module, name);
    }
    if (!full) {
        PyErr_Clear();
        full = PyUnicode_FromString(Py_TYPE(object)->tp_name);
    }
    Py_XDECREF(name);
    Py_XDECREF(module);
    if (PyErr_Occurred() && full)
        PyErr_Clear();
    return full;
}

static PyObject *message_of(PyObject *object)
{
    const char *name = Py_TYPE(object)->tp_name, *dot;
    PyObject *text = PyObject_Str(object);

    if (text)
        return text;
    PyErr_Clear(); /* an exception that cannot say its message is still an exception */
    dot = strrchr(name, '.');
    return PyUnicode_FromFormat("<unprintable %s object>", dot ? dot + 1 : name);
}

static int set_texts(sspy_exception *self, PyObject *object)
{
    PyObject *name = type_name_of(object);
    PyObject *message = name ? message_of(object) : NULL;
    size_t name_length;

    if (message) {
        self->type_name = utf8_copy(name, &name_length);
        if (self->type_name)
            self->message = utf8_copy(message, &self->message_length);
    }
    Py_XDECREF(name);
    Py_XDECREF(message);
    return self->message ? 0 : -1;
}

sspy_exception *sspy_exception_new(sspy_interp *interp, PyObject *object, uintptr_t *frames,
                                   uint32_t frame_count, IScriptErrorInfo *cause)
{
    sspy_exception *self = calloc(1, sizeof *self);

    if (!self) {
        free(frames);
        PyErr_NoMemory();
        return NULL;
    }
    self->backtrace.lpVtbl = &backtrace_vtbl;
    self->transform.lpVtbl = &transform_vtbl;
    self->script.lpVtbl = &script_vtbl;
    self->agile.lpVtbl = &agile_vtbl;
    atomic_init(&self->inside, 1);
    sspy_interp_ref(interp);
    self->interp = interp;
    self->is_interrupt = !PyObject_TypeCheck(object, (PyTypeObject *)PyExc_Exception);
    self->frames = frames;
    self->frame_count = frame_count;
    if (set_texts(self, object)) {
        sspy_exception_unref_inside(self);
        return NULL;
    }
    if (cause) {
        cause->lpVtbl->AddInside(cause);
        self->cause = cause;
    }
    sspy_exception_hold(self, object); /* its first outside reference, which holds inside too */
    sspy_exception_unref_inside(self);
    return self;
}
