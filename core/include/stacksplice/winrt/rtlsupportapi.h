/*
 * Native stack capture.  stacksplice_capture takes the combined stack, these only machine code.
 *
 * Source: "CaptureStackBackTrace function", "RtlCaptureStackBackTrace function (rtlsupportapi.h)".
 */
#ifndef STACKSPLICE_WINRT_RTLSUPPORTAPI_H
#define STACKSPLICE_WINRT_RTLSUPPORTAPI_H

#include "wtypesbase.h"

#ifdef _WIN32
#include <rtlsupportapi.h>
#else

/*
 * Store the return addresses of the calling thread's native frames, the caller's first, into
 * BACK_TRACE, without the FRAMES_TO_SKIP innermost ones and at most FRAMES_TO_CAPTURE, and return
 * how many were stored, at most 65535.  HASH (may be NULL) receives a value that is equal for equal
 * results.  There is no limit of 63 frames.  With BACK_TRACE NULL nothing is stored: 0.  For a
 * frame that a signal interrupted the address is one more than that of the instruction, as for a
 * call.  The list ends where the next frame could only be guessed (code without unwind data).
 *
 * In a signal handler: without an allocation; 0 when the handler interrupted a capture.
 * [own: caller's array | thread: any | alloc: none, but mmap | signal: yes]
 */
STACKSPLICE_WINRT_API USHORT RtlCaptureStackBackTrace(ULONG frames_to_skip, ULONG frames_to_capture,
                                                      PVOID *back_trace, PULONG hash)
    STACKSPLICE_WINRT_LINK(RtlCaptureStackBackTrace);
#define CaptureStackBackTrace RtlCaptureStackBackTrace

/*
 * The same without skip and hash.  FLAGS must be 0: with others (modes of the Windows kernel)
 * nothing is stored.
 */
STACKSPLICE_WINRT_API ULONG RtlWalkFrameChain(PVOID *callers, ULONG count, ULONG flags)
    STACKSPLICE_WINRT_LINK(RtlWalkFrameChain);

#endif /* _WIN32 */
#endif
