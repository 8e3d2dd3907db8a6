/* Writes JSON reports, one on each line, for report_json_test.py. */
#include "report_fixture.h"

#include <stdio.h>
#include <string.h>

static void put(IRestrictedErrorInfo *error)
{
    fputs(fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_JSON, NULL), stdout);
    error->lpVtbl->Release(error);
}

/* Every byte, so that every escape and every way to be invalid is there. */
static void put_all_bytes(void)
{
    static char bytes[256];
    const fixture_error contents = {
        .hr = E_FAIL, .type = "\"Odd\\Type\"", .message = bytes, .message_length = sizeof bytes};

    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    put(fixture_originate(&contents));
}

static void put_every_frame_kind(void)
{
    const stacksplice_token_info full = {.size = sizeof full,
                                         .kind = STACKSPLICE_FRAME_SCRIPT,
                                         .trust = STACKSPLICE_TRUST_TRACEBACK,
                                         .language = "python",
                                         .function = "f\xff\"",
                                         .file = "/a/x.py",
                                         .line = 1,
                                         .end_line = 2,
                                         .column = 3,
                                         .end_column = 4,
                                         .interpreter = "sub-1"};
    uintptr_t frames[4] = {0, fixture_gap(STACKSPLICE_GAP_RETURNED), (uintptr_t)fixture_format + 1,
                           0x10};
    const uintptr_t node[1] = {fixture_script("lua", "g", "t.lua", 5)};
    const fixture_error cause = {.hr = E_BOUNDS, .message = "the cause", .message_length = 9};
    fixture_error contents = {.hr = E_INVALIDARG,
                              .type = "ValueError",
                              .message = "m\xc3\xa9ssage \xf0\x9f\x98\x80",
                              .message_length = 13,
                              .frames = frames,
                              .frame_count = 4};
    IRestrictedErrorInfo *error;

    if (stacksplice_intern(&full, &frames[0]) != S_OK)
        return;
    contents.cause = fixture_originate(&cause);
    error = fixture_originate(&contents);
    contents.cause->lpVtbl->Release(contents.cause);
    fixture_propagate(error, "c++", node, 1);
    put(error);
}

static void put_long_stack(void)
{
    static uintptr_t frames[2000];
    const fixture_error contents = {.hr = E_FAIL,
                                    .message = "deep",
                                    .message_length = 4,
                                    .frames = frames,
                                    .frame_count = 2000};

    for (uint32_t i = 0; i < 2000; i++)
        frames[i] = fixture_script("lua", "deep", "deep.lua", i + 1);
    put(fixture_originate(&contents));
}

int main(void)
{
    put_all_bytes();
    put_every_frame_kind();
    put_long_stack();
    return 0;
}
