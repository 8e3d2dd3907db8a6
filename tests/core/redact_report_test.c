/* Secrets in every part of an error, and every report of it. */
#include "report_fixture.h"
#include "support.h"

#include <stacksplice/redact.h>
#include <stacksplice/winrt/roerrorapi.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECRET "hunter2"
#define TOKEN "ghp_0123456789abcdefghijABCDEFGHIJ012345"

static char directory[] = "/tmp/redact-XXXXXX";
static char script[64];

static void make_script(void)
{
    FILE *file;

    assert_non_null(mkdtemp(directory));
    snprintf(script, sizeof script, "%s/password=" SECRET ".py", directory);
    file = fopen(script, "w");
    assert_non_null(file);
    fputs("login(password=\"" SECRET "\")\n", file);
    fclose(file);
}

static void note(IRestrictedErrorInfo *error, const char *text)
{
    assert_int_equal(stacksplice_add_note((IUnknown *)error, text, strlen(text)), S_OK);
}

static IRestrictedErrorInfo *make_error(IRestrictedErrorInfo *cause)
{
    static uintptr_t frames[3];
    static const char message[] = "first\nbad password: " SECRET "\n\n-----BEGIN PRIVATE KEY-----\n"
                                  "MII" SECRET "\n-----END PRIVATE KEY-----\nlast";
    const fixture_error contents = {.hr = E_INVALIDARG,
                                    .type = "ValueError",
                                    .message = message,
                                    .message_length = sizeof message - 1,
                                    .frames = frames,
                                    .frame_count = 3,
                                    .cause = cause};
    IRestrictedErrorInfo *error;

    frames[0] = fixture_script("python", "token='" SECRET "'", script, 1);
    frames[1] = fixture_script("lua", "g", "https://bob:" SECRET "@example.org/x.lua", 2);
    frames[2] = fixture_gap("task " TOKEN);
    error = fixture_originate(&contents);
    note(error, "called with token=" SECRET "\nand " TOKEN);
    fixture_propagate(error, "lua", frames, 3);
    return error;
}

/* An error without exception: the message is UTF-16, as a host of Windows gives it. */
static IRestrictedErrorInfo *make_native(void)
{
    static const char text[] = "cannot open postgres://bob:" SECRET "@db/x with pwd=" SECRET ".";
    WCHAR wide[sizeof text];
    IRestrictedErrorInfo *error = NULL;

    for (size_t i = 0; i < sizeof text; i++)
        wide[i] = (unsigned char)text[i];
    assert_true(RoOriginateErrorW(E_ACCESSDENIED, 0, wide));
    assert_int_equal(GetRestrictedErrorInfo(&error), S_OK);
    return error;
}

static void assert_clean(const char *text)
{
    if (strstr(text, SECRET) || strstr(text, "ghp_"))
        fail_msg("a secret is in:\n%s", text);
    assert_non_null(strstr(text, "[redacted: "));
}

static const stacksplice_format_kind kinds[] = {STACKSPLICE_FORMAT_TEXT, STACKSPLICE_FORMAT_JSON,
                                                STACKSPLICE_FORMAT_STACK, STACKSPLICE_FORMAT_SENTRY,
                                                STACKSPLICE_FORMAT_BRIEF_JSON};

static void assert_all_clean(IRestrictedErrorInfo *error, bool has_stack)
{
    for (unsigned i = 0; i < 4 * COUNT_OF(kinds); i++) {
        const stacksplice_format_options options = {.size = sizeof options,
                                                    .order = i & 1 ? 1 : 0,
                                                    .all_frames = i & 2 ? 1 : 0,
                                                    .color = i & 1 ? 1 : 0};

        if (has_stack || kinds[i / 4] != STACKSPLICE_FORMAT_STACK)
            assert_clean(fixture_format((IUnknown *)error, kinds[i / 4], &options));
    }
}

TEST(test_no_format_has_a_secret)
{
    IRestrictedErrorInfo *cause, *error;

    make_script();
    cause = make_native();
    error = make_error(cause);
    assert_all_clean(cause, false);
    assert_all_clean(error, true);
    assert_non_null(
        strstr(fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL),
               "ValueError: first\n| bad password: [redacted: password]\n|\n"
               "| [redacted: private key]\n| last\n"
               "note: called with token=[redacted: token]\n| and [redacted: GitHub token]\n"));
    cause->lpVtbl->Release(cause);
    error->lpVtbl->Release(error);
    assert_int_equal(unlink(script), 0);
    assert_int_equal(rmdir(directory), 0);
}

TEST(test_the_error_itself_keeps_its_text)
{
    IRestrictedErrorInfo *error = make_native();
    BSTR description = NULL, message = NULL, sid = NULL;
    HRESULT hr;
    bool found = false;

    assert_int_equal(error->lpVtbl->GetErrorDetails(error, &description, &hr, &message, &sid),
                     S_OK);
    for (const WCHAR *at = message; *at; at++)
        found = found || (at[0] == 'h' && at[1] == 'u' && at[2] == 'n' && at[6] == '2');
    assert_true(found);
    SysFreeString(description);
    SysFreeString(message);
    SysFreeString(sid);
    error->lpVtbl->Release(error);
}

static int hook_of_the_host(const char *text, size_t length, stacksplice_text_kind kind,
                            stacksplice_write_callback write, void *write_data, void *data)
{
    return write("[hook]", 6, write_data);
}

TEST(test_a_hook_changes_nothing_that_programs_compare)
{
    const stacksplice_redaction redaction = {.size = sizeof redaction, .hook = hook_of_the_host};
    static const char *const kept[] = {
        "\"schema\":\"stacksplice-error/1\"", "\"kind\":\"script\"",    "\"trust\":\"exact\"",
        "\"symbol\":\"E_INVALIDARG\"",        "\"message\":\"[hook]\"", "\"notes\":[\"[hook]\"]"};
    uintptr_t frame = fixture_script("python", "f", "x.py", 1);
    const fixture_error contents = {.hr = E_INVALIDARG,
                                    .type = "ValueError",
                                    .message = "x",
                                    .message_length = 1,
                                    .frames = &frame,
                                    .frame_count = 1};
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    const char *text;

    note(error, "y");
    assert_int_equal(stacksplice_set_redaction(&redaction), S_OK);
    text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_JSON, NULL);
    for (size_t i = 0; i < COUNT_OF(kept); i++)
        if (!strstr(text, kept[i]))
            fail_msg("no %s in\n%s", kept[i], text);
    assert_null(strstr(text, "fingerprint\":\"[hook]"));
    text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_SENTRY, NULL);
    assert_null(strstr(text, "fingerprint\":[\"[hook]"));
    assert_non_null(strstr(text, "\"platform\":\"python\""));
    assert_int_equal(stacksplice_set_redaction(NULL), S_OK);
    error->lpVtbl->Release(error);
}
