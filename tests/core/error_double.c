#include "error_double.h"

#include <string.h>

static error_double *impl_from_IScriptException(IScriptException *iface)
{
    return (error_double *)(void *)iface;
}

static error_double *impl_from_stack(ILanguageExceptionStackBackTrace *iface)
{
    return (error_double *)(void *)((char *)iface -
                                    offsetof(error_double, ILanguageExceptionStackBackTrace_iface));
}

static error_double *impl_from_transform(ILanguageExceptionTransform *iface)
{
    return (error_double *)(void *)((char *)iface -
                                    offsetof(error_double, ILanguageExceptionTransform_iface));
}

static error_double *impl_from_details(IScriptExceptionDetails *iface)
{
    return (error_double *)(void *)((char *)iface -
                                    offsetof(error_double, IScriptExceptionDetails_iface));
}

static ULONG add_ref(error_double *self)
{
    int before = atomic_fetch_add(&self->outside, 1);

    if (before == 0)
        atomic_fetch_add(&self->waking, 1);
    return (ULONG)before + 1;
}

static ULONG drop_ref(error_double *self)
{
    return (ULONG)atomic_fetch_sub(&self->outside, 1) - 1;
}

static HRESULT find(error_double *self, REFIID iid, void **out)
{
    *out = NULL;
    if (IsEqualIID(iid, &IID_IUnknown) || IsEqualIID(iid, &IID_IAgileObject))
        *out = &self->IScriptException_iface;
    else if (IsEqualIID(iid, &stacksplice_IID_IScriptException) && self->is_script)
        *out = &self->IScriptException_iface;
    else if (IsEqualIID(iid, &IID_ILanguageExceptionStackBackTrace) && self->has_stack)
        *out = &self->ILanguageExceptionStackBackTrace_iface;
    else if (IsEqualIID(iid, &IID_ILanguageExceptionTransform) && self->cause)
        *out = &self->ILanguageExceptionTransform_iface;
    else if (IsEqualIID(iid, &stacksplice_IID_IScriptExceptionDetails) && self->has_details)
        *out = &self->IScriptExceptionDetails_iface;
    if (!*out)
        return E_NOINTERFACE;
    (void)add_ref(self);
    return S_OK;
}

/* ---- IScriptException ------------------------------------------------------------------------*/

static HRESULT STDMETHODCALLTYPE script_QueryInterface(IScriptException *iface, REFIID iid,
                                                       void **out)
{
    return find(impl_from_IScriptException(iface), iid, out);
}

static ULONG STDMETHODCALLTYPE script_AddRef(IScriptException *iface)
{
    return add_ref(impl_from_IScriptException(iface));
}

static ULONG STDMETHODCALLTYPE script_Release(IScriptException *iface)
{
    return drop_ref(impl_from_IScriptException(iface));
}

static const char *STDMETHODCALLTYPE script_GetLanguage(IScriptException *iface)
{
    (void)iface;
    return "double";
}

static const char *STDMETHODCALLTYPE script_GetTypeName(IScriptException *iface)
{
    (void)iface;
    return "DoubleError";
}

static const char *STDMETHODCALLTYPE script_GetMessage(IScriptException *iface, size_t *length)
{
    (void)iface;
    *length = 3;
    return "two";
}

static void STDMETHODCALLTYPE script_AddInside(IScriptException *iface)
{
    atomic_fetch_add(&impl_from_IScriptException(iface)->inside, 1);
}

static void STDMETHODCALLTYPE script_ReleaseInside(IScriptException *iface)
{
    atomic_fetch_sub(&impl_from_IScriptException(iface)->inside, 1);
}

static const IScriptExceptionVtbl script_vtbl = {
    script_QueryInterface, script_AddRef,     script_Release,   script_GetLanguage,
    script_GetTypeName,    script_GetMessage, script_AddInside, script_ReleaseInside,
};

/* ---- The stack -------------------------------------------------------------------------------*/

static HRESULT STDMETHODCALLTYPE stack_QueryInterface(ILanguageExceptionStackBackTrace *iface,
                                                      REFIID iid, void **out)
{
    return find(impl_from_stack(iface), iid, out);
}

static ULONG STDMETHODCALLTYPE stack_AddRef(ILanguageExceptionStackBackTrace *iface)
{
    return add_ref(impl_from_stack(iface));
}

static ULONG STDMETHODCALLTYPE stack_Release(ILanguageExceptionStackBackTrace *iface)
{
    return drop_ref(impl_from_stack(iface));
}

static HRESULT STDMETHODCALLTYPE stack_GetStackBackTrace(ILanguageExceptionStackBackTrace *iface,
                                                         ULONG max_frames, UINT_PTR *frames,
                                                         ULONG *captured)
{
    error_double *self = impl_from_stack(iface);
    uint32_t has = self->asked++ && self->at_most ? self->at_most : self->frame_count;
    uint32_t count = has < max_frames ? has : max_frames;

    self->room = max_frames;
    if (self->is_script) /* a binding's keeps both ends itself */
        count = stacksplice_copy_ends(self->frames, has, max_frames, frames);
    else if (count)
        memcpy(frames, self->frames, count * sizeof *frames);
    *captured = self->claimed ? self->claimed : count;
    return self->stack_hr;
}

static const ILanguageExceptionStackBackTraceVtbl stack_vtbl = {
    stack_QueryInterface, stack_AddRef, stack_Release, stack_GetStackBackTrace};

/* ---- The cause -------------------------------------------------------------------------------*/

static HRESULT STDMETHODCALLTYPE transform_QueryInterface(ILanguageExceptionTransform *iface,
                                                          REFIID iid, void **out)
{
    return find(impl_from_transform(iface), iid, out);
}

static ULONG STDMETHODCALLTYPE transform_AddRef(ILanguageExceptionTransform *iface)
{
    return add_ref(impl_from_transform(iface));
}

static ULONG STDMETHODCALLTYPE transform_Release(ILanguageExceptionTransform *iface)
{
    return drop_ref(impl_from_transform(iface));
}

static HRESULT STDMETHODCALLTYPE transform_GetTransformedRestrictedErrorInfo(
    ILanguageExceptionTransform *iface, IRestrictedErrorInfo **out)
{
    *out = impl_from_transform(iface)->cause;
    (*out)->lpVtbl->AddRef(*out);
    return S_OK;
}

static const ILanguageExceptionTransformVtbl transform_vtbl = {
    transform_QueryInterface, transform_AddRef, transform_Release,
    transform_GetTransformedRestrictedErrorInfo};

/* ---- What belongs to it ----------------------------------------------------------------------*/

static HRESULT STDMETHODCALLTYPE details_QueryInterface(IScriptExceptionDetails *iface, REFIID iid,
                                                        void **out)
{
    return find(impl_from_details(iface), iid, out);
}

static ULONG STDMETHODCALLTYPE details_AddRef(IScriptExceptionDetails *iface)
{
    return add_ref(impl_from_details(iface));
}

static ULONG STDMETHODCALLTYPE details_Release(IScriptExceptionDetails *iface)
{
    return drop_ref(impl_from_details(iface));
}

static stacksplice_relation STDMETHODCALLTYPE details_GetRelation(IScriptExceptionDetails *iface,
                                                                  uint32_t *left_out)
{
    *left_out = 0;
    return impl_from_details(iface)->relation;
}

static int STDMETHODCALLTYPE details_GetGroup(IScriptExceptionDetails *iface, uint32_t *members,
                                              uint32_t *left_out)
{
    error_double *self = impl_from_details(iface);

    *members = self->member_count;
    *left_out = self->members_left_out;
    return self->members != NULL;
}

static HRESULT STDMETHODCALLTYPE details_GetMember(IScriptExceptionDetails *iface, uint32_t index,
                                                   IRestrictedErrorInfo **member)
{
    error_double *self = impl_from_details(iface);

    *member = index < self->member_count ? self->members[index] : NULL;
    if (!*member)
        return S_FALSE;
    (*member)->lpVtbl->AddRef(*member);
    return S_OK;
}

static const char *STDMETHODCALLTYPE details_GetNote(IScriptExceptionDetails *iface, uint32_t index,
                                                     size_t *length)
{
    error_double *self = impl_from_details(iface);

    if (index >= self->note_count)
        return NULL;
    *length = strlen(self->notes[index]);
    return self->notes[index];
}

static const IScriptExceptionDetailsVtbl details_vtbl = {
    details_QueryInterface, details_AddRef,    details_Release, details_GetRelation,
    details_GetGroup,       details_GetMember, details_GetNote};

void error_double_init(error_double *self, int is_script)
{
    memset(self, 0, sizeof *self);
    self->IScriptException_iface.lpVtbl = &script_vtbl;
    self->ILanguageExceptionStackBackTrace_iface.lpVtbl = &stack_vtbl;
    self->ILanguageExceptionTransform_iface.lpVtbl = &transform_vtbl;
    self->IScriptExceptionDetails_iface.lpVtbl = &details_vtbl;
    self->is_script = is_script;
    atomic_store(&self->outside, 1);
}

IUnknown *error_double_unknown(error_double *self)
{
    return (IUnknown *)(void *)&self->IScriptException_iface;
}
