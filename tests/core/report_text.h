/* For tests that compare a text report with what it should be. */
#ifndef STACKSPLICE_TEST_REPORT_TEXT_H
#define STACKSPLICE_TEST_REPORT_TEXT_H

#include "frames.h"
#include "report_fixture.h"
#include "support.h"
#include "text.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const stacksplice_format_options newest_last = {.size = sizeof newest_last,
                                                       .order = STACKSPLICE_ORDER_NEWEST_LAST};
static const stacksplice_format_options all_frames = {.size = sizeof all_frames, .all_frames = 1};
static const stacksplice_format_options coloured = {.size = sizeof coloured, .color = 1};

#define INVALID_ARGUMENT "HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect.\n"
/* How reports of value_error begin. */
#define VALUE_ERROR "ValueError: bad amount 'x'\n"
#define STACK "Stack of thread @ (most recent call first):\n"

/* TEMPLATE with each "@" replaced by this thread's id. */
static inline const char *with_thread(const char *template)
{
    static char text[16384];
    char id[24];
    size_t used = 0;

    snprintf(id, sizeof id, "%ld", syscall(SYS_gettid));
    for (const char *at = template; *at; at++) {
        size_t bytes = *at == '@' ? strlen(id) : 1;

        assert_true(used + bytes < sizeof text);
        memcpy(text + used, *at == '@' ? id : at, bytes);
        used += bytes;
    }
    text[used] = 0;
    return text;
}

static inline fixture_error value_error(const uintptr_t *frames, uint32_t count)
{
    return (fixture_error){.hr = E_INVALIDARG,
                           .type = "ValueError",
                           .message = "bad amount 'x'",
                           .message_length = strlen("bad amount 'x'"),
                           .frames = frames,
                           .frame_count = count};
}

static inline void assert_report(IRestrictedErrorInfo *error,
                                 const stacksplice_format_options *options, const char *want)
{
    assert_string_equal(fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, options),
                        with_thread(want));
}

static inline void release(IRestrictedErrorInfo *error)
{
    error->lpVtbl->Release(error);
}

/* ERROR's report as text and as JSON, until four calls later. */
static inline const char *text_of(IRestrictedErrorInfo *error)
{
    return fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL);
}

static inline const char *json_of(IRestrictedErrorInfo *error)
{
    return fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_JSON, NULL);
}

#endif
