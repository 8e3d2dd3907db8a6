/*
 * The language exception: a COM object that tells everything by value and, while somebody outside
 * holds it, keeps the script's error value alive.  It never calls Lua.
 */
#include "life/exception.h"

#include <stdlib.h>
#include <string.h>

#define CONTAINER(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* The class of the object, for those who know its structure: {8b0c6df4-5b8f-4cf3-9f0c-4a4d2f6a1e72}
 */
static const IID class_id = {
    0x8b0c6df4, 0x5b8f, 0x4cf3, {0x9f, 0x0c, 0x4a, 0x4d, 0x2f, 0x6a, 0x1e, 0x72}};

static bool same_iid(REFIID a, REFIID b)
{
    return memcmp(a, b, sizeof(IID)) == 0;
}

/* ---- Lifetime --------------------------------------------------------------------------------*/

static void drop_memory(ss_lua_exception *x)
{
    IScriptErrorInfo *cause;

    if (atomic_fetch_sub(&x->memory, 1) != 1)
        return;
    cause = atomic_load(&x->cause);
    if (cause)
        cause->lpVtbl->ReleaseInside(cause);
    atomic_fetch_sub(&x->state->users, 1);
    free(x);
}

void ss_lua_exception_add_inside(ss_lua_exception *x)
{
    atomic_fetch_add(&x->memory, 1);
}

void ss_lua_exception_release_inside(ss_lua_exception *x)
{
    drop_memory(x);
}

/*
 * The value may be let go, but only the state's own thread can do that: leave a note.  The note
 * keeps the memory.  A closed list takes none, for then Lua has freed its values already.
 */
static void leave_note(ss_lua_exception *x)
{
    ss_lua_exception *head;

    if (atomic_exchange(&x->in_freed, true))
        return;
    ss_lua_exception_add_inside(x);
    head = atomic_load(&x->state->freed);
    do {
        if (head == SS_LUA_FREED_CLOSED) {
            drop_memory(x);
            return;
        }
        atomic_store(&x->next_freed, head);
    } while (!atomic_compare_exchange_weak(&x->state->freed, &head, x));
}

static ULONG add_outside(ss_lua_exception *x)
{
    unsigned before = atomic_fetch_add(&x->outside, 1);
    IScriptErrorInfo *cause;

    if (before == 0) {
        ss_lua_exception_add_inside(x);
        cause = atomic_load(&x->cause);
        if (cause)
            cause->lpVtbl->AddRef(cause);
    }
    return before + 1;
}

static ULONG release_outside(ss_lua_exception *x)
{
    unsigned before = atomic_fetch_sub(&x->outside, 1);
    IScriptErrorInfo *cause;

    if (before == 1) {
        /* The note comes first: where that of the cause is found, this one is, too. */
        leave_note(x);
        cause = atomic_load(&x->cause);
        if (cause)
            cause->lpVtbl->Release(cause);
        drop_memory(x);
    }
    return before - 1;
}

/* An outside reference of our own keeps others from being the first or the last meanwhile. */
void ss_lua_exception_set_cause(ss_lua_exception *x, IScriptErrorInfo *cause)
{
    add_outside(x);
    cause->lpVtbl->AddInside(cause);
    cause->lpVtbl->AddRef(cause);
    atomic_store(&x->cause, cause);
    release_outside(x);
}

/* ---- Interfaces ------------------------------------------------------------------------------*/

static HRESULT query(ss_lua_exception *x, REFIID iid, void **out)
{
    if (!out)
        return E_POINTER;
    *out = NULL;
    if (same_iid(iid, &IID_IUnknown) || same_iid(iid, &stacksplice_IID_IScriptException) ||
        same_iid(iid, &class_id))
        *out = &x->script;
    else if (same_iid(iid, &IID_ILanguageExceptionStackBackTrace))
        *out = &x->back_trace;
    else if (same_iid(iid, &IID_IAgileObject))
        *out = &x->agile;
    else if (same_iid(iid, &IID_ILanguageExceptionTransform) && atomic_load(&x->cause))
        *out = &x->transform;
    else
        return E_NOINTERFACE;
    add_outside(x);
    return S_OK;
}

static ss_lua_exception *impl_from_IScriptException(IScriptException *self)
{
    return CONTAINER(self, ss_lua_exception, script);
}

static HRESULT STDMETHODCALLTYPE script_QueryInterface(IScriptException *self, REFIID iid,
                                                       void **out)
{
    return query(impl_from_IScriptException(self), iid, out);
}

static ULONG STDMETHODCALLTYPE script_AddRef(IScriptException *self)
{
    return add_outside(impl_from_IScriptException(self));
}

static ULONG STDMETHODCALLTYPE script_Release(IScriptException *self)
{
    return release_outside(impl_from_IScriptException(self));
}

static const char *STDMETHODCALLTYPE script_GetLanguage(IScriptException *self)
{
    (void)self;
    return "lua";
}

static const char *STDMETHODCALLTYPE script_GetTypeName(IScriptException *self)
{
    return impl_from_IScriptException(self)->type_name;
}

static const char *STDMETHODCALLTYPE script_GetMessage(IScriptException *self, size_t *length)
{
    ss_lua_exception *x = impl_from_IScriptException(self);

    if (length)
        *length = x->message_length;
    return x->message;
}

static void STDMETHODCALLTYPE script_AddInside(IScriptException *self)
{
    ss_lua_exception_add_inside(impl_from_IScriptException(self));
}

static void STDMETHODCALLTYPE script_ReleaseInside(IScriptException *self)
{
    drop_memory(impl_from_IScriptException(self));
}

static const IScriptExceptionVtbl script_vtbl = {
    script_QueryInterface, script_AddRef,     script_Release,   script_GetLanguage,
    script_GetTypeName,    script_GetMessage, script_AddInside, script_ReleaseInside,
};

static ss_lua_exception *impl_from_back_trace(ILanguageExceptionStackBackTrace *self)
{
    return CONTAINER(self, ss_lua_exception, back_trace);
}

static HRESULT STDMETHODCALLTYPE back_trace_QueryInterface(ILanguageExceptionStackBackTrace *self,
                                                           REFIID iid, void **out)
{
    return query(impl_from_back_trace(self), iid, out);
}

static ULONG STDMETHODCALLTYPE back_trace_AddRef(ILanguageExceptionStackBackTrace *self)
{
    return add_outside(impl_from_back_trace(self));
}

static ULONG STDMETHODCALLTYPE back_trace_Release(ILanguageExceptionStackBackTrace *self)
{
    return release_outside(impl_from_back_trace(self));
}

static HRESULT STDMETHODCALLTYPE back_trace_GetStackBackTrace(
    ILanguageExceptionStackBackTrace *self, ULONG max_frames, UINT_PTR *frames, ULONG *captured)
{
    ss_lua_exception *x = impl_from_back_trace(self);

    if (!captured || (!frames && max_frames))
        return E_POINTER;
    *captured = stacksplice_copy_ends(x->frames, x->frame_count, max_frames, frames);
    return S_OK;
}

static const ILanguageExceptionStackBackTraceVtbl back_trace_vtbl = {
    back_trace_QueryInterface,
    back_trace_AddRef,
    back_trace_Release,
    back_trace_GetStackBackTrace,
};

static ss_lua_exception *impl_from_transform(ILanguageExceptionTransform *self)
{
    return CONTAINER(self, ss_lua_exception, transform);
}

static HRESULT STDMETHODCALLTYPE transform_QueryInterface(ILanguageExceptionTransform *self,
                                                          REFIID iid, void **out)
{
    return query(impl_from_transform(self), iid, out);
}

static ULONG STDMETHODCALLTYPE transform_AddRef(ILanguageExceptionTransform *self)
{
    return add_outside(impl_from_transform(self));
}

static ULONG STDMETHODCALLTYPE transform_Release(ILanguageExceptionTransform *self)
{
    return release_outside(impl_from_transform(self));
}

static HRESULT STDMETHODCALLTYPE transform_GetTransformedRestrictedErrorInfo(
    ILanguageExceptionTransform *self, IRestrictedErrorInfo **out)
{
    IScriptErrorInfo *cause = atomic_load(&impl_from_transform(self)->cause);

    if (!out)
        return E_POINTER;
    return cause->lpVtbl->QueryInterface(cause, &IID_IRestrictedErrorInfo, (void **)out);
}

static const ILanguageExceptionTransformVtbl transform_vtbl = {
    transform_QueryInterface,
    transform_AddRef,
    transform_Release,
    transform_GetTransformedRestrictedErrorInfo,
};

static ss_lua_exception *impl_from_agile(IUnknown *self)
{
    return CONTAINER(self, ss_lua_exception, agile);
}

static HRESULT STDMETHODCALLTYPE agile_QueryInterface(IUnknown *self, REFIID iid, void **out)
{
    return query(impl_from_agile(self), iid, out);
}

static ULONG STDMETHODCALLTYPE agile_AddRef(IUnknown *self)
{
    return add_outside(impl_from_agile(self));
}

static ULONG STDMETHODCALLTYPE agile_Release(IUnknown *self)
{
    return release_outside(impl_from_agile(self));
}

static const IUnknownVtbl agile_vtbl = {agile_QueryInterface, agile_AddRef, agile_Release};

/* ---- Making and recognising ------------------------------------------------------------------*/

ss_lua_exception *ss_lua_exception_new(ss_lua_state *state, const ss_lua_exception_parts *parts)
{
    size_t frames = parts->frame_count * sizeof(uintptr_t);
    size_t type = strlen(parts->type_name) + 1;
    ss_lua_exception *x = calloc(1, sizeof *x + frames + type + parts->message_length + 1);

    if (!x)
        return NULL;
    x->script.lpVtbl = &script_vtbl;
    x->back_trace.lpVtbl = &back_trace_vtbl;
    x->transform.lpVtbl = &transform_vtbl;
    x->agile.lpVtbl = &agile_vtbl;
    atomic_init(&x->memory, 1);
    x->state = state;
    atomic_fetch_add(&state->users, 1);
    x->hresult = parts->hresult;
    x->frame_count = parts->frame_count;
    if (frames)
        memcpy(x->frames, parts->frames, frames);
    x->type_name = (char *)x->frames + frames;
    memcpy(x->type_name, parts->type_name, type);
    x->message = x->type_name + type;
    if (parts->message_length)
        memcpy(x->message, parts->message, parts->message_length);
    x->message_length = parts->message_length;
    return x;
}

ss_lua_exception *ss_lua_exception_from(IUnknown *object, const ss_lua_state *state)
{
    void *found = NULL;
    ss_lua_exception *x;

    if (!object || FAILED(object->lpVtbl->QueryInterface(object, &class_id, &found)) || !found)
        return NULL;
    x = impl_from_IScriptException(found);
    release_outside(x); /* the caller's own reference is enough */
    return x->state == state ? x : NULL;
}

/* ---- Ties
 * ---------------------------------------------------------------------------------------*/

void ss_lua_drop_ties(ss_lua_ties *ties)
{
    if (ties->error)
        ties->error->lpVtbl->ReleaseInside(ties->error);
    if (ties->exception)
        ss_lua_exception_release_inside(ties->exception);
    *ties = (ss_lua_ties){NULL, NULL};
}

void ss_lua_forget_last(ss_lua_state *state)
{
    ss_lua_ties gone = state->last;

    state->last = (ss_lua_ties){NULL, NULL};
    state->raising = (ss_lua_raising){NULL, NULL, NULL};
    if (gone.exception)
        gone.exception->script.lpVtbl->Release(&gone.exception->script);
    ss_lua_drop_ties(&gone);
}
