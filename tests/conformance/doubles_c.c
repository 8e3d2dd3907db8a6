/* The doubles as C code for Windows writes COM objects. */
#include "conformance.h"

#include <stdlib.h>

/* ---- Language exception ----------------------------------------------------------------------*/

typedef struct exception {
    ILanguageExceptionStackBackTrace ILanguageExceptionStackBackTrace_iface; /* also IUnknown */
    ILanguageExceptionTransform ILanguageExceptionTransform_iface;
    exception_state *state;
} exception;

static exception *impl_from_stack(ILanguageExceptionStackBackTrace *iface)
{
    return (exception *)(void *)iface;
}

static exception *impl_from_transform(ILanguageExceptionTransform *iface)
{
    return (exception *)(void *)((char *)iface -
                                 offsetof(exception, ILanguageExceptionTransform_iface));
}

static ULONG STDMETHODCALLTYPE stack_AddRef(ILanguageExceptionStackBackTrace *iface)
{
    return __atomic_add_fetch(&impl_from_stack(iface)->state->refs, 1, __ATOMIC_SEQ_CST);
}

static ULONG STDMETHODCALLTYPE stack_Release(ILanguageExceptionStackBackTrace *iface)
{
    exception *self = impl_from_stack(iface);
    exception_state *state = self->state;
    ULONG refs = __atomic_sub_fetch(&state->refs, 1, __ATOMIC_SEQ_CST);

    if (refs == 0) {
        free(self);
        if (state->in_release)
            state->in_release(state);
    }
    return refs;
}

static HRESULT STDMETHODCALLTYPE stack_QueryInterface(ILanguageExceptionStackBackTrace *iface,
                                                      REFIID iid, void **out)
{
    exception *self = impl_from_stack(iface);

    *out = NULL;
    if (IsEqualIID(iid, &IID_IAgileObject))
        log_call(self->state, 'A');
    if (IsEqualIID(iid, &IID_IUnknown) || IsEqualIID(iid, &IID_IAgileObject)) {
        *out = iface;
    } else if (IsEqualIID(iid, &IID_ILanguageExceptionStackBackTrace)) {
        log_call(self->state, 'S');
        if (self->state->has_stack)
            *out = iface;
    } else if (IsEqualIID(iid, &IID_ILanguageExceptionTransform)) {
        log_call(self->state, 'T');
        if (self->state->has_cause)
            *out = &self->ILanguageExceptionTransform_iface;
    }
    if (!*out)
        return E_NOINTERFACE;
    stack_AddRef(iface);
    return S_OK;
}

static HRESULT STDMETHODCALLTYPE stack_GetStackBackTrace(ILanguageExceptionStackBackTrace *iface,
                                                         ULONG max_frames, UINT_PTR *frames,
                                                         ULONG *captured)
{
    exception_state *state = impl_from_stack(iface)->state;
    ULONG count = state->frame_count < max_frames ? state->frame_count : max_frames;

    log_call(state, 's');
    state->room = max_frames;
    for (ULONG i = 0; i < count; i++)
        frames[i] = state->frames[i];
    *captured = state->claimed ? state->claimed : count;
    if (state->in_stack)
        state->in_stack(state);
    return state->stack_hr;
}

static const ILanguageExceptionStackBackTraceVtbl stack_vtbl = {
    stack_QueryInterface, stack_AddRef, stack_Release, stack_GetStackBackTrace};

static HRESULT STDMETHODCALLTYPE transform_QueryInterface(ILanguageExceptionTransform *iface,
                                                          REFIID iid, void **out)
{
    return stack_QueryInterface(&impl_from_transform(iface)->ILanguageExceptionStackBackTrace_iface,
                                iid, out);
}

static ULONG STDMETHODCALLTYPE transform_AddRef(ILanguageExceptionTransform *iface)
{
    return stack_AddRef(&impl_from_transform(iface)->ILanguageExceptionStackBackTrace_iface);
}

static ULONG STDMETHODCALLTYPE transform_Release(ILanguageExceptionTransform *iface)
{
    return stack_Release(&impl_from_transform(iface)->ILanguageExceptionStackBackTrace_iface);
}

static HRESULT STDMETHODCALLTYPE transform_GetTransformedRestrictedErrorInfo(
    ILanguageExceptionTransform *iface, IRestrictedErrorInfo **out)
{
    exception_state *state = impl_from_transform(iface)->state;

    log_call(state, 't');
    if (state->cause)
        CALL0(state->cause, AddRef);
    *out = state->cause;
    if (state->in_cause)
        state->in_cause(state);
    return state->cause_hr;
}

static const ILanguageExceptionTransformVtbl transform_vtbl = {
    transform_QueryInterface, transform_AddRef, transform_Release,
    transform_GetTransformedRestrictedErrorInfo};

IUnknown *exception_new(exception_state *state)
{
    exception *self = calloc(1, sizeof *self);

    assert_non_null(self);
    self->ILanguageExceptionStackBackTrace_iface.lpVtbl = &stack_vtbl;
    self->ILanguageExceptionTransform_iface.lpVtbl = &transform_vtbl;
    self->state = state;
    state->refs = 1;
    return (IUnknown *)(void *)&self->ILanguageExceptionStackBackTrace_iface;
}

/* ---- Foreign error info ----------------------------------------------------------------------*/

typedef struct info {
    IErrorInfo IErrorInfo_iface; /* also IUnknown */
    IRestrictedErrorInfo IRestrictedErrorInfo_iface;
    info_state *state;
} info;

static info *impl_from_restricted(IRestrictedErrorInfo *iface)
{
    return (info *)(void *)((char *)iface - offsetof(info, IRestrictedErrorInfo_iface));
}

static ULONG STDMETHODCALLTYPE info_AddRef(IErrorInfo *iface)
{
    return ++((info *)(void *)iface)->state->refs;
}

static ULONG STDMETHODCALLTYPE info_Release(IErrorInfo *iface)
{
    ULONG refs = --((info *)(void *)iface)->state->refs;

    if (refs == 0)
        free(iface);
    return refs;
}

static HRESULT STDMETHODCALLTYPE info_QueryInterface(IErrorInfo *iface, REFIID iid, void **out)
{
    info *self = (info *)(void *)iface;

    *out = NULL;
    if (IsEqualIID(iid, &IID_IUnknown) || IsEqualIID(iid, &IID_IErrorInfo))
        *out = iface;
    else if (IsEqualIID(iid, &IID_IRestrictedErrorInfo) && self->state->restricted)
        *out = &self->IRestrictedErrorInfo_iface;
    if (!*out)
        return E_NOINTERFACE;
    info_AddRef(iface);
    return S_OK;
}

static HRESULT STDMETHODCALLTYPE info_GetGUID(IErrorInfo *iface, GUID *guid)
{
    *guid = GUID_NULL;
    return S_OK;
}

static HRESULT STDMETHODCALLTYPE info_GetText(IErrorInfo *iface, BSTR *text)
{
    *text = SysAllocString(OLESTR("foreign \r\n"));
    return *text ? S_OK : E_OUTOFMEMORY;
}

static HRESULT STDMETHODCALLTYPE info_GetHelpContext(IErrorInfo *iface, DWORD *context)
{
    *context = 0;
    return S_OK;
}

static const IErrorInfoVtbl info_vtbl = {info_QueryInterface, info_AddRef,        info_Release,
                                         info_GetGUID,        info_GetText,       info_GetText,
                                         info_GetText,        info_GetHelpContext};

static HRESULT STDMETHODCALLTYPE restricted_QueryInterface(IRestrictedErrorInfo *iface, REFIID iid,
                                                           void **out)
{
    return info_QueryInterface(&impl_from_restricted(iface)->IErrorInfo_iface, iid, out);
}

static ULONG STDMETHODCALLTYPE restricted_AddRef(IRestrictedErrorInfo *iface)
{
    return info_AddRef(&impl_from_restricted(iface)->IErrorInfo_iface);
}

static ULONG STDMETHODCALLTYPE restricted_Release(IRestrictedErrorInfo *iface)
{
    return info_Release(&impl_from_restricted(iface)->IErrorInfo_iface);
}

static HRESULT STDMETHODCALLTYPE restricted_GetErrorDetails(IRestrictedErrorInfo *iface,
                                                            BSTR *description, HRESULT *error,
                                                            BSTR *message, BSTR *sid)
{
    *description = *message = *sid = NULL;
    *error = E_ABORT;
    return S_OK;
}

static HRESULT STDMETHODCALLTYPE restricted_GetReference(IRestrictedErrorInfo *iface, BSTR *out)
{
    *out = NULL;
    return S_OK;
}

static const IRestrictedErrorInfoVtbl restricted_vtbl = {
    restricted_QueryInterface, restricted_AddRef, restricted_Release, restricted_GetErrorDetails,
    restricted_GetReference};

IErrorInfo *info_new(info_state *state)
{
    info *self = calloc(1, sizeof *self);

    assert_non_null(self);
    self->IErrorInfo_iface.lpVtbl = &info_vtbl;
    self->IRestrictedErrorInfo_iface.lpVtbl = &restricted_vtbl;
    self->state = state;
    state->refs = 1;
    return &self->IErrorInfo_iface;
}
