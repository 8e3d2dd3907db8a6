/* The language exception as COM sees it: seven interfaces that forward to the object. */
#include "script/exception.h"
#include "script/release.h"

#include <string.h>

#define OBJECT_OF(pointer, member)                                                          \
    ((stacksplice_exception *)((char *)(uintptr_t)(pointer)-offsetof(stacksplice_exception, \
                                                                     member)))

static bool has_details(const stacksplice_exception *x)
{
    return x->relation == STACKSPLICE_RELATION_CONTEXT || x->causes_left_out || x->group ||
           x->note_count;
}

static void *find_interface(stacksplice_exception *x, REFIID iid)
{
    if (IsEqualIID(iid, &IID_IUnknown) || IsEqualIID(iid, &IID_ILanguageExceptionStackBackTrace) ||
        (x->interrupt && IsEqualIID(iid, &stacksplice_IID_IScriptInterrupt)))
        return &x->backtrace;
    if (IsEqualIID(iid, &IID_IAgileObject))
        return &x->agile;
    if (IsEqualIID(iid, &stacksplice_IID_IScriptException))
        return &x->script;
    if (IsEqualIID(iid, &stacksplice_IID_IScriptExceptionFrames))
        return &x->frames;
    if (IsEqualIID(iid, &IID_ILanguageExceptionTransform) && atomic_load(&x->cause))
        return &x->transform;
    if (IsEqualIID(iid, &stacksplice_IID_IScriptExceptionDetails) && has_details(x))
        return &x->details;
    if (IsEqualIID(iid, &stacksplice_IID_IScriptExceptionType) && x->type_count > 1)
        return &x->type;
    return NULL;
}

static HRESULT query(stacksplice_exception *x, REFIID iid, void **out)
{
    if (!out)
        return E_POINTER;
    *out = find_interface(x, iid);
    if (!*out)
        return E_NOINTERFACE;
    ss_exception_add_ref(x);
    return S_OK;
}

/* The methods of IUnknown for the interface TYPE at MEMBER. */
#define FORWARD_UNKNOWN(type, member)                                                            \
    static HRESULT STDMETHODCALLTYPE member##_QueryInterface(type *self, REFIID iid, void **out) \
    {                                                                                            \
        return query(OBJECT_OF(self, member), iid, out);                                         \
    }                                                                                            \
    static ULONG STDMETHODCALLTYPE member##_AddRef(type *self)                                   \
    {                                                                                            \
        return ss_exception_add_ref(OBJECT_OF(self, member));                                    \
    }                                                                                            \
    static ULONG STDMETHODCALLTYPE member##_Release(type *self)                                  \
    {                                                                                            \
        return ss_exception_release(OBJECT_OF(self, member));                                    \
    }

FORWARD_UNKNOWN(ILanguageExceptionStackBackTrace, backtrace)
FORWARD_UNKNOWN(ILanguageExceptionTransform, transform)
FORWARD_UNKNOWN(IScriptException, script)
FORWARD_UNKNOWN(IScriptExceptionDetails, details)
FORWARD_UNKNOWN(IScriptExceptionType, type)
FORWARD_UNKNOWN(IScriptExceptionFrames, frames)
FORWARD_UNKNOWN(IAgileObject, agile)

/* ---- The interfaces' own methods -------------------------------------------------------------*/

static HRESULT give(IScriptErrorInfo *error, IRestrictedErrorInfo **out)
{
    return error->lpVtbl->QueryInterface(error, &IID_IRestrictedErrorInfo, (void **)out);
}

static const uintptr_t *settled_frames(stacksplice_exception *x)
{
    atomic_store(&x->epoch, stacksplice_settle(x->storage, x->frame_count, atomic_load(&x->epoch)));
    return x->storage;
}

static HRESULT STDMETHODCALLTYPE backtrace_GetStackBackTrace(ILanguageExceptionStackBackTrace *self,
                                                             ULONG max_frames, UINT_PTR *frames,
                                                             ULONG *captured)
{
    stacksplice_exception *x = OBJECT_OF(self, backtrace);

    if (!captured || (!frames && max_frames))
        return E_POINTER;
    *captured = stacksplice_copy_ends(settled_frames(x), x->frame_count, max_frames, frames);
    return S_OK;
}

static HRESULT STDMETHODCALLTYPE transform_GetTransformedRestrictedErrorInfo(
    ILanguageExceptionTransform *self, IRestrictedErrorInfo **out)
{
    return out ? give(atomic_load(&OBJECT_OF(self, transform)->cause), out) : E_POINTER;
}

static const char *STDMETHODCALLTYPE script_GetLanguage(IScriptException *self)
{
    return stacksplice_owner_language(OBJECT_OF(self, script)->owner)->name;
}

static const char *STDMETHODCALLTYPE script_GetTypeName(IScriptException *self)
{
    const stacksplice_exception *x = OBJECT_OF(self, script);

    return x->type_count ? x->types : NULL;
}

static const char *STDMETHODCALLTYPE script_GetMessage(IScriptException *self, size_t *length)
{
    const stacksplice_exception *x = OBJECT_OF(self, script);

    if (length)
        *length = x->message_length;
    return x->message;
}

static void STDMETHODCALLTYPE script_AddInside(IScriptException *self)
{
    stacksplice_exception_ref(OBJECT_OF(self, script));
}

static void STDMETHODCALLTYPE script_ReleaseInside(IScriptException *self)
{
    stacksplice_exception_unref(OBJECT_OF(self, script));
}

static const char *STDMETHODCALLTYPE type_GetName(IScriptExceptionType *self, uint32_t index)
{
    const stacksplice_exception *x = OBJECT_OF(self, type);
    const char *name = x->types;

    if (index >= x->type_count)
        return NULL;
    while (index--)
        name += strlen(name) + 1;
    return name;
}

static const uintptr_t *STDMETHODCALLTYPE frames_GetFrames(IScriptExceptionFrames *self,
                                                           uint32_t *count)
{
    stacksplice_exception *x = OBJECT_OF(self, frames);

    *count = x->frame_count;
    return settled_frames(x);
}

static stacksplice_relation STDMETHODCALLTYPE details_GetRelation(IScriptExceptionDetails *self,
                                                                  uint32_t *left_out)
{
    *left_out = OBJECT_OF(self, details)->causes_left_out;
    return OBJECT_OF(self, details)->relation;
}

static int STDMETHODCALLTYPE details_GetGroup(IScriptExceptionDetails *self, uint32_t *members,
                                              uint32_t *left_out)
{
    const stacksplice_exception *x = OBJECT_OF(self, details);

    *members = x->member_count;
    *left_out = x->members_left_out;
    return x->group;
}

static HRESULT STDMETHODCALLTYPE details_GetMember(IScriptExceptionDetails *self, uint32_t index,
                                                   IRestrictedErrorInfo **member)
{
    const stacksplice_exception *x = OBJECT_OF(self, details);

    if (!member)
        return E_POINTER;
    *member = NULL;
    return index < x->member_count ? give(x->members[index], member) : S_FALSE;
}

static const char *STDMETHODCALLTYPE details_GetNote(IScriptExceptionDetails *self, uint32_t index,
                                                     size_t *length)
{
    const stacksplice_exception *x = OBJECT_OF(self, details);

    if (index >= x->note_count)
        return NULL;
    *length = x->notes[index].length;
    return x->notes[index].text;
}

static const ILanguageExceptionStackBackTraceVtbl backtrace_vtbl = {
    backtrace_QueryInterface, backtrace_AddRef, backtrace_Release, backtrace_GetStackBackTrace};
static const ILanguageExceptionTransformVtbl transform_vtbl = {
    transform_QueryInterface, transform_AddRef, transform_Release,
    transform_GetTransformedRestrictedErrorInfo};
const IScriptExceptionVtbl ss_exception_script_methods = {
    script_QueryInterface, script_AddRef,     script_Release,   script_GetLanguage,
    script_GetTypeName,    script_GetMessage, script_AddInside, script_ReleaseInside};
static const IScriptExceptionDetailsVtbl details_vtbl = {
    details_QueryInterface, details_AddRef,    details_Release, details_GetRelation,
    details_GetGroup,       details_GetMember, details_GetNote};
static const IScriptExceptionTypeVtbl type_vtbl = {type_QueryInterface, type_AddRef, type_Release,
                                                   type_GetName};
static const IScriptExceptionFramesVtbl frames_vtbl = {frames_QueryInterface, frames_AddRef,
                                                       frames_Release, frames_GetFrames};
static const IAgileObjectVtbl agile_vtbl = {agile_QueryInterface, agile_AddRef, agile_Release};

void ss_exception_set_interfaces(stacksplice_exception *x)
{
    x->backtrace.lpVtbl = &backtrace_vtbl;
    x->transform.lpVtbl = &transform_vtbl;
    x->script.lpVtbl = &ss_exception_script_methods;
    x->details.lpVtbl = &details_vtbl;
    x->type.lpVtbl = &type_vtbl;
    x->frames.lpVtbl = &frames_vtbl;
    x->agile.lpVtbl = &agile_vtbl;
}

stacksplice_exception *stacksplice_exception_from(IUnknown *object, const stacksplice_owner *owner)
{
    ILanguageExceptionStackBackTrace *unknown = (void *)object;
    IScriptException *script;
    void *out = NULL;
    stacksplice_exception *x = NULL;

    /* What is asked about most is one of ours, by its first interface. */
    if (object && unknown->lpVtbl == &backtrace_vtbl) {
        x = OBJECT_OF(unknown, backtrace);
        return !owner || x->owner == owner ? x : NULL;
    }
    if (!object ||
        FAILED(object->lpVtbl->QueryInterface(object, &stacksplice_IID_IScriptException, &out)) ||
        !out)
        return NULL;
    script = out;
    if (script->lpVtbl == &ss_exception_script_methods)
        x = OBJECT_OF(script, script);
    script->lpVtbl->Release(script); /* the caller's reference keeps it alive */
    return x && (!owner || x->owner == owner) ? x : NULL;
}
