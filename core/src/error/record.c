/* The COM side of errors and nodes.  The first interface works, the others forward to it. */
#include "com/messages.h"
#include "error/flags.h"
#include "error/registry.h"

/*
 * Asks any object whether it is a record of this library, also of another copy of it in the
 * process: answered with the record, without a reference.  The last byte changes with the layout of
 * ss_record and ss_error.
 */
static const IID record_iid = {
    0x3ad6a0b8, 0x5ad1, 0x4be9, {0x97, 0x0e, 0x6c, 0x1d, 0x1f, 0x5e, 0x52, 0x04}};

static ss_record *impl_from_IRestrictedErrorInfo(IRestrictedErrorInfo *iface)
{
    return SS_CONTAINER(iface, ss_record, IRestrictedErrorInfo_iface);
}

static ss_record *impl_from_IErrorInfo(IErrorInfo *iface)
{
    return SS_CONTAINER(iface, ss_record, IErrorInfo_iface);
}

static ss_record *impl_from_ILanguageExceptionErrorInfo2(ILanguageExceptionErrorInfo2 *iface)
{
    return SS_CONTAINER(iface, ss_record, ILanguageExceptionErrorInfo2_iface);
}

static ss_error *impl_from_IScriptErrorInfo(IScriptErrorInfo *iface)
{
    return SS_CONTAINER(iface, ss_error, IScriptErrorInfo_iface);
}

static bool is_node(const ss_record *record)
{
    return record != &record->error->record;
}

const WCHAR *ss_error_description(const ss_error *error, uint32_t *length)
{
    return ss_message_text(error->record.fixed.hresult, length);
}

const WCHAR *ss_error_message(const ss_error *error, uint32_t *length)
{
    *length = error->message_length;
    return error->message ? error->message : ss_error_description(error, length);
}

/* ---- IUnknown --------------------------------------------------------------------------------*/

static void *find_interface(ss_record *record, REFIID iid)
{
    if (IsEqualIID(iid, &IID_IUnknown) || IsEqualIID(iid, &IID_IRestrictedErrorInfo) ||
        IsEqualIID(iid, &IID_IAgileObject))
        return &record->IRestrictedErrorInfo_iface;
    if (IsEqualIID(iid, &IID_IErrorInfo))
        return &record->IErrorInfo_iface;
    if (IsEqualIID(iid, &IID_ILanguageExceptionErrorInfo) ||
        IsEqualIID(iid, &IID_ILanguageExceptionErrorInfo2))
        return &record->ILanguageExceptionErrorInfo2_iface;
    if (IsEqualIID(iid, &stacksplice_IID_IScriptErrorInfo) && !is_node(record))
        return &record->error->IScriptErrorInfo_iface;
    return NULL;
}

static HRESULT STDMETHODCALLTYPE restricted_QueryInterface(IRestrictedErrorInfo *iface, REFIID iid,
                                                           void **out)
{
    ss_record *record = impl_from_IRestrictedErrorInfo(iface);

    if (!out)
        return E_POINTER;
    *out = NULL;
    if (!iid)
        return E_INVALIDARG;
    if (IsEqualIID(iid, &record_iid)) {
        *out = record;
        return S_OK;
    }
    *out = find_interface(record, iid);
    if (!*out)
        return E_NOINTERFACE;
    ss_error_add_ref(record->error);
    return S_OK;
}

static ULONG STDMETHODCALLTYPE restricted_AddRef(IRestrictedErrorInfo *iface)
{
    return ss_error_add_ref(impl_from_IRestrictedErrorInfo(iface)->error);
}

static ULONG STDMETHODCALLTYPE restricted_Release(IRestrictedErrorInfo *iface)
{
    return ss_error_release(impl_from_IRestrictedErrorInfo(iface)->error);
}

ss_record *ss_record_from(IUnknown *object)
{
    void *out = NULL;

    if (!object || FAILED(object->lpVtbl->QueryInterface(object, &record_iid, &out)))
        return NULL;
    return out;
}

/* ---- IRestrictedErrorInfo --------------------------------------------------------------------*/

static HRESULT STDMETHODCALLTYPE restricted_GetErrorDetails(IRestrictedErrorInfo *iface,
                                                            BSTR *description, HRESULT *hr,
                                                            BSTR *message, BSTR *capability_sid)
{
    ss_error *error = impl_from_IRestrictedErrorInfo(iface)->error;
    const WCHAR *text;
    uint32_t length;
    BSTR first, second;

    if (!description || !hr || !message || !capability_sid)
        return E_POINTER;
    text = ss_error_description(error, &length);
    first = SysAllocStringLen(text, length);
    text = ss_error_message(error, &length);
    second = SysAllocStringLen(text, length);
    if (!first || !second) {
        SysFreeString(first);
        SysFreeString(second);
        return E_OUTOFMEMORY;
    }
    *description = first;
    *hr = error->record.fixed.hresult;
    *message = second;
    *capability_sid = NULL;
    return S_OK;
}

static HRESULT STDMETHODCALLTYPE restricted_GetReference(IRestrictedErrorInfo *iface,
                                                         BSTR *reference)
{
    WCHAR units[SS_REFERENCE_UNITS];
    BSTR text;

    if (!reference)
        return E_POINTER;
    ss_registry_reference(impl_from_IRestrictedErrorInfo(iface)->error, units);
    text = SysAllocString(units);
    if (!text)
        return E_OUTOFMEMORY;
    *reference = text;
    return S_OK;
}

static const IRestrictedErrorInfoVtbl restricted_vtbl = {
    restricted_QueryInterface,  restricted_AddRef,       restricted_Release,
    restricted_GetErrorDetails, restricted_GetReference,
};

/* ---- IErrorInfo ------------------------------------------------------------------------------*/

static HRESULT STDMETHODCALLTYPE info_QueryInterface(IErrorInfo *iface, REFIID iid, void **out)
{
    return restricted_QueryInterface(&impl_from_IErrorInfo(iface)->IRestrictedErrorInfo_iface, iid,
                                     out);
}

static ULONG STDMETHODCALLTYPE info_AddRef(IErrorInfo *iface)
{
    return ss_error_add_ref(impl_from_IErrorInfo(iface)->error);
}

static ULONG STDMETHODCALLTYPE info_Release(IErrorInfo *iface)
{
    return ss_error_release(impl_from_IErrorInfo(iface)->error);
}

static HRESULT STDMETHODCALLTYPE info_GetGUID(IErrorInfo *iface, GUID *guid)
{
    (void)iface;
    if (!guid)
        return E_POINTER;
    *guid = GUID_NULL;
    return S_OK;
}

/* GetSource and GetHelpFile: an error has neither. */
static HRESULT STDMETHODCALLTYPE info_GetNothing(IErrorInfo *iface, BSTR *text)
{
    (void)iface;
    if (!text)
        return E_POINTER;
    *text = NULL;
    return S_OK;
}

static HRESULT STDMETHODCALLTYPE info_GetDescription(IErrorInfo *iface, BSTR *description)
{
    const WCHAR *text;
    uint32_t length;
    BSTR copy;

    if (!description)
        return E_POINTER;
    text = ss_error_description(impl_from_IErrorInfo(iface)->error, &length);
    copy = SysAllocStringLen(text, length);
    if (!copy)
        return E_OUTOFMEMORY;
    *description = copy;
    return S_OK;
}

static HRESULT STDMETHODCALLTYPE info_GetHelpContext(IErrorInfo *iface, DWORD *context)
{
    (void)iface;
    if (!context)
        return E_POINTER;
    *context = 0;
    return S_OK;
}

static const IErrorInfoVtbl info_vtbl = {
    info_QueryInterface, info_AddRef,         info_Release,    info_GetGUID,
    info_GetNothing,     info_GetDescription, info_GetNothing, info_GetHelpContext,
};

/* ---- ILanguageExceptionErrorInfo2 ------------------------------------------------------------*/

static HRESULT STDMETHODCALLTYPE language_QueryInterface(ILanguageExceptionErrorInfo2 *iface,
                                                         REFIID iid, void **out)
{
    ss_record *record = impl_from_ILanguageExceptionErrorInfo2(iface);

    return restricted_QueryInterface(&record->IRestrictedErrorInfo_iface, iid, out);
}

static ULONG STDMETHODCALLTYPE language_AddRef(ILanguageExceptionErrorInfo2 *iface)
{
    return ss_error_add_ref(impl_from_ILanguageExceptionErrorInfo2(iface)->error);
}

static ULONG STDMETHODCALLTYPE language_Release(ILanguageExceptionErrorInfo2 *iface)
{
    return ss_error_release(impl_from_ILanguageExceptionErrorInfo2(iface)->error);
}

static HRESULT STDMETHODCALLTYPE language_GetLanguageException(ILanguageExceptionErrorInfo2 *iface,
                                                               IUnknown **out)
{
    IUnknown *object = impl_from_ILanguageExceptionErrorInfo2(iface)->language.object;

    if (!out)
        return E_POINTER;
    if (object)
        object->lpVtbl->AddRef(object);
    *out = object;
    return S_OK;
}

/* NODE as an interface with a new reference; NULL stays NULL. */
static ILanguageExceptionErrorInfo2 *ref_node(ss_node *node)
{
    if (!node)
        return NULL;
    ss_error_add_ref(node->record.error);
    return &node->record.ILanguageExceptionErrorInfo2_iface;
}

static HRESULT STDMETHODCALLTYPE language_GetPrevious(ILanguageExceptionErrorInfo2 *iface,
                                                      ILanguageExceptionErrorInfo2 **out)
{
    ss_record *record = impl_from_ILanguageExceptionErrorInfo2(iface);
    IUnknown *previous;

    if (!out)
        return E_POINTER;
    if (is_node(record)) {
        *out = ref_node(((ss_node *)(void *)record)->previous);
        return S_OK;
    }
    previous = record->error->previous.object;
    if (previous)
        previous->lpVtbl->AddRef(previous);
    *out = (ILanguageExceptionErrorInfo2 *)(void *)previous;
    return S_OK;
}

static HRESULT STDMETHODCALLTYPE language_CapturePropagationContext(
    ILanguageExceptionErrorInfo2 *iface, IUnknown *language_exception)
{
    if (ss_flags_get() & RO_ERROR_REPORTING_SUPPRESSSETERRORINFO)
        return S_OK;
    return ss_error_add_node(
        impl_from_ILanguageExceptionErrorInfo2(iface)->error,
        &(ss_arrival){.language_exception = language_exception, .above = SS_HERE()});
}

static HRESULT STDMETHODCALLTYPE language_GetPropagationContextHead(
    ILanguageExceptionErrorInfo2 *iface, ILanguageExceptionErrorInfo2 **out)
{
    if (!out)
        return E_POINTER;
    *out = ref_node(atomic_load(&impl_from_ILanguageExceptionErrorInfo2(iface)->error->head));
    return S_OK;
}

static const ILanguageExceptionErrorInfo2Vtbl language_vtbl = {
    language_QueryInterface,
    language_AddRef,
    language_Release,
    language_GetLanguageException,
    language_GetPrevious,
    language_CapturePropagationContext,
    language_GetPropagationContextHead,
};

/* ---- IScriptErrorInfo ------------------------------------------------------------------------*/

static HRESULT STDMETHODCALLTYPE script_QueryInterface(IScriptErrorInfo *iface, REFIID iid,
                                                       void **out)
{
    ss_record *record = &impl_from_IScriptErrorInfo(iface)->record;

    return restricted_QueryInterface(&record->IRestrictedErrorInfo_iface, iid, out);
}

static ULONG STDMETHODCALLTYPE script_AddRef(IScriptErrorInfo *iface)
{
    return ss_error_add_ref(impl_from_IScriptErrorInfo(iface));
}

static ULONG STDMETHODCALLTYPE script_Release(IScriptErrorInfo *iface)
{
    return ss_error_release(impl_from_IScriptErrorInfo(iface));
}

static void STDMETHODCALLTYPE script_AddInside(IScriptErrorInfo *iface)
{
    ss_error_add_inside(impl_from_IScriptErrorInfo(iface));
}

static void STDMETHODCALLTYPE script_ReleaseInside(IScriptErrorInfo *iface)
{
    ss_error_release_inside(impl_from_IScriptErrorInfo(iface));
}

static const IScriptErrorInfoVtbl script_vtbl = {
    script_QueryInterface, script_AddRef, script_Release, script_AddInside, script_ReleaseInside,
};

/* ---- Beginning -------------------------------------------------------------------------------*/

#define FIXED_PART(code)                                                                   \
    {                                                                                      \
        .signature = STACKSPLICE_RECORD_SIGNATURE, .version = STACKSPLICE_INSPECT_VERSION, \
        .frame_size = sizeof(uintptr_t), .hresult = (code)                                 \
    }

void ss_record_init(ss_record *record, ss_error *error, HRESULT hr)
{
    record->IRestrictedErrorInfo_iface.lpVtbl = &restricted_vtbl;
    record->IErrorInfo_iface.lpVtbl = &info_vtbl;
    record->ILanguageExceptionErrorInfo2_iface.lpVtbl = &language_vtbl;
    record->fixed = (stacksplice_record)FIXED_PART(hr);
    record->error = error;
    if (&error->record == record)
        error->IScriptErrorInfo_iface.lpVtbl = &script_vtbl;
}

ss_error *ss_error_out_of_memory(void)
{
    static ss_error error = {
        .record = {.IRestrictedErrorInfo_iface = {&restricted_vtbl},
                   .IErrorInfo_iface = {&info_vtbl},
                   .ILanguageExceptionErrorInfo2_iface = {&language_vtbl},
                   .fixed = FIXED_PART(E_OUTOFMEMORY),
                   .error = &error},
        .IScriptErrorInfo_iface = {&script_vtbl},
        .outside = 1,
        .inside = 1,
        .is_static = true,
    };

    return &error;
}
