/* Events for Sentry. */
#include "report_text.h"

static const char *event_of(IRestrictedErrorInfo *error)
{
    return fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_SENTRY, NULL);
}

/* Where PART is in TEXT, behind FROM; fails if it is not. */
static const char *find(const char *from, const char *part)
{
    const char *found = strstr(from, part);

    if (!found)
        fail_msg("%s\nis not in\n%s", part, from);
    return found + strlen(part);
}

TEST(test_event_of_a_script_error)
{
    const uintptr_t frames[] = {fixture_script("python", "f", "/srv/x.py", 17),
                                fixture_script("lua", "g", "t.lua", 3),
                                fixture_gap("callers unknown"),
                                fixture_script("python", "run", "/a/site-packages/lib.py", 5)};
    const uintptr_t node[] = {fixture_script("lua", "g", "t.lua", 3)};
    const fixture_error contents = value_error(frames, 4);
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    const char *at;

    fixture_propagate(error, "lua", node, 1);
    at = find(event_of(error), "{\"event_id\":\"");
    at = find(at, "\",\"timestamp\":");
    at = find(at, ",\"platform\":\"native\",\"level\":\"error\",\"fingerprint\":[\"");
    at = find(
        at, "\"],\"exception\":{\"values\":[{\"type\":\"ValueError\",\"value\":\"bad amount 'x'\","
            "\"thread_id\":");
    at = find(at, ",\"mechanism\":{\"type\":\"generic\",\"exception_id\":0,\"data\":{"
                  "\"hresult\":\"0x80070057\",\"symbol\":\"E_INVALIDARG\",\"language\":\"python\","
                  "\"notes\":[],\"propagation\":[\"lua at g (t.lua:3)\"]}},"
                  "\"stacktrace\":{\"instruction_addr_adjustment\":\"all\",\"frames\":["
                  "{\"function\":\"run\",\"platform\":\"python\",\"filename\":"
                  "\"/a/site-packages/lib.py\",\"abs_path\":\"/a/site-packages/lib.py\","
                  "\"lineno\":5,\"in_app\":false},"
                  "{\"function\":\"[gap: callers unknown]\",\"platform\":\"other\","
                  "\"in_app\":false},"
                  "{\"function\":\"g\",\"platform\":\"lua\",\"filename\":\"t.lua\",\"lineno\":3,"
                  "\"in_app\":true},"
                  "{\"function\":\"f\",\"platform\":\"python\",\"filename\":\"/srv/x.py\","
                  "\"abs_path\":\"/srv/x.py\",\"lineno\":17,\"in_app\":true}]}}]},"
                  "\"debug_meta\":{\"images\":[]}}\n");
    assert_int_equal(*at, 0);
    release(error);
}

TEST(test_every_event_is_one_of_its_own)
{
    const fixture_error contents = value_error(NULL, 0);
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    const char *one = find(event_of(error), "\"event_id\":\"");
    const char *two = find(event_of(error), "\"event_id\":\"");

    assert_memory_not_equal(one, two, 32);
    assert_int_equal(strspn(one, "0123456789abcdef"), 32);
    assert_int_equal(one[12], '4');
    assert_non_null(strchr("89ab", one[16]));
    release(error);
}

TEST(test_native_frames_have_their_binary)
{
    const uintptr_t frames[] = {(uintptr_t)event_of + 1, (uintptr_t)event_of + 2};
    const fixture_error contents = {.hr = E_INVALIDARG, .frames = frames, .frame_count = 2};
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    char id[40], guid[40];
    const char *event = event_of(error), *at = find(event, "\"code_id\":\"");

    find(event,
         "{\"values\":[{\"type\":\"E_INVALIDARG\",\"value\":\"The parameter is incorrect.\"");
    find(event, "\"platform\":\"native\",");
    find(event, "\"instruction_addr\":\"0x");
    find(event, "\"image_addr\":\"0x");
    assert_int_equal(count_of(event, "\"type\":\"elf\""), 1);
    snprintf(id, sizeof id, "%.32s", at);
    snprintf(guid, sizeof guid, "%c%c%c%c%c%c%c%c-%c%c%c%c-%c%c%c%c-%.4s-%.12s", id[6], id[7],
             id[4], id[5], id[2], id[3], id[0], id[1], id[10], id[11], id[8], id[9], id[14], id[15],
             id[12], id[13], id + 16, id + 20);
    find(find(event, "\"debug_id\":\""), guid);
    release(error);
}

static int stop(const char *text, size_t length, void *data)
{
    (void)text;
    (void)length;
    ++*(unsigned *)data;
    return 1;
}

TEST(test_a_writer_can_stop_it)
{
    const uintptr_t frames[] = {(uintptr_t)event_of + 1};
    const fixture_error contents = value_error(frames, 1);
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    unsigned calls = 0;

    assert_int_equal(
        stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_SENTRY, NULL, stop, &calls),
        S_FALSE);
    assert_int_equal(calls, 1);
    assert_int_equal(
        stacksplice_format((IUnknown *)error,
                           (stacksplice_format_kind)(STACKSPLICE_FORMAT_BRIEF_JSON + 1), NULL, stop,
                           &calls),
        E_INVALIDARG);
    release(error);
}
