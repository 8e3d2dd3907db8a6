/*
 * The macros by which C and C++ declare interfaces and identifiers, and the types whose names are
 * plain words.  Only code that includes this header gets them: others use such words themselves.
 *
 * Source: "combaseapi.h", "DEFINE_GUID".
 */
#ifndef STACKSPLICE_WINRT_COMBASEAPI_H
#define STACKSPLICE_WINRT_COMBASEAPI_H

#include "unknwn.h"

#ifdef _WIN32
#include <combaseapi.h>
#else

typedef void VOID;
typedef uint8_t BOOLEAN;
typedef void *HANDLE;

/* In C, INTERFACE is a macro with the name of the interface, and a base's methods are repeated. */
#ifdef __cplusplus
#define DECLARE_INTERFACE(name) struct name
#define DECLARE_INTERFACE_(name, base) struct name : public base
#define STDMETHOD(method) virtual HRESULT STDMETHODCALLTYPE method
#define STDMETHOD_(type, method) virtual type STDMETHODCALLTYPE method
#define PURE = 0
#define THIS_
#define THIS void
#else
#define DECLARE_INTERFACE(name)           \
    typedef struct name##Vtbl name##Vtbl; \
    typedef struct name {                 \
        const name##Vtbl *lpVtbl;         \
    } name;                               \
    struct name##Vtbl
#define DECLARE_INTERFACE_(name, base) DECLARE_INTERFACE(name)
#define STDMETHOD(method) HRESULT(STDMETHODCALLTYPE *method)
#define STDMETHOD_(type, method) type(STDMETHODCALLTYPE *method)
#define PURE
#define THIS_ INTERFACE *This,
#define THIS INTERFACE *This
#endif

/* Declares an identifier.  The one source that defines INITGUID first defines it, too. */
#ifdef INITGUID
#define DEFINE_GUID(name, data1, data2, data3, ...) \
    EXTERN_C const GUID name;                       \
    const GUID name = {data1, data2, data3, {__VA_ARGS__}}
#else
#define DEFINE_GUID(name, ...) EXTERN_C const GUID name
#endif

#endif /* _WIN32 */
#endif
