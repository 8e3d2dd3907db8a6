#include "error_double.h"

#include <string.h>

static ULONG add_ref(error_double *self)
{
    int before = atomic_fetch_add(&self->outside, 1);

    if (before == 0)
        atomic_fetch_add(&self->waking, 1);
    return (ULONG)before + 1;
}

static ULONG drop_ref(error_double *self, atomic_int *count)
{
    ULONG left = (ULONG)atomic_fetch_sub(count, 1) - 1;

    if (!left && self->ended && !atomic_load(&self->outside) && !atomic_load(&self->inside))
        self->ended(self);
    return left;
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
    if (!*out)
        return E_NOINTERFACE;
    (void)add_ref(self);
    return S_OK;
}

/* What each interface has from IUnknown. */
#define FORWARD(iface, part)                                                                    \
    static error_double *from_##part(iface *self)                                               \
    {                                                                                           \
        return (error_double *)(void *)((char *)self - offsetof(error_double, iface##_iface));  \
    }                                                                                           \
    static HRESULT STDMETHODCALLTYPE part##_QueryInterface(iface *self, REFIID iid, void **out) \
    {                                                                                           \
        return find(from_##part(self), iid, out);                                               \
    }                                                                                           \
    static ULONG STDMETHODCALLTYPE part##_AddRef(iface *self)                                   \
    {                                                                                           \
        return add_ref(from_##part(self));                                                      \
    }                                                                                           \
    static ULONG STDMETHODCALLTYPE part##_Release(iface *self)                                  \
    {                                                                                           \
        return drop_ref(from_##part(self), &from_##part(self)->outside);                        \
    }
FORWARD(IScriptException, script)
FORWARD(ILanguageExceptionStackBackTrace, stack)
FORWARD(ILanguageExceptionTransform, transform)

/* ---- IScriptException ------------------------------------------------------------------------*/

static const char *STDMETHODCALLTYPE script_GetLanguage(IScriptException *iface)
{
    return from_script(iface)->language;
}

static const char *STDMETHODCALLTYPE script_GetTypeName(IScriptException *iface, uint32_t index)
{
    return index ? NULL : from_script(iface)->type;
}

static const char *STDMETHODCALLTYPE script_GetMessage(IScriptException *iface, size_t *length)
{
    *length = from_script(iface)->message_length;
    return from_script(iface)->message;
}

static void STDMETHODCALLTYPE script_AddInside(IScriptException *iface)
{
    atomic_fetch_add(&from_script(iface)->inside, 1);
}

static void STDMETHODCALLTYPE script_ReleaseInside(IScriptException *iface)
{
    (void)drop_ref(from_script(iface), &from_script(iface)->inside);
}

/* Like those of other languages: it keeps no frames for its error. */
static const uintptr_t *STDMETHODCALLTYPE script_GetFrames(IScriptException *iface, uint32_t *count)
{
    (void)iface;
    *count = 0;
    return NULL;
}

static stacksplice_relation STDMETHODCALLTYPE script_GetRelation(IScriptException *iface,
                                                                 uint32_t *left_out)
{
    *left_out = 0;
    return from_script(iface)->relation;
}

static int STDMETHODCALLTYPE script_GetGroup(IScriptException *iface, uint32_t *members,
                                             uint32_t *left_out)
{
    error_double *self = from_script(iface);

    *members = self->member_count;
    *left_out = self->members_left_out;
    return self->members != NULL;
}

static HRESULT STDMETHODCALLTYPE script_GetMember(IScriptException *iface, uint32_t index,
                                                  IRestrictedErrorInfo **member)
{
    error_double *self = from_script(iface);

    *member = index < self->member_count ? self->members[index] : NULL;
    if (!*member)
        return S_FALSE;
    (*member)->lpVtbl->AddRef(*member);
    return S_OK;
}

static const char *STDMETHODCALLTYPE script_GetNote(IScriptException *iface, uint32_t index,
                                                    size_t *length)
{
    error_double *self = from_script(iface);

    if (index >= self->note_count)
        return NULL;
    *length = strlen(self->notes[index]);
    return self->notes[index];
}

static int STDMETHODCALLTYPE script_IsInterrupt(IScriptException *iface)
{
    return from_script(iface)->is_interrupt;
}

static const IScriptExceptionVtbl script_vtbl = {
    script_QueryInterface, script_AddRef,      script_Release,     script_AddInside,
    script_ReleaseInside,  script_GetLanguage, script_GetTypeName, script_GetMessage,
    script_GetFrames,      script_GetRelation, script_GetGroup,    script_GetMember,
    script_GetNote,        script_IsInterrupt,
};

/* ---- The stack -------------------------------------------------------------------------------*/

static HRESULT STDMETHODCALLTYPE stack_GetStackBackTrace(ILanguageExceptionStackBackTrace *iface,
                                                         ULONG max_frames, UINT_PTR *frames,
                                                         ULONG *captured)
{
    error_double *self = from_stack(iface);
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

static HRESULT STDMETHODCALLTYPE transform_GetTransformedRestrictedErrorInfo(
    ILanguageExceptionTransform *iface, IRestrictedErrorInfo **out)
{
    *out = from_transform(iface)->cause;
    (*out)->lpVtbl->AddRef(*out);
    return S_OK;
}

static const ILanguageExceptionTransformVtbl transform_vtbl = {
    transform_QueryInterface, transform_AddRef, transform_Release,
    transform_GetTransformedRestrictedErrorInfo};

void error_double_init(error_double *self, int is_script)
{
    memset(self, 0, sizeof *self);
    self->IScriptException_iface.lpVtbl = &script_vtbl;
    self->ILanguageExceptionStackBackTrace_iface.lpVtbl = &stack_vtbl;
    self->ILanguageExceptionTransform_iface.lpVtbl = &transform_vtbl;
    self->is_script = is_script;
    self->language = "double";
    self->type = "DoubleError";
    self->message = "two";
    self->message_length = 3;
    atomic_store(&self->outside, 1);
}

IUnknown *error_double_unknown(error_double *self)
{
    return (IUnknown *)(void *)&self->IScriptException_iface;
}
