/*
 * Error information of COM Automation.
 *
 * Source: "IErrorInfo interface (oaidl.h)".
 */
#ifndef STACKSPLICE_WINRT_OAIDL_H
#define STACKSPLICE_WINRT_OAIDL_H

#include "objidl.h"

#ifdef _WIN32
#include <oaidl.h>
#else

#ifdef __cplusplus
struct IErrorInfo;
#else
typedef struct IErrorInfo IErrorInfo;
#endif

/*
 * What an error says of itself.  Each BSTR is a new copy that the caller frees with SysFreeString;
 * NULL is a valid "none".  An error object of this library answers GUID_NULL, no source, the text
 * of its HRESULT (not the caller's message), no help file, help context 0.
 * Errors of ours: E_POINTER; E_OUTOFMEMORY.
 */
/* {1CF2B120-547D-101B-8E65-08002B2BD119} */
STACKSPLICE_WINRT_IID(IID_IErrorInfo);

#ifdef __cplusplus
struct IErrorInfo : IUnknown {
    virtual HRESULT STDMETHODCALLTYPE GetGUID(GUID *guid) = 0;
    virtual HRESULT STDMETHODCALLTYPE GetSource(BSTR *source) = 0;
    virtual HRESULT STDMETHODCALLTYPE GetDescription(BSTR *description) = 0;
    virtual HRESULT STDMETHODCALLTYPE GetHelpFile(BSTR *help_file) = 0;
    virtual HRESULT STDMETHODCALLTYPE GetHelpContext(DWORD *help_context) = 0;
};
#else
typedef struct IErrorInfoVtbl {
    HRESULT(STDMETHODCALLTYPE *QueryInterface)(IErrorInfo *This, REFIID riid, void **object);
    ULONG(STDMETHODCALLTYPE *AddRef)(IErrorInfo *This);
    ULONG(STDMETHODCALLTYPE *Release)(IErrorInfo *This);
    HRESULT(STDMETHODCALLTYPE *GetGUID)(IErrorInfo *This, GUID *guid);
    HRESULT(STDMETHODCALLTYPE *GetSource)(IErrorInfo *This, BSTR *source);
    HRESULT(STDMETHODCALLTYPE *GetDescription)(IErrorInfo *This, BSTR *description);
    HRESULT(STDMETHODCALLTYPE *GetHelpFile)(IErrorInfo *This, BSTR *help_file);
    HRESULT(STDMETHODCALLTYPE *GetHelpContext)(IErrorInfo *This, DWORD *help_context);
} IErrorInfoVtbl;

struct IErrorInfo {
    const IErrorInfoVtbl *lpVtbl;
};

#ifdef COBJMACROS
#define IErrorInfo_QueryInterface(This, riid, object) \
    (This)->lpVtbl->QueryInterface(This, riid, object)
#define IErrorInfo_AddRef(This) (This)->lpVtbl->AddRef(This)
#define IErrorInfo_Release(This) (This)->lpVtbl->Release(This)
#define IErrorInfo_GetGUID(This, guid) (This)->lpVtbl->GetGUID(This, guid)
#define IErrorInfo_GetSource(This, source) (This)->lpVtbl->GetSource(This, source)
#define IErrorInfo_GetDescription(This, description) \
    (This)->lpVtbl->GetDescription(This, description)
#define IErrorInfo_GetHelpFile(This, help_file) (This)->lpVtbl->GetHelpFile(This, help_file)
#define IErrorInfo_GetHelpContext(This, help_context) \
    (This)->lpVtbl->GetHelpContext(This, help_context)
#endif
#endif /* __cplusplus */

#endif /* _WIN32 */
#endif
