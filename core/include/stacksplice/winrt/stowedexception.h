/*
 * The stowed-exception records that a crash leaves behind: what RoFailFastWithErrorContext builds
 * from the thread's error and a debugger reads.  No header of the Windows SDK has them; the layout
 * is the one its debuggers read.
 *
 * Order of the array: the origin, then the propagation nodes from the oldest to the newest, then
 * the errors it was transformed from.
 *
 * Source: "Stowed Exception C000027B", "STOWED_EXCEPTION_INFORMATION_V2".
 */
#ifndef STACKSPLICE_WINRT_STOWEDEXCEPTION_H
#define STACKSPLICE_WINRT_STOWEDEXCEPTION_H

#include "wtypesbase.h"

#define STATUS_STOWED_EXCEPTION 0xC000027Bu

/* Header.Signature: 'SE01' and 'SE02' as character constants. */
#define STOWED_EXCEPTION_INFORMATION_V1_SIGNATURE 0x53453031u
#define STOWED_EXCEPTION_INFORMATION_V2_SIGNATURE 0x53453032u

/* ExceptionForm */
#define STOWED_EXCEPTION_FORM_BINARY 1u /* ExceptionAddress and the stack trace are valid */
#define STOWED_EXCEPTION_FORM_TEXT 2u   /* ErrorText is */

/* NestedExceptionType: four characters in the order of memory. */
#define STOWED_EXCEPTION_NESTED_TYPE_NONE 0u
#define STOWED_EXCEPTION_NESTED_TYPE_WIN32 0x45323357u  /* "W32E" */
#define STOWED_EXCEPTION_NESTED_TYPE_STOWED 0x574F5453u /* "STOW" */
#define STOWED_EXCEPTION_NESTED_TYPE_CLR 0x31524C43u    /* "CLR1" */
#define STOWED_EXCEPTION_NESTED_TYPE_LEO 0x314F454Cu    /* "LEO1": a language exception object */

typedef struct _STOWED_EXCEPTION_INFORMATION_HEADER {
    ULONG Size; /* of the whole record */
    ULONG Signature;
} STOWED_EXCEPTION_INFORMATION_HEADER;

/* The 30 bits of ThreadId hold the id shifted right by two, which only Windows' ids survive. */
#define STACKSPLICE_STOWED_EXCEPTION_V1_MEMBERS    \
    STOWED_EXCEPTION_INFORMATION_HEADER Header;    \
    HRESULT ResultCode;                            \
    __extension__ struct {                         \
        DWORD ExceptionForm : 2;                   \
        DWORD ThreadId : 30;                       \
    };                                             \
    __extension__ union {                          \
        __extension__ struct {                     \
            PVOID ExceptionAddress;                \
            ULONG StackTraceWordSize; /* 4 or 8 */ \
            ULONG StackTraceWords;                 \
            PVOID StackTrace;                      \
        };                                         \
        __extension__ struct {                     \
            PWSTR ErrorText;                       \
        };                                         \
    };

typedef struct _STOWED_EXCEPTION_INFORMATION_V1 {
    STACKSPLICE_STOWED_EXCEPTION_V1_MEMBERS
} STOWED_EXCEPTION_INFORMATION_V1;

typedef struct _STOWED_EXCEPTION_INFORMATION_V2 {
    STACKSPLICE_STOWED_EXCEPTION_V1_MEMBERS
    ULONG NestedExceptionType;
    PVOID NestedException;
} STOWED_EXCEPTION_INFORMATION_V2;

#endif
