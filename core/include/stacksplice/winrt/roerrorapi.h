/*
 * Error origination of the Windows Runtime: every function of roerrorapi.h.
 *
 * Each thread has one slot, which holds the error in flight.  Originating replaces it, the last one
 * wins; getting takes it out; setting replaces it.  Where the Windows pages leave a choice, ours
 * stands in docs/reference/winrt-differences.md.
 *
 * Rules that hold for every function below:
 *  - Any thread may call it; no initialisation of COM is needed or known.
 *  - A message is UTF-16, copied, cut at its first NUL and after 511 units (a cut surrogate pair
 *    leaves its half).  None, or an empty one: the system's text of the HRESULT.
 *  - When memory runs out, an origination empties the slot and gives FALSE or E_OUTOFMEMORY.  An
 *    origination of E_OUTOFMEMORY itself cannot fail: it then puts a static object, with the
 *    system's text and no stack, message, or language exception, into the slot.
 *
 * Source: "roerrorapi.h header" and the page of each function.
 */
#ifndef STACKSPLICE_WINRT_ROERRORAPI_H
#define STACKSPLICE_WINRT_ROERRORAPI_H

#include "hstring.h"
#include "oleauto.h"
#include "restrictederrorinfo.h"
#include "winstring.h"

#ifdef _WIN32
#include <roerrorapi.h>
#else

/* The longest message, counted with its NUL. */
#define MAX_ERROR_MESSAGE_CHARS 512

/* ---- Reporting flags -------------------------------------------------------------------------*/

/*
 * Process-wide.  Errors are stored if USESETERRORINFO and not SUPPRESSSETERRORINFO.  The default is
 * USESETERRORINFO.  There are no debugger events, so FORCEEXCEPTIONS and SUPPRESSEXCEPTIONS change
 * nothing.
 */
typedef enum RO_ERROR_REPORTING_FLAGS {
    RO_ERROR_REPORTING_NONE = 0x0,
    RO_ERROR_REPORTING_SUPPRESSEXCEPTIONS = 0x1,
    RO_ERROR_REPORTING_FORCEEXCEPTIONS = 0x2,
    RO_ERROR_REPORTING_USESETERRORINFO = 0x4,
    RO_ERROR_REPORTING_SUPPRESSSETERRORINFO = 0x8
} RO_ERROR_REPORTING_FLAGS;

/* Errors: E_POINTER if flags is NULL.  [own: nothing | thread: any | alloc: no | signal: yes] */
STACKSPLICE_WINRT_API HRESULT RoGetErrorReportingFlags(UINT32 *flags)
    STACKSPLICE_WINRT_LINK(RoGetErrorReportingFlags);

/*
 * Errors: E_INVALIDARG if a bit outside 0xF is set, and then the flags stay what they were.
 * [own: nothing | thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_WINRT_API HRESULT RoSetErrorReportingFlags(UINT32 flags)
    STACKSPLICE_WINRT_LINK(RoSetErrorReportingFlags);

/* The codes of Windows' first-chance exceptions, which are not raised here. */
#define EXCEPTION_RO_ORIGINATEERROR 0x40080201u
#define EXCEPTION_RO_TRANSFORMERROR 0x40080202u

/* ---- Origination -----------------------------------------------------------------------------*/

/*
 * Make an error object for ERROR with MESSAGE and the combined stack of the calling thread, and put
 * it into the slot.  TRUE; also when the flags say that nothing is stored, and then the slot keeps
 * what it had.  FALSE, and nothing happens, if ERROR is a success code; FALSE and an empty slot
 * when memory ran out.
 * [own: message borrowed | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_WINRT_API BOOL RoOriginateError(HRESULT error, HSTRING message)
    STACKSPLICE_WINRT_LINK(RoOriginateError);

/*
 * RoOriginateError with MESSAGE of at most MAX_CHARS units; with MAX_CHARS 0, up to its NUL.  No
 * unit at or after MAX_CHARS is read.
 * [own: message borrowed | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_WINRT_API BOOL RoOriginateErrorW(HRESULT error, UINT max_chars, PCWSTR message)
    STACKSPLICE_WINRT_LINK(RoOriginateErrorW);

/*
 * RoOriginateError for an error that is LANGUAGE_EXCEPTION (may be NULL) in the language it comes
 * from.  The error keeps a reference for its life and gives this very pointer to whoever asks
 * ILanguageExceptionErrorInfo (one that implements IScriptException is held by its two counts: see
 * stacksplice/source.h).  It is asked, in this order and before the slot changes, for IAgileObject
 * (an answer is not required), ILanguageExceptionStackBackTrace and ILanguageExceptionTransform;
 * what these methods leave in the slot does not survive.
 * [own: language_exception referenced | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_WINRT_API BOOL RoOriginateLanguageException(HRESULT error, HSTRING message,
                                                        IUnknown *language_exception)
    STACKSPLICE_WINRT_LINK(RoOriginateLanguageException);

/*
 * Replace an error by another: RoOriginateError for NEW_ERROR; if the slot holds an error for
 * OLD_ERROR, the new one names it as its previous.  NEW_ERROR a success code: the error was
 * handled, the slot is emptied, TRUE.  FALSE, and nothing happens, if both are equal or both
 * success codes. At most 150 errors are linked so; a link that would make the chain longer is left
 * out.
 * [own: message borrowed | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_WINRT_API BOOL RoTransformError(HRESULT old_error, HRESULT new_error, HSTRING message)
    STACKSPLICE_WINRT_LINK(RoTransformError);

/* RoTransformError with the message of RoOriginateErrorW. */
STACKSPLICE_WINRT_API BOOL RoTransformErrorW(HRESULT old_error, HRESULT new_error, UINT max_chars,
                                             PCWSTR message)
    STACKSPLICE_WINRT_LINK(RoTransformErrorW);

/* Always TRUE.  [own: nothing | thread: any | alloc: no | signal: yes] */
STACKSPLICE_WINRT_API BOOL IsErrorPropagationEnabled(void)
    STACKSPLICE_WINRT_LINK(IsErrorPropagationEnabled);

/* ---- The slot --------------------------------------------------------------------------------*/

/*
 * Take the calling thread's error.  S_OK; or S_FALSE and NULL when there is none, or only an
 * IErrorInfo that is not an error object of this library, which is dropped.
 * Errors: E_POINTER if error is NULL, and then the slot is untouched.
 * [own: caller releases *error | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_WINRT_API HRESULT GetRestrictedErrorInfo(IRestrictedErrorInfo **error)
    STACKSPLICE_WINRT_LINK(GetRestrictedErrorInfo);

/*
 * Put ERROR, an error object of this library, into the slot; NULL empties it.
 * Errors: E_INVALIDARG if it is of another implementation, and then the slot is untouched.
 * [own: the slot takes a reference of its own | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_WINRT_API HRESULT SetRestrictedErrorInfo(IRestrictedErrorInfo *error)
    STACKSPLICE_WINRT_LINK(SetRestrictedErrorInfo);

/* Empty the slot.  [own: drops the error | thread: any | alloc: no | signal: no] */
STACKSPLICE_WINRT_API void RoClearError(void) STACKSPLICE_WINRT_LINK(RoClearError);

/*
 * Take the calling thread's error if its HRESULT is HR, else a new one for HR; the slot is empty
 * afterwards in either case.
 * Errors: E_POINTER if error is NULL; E_UNEXPECTED and NULL if HR is a success code, or if nothing
 * matches and the flags say that nothing is stored; E_OUTOFMEMORY and NULL.
 * [own: caller releases *error | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_WINRT_API HRESULT RoGetMatchingRestrictedErrorInfo(HRESULT hr,
                                                               IRestrictedErrorInfo **error)
    STACKSPLICE_WINRT_LINK(RoGetMatchingRestrictedErrorInfo);

/*
 * The error object that has REFERENCE (see IRestrictedErrorInfo::GetReference), as long as somebody
 * holds it.
 * Errors: E_POINTER if error is NULL; E_INVALIDARG and NULL if there is no such object.
 * [own: caller releases *error | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_WINRT_API HRESULT RoResolveRestrictedErrorInfoReference(PCWSTR reference,
                                                                    IRestrictedErrorInfo **error)
    STACKSPLICE_WINRT_LINK(RoResolveRestrictedErrorInfoReference);

/* ---- Failing fast ----------------------------------------------------------------------------*/

/*
 * Keep the stack of this moment for a RoFailFastWithErrorContext on the same thread: if the slot
 * holds an error for HR, as a further node of its propagation chain, else as a new error for HR.
 * Originate first, capture second.  S_OK; a success code does nothing.
 * Errors: E_OUTOFMEMORY.
 * [own: nothing | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_WINRT_API HRESULT RoCaptureErrorContext(HRESULT hr)
    STACKSPLICE_WINRT_LINK(RoCaptureErrorContext);

/*
 * End the process with a crash report of the thread's error; of a new one if the slot is empty or
 * holds another HRESULT.  Any HR is accepted.  Does not return.
 * [own: nothing | thread: any | alloc: yes, degrades without memory | signal: no]
 */
STACKSPLICE_WINRT_API void RoFailFastWithErrorContext(HRESULT hr)
    STACKSPLICE_WINRT_LINK(RoFailFastWithErrorContext) __attribute__((noreturn));

/*
 * Say that ERROR reached the top of a stack and nobody handled it.  The handler that
 * stacksplice_set_unhandled_handler installed may say that it did: S_OK.  Otherwise the process
 * ends as by RoFailFastWithErrorContext.
 * Errors: E_INVALIDARG if error is NULL or of another
 * implementation.
 * [own: error borrowed | thread: any | alloc: yes, degrades without memory | signal: no]
 */
STACKSPLICE_WINRT_API HRESULT RoReportUnhandledError(IRestrictedErrorInfo *error)
    STACKSPLICE_WINRT_LINK(RoReportUnhandledError);

/*
 * RoReportUnhandledError for the error with which DELEGATE (may be NULL) failed.
 * [own: both borrowed | thread: any | alloc: yes, degrades without memory | signal: no]
 */
STACKSPLICE_WINRT_API HRESULT RoReportFailedDelegate(IUnknown *delegate,
                                                     IRestrictedErrorInfo *error)
    STACKSPLICE_WINRT_LINK(RoReportFailedDelegate);

/* ---- For debuggers ---------------------------------------------------------------------------*/

/*
 * Read LENGTH bytes at READ_ADDRESS of the process that is looked at into BUFFER; S_OK only if all
 * of them were read.
 */
typedef HRESULT(STDAPICALLTYPE *PINSPECT_MEMORY_CALLBACK)(void *context, UINT_PTR read_address,
                                                          UINT32 length, BYTE *buffer);

/* What MACHINE may be.  The records have one layout on all of them. */
#ifndef IMAGE_FILE_MACHINE_AMD64
#define IMAGE_FILE_MACHINE_I386 0x014C
#define IMAGE_FILE_MACHINE_AMD64 0x8664
#define IMAGE_FILE_MACHINE_ARM64 0xAA64
#endif

/*
 * The address of a thread's error object in another process or a core dump.  ANCHOR_ADDRESS stands
 * for what Windows calls the TEB address: stacksplice_thread_anchor() of that thread, which is in
 * stacksplice/debugger.h.
 * S_OK; S_FALSE and 0 when the thread has no error object of this library.
 * Errors: E_POINTER if read or error_address is NULL; E_INVALIDARG if machine is unknown;
 * HRESULT_FROM_WIN32(ERROR_INVALID_DATA) if there is no anchor of a known version at that address;
 * whatever READ failed with.
 * [own: nothing | thread: any | alloc: no | signal: as READ]
 */
STACKSPLICE_WINRT_API HRESULT RoInspectThreadErrorInfo(UINT_PTR anchor_address, USHORT machine,
                                                       PINSPECT_MEMORY_CALLBACK read, PVOID context,
                                                       UINT_PTR *error_address)
    STACKSPLICE_WINRT_LINK(RoInspectThreadErrorInfo);

/*
 * The captured stack of the error object at ERROR_ADDRESS: how many elements and their address, in
 * the process that is looked at.  Errors as above.
 * [own: nothing | thread: any | alloc: no | signal: as READ]
 */
STACKSPLICE_WINRT_API HRESULT RoInspectCapturedStackBackTrace(UINT_PTR error_address,
                                                              USHORT machine,
                                                              PINSPECT_MEMORY_CALLBACK read,
                                                              PVOID context, UINT32 *frame_count,
                                                              UINT_PTR *back_trace_address)
    STACKSPLICE_WINRT_LINK(RoInspectCapturedStackBackTrace);

#endif /* _WIN32 */
#endif
