/* Errors and nodes as COM sees them; a node is a record copied from its error. */
#include "error/error.h"
#include "error/flags.h"
#include "error/record.h"
#include "error/registry.h"

#define RECORD_OF(iface, type) SS_CONTAINER(iface, ss_record, type##_iface)

/* ---- IUnknown --------------------------------------------------------------------------------*/

/* Those that crossings ask for come first. */
static void *find_interface(ss_record *record, REFIID iid)
{
    if (IsEqualIID(iid, &IID_IRestrictedErrorInfo))
        return &record->IRestrictedErrorInfo_iface;
    if (IsEqualIID(iid, &IID_ILanguageExceptionErrorInfo2) ||
        IsEqualIID(iid, &IID_ILanguageExceptionErrorInfo))
        return &record->ILanguageExceptionErrorInfo2_iface;
    if (IsEqualIID(iid, &stacksplice_IID_IScriptErrorInfo) && !ss_record_is_node(record))
        return &record->error->IScriptErrorInfo_iface;
    if (IsEqualIID(iid, &IID_IErrorInfo))
        return &record->IErrorInfo_iface;
    if (IsEqualIID(iid, &IID_IUnknown) || IsEqualIID(iid, &IID_IAgileObject))
        return &record->IRestrictedErrorInfo_iface;
    return NULL;
}

static HRESULT query(ss_record *record, REFIID iid, void **out)
{
    if (!out)
        return E_POINTER;
    *out = NULL;
    if (!iid)
        return E_INVALIDARG;
    if (IsEqualIID(iid, &ss_record_iid)) {
        *out = record;
        return S_OK;
    }
    *out = find_interface(record, iid);
    if (!*out)
        return E_NOINTERFACE;
    ss_error_add_ref(record->error);
    return S_OK;
}

/* The methods of IUnknown for the interface TYPE; RECORD maps its pointers to their record. */
#define FORWARD_UNKNOWN(type, prefix, record)                                                     \
    static HRESULT STDMETHODCALLTYPE prefix##_QueryInterface(type *iface, REFIID iid, void **out) \
    {                                                                                             \
        return query(record, iid, out);                                                           \
    }                                                                                             \
    static ULONG STDMETHODCALLTYPE prefix##_AddRef(type *iface)                                   \
    {                                                                                             \
        return ss_error_add_ref((record)->error);                                                 \
    }                                                                                             \
    static ULONG STDMETHODCALLTYPE prefix##_Release(type *iface)                                  \
    {                                                                                             \
        return ss_error_release((record)->error);                                                 \
    }

FORWARD_UNKNOWN(IRestrictedErrorInfo, restricted, RECORD_OF(iface, IRestrictedErrorInfo))
FORWARD_UNKNOWN(IErrorInfo, info, RECORD_OF(iface, IErrorInfo))
FORWARD_UNKNOWN(ILanguageExceptionErrorInfo2, language,
                RECORD_OF(iface, ILanguageExceptionErrorInfo2))
FORWARD_UNKNOWN(IScriptErrorInfo, script,
                &SS_CONTAINER(iface, ss_error, IScriptErrorInfo_iface)->record)

/* ---- IRestrictedErrorInfo --------------------------------------------------------------------*/

static HRESULT STDMETHODCALLTYPE restricted_GetErrorDetails(IRestrictedErrorInfo *iface,
                                                            BSTR *description, HRESULT *hr,
                                                            BSTR *message, BSTR *capability_sid)
{
    ss_error *error = RECORD_OF(iface, IRestrictedErrorInfo)->error;
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
    ss_registry_reference(RECORD_OF(iface, IRestrictedErrorInfo)->error, units);
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
    text = ss_error_description(RECORD_OF(iface, IErrorInfo)->error, &length);
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

static HRESULT STDMETHODCALLTYPE language_GetLanguageException(ILanguageExceptionErrorInfo2 *iface,
                                                               IUnknown **out)
{
    IUnknown *object = RECORD_OF(iface, ILanguageExceptionErrorInfo2)->language.object;

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
    ss_record *record = RECORD_OF(iface, ILanguageExceptionErrorInfo2);
    IUnknown *previous;

    if (!out)
        return E_POINTER;
    if (ss_record_is_node(record)) {
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
        RECORD_OF(iface, ILanguageExceptionErrorInfo2)->error,
        &(ss_arrival){.language_exception = language_exception, .above = SS_HERE()});
}

static HRESULT STDMETHODCALLTYPE language_GetPropagationContextHead(
    ILanguageExceptionErrorInfo2 *iface, ILanguageExceptionErrorInfo2 **out)
{
    if (!out)
        return E_POINTER;
    *out = ref_node(atomic_load(&RECORD_OF(iface, ILanguageExceptionErrorInfo2)->error->head));
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

static void STDMETHODCALLTYPE script_AddInside(IScriptErrorInfo *iface)
{
    ss_error_add_inside(SS_CONTAINER(iface, ss_error, IScriptErrorInfo_iface));
}

static void STDMETHODCALLTYPE script_ReleaseInside(IScriptErrorInfo *iface)
{
    ss_error_release_inside(SS_CONTAINER(iface, ss_error, IScriptErrorInfo_iface));
}

const IScriptErrorInfoVtbl ss_error_script_methods = {
    script_QueryInterface, script_AddRef, script_Release, script_AddInside, script_ReleaseInside,
};

/* ---- Beginning -------------------------------------------------------------------------------*/

#define FIXED_PART(code)                                                                   \
    {                                                                                      \
        .signature = STACKSPLICE_RECORD_SIGNATURE, .version = STACKSPLICE_INSPECT_VERSION, \
        .frame_size = sizeof(uintptr_t), .hresult = (code)                                 \
    }

void ss_error_init(ss_error *error, HRESULT hr)
{
    error->record.IRestrictedErrorInfo_iface.lpVtbl = &restricted_vtbl;
    error->record.IErrorInfo_iface.lpVtbl = &info_vtbl;
    error->record.ILanguageExceptionErrorInfo2_iface.lpVtbl = &language_vtbl;
    error->record.fixed = (stacksplice_record)FIXED_PART(hr);
    error->record.error = error;
    error->IScriptErrorInfo_iface.lpVtbl = &ss_error_script_methods;
}

ss_error *ss_error_out_of_memory(void)
{
    static ss_error error = {
        .record = {.IRestrictedErrorInfo_iface = {&restricted_vtbl},
                   .IErrorInfo_iface = {&info_vtbl},
                   .ILanguageExceptionErrorInfo2_iface = {&language_vtbl},
                   .fixed = FIXED_PART(E_OUTOFMEMORY),
                   .error = &error},
        .IScriptErrorInfo_iface = {&ss_error_script_methods},
        .outside = 1,
        .inside = 1,
        .is_static = true,
    };

    return &error;
}
