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

static int take_first(const stacksplice_frame *frame, void *data)
{
    *(stacksplice_frame_kind *)data = frame->kind;
    return 1;
}

/* Both units see the same error and the same types without the Windows names. */
int neighbours_error_is(int32_t hr)
{
    stacksplice_saved_error saved;
    uintptr_t frame = 0;
    uint32_t count = 0;
    stacksplice_frame_kind kind = 0;

    if (hr >= 0 || stacksplice_capture(0, 1, &frame, &count, NULL) < 0 || count != 1)
        return 0;
    if (stacksplice_resolve(frame, take_first, &kind) != 1 || kind != STACKSPLICE_FRAME_NATIVE)
        return 0;
    if (stacksplice_save_error(&saved) != 0)
        return 0;
    stacksplice_restore_error(&saved);
    return 1;
}
