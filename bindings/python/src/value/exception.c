/*
 * The language exception: a Python exception as a COM object.
 *
 * OUTSIDE counts COM references; while it is above 0 the Python object is held strongly.  INSIDE
 * keeps the memory; all outside references together hold one of it.  OUTSIDE rises from 0 only with
 * the interpreter's lock held and the exception in hand, which `hand` says: without it the
 * language exception lives on by value (type, message, frames).
 */
#include "value/parts.h"

#include <stdlib.h>
#include <string.h>

/* What sspy_exception_hold has in hand on this thread. */
static _Thread_local struct {
    sspy_exception *exception;
    PyObject *object;
} hand;

static const IScriptExceptionVtbl script_vtbl;

static void details_free(sspy_details *details)
{
    if (!details)
        return;
    for (uint32_t i = 0; i < details->member_count; i++)
        details->members[i].error->lpVtbl->ReleaseInside(details->members[i].error);
    free(details->notes);
    free(details);
}

static void exception_free(sspy_held *held)
{
    sspy_exception *self = SSPY_CONTAINER(held, sspy_exception, held);

    if (self->cause)
        self->cause->lpVtbl->ReleaseInside(self->cause);
    details_free(self->details);
    free(self->bases.names);
    free(self);
}

PyObject *sspy_group_members(PyObject *exc)
{
    PyObject *members;

    if (!PyObject_TypeCheck(exc, (PyTypeObject *)PyExc_BaseExceptionGroup))
        return NULL;
    members = ((PyBaseExceptionGroupObject *)exc)->excs;
    return members && PyTuple_Check(members) ? members : NULL;
}

/* The exception that CAUSE belongs to, if OBJECT still names it as its cause; borrowed. */
static PyObject *cause_in_hand(sspy_exception *self, PyObject *object)
{
    PyObject *candidates[2];
    PyObject *found = NULL;

    candidates[0] = PyException_GetCause(object);
    candidates[1] = PyException_GetContext(object);
    for (size_t i = 0; i < SSPY_COUNT_OF(candidates); i++) {
        sspy_ties *ties = candidates[i] ? sspy_ties_of(self->held.interp, candidates[i]) : NULL;

        if (!found && ties && ties->error == self->cause && !ties->foreign)
            found = candidates[i];
        Py_XDECREF(candidates[i]); /* OBJECT keeps it */
    }
    return found;
}

/* The cause's error object is held as long as somebody outside can ask for it. */
static void hold_cause(sspy_exception *self)
{
    PyObject *cause = self->held.object ? cause_in_hand(self, self->held.object) : NULL;
    sspy_ties *ties = cause ? sspy_ties_of(self->held.interp, cause) : NULL;

    if (!ties || !sspy_ties_hold(ties, cause))
        self->cause->lpVtbl->AddRef(self->cause);
}

/* So are the errors of a group's members, whose exceptions the group keeps. */
static void hold_members(sspy_exception *self)
{
    PyObject *members = self->held.object ? sspy_group_members(self->held.object) : NULL;

    for (uint32_t i = 0; self->details && i < self->details->member_count; i++) {
        const sspy_member *member = &self->details->members[i];
        bool known = members && member->index < PyTuple_GET_SIZE(members);
        PyObject *exc = known ? PyTuple_GET_ITEM(members, member->index) : NULL;
        sspy_ties *ties = exc ? sspy_ties_of(self->held.interp, exc) : NULL;

        if (!ties || ties->error != member->error || ties->foreign || !sspy_ties_hold(ties, exc))
            member->error->lpVtbl->AddRef(member->error);
    }
}

static void release_related(sspy_exception *self)
{
    if (self->cause)
        self->cause->lpVtbl->Release(self->cause);
    for (uint32_t i = 0; self->details && i < self->details->member_count; i++)
        self->details->members[i].error->lpVtbl->Release(self->details->members[i].error);
}

static ULONG exception_add_ref(sspy_exception *self)
{
    ULONG count = atomic_fetch_add(&self->held.outside, 1) + 1;

    if (count == 1) {
        sspy_held_ref_inside(&self->held);
        /* An object that waits to be dropped is still held: it simply stays. */
        if (hand.exception == self && !self->held.object)
            sspy_held_keep(&self->held, hand.object);
        if (self->cause)
            hold_cause(self);
        hold_members(self);
    }
    return count;
}

static ULONG exception_release(sspy_exception *self)
{
    ULONG count = atomic_fetch_sub(&self->held.outside, 1) - 1;

    if (count == 0) {
        release_related(self);
        sspy_held_released(&self->held);
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

IScriptErrorInfo *sspy_ties_hold(sspy_ties *ties, PyObject *exc)
{
    IScriptErrorInfo *error = ties->error;

    if (!error)
        return NULL;
    /* The error asks its language exception for an outside reference when its own count rises from
       0; with one taken here first, it finds the exception in hand. */
    if (ties->exception)
        sspy_exception_hold(ties->exception, exc);
    error->lpVtbl->AddRef(error);
    if (ties->exception)
        sspy_exception_release(ties->exception);
    return error;
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
    else if (self->details && IsEqualIID(iid, &stacksplice_IID_IScriptExceptionDetails))
        *out = &self->more;
    else if (IsEqualIID(iid, &stacksplice_IID_IScriptExceptionType))
        *out = &self->type;
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
FORWARD_UNKNOWN(IScriptExceptionDetails, more)
FORWARD_UNKNOWN(IScriptExceptionType, type)

/* ---- The interfaces' own methods --------------------------------------------------------------*/

static HRESULT STDMETHODCALLTYPE backtrace_GetStackBackTrace(
    ILanguageExceptionStackBackTrace *iface, ULONG max_frames, UINT_PTR *frames, ULONG *captured)
{
    sspy_exception *self = SSPY_CONTAINER(iface, sspy_exception, backtrace);

    if (!captured || (!frames && max_frames))
        return E_POINTER;
    *captured = stacksplice_copy_ends(self->frames, self->frame_count, max_frames, frames);
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

static const char *STDMETHODCALLTYPE type_GetName(IScriptExceptionType *iface, uint32_t index)
{
    sspy_exception *self = SSPY_CONTAINER(iface, sspy_exception, type);

    return index ? sspy_bases_name(&self->bases, index - 1) : self->type_name;
}

static void STDMETHODCALLTYPE script_AddInside(IScriptException *iface)
{
    sspy_held_ref_inside(&SSPY_CONTAINER(iface, sspy_exception, script)->held);
}

static void STDMETHODCALLTYPE script_ReleaseInside(IScriptException *iface)
{
    sspy_held_unref_inside(&SSPY_CONTAINER(iface, sspy_exception, script)->held);
}

static const sspy_details *details_of(IScriptExceptionDetails *iface)
{
    return SSPY_CONTAINER(iface, sspy_exception, more)->details;
}

static stacksplice_relation STDMETHODCALLTYPE more_GetRelation(IScriptExceptionDetails *iface,
                                                               uint32_t *left_out)
{
    *left_out = details_of(iface)->causes_left_out;
    return details_of(iface)->relation;
}

static int STDMETHODCALLTYPE more_GetGroup(IScriptExceptionDetails *iface, uint32_t *members,
                                           uint32_t *left_out)
{
    *members = details_of(iface)->member_count;
    *left_out = details_of(iface)->members_left_out;
    return details_of(iface)->is_group;
}

static HRESULT STDMETHODCALLTYPE more_GetMember(IScriptExceptionDetails *iface, uint32_t index,
                                                IRestrictedErrorInfo **member)
{
    const sspy_details *details = details_of(iface);
    IScriptErrorInfo *error;

    if (!member)
        return E_POINTER;
    *member = NULL;
    if (index >= details->member_count)
        return S_FALSE;
    error = details->members[index].error;
    return error->lpVtbl->QueryInterface(error, &IID_IRestrictedErrorInfo, (void **)member);
}

static const char *STDMETHODCALLTYPE more_GetNote(IScriptExceptionDetails *iface, uint32_t index,
                                                  size_t *length)
{
    const sspy_notes *notes = details_of(iface)->notes;

    if (!notes || index >= notes->count)
        return NULL;
    *length = notes->notes[index].length;
    return notes->notes[index].text;
}

static const ILanguageExceptionStackBackTraceVtbl backtrace_vtbl = {
    backtrace_QueryInterface, backtrace_AddRef, backtrace_Release, backtrace_GetStackBackTrace};
static const ILanguageExceptionTransformVtbl transform_vtbl = {
    transform_QueryInterface, transform_AddRef, transform_Release,
    transform_GetTransformedRestrictedErrorInfo};
static const IScriptExceptionVtbl script_vtbl = {
    script_QueryInterface, script_AddRef,     script_Release,   script_GetLanguage,
    script_GetTypeName,    script_GetMessage, script_AddInside, script_ReleaseInside};
static const IScriptExceptionDetailsVtbl more_vtbl = {
    more_QueryInterface, more_AddRef,    more_Release, more_GetRelation,
    more_GetGroup,       more_GetMember, more_GetNote};
static const IScriptExceptionTypeVtbl type_vtbl = {type_QueryInterface, type_AddRef, type_Release,
                                                   type_GetName};
static const IAgileObjectVtbl agile_vtbl = {agile_QueryInterface, agile_AddRef, agile_Release};

sspy_exception *sspy_exception_from(IUnknown *unknown)
{
    IScriptException *script = sspy_query(unknown, &stacksplice_IID_IScriptException);
    bool own = script && script->lpVtbl == &script_vtbl;

    sspy_unknown_release(script); /* the caller's reference keeps it */
    return own ? SSPY_CONTAINER(script, sspy_exception, script) : NULL;
}

/* ---- Making one -------------------------------------------------------------------------------*/

/* Everything by value in one block of memory; NULL with a MemoryError. */
static sspy_exception *allocate(const sspy_utf8 *name, const sspy_utf8 *message,
                                const uintptr_t *frames, uint32_t frame_count)
{
    size_t size = frame_count * sizeof *frames;
    sspy_exception *self = malloc(sizeof *self + size + name->length + message->length + 2);

    if (!self) {
        PyErr_NoMemory();
        return NULL;
    }
    memset(self, 0, sizeof *self);
    if (size)
        memcpy(self->frames, frames, size);
    self->frame_count = frame_count;
    self->type_name = (char *)self->frames + size;
    memcpy(self->type_name, name->bytes, name->length + 1);
    self->message = self->type_name + name->length + 1;
    self->message_length = message->length;
    memcpy(self->message, message->bytes, message->length + 1);
    return self;
}

static bool needs_details(const sspy_related *related)
{
    return related->relation == STACKSPLICE_RELATION_CONTEXT || related->causes_left_out ||
           related->is_group || related->notes;
}

/* -1 with a MemoryError. */
static int take_details(sspy_exception *self, sspy_related *related)
{
    sspy_details *details;

    if (!needs_details(related))
        return 0;
    details = malloc(sizeof *details + related->member_count * sizeof *details->members);
    if (!details) {
        PyErr_NoMemory();
        return -1;
    }
    details->relation = related->relation;
    details->causes_left_out = related->causes_left_out;
    details->is_group = related->is_group;
    details->members_left_out = related->members_left_out;
    details->notes = related->notes;
    related->notes = NULL; /* moved */
    details->member_count = related->member_count;
    for (uint32_t i = 0; i < related->member_count; i++) {
        details->members[i] = related->members[i];
        details->members[i].error->lpVtbl->AddInside(details->members[i].error);
    }
    self->details = details;
    return 0;
}

static void begin(sspy_exception *self, sspy_interp *interp, PyObject *object,
                  IScriptErrorInfo *cause)
{
    self->backtrace.lpVtbl = &backtrace_vtbl;
    self->transform.lpVtbl = &transform_vtbl;
    self->script.lpVtbl = &script_vtbl;
    self->agile.lpVtbl = &agile_vtbl;
    self->more.lpVtbl = &more_vtbl;
    self->type.lpVtbl = &type_vtbl;
    sspy_held_begin(&self->held, interp, exception_free);
    self->is_interrupt = !PyObject_TypeCheck(object, (PyTypeObject *)PyExc_Exception);
    if (cause) {
        cause->lpVtbl->AddInside(cause);
        self->cause = cause;
    }
    sspy_exception_hold(self, object); /* its first outside reference, which holds inside too */
    sspy_held_unref_inside(&self->held);
}

sspy_exception *sspy_exception_new(sspy_interp *interp, PyObject *object, const uintptr_t *frames,
                                   uint32_t frame_count, sspy_related *related)
{
    sspy_utf8 name = {NULL, NULL, 0}, message = {NULL, NULL, 0};
    sspy_exception *self = NULL;

    if (!sspy_encode_type_name(&name, object) && !sspy_encode_message(&message, object))
        self = allocate(&name, &message, frames, frame_count);
    Py_XDECREF(name.owner);
    Py_XDECREF(message.owner);
    if (self && (sspy_bases_take(&self->bases, Py_TYPE(object)) || take_details(self, related))) {
        free(self->bases.names);
        free(self);
        self = NULL;
    }
    if (self)
        begin(self, interp, object, related->cause);
    return self;
}
