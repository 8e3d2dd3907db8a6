/*
 * IUnknown, in C as a structure with lpVtbl and in C++ as a class with pure virtual methods.
 *
 * Source: "IUnknown interface (unknwn.h)", "Rules for Implementing QueryInterface".
 */
#ifndef STACKSPLICE_WINRT_UNKNWN_H
#define STACKSPLICE_WINRT_UNKNWN_H

#include "winerror.h"
#include "wtypesbase.h"

#ifdef _WIN32
#include <unknwn.h>
#else

#ifdef __cplusplus
struct IUnknown;
#else
typedef struct IUnknown IUnknown;
#endif

/* {00000000-0000-0000-C000-000000000046} */
STACKSPLICE_WINRT_IID(IID_IUnknown);

/*
 * QueryInterface gives S_OK and a new reference; or E_NOINTERFACE and NULL; or E_POINTER.  Asked
 * for IUnknown, every interface of one object gives the same pointer.  AddRef and Release give the
 * new count, for diagnosis only.
 *
 * For objects of this library: any thread, and after the thread that made the object has ended.
 */
#ifdef __cplusplus
struct IUnknown {
    virtual HRESULT STDMETHODCALLTYPE QueryInterface(REFIID riid, void **object) = 0;
    virtual ULONG STDMETHODCALLTYPE AddRef() = 0;
    virtual ULONG STDMETHODCALLTYPE Release() = 0;
};
#else
typedef struct IUnknownVtbl {
    HRESULT(STDMETHODCALLTYPE *QueryInterface)(IUnknown *This, REFIID riid, void **object);
    ULONG(STDMETHODCALLTYPE *AddRef)(IUnknown *This);
    ULONG(STDMETHODCALLTYPE *Release)(IUnknown *This);
} IUnknownVtbl;

struct IUnknown {
    const IUnknownVtbl *lpVtbl;
};

#ifdef COBJMACROS
#define IUnknown_QueryInterface(This, riid, object) \
    (This)->lpVtbl->QueryInterface(This, riid, object)
#define IUnknown_AddRef(This) (This)->lpVtbl->AddRef(This)
#define IUnknown_Release(This) (This)->lpVtbl->Release(This)
#endif
#endif /* __cplusplus */

typedef IUnknown *LPUNKNOWN;

#endif /* _WIN32 */
#endif
