/*
 * Error objects of the Windows Runtime and what a language's exception may implement to take part.
 *
 * The methods of objects of this library may be called on any thread.  Methods of a language
 * exception are called on the thread that originates, without any lock held, and may call every
 * function of this library.  A language exception must be agile: it is released on any thread.
 *
 * Source: "restrictederrorinfo.h header", "IRestrictedErrorInfo", "ILanguageExceptionErrorInfo2",
 * "ILanguageExceptionTransform", "ILanguageExceptionStackBackTrace".
 */
#ifndef STACKSPLICE_WINRT_RESTRICTEDERRORINFO_H
#define STACKSPLICE_WINRT_RESTRICTEDERRORINFO_H

#include "oaidl.h"

#ifdef _WIN32
#include <restrictederrorinfo.h>
#else

#ifdef __cplusplus
struct IRestrictedErrorInfo;
struct ILanguageExceptionErrorInfo;
struct ILanguageExceptionErrorInfo2;
struct ILanguageExceptionTransform;
struct ILanguageExceptionStackBackTrace;
#else
typedef struct IRestrictedErrorInfo IRestrictedErrorInfo;
typedef struct ILanguageExceptionErrorInfo ILanguageExceptionErrorInfo;
typedef struct ILanguageExceptionErrorInfo2 ILanguageExceptionErrorInfo2;
typedef struct ILanguageExceptionTransform ILanguageExceptionTransform;
typedef struct ILanguageExceptionStackBackTrace ILanguageExceptionStackBackTrace;
#endif

/*
 * The details of an error, immutable: each call gives equal values.
 *
 * GetErrorDetails: DESCRIPTION is the system's text of the HRESULT with its "\r\n" where it has
 * one; RESTRICTED_DESCRIPTION is the message given when the error was originated, or a copy of
 * DESCRIPTION when none was; CAPABILITY_SID is always NULL here.  GetReference: a string that
 * RoResolveRestrictedErrorInfoReference maps back to the object.  The caller frees every BSTR.
 * Errors: E_POINTER if any output is NULL; E_OUTOFMEMORY; and then no output is touched.
 */
/* {82BA7092-4C88-427D-A7BC-16DD93FEB67E} */
STACKSPLICE_WINRT_IID(IID_IRestrictedErrorInfo);

#ifdef __cplusplus
struct IRestrictedErrorInfo : IUnknown {
    virtual HRESULT STDMETHODCALLTYPE GetErrorDetails(BSTR *description, HRESULT *error,
                                                      BSTR *restricted_description,
                                                      BSTR *capability_sid) = 0;
    virtual HRESULT STDMETHODCALLTYPE GetReference(BSTR *reference) = 0;
};
#else
typedef struct IRestrictedErrorInfoVtbl {
    HRESULT(STDMETHODCALLTYPE *QueryInterface)
    (IRestrictedErrorInfo *This, REFIID riid, void **object);
    ULONG(STDMETHODCALLTYPE *AddRef)(IRestrictedErrorInfo *This);
    ULONG(STDMETHODCALLTYPE *Release)(IRestrictedErrorInfo *This);
    HRESULT(STDMETHODCALLTYPE *GetErrorDetails)
    (IRestrictedErrorInfo *This, BSTR *description, HRESULT *error, BSTR *restricted_description,
     BSTR *capability_sid);
    HRESULT(STDMETHODCALLTYPE *GetReference)(IRestrictedErrorInfo *This, BSTR *reference);
} IRestrictedErrorInfoVtbl;

struct IRestrictedErrorInfo {
    const IRestrictedErrorInfoVtbl *lpVtbl;
};

#ifdef COBJMACROS
#define IRestrictedErrorInfo_QueryInterface(This, riid, object) \
    (This)->lpVtbl->QueryInterface(This, riid, object)
#define IRestrictedErrorInfo_AddRef(This) (This)->lpVtbl->AddRef(This)
#define IRestrictedErrorInfo_Release(This) (This)->lpVtbl->Release(This)
#define IRestrictedErrorInfo_GetErrorDetails(This, description, error, restricted_description, \
                                             capability_sid)                                   \
    (This)->lpVtbl->GetErrorDetails(This, description, error, restricted_description,          \
                                    capability_sid)
#define IRestrictedErrorInfo_GetReference(This, reference) \
    (This)->lpVtbl->GetReference(This, reference)
#endif
#endif /* __cplusplus */

/*
 * The pointer that was given to RoOriginateLanguageException (on a propagation node: to
 * CapturePropagationContext), with a new reference.  S_OK and NULL when there was none.
 * Errors: E_POINTER.
 */
/* {04A2DBF3-DF83-116C-0946-0812ABF6E07D} */
STACKSPLICE_WINRT_IID(IID_ILanguageExceptionErrorInfo);

#ifdef __cplusplus
struct ILanguageExceptionErrorInfo : IUnknown {
    virtual HRESULT STDMETHODCALLTYPE GetLanguageException(IUnknown **language_exception) = 0;
};
#else
typedef struct ILanguageExceptionErrorInfoVtbl {
    HRESULT(STDMETHODCALLTYPE *QueryInterface)
    (ILanguageExceptionErrorInfo *This, REFIID riid, void **object);
    ULONG(STDMETHODCALLTYPE *AddRef)(ILanguageExceptionErrorInfo *This);
    ULONG(STDMETHODCALLTYPE *Release)(ILanguageExceptionErrorInfo *This);
    HRESULT(STDMETHODCALLTYPE *GetLanguageException)
    (ILanguageExceptionErrorInfo *This, IUnknown **language_exception);
} ILanguageExceptionErrorInfoVtbl;

struct ILanguageExceptionErrorInfo {
    const ILanguageExceptionErrorInfoVtbl *lpVtbl;
};

#ifdef COBJMACROS
#define ILanguageExceptionErrorInfo_QueryInterface(This, riid, object) \
    (This)->lpVtbl->QueryInterface(This, riid, object)
#define ILanguageExceptionErrorInfo_AddRef(This) (This)->lpVtbl->AddRef(This)
#define ILanguageExceptionErrorInfo_Release(This) (This)->lpVtbl->Release(This)
#define ILanguageExceptionErrorInfo_GetLanguageException(This, language_exception) \
    (This)->lpVtbl->GetLanguageException(This, language_exception)
#endif
#endif /* __cplusplus */

/*
 * The propagation chain: one node for each time a language received the error, not counting its
 * origin.
 *
 * CapturePropagationContext adds a node with the stack of the calling thread.  If
 * LANGUAGE_EXCEPTION (which may be NULL) implements ILanguageExceptionStackBackTrace, its frames
 * are taken instead.  An error keeps 150 nodes; more are dropped with S_OK.  With
 * RO_ERROR_REPORTING_SUPPRESSSETERRORINFO it does nothing.  Errors: E_OUTOFMEMORY.
 *
 * GetPropagationContextHead gives the newest node.  GetPreviousLanguageExceptionErrorInfo gives, on
 * a node, the next older one, and on an error itself the error it was made from: the cause that its
 * language exception named, or the old error of RoTransformError.  At the end of either list: S_OK
 * and NULL.  Errors: E_POINTER.
 *
 * A node has the HRESULT, texts and reference of its error and keeps it alive.
 */
/* {5746E5C4-5B97-424C-B620-2822915734DD} */
STACKSPLICE_WINRT_IID(IID_ILanguageExceptionErrorInfo2);

#ifdef __cplusplus
struct ILanguageExceptionErrorInfo2 : ILanguageExceptionErrorInfo {
    virtual HRESULT STDMETHODCALLTYPE
    GetPreviousLanguageExceptionErrorInfo(ILanguageExceptionErrorInfo2 **previous) = 0;
    virtual HRESULT STDMETHODCALLTYPE CapturePropagationContext(IUnknown *language_exception) = 0;
    virtual HRESULT STDMETHODCALLTYPE
    GetPropagationContextHead(ILanguageExceptionErrorInfo2 **head) = 0;
};
#else
typedef struct ILanguageExceptionErrorInfo2Vtbl {
    HRESULT(STDMETHODCALLTYPE *QueryInterface)
    (ILanguageExceptionErrorInfo2 *This, REFIID riid, void **object);
    ULONG(STDMETHODCALLTYPE *AddRef)(ILanguageExceptionErrorInfo2 *This);
    ULONG(STDMETHODCALLTYPE *Release)(ILanguageExceptionErrorInfo2 *This);
    HRESULT(STDMETHODCALLTYPE *GetLanguageException)
    (ILanguageExceptionErrorInfo2 *This, IUnknown **language_exception);
    HRESULT(STDMETHODCALLTYPE *GetPreviousLanguageExceptionErrorInfo)
    (ILanguageExceptionErrorInfo2 *This, ILanguageExceptionErrorInfo2 **previous);
    HRESULT(STDMETHODCALLTYPE *CapturePropagationContext)
    (ILanguageExceptionErrorInfo2 *This, IUnknown *language_exception);
    HRESULT(STDMETHODCALLTYPE *GetPropagationContextHead)
    (ILanguageExceptionErrorInfo2 *This, ILanguageExceptionErrorInfo2 **head);
} ILanguageExceptionErrorInfo2Vtbl;

struct ILanguageExceptionErrorInfo2 {
    const ILanguageExceptionErrorInfo2Vtbl *lpVtbl;
};

#ifdef COBJMACROS
#define ILanguageExceptionErrorInfo2_QueryInterface(This, riid, object) \
    (This)->lpVtbl->QueryInterface(This, riid, object)
#define ILanguageExceptionErrorInfo2_AddRef(This) (This)->lpVtbl->AddRef(This)
#define ILanguageExceptionErrorInfo2_Release(This) (This)->lpVtbl->Release(This)
#define ILanguageExceptionErrorInfo2_GetLanguageException(This, language_exception) \
    (This)->lpVtbl->GetLanguageException(This, language_exception)
#define ILanguageExceptionErrorInfo2_GetPreviousLanguageExceptionErrorInfo(This, previous) \
    (This)->lpVtbl->GetPreviousLanguageExceptionErrorInfo(This, previous)
#define ILanguageExceptionErrorInfo2_CapturePropagationContext(This, language_exception) \
    (This)->lpVtbl->CapturePropagationContext(This, language_exception)
#define ILanguageExceptionErrorInfo2_GetPropagationContextHead(This, head) \
    (This)->lpVtbl->GetPropagationContextHead(This, head)
#endif
#endif /* __cplusplus */

/*
 * Implemented by a language exception that was thrown while another was being handled: the error
 * information of that other one, with a new reference.  Asked for once, inside
 * RoOriginateLanguageException; a failing HRESULT or NULL means there is none.
 */
/* {FEB5A271-A6CD-45CE-880A-696706BADC65} */
STACKSPLICE_WINRT_IID(IID_ILanguageExceptionTransform);

#ifdef __cplusplus
struct ILanguageExceptionTransform : IUnknown {
    virtual HRESULT STDMETHODCALLTYPE
    GetTransformedRestrictedErrorInfo(IRestrictedErrorInfo **restricted_error_info) = 0;
};
#else
typedef struct ILanguageExceptionTransformVtbl {
    HRESULT(STDMETHODCALLTYPE *QueryInterface)
    (ILanguageExceptionTransform *This, REFIID riid, void **object);
    ULONG(STDMETHODCALLTYPE *AddRef)(ILanguageExceptionTransform *This);
    ULONG(STDMETHODCALLTYPE *Release)(ILanguageExceptionTransform *This);
    HRESULT(STDMETHODCALLTYPE *GetTransformedRestrictedErrorInfo)
    (ILanguageExceptionTransform *This, IRestrictedErrorInfo **restricted_error_info);
} ILanguageExceptionTransformVtbl;

struct ILanguageExceptionTransform {
    const ILanguageExceptionTransformVtbl *lpVtbl;
};

#ifdef COBJMACROS
#define ILanguageExceptionTransform_QueryInterface(This, riid, object) \
    (This)->lpVtbl->QueryInterface(This, riid, object)
#define ILanguageExceptionTransform_AddRef(This) (This)->lpVtbl->AddRef(This)
#define ILanguageExceptionTransform_Release(This) (This)->lpVtbl->Release(This)
#define ILanguageExceptionTransform_GetTransformedRestrictedErrorInfo(This, restricted_error_info) \
    (This)->lpVtbl->GetTransformedRestrictedErrorInfo(This, restricted_error_info)
#endif
#endif /* __cplusplus */

/*
 * Implemented by a language exception that knows its own stack: it fills at most MAX_FRAMES
 * elements of FRAMES, innermost first, sets *CAPTURED and returns S_OK.  MAX_FRAMES is 512 unless
 * stacksplice_set_max_frames changed it.  A failing HRESULT, no frames, or a count above
 * MAX_FRAMES: the stack of the calling thread is taken instead.  When as many come as there was
 * room for, it is called once more, with 65535, so that the outermost frames are known, too.
 */
/* {CBE53FB5-F967-4258-8D34-42F5E25833DE} */
STACKSPLICE_WINRT_IID(IID_ILanguageExceptionStackBackTrace);

#ifdef __cplusplus
struct ILanguageExceptionStackBackTrace : IUnknown {
    virtual HRESULT STDMETHODCALLTYPE GetStackBackTrace(ULONG max_frames, UINT_PTR *frames,
                                                        ULONG *captured) = 0;
};
#else
typedef struct ILanguageExceptionStackBackTraceVtbl {
    HRESULT(STDMETHODCALLTYPE *QueryInterface)
    (ILanguageExceptionStackBackTrace *This, REFIID riid, void **object);
    ULONG(STDMETHODCALLTYPE *AddRef)(ILanguageExceptionStackBackTrace *This);
    ULONG(STDMETHODCALLTYPE *Release)(ILanguageExceptionStackBackTrace *This);
    HRESULT(STDMETHODCALLTYPE *GetStackBackTrace)
    (ILanguageExceptionStackBackTrace *This, ULONG max_frames, UINT_PTR *frames, ULONG *captured);
} ILanguageExceptionStackBackTraceVtbl;

struct ILanguageExceptionStackBackTrace {
    const ILanguageExceptionStackBackTraceVtbl *lpVtbl;
};

#ifdef COBJMACROS
#define ILanguageExceptionStackBackTrace_QueryInterface(This, riid, object) \
    (This)->lpVtbl->QueryInterface(This, riid, object)
#define ILanguageExceptionStackBackTrace_AddRef(This) (This)->lpVtbl->AddRef(This)
#define ILanguageExceptionStackBackTrace_Release(This) (This)->lpVtbl->Release(This)
#define ILanguageExceptionStackBackTrace_GetStackBackTrace(This, max_frames, frames, captured) \
    (This)->lpVtbl->GetStackBackTrace(This, max_frames, frames, captured)
#endif
#endif /* __cplusplus */

#endif /* _WIN32 */
#endif
