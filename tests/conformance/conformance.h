/*
 * For the conformance tests: they see the Windows headers only, compile as C11 and as C++17 (with
 * WCHAR as char16_t and as wchar_t), and would run against Windows itself.
 */
#ifndef STACKSPLICE_TEST_CONFORMANCE_H
#define STACKSPLICE_TEST_CONFORMANCE_H

#include "support.h"

#include <stacksplice/winrt/objidl.h>
#include <stacksplice/winrt/roerrorapi.h>
#include <stacksplice/winrt/rtlsupportapi.h>

/* One spelling of a method call and of an identifier for both languages. */
#ifdef __cplusplus
#define CALL0(object, method) (object)->method()
#define CALL(object, method, ...) (object)->method(__VA_ARGS__)
#define IID_REF(iid) (iid)
#else
#define CALL0(object, method) (object)->lpVtbl->method(object)
#define CALL(object, method, ...) (object)->lpVtbl->method(object, __VA_ARGS__)
#define IID_REF(iid) (&(iid))
#endif

#define GENERIC_INVALIDARG OLESTR("The parameter is incorrect.\r\n")
#define GENERIC_FAIL OLESTR("Unspecified error\r\n")
#define GENERIC_UNKNOWN OLESTR("The text associated with this error code could not be found.\r\n")

/* ---- Helpers; the macros forward the line ----------------------------------------------------*/

BOOL same_text(PCWSTR a, PCWSTR b);
UINT text_length(PCWSTR text);
HSTRING make_hstring(PCWSTR text);

/* Empty slot, default flags. */
int fresh(void **state);
#define FRESH_TEST(name) TEST_WITH(name, fresh, NULL)

void check_text_at(int line, PCWSTR got, PCWSTR want);
#define check_text(got, want) check_text_at(__LINE__, got, want)

/* ERROR's details are HR, DESCRIPTION and MESSAGE; no capability SID. */
void check_details_at(int line, IRestrictedErrorInfo *error, HRESULT hr, PCWSTR description,
                      PCWSTR message);
#define check_details(error, hr, description, message) \
    check_details_at(__LINE__, error, hr, description, message)

/* The slot holds such an error; afterwards it is empty. */
void check_slot_at(int line, HRESULT hr, PCWSTR description, PCWSTR message);
#define check_slot(hr, description, message) check_slot_at(__LINE__, hr, description, message)

/* The slot holds no restricted error; afterwards it is empty. */
void check_empty_at(int line);
#define check_empty() check_empty_at(__LINE__)

/* The interface NAME of OBJECT with a new reference; fails the test if there is none. */
void *query_at(int line, void *object, REFIID iid);
#define query(object, name) ((name *)query_at(__LINE__, object, IID_REF(IID_##name)))
/* Whether OBJECT answers IID. */
BOOL answers(void *object, REFIID iid);
void release(void *object);
/* AddRef and Release: the count as it is now. */
ULONG refs_of(void *object);

/* The thread's error, taken. */
IRestrictedErrorInfo *take_at(int line);
#define take() take_at(__LINE__)

/* An error for HR, and one with EXCEPTION as its language exception; taken. */
#define originated(hr) (RoOriginateError(hr, NULL), take())
#define originated_with(hr, exception) (RoOriginateLanguageException(hr, NULL, exception), take())

/* ---- Doubles ---------------------------------------------------------------------------------*/

/*
 * A language exception.  The state is the test's and outlives the object; the object is the only
 * part that is written twice, in C and in C++.
 */
typedef struct exception_state {
    BOOL has_stack, has_cause; /* which interfaces it answers */
    const UINT_PTR *frames;
    ULONG frame_count; /* what it fills in, as far as there is room ... */
    ULONG claimed;     /* ... and what it says, unless 0 */
    HRESULT stack_hr, cause_hr;
    IRestrictedErrorInfo *cause;                     /* borrowed */
    void (*in_stack)(struct exception_state *state); /* runs inside GetStackBackTrace */
    void (*in_cause)(struct exception_state *state);
    void (*in_release)(struct exception_state *state); /* at the last Release */
    ULONG refs;
    ULONG room; /* max_frames as it was asked */
    char calls[64];
} exception_state;

/* An exception that answers IUnknown and IAgileObject only. */
void exception_init(exception_state *state);

/* A new exception with one reference. */
IUnknown *exception_new(exception_state *state);

/* For the doubles: append LETTER to state->calls. */
void log_call(exception_state *state, char letter);

typedef struct info_state {
    BOOL restricted; /* answers IRestrictedErrorInfo too, with details of its own */
    ULONG refs;
} info_state;

/* A foreign IErrorInfo with one reference. */
IErrorInfo *info_new(info_state *state);

#endif
