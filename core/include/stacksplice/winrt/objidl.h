/*
 * Interfaces by which an object says how it may cross threads.
 *
 * Source: "IAgileObject interface (objidlbase.h)", "INoMarshal interface (objidlbase.h)",
 * "IMarshal interface (objidl.h)".
 */
#ifndef STACKSPLICE_WINRT_OBJIDL_H
#define STACKSPLICE_WINRT_OBJIDL_H

#include "unknwn.h"

#ifdef _WIN32
#include <objidl.h>
#else

#ifdef __cplusplus
struct IAgileObject;
struct INoMarshal;
struct IMarshal;
struct IStream;
#else
typedef struct IAgileObject IAgileObject;
typedef struct INoMarshal INoMarshal;
typedef struct IMarshal IMarshal;
typedef struct IStream IStream;
#endif

/* A mark: the object may be used from any thread.  Every object of this library carries it. */
/* {94EA2B94-E9CC-49E0-C0FF-EE64CA8F5B90} */
STACKSPLICE_WINRT_IID(IID_IAgileObject);

#ifdef __cplusplus
struct IAgileObject : IUnknown {
};
#else
typedef struct IAgileObjectVtbl {
    HRESULT(STDMETHODCALLTYPE *QueryInterface)(IAgileObject *This, REFIID riid, void **object);
    ULONG(STDMETHODCALLTYPE *AddRef)(IAgileObject *This);
    ULONG(STDMETHODCALLTYPE *Release)(IAgileObject *This);
} IAgileObjectVtbl;

struct IAgileObject {
    const IAgileObjectVtbl *lpVtbl;
};

#ifdef COBJMACROS
#define IAgileObject_QueryInterface(This, riid, object) \
    (This)->lpVtbl->QueryInterface(This, riid, object)
#define IAgileObject_AddRef(This) (This)->lpVtbl->AddRef(This)
#define IAgileObject_Release(This) (This)->lpVtbl->Release(This)
#endif
#endif /* __cplusplus */

/* A mark: the object refuses to be marshalled.  No object of this library carries it. */
/* {ECC8691B-C1DB-4DC0-855E-65F6C551AF49} */
STACKSPLICE_WINRT_IID(IID_INoMarshal);

#ifdef __cplusplus
struct INoMarshal : IUnknown {
};
#else
typedef struct INoMarshalVtbl {
    HRESULT(STDMETHODCALLTYPE *QueryInterface)(INoMarshal *This, REFIID riid, void **object);
    ULONG(STDMETHODCALLTYPE *AddRef)(INoMarshal *This);
    ULONG(STDMETHODCALLTYPE *Release)(INoMarshal *This);
} INoMarshalVtbl;

struct INoMarshal {
    const INoMarshalVtbl *lpVtbl;
};

#ifdef COBJMACROS
#define INoMarshal_QueryInterface(This, riid, object) \
    (This)->lpVtbl->QueryInterface(This, riid, object)
#define INoMarshal_AddRef(This) (This)->lpVtbl->AddRef(This)
#define INoMarshal_Release(This) (This)->lpVtbl->Release(This)
#endif
#endif /* __cplusplus */

/* Declared for objects that implement it; this library has one address space and never calls it. */
/* {00000003-0000-0000-C000-000000000046} */
STACKSPLICE_WINRT_IID(IID_IMarshal);

#ifdef __cplusplus
struct IMarshal : IUnknown {
    virtual HRESULT STDMETHODCALLTYPE GetUnmarshalClass(REFIID riid, void *object, DWORD context,
                                                        void *context_data, DWORD flags,
                                                        CLSID *clsid) = 0;
    virtual HRESULT STDMETHODCALLTYPE GetMarshalSizeMax(REFIID riid, void *object, DWORD context,
                                                        void *context_data, DWORD flags,
                                                        DWORD *size) = 0;
    virtual HRESULT STDMETHODCALLTYPE MarshalInterface(IStream *stream, REFIID riid, void *object,
                                                       DWORD context, void *context_data,
                                                       DWORD flags) = 0;
    virtual HRESULT STDMETHODCALLTYPE UnmarshalInterface(IStream *stream, REFIID riid,
                                                         void **object) = 0;
    virtual HRESULT STDMETHODCALLTYPE ReleaseMarshalData(IStream *stream) = 0;
    virtual HRESULT STDMETHODCALLTYPE DisconnectObject(DWORD reserved) = 0;
};
#else
typedef struct IMarshalVtbl {
    HRESULT(STDMETHODCALLTYPE *QueryInterface)(IMarshal *This, REFIID riid, void **object);
    ULONG(STDMETHODCALLTYPE *AddRef)(IMarshal *This);
    ULONG(STDMETHODCALLTYPE *Release)(IMarshal *This);
    HRESULT(STDMETHODCALLTYPE *GetUnmarshalClass)
    (IMarshal *This, REFIID riid, void *object, DWORD context, void *context_data, DWORD flags,
     CLSID *clsid);
    HRESULT(STDMETHODCALLTYPE *GetMarshalSizeMax)
    (IMarshal *This, REFIID riid, void *object, DWORD context, void *context_data, DWORD flags,
     DWORD *size);
    HRESULT(STDMETHODCALLTYPE *MarshalInterface)
    (IMarshal *This, IStream *stream, REFIID riid, void *object, DWORD context, void *context_data,
     DWORD flags);
    HRESULT(STDMETHODCALLTYPE *UnmarshalInterface)
    (IMarshal *This, IStream *stream, REFIID riid, void **object);
    HRESULT(STDMETHODCALLTYPE *ReleaseMarshalData)(IMarshal *This, IStream *stream);
    HRESULT(STDMETHODCALLTYPE *DisconnectObject)(IMarshal *This, DWORD reserved);
} IMarshalVtbl;

struct IMarshal {
    const IMarshalVtbl *lpVtbl;
};

#ifdef COBJMACROS
#define IMarshal_QueryInterface(This, riid, object) \
    (This)->lpVtbl->QueryInterface(This, riid, object)
#define IMarshal_AddRef(This) (This)->lpVtbl->AddRef(This)
#define IMarshal_Release(This) (This)->lpVtbl->Release(This)
#define IMarshal_GetUnmarshalClass(This, riid, object, context, context_data, flags, clsid) \
    (This)->lpVtbl->GetUnmarshalClass(This, riid, object, context, context_data, flags, clsid)
#define IMarshal_GetMarshalSizeMax(This, riid, object, context, context_data, flags, size) \
    (This)->lpVtbl->GetMarshalSizeMax(This, riid, object, context, context_data, flags, size)
#define IMarshal_MarshalInterface(This, stream, riid, object, context, context_data, flags) \
    (This)->lpVtbl->MarshalInterface(This, stream, riid, object, context, context_data, flags)
#define IMarshal_UnmarshalInterface(This, stream, riid, object) \
    (This)->lpVtbl->UnmarshalInterface(This, stream, riid, object)
#define IMarshal_ReleaseMarshalData(This, stream) (This)->lpVtbl->ReleaseMarshalData(This, stream)
#define IMarshal_DisconnectObject(This, reserved) (This)->lpVtbl->DisconnectObject(This, reserved)
#endif
#endif /* __cplusplus */

#endif /* _WIN32 */
#endif
