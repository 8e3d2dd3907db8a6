/*
 * Error information of COM Automation.
 *
 * Source: "IErrorInfo interface (oaidl.h)", "ICreateErrorInfo interface (oaidl.h)",
 * "ISupportErrorInfo interface (oaidl.h)".
 */
#ifndef STACKSPLICE_WINRT_OAIDL_H
#define STACKSPLICE_WINRT_OAIDL_H

#include "objidl.h"

#ifdef _WIN32
#include <oaidl.h>
#else

#ifdef __cplusplus
struct IErrorInfo;
struct ICreateErrorInfo;
struct ISupportErrorInfo;
#else
typedef struct IErrorInfo IErrorInfo;
typedef struct ICreateErrorInfo ICreateErrorInfo;
typedef struct ISupportErrorInfo ISupportErrorInfo;
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

/* Declared for objects that implement it; those of this library are immutable and do not. */
/* {22F03340-547D-101B-8E65-08002B2BD119} */
STACKSPLICE_WINRT_IID(IID_ICreateErrorInfo);

#ifdef __cplusplus
struct ICreateErrorInfo : IUnknown {
    virtual HRESULT STDMETHODCALLTYPE SetGUID(REFGUID guid) = 0;
    virtual HRESULT STDMETHODCALLTYPE SetSource(LPOLESTR source) = 0;
    virtual HRESULT STDMETHODCALLTYPE SetDescription(LPOLESTR description) = 0;
    virtual HRESULT STDMETHODCALLTYPE SetHelpFile(LPOLESTR help_file) = 0;
    virtual HRESULT STDMETHODCALLTYPE SetHelpContext(DWORD help_context) = 0;
};
#else
typedef struct ICreateErrorInfoVtbl {
    HRESULT(STDMETHODCALLTYPE *QueryInterface)(ICreateErrorInfo *This, REFIID riid, void **object);
    ULONG(STDMETHODCALLTYPE *AddRef)(ICreateErrorInfo *This);
    ULONG(STDMETHODCALLTYPE *Release)(ICreateErrorInfo *This);
    HRESULT(STDMETHODCALLTYPE *SetGUID)(ICreateErrorInfo *This, REFGUID guid);
    HRESULT(STDMETHODCALLTYPE *SetSource)(ICreateErrorInfo *This, LPOLESTR source);
    HRESULT(STDMETHODCALLTYPE *SetDescription)(ICreateErrorInfo *This, LPOLESTR description);
    HRESULT(STDMETHODCALLTYPE *SetHelpFile)(ICreateErrorInfo *This, LPOLESTR help_file);
    HRESULT(STDMETHODCALLTYPE *SetHelpContext)(ICreateErrorInfo *This, DWORD help_context);
} ICreateErrorInfoVtbl;

struct ICreateErrorInfo {
    const ICreateErrorInfoVtbl *lpVtbl;
};

#ifdef COBJMACROS
#define ICreateErrorInfo_QueryInterface(This, riid, object) \
    (This)->lpVtbl->QueryInterface(This, riid, object)
#define ICreateErrorInfo_AddRef(This) (This)->lpVtbl->AddRef(This)
#define ICreateErrorInfo_Release(This) (This)->lpVtbl->Release(This)
#define ICreateErrorInfo_SetGUID(This, guid) (This)->lpVtbl->SetGUID(This, guid)
#define ICreateErrorInfo_SetSource(This, source) (This)->lpVtbl->SetSource(This, source)
#define ICreateErrorInfo_SetDescription(This, description) \
    (This)->lpVtbl->SetDescription(This, description)
#define ICreateErrorInfo_SetHelpFile(This, help_file) (This)->lpVtbl->SetHelpFile(This, help_file)
#define ICreateErrorInfo_SetHelpContext(This, help_context) \
    (This)->lpVtbl->SetHelpContext(This, help_context)
#endif
#endif /* __cplusplus */

/* S_OK when the methods of interface RIID leave their error in the thread's slot, else S_FALSE. */
/* {DF0B3D60-548F-101B-8E65-08002B2BD119} */
STACKSPLICE_WINRT_IID(IID_ISupportErrorInfo);

#ifdef __cplusplus
struct ISupportErrorInfo : IUnknown {
    virtual HRESULT STDMETHODCALLTYPE InterfaceSupportsErrorInfo(REFIID riid) = 0;
};
#else
typedef struct ISupportErrorInfoVtbl {
    HRESULT(STDMETHODCALLTYPE *QueryInterface)(ISupportErrorInfo *This, REFIID riid, void **object);
    ULONG(STDMETHODCALLTYPE *AddRef)(ISupportErrorInfo *This);
    ULONG(STDMETHODCALLTYPE *Release)(ISupportErrorInfo *This);
    HRESULT(STDMETHODCALLTYPE *InterfaceSupportsErrorInfo)(ISupportErrorInfo *This, REFIID riid);
} ISupportErrorInfoVtbl;

struct ISupportErrorInfo {
    const ISupportErrorInfoVtbl *lpVtbl;
};

#ifdef COBJMACROS
#define ISupportErrorInfo_QueryInterface(This, riid, object) \
    (This)->lpVtbl->QueryInterface(This, riid, object)
#define ISupportErrorInfo_AddRef(This) (This)->lpVtbl->AddRef(This)
#define ISupportErrorInfo_Release(This) (This)->lpVtbl->Release(This)
#define ISupportErrorInfo_InterfaceSupportsErrorInfo(This, riid) \
    (This)->lpVtbl->InterfaceSupportsErrorInfo(This, riid)
#endif
#endif /* __cplusplus */

#endif /* _WIN32 */
#endif
