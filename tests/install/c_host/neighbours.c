/*
 * The second translation unit includes PC/SC, which defines Windows' names in its own way (DWORD,
 * LONG, BYTE, ...).
 */
#define STACKSPLICE_NO_WINRT
#ifdef WITH_PCSC
#include <winscard.h>
#endif
#include <stacksplice/stacksplice.h>
#include <stacksplice/source.h>
#include <stdio.h>
#include <string.h>

int neighbours_version_ok(void);
int neighbours_error_is(int32_t hr);
int neighbours_fewest_frames(void);

int neighbours_version_ok(void)
{
    char expected[32];

    snprintf(expected, sizeof expected, "%d.%d.%d", STACKSPLICE_VERSION_MAJOR,
             STACKSPLICE_VERSION_MINOR, STACKSPLICE_VERSION_PATCH);
#ifdef WITH_PCSC
    if (sizeof(SCARD_READERSTATE) == 0 || SCARD_S_SUCCESS != 0)
        return 0;
#endif
    return strcmp(stacksplice_version(), expected) == 0;
}

/* 2 when the first frame is a native one, 1 when it is the gap that says why there are none. */
static int count_for(const stacksplice_frame *frame, void *data)
{
    if (frame->kind == STACKSPLICE_FRAME_NATIVE)
        *(int *)data = 2;
    if (frame->kind == STACKSPLICE_FRAME_GAP &&
        strstr(frame->reason, "not supported on this platform"))
        *(int *)data = 1;
    return 1;
}

/* How many frames a stack has at least; 0 when the first is not what it should be. */
int neighbours_fewest_frames(void)
{
    uintptr_t frame = 0;
    uint32_t count = 0;
    int fewest = 0;

    if (stacksplice_capture(0, 1, &frame, &count, NULL) < 0 || count != 1 ||
        stacksplice_resolve(frame, count_for, &fewest) != 1)
        return 0;
    return fewest;
}

/* Both units see the same error and the same types without the Windows names. */
int neighbours_error_is(int32_t hr)
{
    stacksplice_saved_error saved;

    if (hr >= 0 || neighbours_fewest_frames() == 0)
        return 0;
    if (stacksplice_save_error(&saved) != 0)
        return 0;
    stacksplice_restore_error(&saved);
    return 1;
}
