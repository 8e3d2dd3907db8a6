/* Native stacks under their Windows names. */
#include "base/platform.h"
#include "splice/splice.h"

#include <stacksplice/winrt/rtlsupportapi.h>

USHORT RtlCaptureStackBackTrace(ULONG frames_to_skip, ULONG frames_to_capture, PVOID *back_trace,
                                PULONG hash)
{
    uint32_t most = frames_to_capture < UINT16_MAX ? frames_to_capture : UINT16_MAX;

    if (hash)
        *hash = 0;
    if (!back_trace || !most)
        return 0;
    return (USHORT)ss_capture_native(SS_HERE(), frames_to_skip, most, (uintptr_t *)back_trace,
                                     hash);
}

ULONG RtlWalkFrameChain(PVOID *callers, ULONG count, ULONG flags)
{
    if (!callers || !count || flags)
        return 0;
    return ss_capture_native(SS_HERE(), 0, count, (uintptr_t *)callers, NULL);
}
