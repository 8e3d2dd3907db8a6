/*
 * The interface by which an object says that it may cross threads.
 *
 * Source: "IAgileObject interface (objidlbase.h)".
 */
#ifndef STACKSPLICE_WINRT_OBJIDL_H
#define STACKSPLICE_WINRT_OBJIDL_H

#include "unknwn.h"

#ifdef _WIN32
#include <objidl.h>
#else

#ifdef __cplusplus
struct IAgileObject;
#else
typedef struct IAgileObject IAgileObject;
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

#endif /* _WIN32 */
#endif
