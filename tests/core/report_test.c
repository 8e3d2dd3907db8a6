/* Text reports as a whole. */
#include "error_double.h"
#include "report_text.h"

TEST(test_report_shows_one_stack_in_either_order)
{
    const uintptr_t frames[] = {fixture_script("python", "a.<locals>.f", "/nowhere/x.py", 17),
                                fixture_script("lua", "function 'g'", "t.lua", 3),
                                fixture_gap("callers unknown"), 0x1234};
    const fixture_error contents = value_error(frames, 4);
    IRestrictedErrorInfo *error = fixture_originate(&contents);

    assert_report(error, NULL,
                  VALUE_ERROR STACK
                  "    (Python) File \"/nowhere/x.py\", line 17, in a.<locals>.f\n"
                  "    (Lua) File \"t.lua\", line 3, in function 'g'\n"
                  "    [gap: callers unknown]\n"
                  "    (C) ??? (0x1234)\n");
    assert_report(error, &newest_last,
                  "Traceback (most recent call last):\n"
                  "  (C) ??? (0x1234)\n"
                  "  [gap: callers unknown]\n"
                  "  (Lua) File \"t.lua\", line 3, in function 'g'\n"
                  "  File \"/nowhere/x.py\", line 17, in f\n" VALUE_ERROR);
    release(error);
}

TEST(test_report_marks_what_is_not_plain)
{
    const stacksplice_token_info info = {.size = sizeof info,
                                         .kind = STACKSPLICE_FRAME_SCRIPT,
                                         .trust = STACKSPLICE_TRUST_INFERRED,
                                         .language = "lua",
                                         .function = "a\nb\033[1m",
                                         .file = "\xff\xc3\xa9",
                                         .interpreter = "worker-1"};
    stacksplice_token_info tracked = info;
    uintptr_t frames[3] = {0};
    fixture_error contents = value_error(frames, 3);
    IRestrictedErrorInfo *error;

    tracked.trust = STACKSPLICE_TRUST_TRACEBACK;
    tracked.interpreter = tracked.file = NULL;
    tracked.function = "h";
    assert_int_equal(stacksplice_intern(&info, &frames[0]), S_OK);
    assert_int_equal(stacksplice_intern(&tracked, &frames[1]), S_OK);
    tracked.function = NULL;
    assert_int_equal(stacksplice_intern(&tracked, &frames[2]), S_OK);
    contents.message = "two\nlines \x1b[31m\xed\xa0\x80";
    contents.message_length = strlen(contents.message);
    error = fixture_originate(&contents);
    assert_report(error, NULL,
                  "ValueError: two\n"
                  "| lines \\x1b[31m\xef\xbf\xbd\n" STACK
                  "    (Lua) [worker-1] File \"\xef\xbf\xbd\xc3\xa9\", in a\\x0ab\\x1b[1m "
                  "[inferred]\n"
                  "    (Lua) h\n"
                  "    (Lua) ???\n");
    assert_non_null(strstr(fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, &all_frames),
                           "    (Lua) h [traceback]\n    (Lua) ??? [traceback]\n"));
    release(error);
}

/* Each is what a reader would take for another text: it turns the direction, or begins a line. */
#define DECEPTIVE                                                                          \
    "\xd8\x9c\xe2\x80\x8e\xe2\x80\x8f\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xaa\xe2\x80\xab"     \
    "\xe2\x80\xac\xe2\x80\xad\xe2\x80\xae\xe2\x81\xa6\xe2\x81\xa7\xe2\x81\xa8\xe2\x81\xa9" \
    "\xc2\x85\xc2\x9b\x7f\r"
#define ESCAPED                                                                                   \
    "\\u061c\\u200e\\u200f\\u2028\\u2029\\u202a\\u202b\\u202c\\u202d\\u202e\\u2066\\u2067\\u2068" \
    "\\u2069\\x85\\x9b\\x7f\\x0d"

TEST(test_report_shows_deceptive_characters_by_number)
{
    const stacksplice_token_info info = {SCRIPT_TOKEN, .language = "lua",
                                         .function = "f" DECEPTIVE "\n\t",
                                         .file = "x" DECEPTIVE "\n\t"};
    uintptr_t frames[1] = {0};
    fixture_error contents = value_error(frames, 1);
    IRestrictedErrorInfo *error;

    assert_int_equal(stacksplice_intern(&info, &frames[0]), S_OK);
    contents.type = "T" DECEPTIVE "\n\t";
    contents.message = "m" DECEPTIVE "\t";
    contents.message_length = strlen(contents.message);
    error = fixture_originate(&contents);
    assert_int_equal(stacksplice_add_note((IUnknown *)error, "n" DECEPTIVE, strlen("n" DECEPTIVE)),
                     S_OK);
    assert_report(error, NULL,
                  "T" ESCAPED "\\x0a\\x09: m" ESCAPED "\t\n"
                  "note: n" ESCAPED "\n" STACK "    (Lua) File \"x" ESCAPED
                  "\\x0a\\x09\", in f" ESCAPED "\\x0a\\x09\n");
    /* Who prints the JSON sees the same; who parses it gets the characters. */
    assert_non_null(strstr(json_of(error), "\"message\":\"m\\u061c\\u200e\\u200f\\u2028"));
    release(error);
}

TEST(test_report_tells_the_chain_and_the_causes)
{
    const uintptr_t inner[] = {fixture_script("lua", "main chunk", "c.lua", 1)};
    const uintptr_t frames[] = {fixture_script("python", "f", "x.py", 1)};
    const uintptr_t node[] = {fixture_gap("none"),
                              fixture_script("lua", "a", "a.lua", 1),
                              fixture_script("lua", "b", "a.lua", 2),
                              fixture_script("python", "c", "x.py", 3),
                              fixture_script("python", "d", "x.py", 4),
                              fixture_script("python", "e", "x.py", 5)};
    const uintptr_t last[] = {frames[0], 0x10, 0x20};
    const fixture_error cause = {.hr = E_FAIL, .message = "", .frames = inner, .frame_count = 1};
    fixture_error contents = value_error(frames, 1);
    IRestrictedErrorInfo *first = fixture_originate(&cause), *error;

    contents.cause = first;
    error = fixture_originate(&contents);
    release(first);
    fixture_propagate(error, "lua", node, 6);
    fixture_propagate(error, NULL, last, 3);
    assert_report(error, NULL,
                  VALUE_ERROR STACK "    (Python) File \"x.py\", line 1, in f\n"
                                    "Propagation:\n"
                                    "  1. Lua received it in a (a.lua:1)\n"
                                    "  2. C received it in f (x.py:1)\n"
                                    "\n"
                                    "Caused by:\n"
                                    "Unspecified error\n"
                                    "HRESULT 0x80004005 E_FAIL\n"
                                    "Stack of thread @ (most recent call first):\n"
                                    "    (Lua) File \"c.lua\", line 1, in main chunk\n");
    assert_non_null(strstr(fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, &all_frames),
                           with_thread("Propagation:\n"
                                       "  1. Lua received it on thread @ at:\n"
                                       "        [gap: none]\n"
                                       "        (Lua) File \"a.lua\", line 1, in a\n"
                                       "        (Lua) File \"a.lua\", line 2, in b\n"
                                       "        (Python) File \"x.py\", line 3, in c\n"
                                       "        (Python) File \"x.py\", line 4, in d\n"
                                       "        (Python) File \"x.py\", line 5, in e\n"
                                       "  2. C received it on thread @ at:\n")));
    release(error);
}

TEST(test_report_bounds_the_causes)
{
    const uintptr_t frames[] = {fixture_script("python", "f", "x.py", 1)};
    fixture_error contents = value_error(frames, 1);
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    const char *text;

    for (int i = 0; i < 16; i++) {
        contents.cause = error;
        error = fixture_originate(&contents);
        release(contents.cause);
    }
    text = text_of(error);
    assert_int_equal(count_of(text, "\nCaused by:\n"), 16);
    assert_null(strstr(text, "not shown"));
    contents.cause = error;
    error = fixture_originate(&contents);
    release(contents.cause);
    text = text_of(error);
    assert_int_equal(count_of(text, "\nCaused by:\n"), 16);
    assert_non_null(strstr(text, "\nCaused by more errors that are not shown.\n"));
    text = json_of(error);
    assert_int_equal(count_of(text, "\"hresult\":"), 18);
    release(error);
}

/* An error of a group of COUNT members, in which all have two notes: "DoubleError: two". */
static IRestrictedErrorInfo *originate_group(IRestrictedErrorInfo *const *members, uint32_t count)
{
    static const char *const notes[] = {"first", "two\nlines"};
    static error_double doubles[16];
    static unsigned next;
    error_double *x = &doubles[next++ % 16];
    IRestrictedErrorInfo *error = NULL;

    error_double_init(x, 1);
    x->members = members;
    x->member_count = count;
    x->members_left_out = count > 1 ? 2 : 0;
    x->notes = notes;
    x->note_count = 2;
    x->has_stack = 1;
    x->frames = (const uintptr_t[]){0x1234};
    x->frame_count = 1;
    assert_int_equal(stacksplice_originate(E_FAIL, NULL, 0, error_double_unknown(x), &error), S_OK);
    RoClearError();
    return error;
}

TEST(test_report_shows_groups_in_a_margin)
{
    const uintptr_t frames[] = {fixture_script("python", "f", "x.py", 1)};
    fixture_error contents = value_error(frames, 1);
    IRestrictedErrorInfo *inner[1], *members[3], *error;

    inner[0] = fixture_originate(&contents);
    contents.cause = inner[0];
    members[0] = fixture_originate(&contents);
    members[1] = inner[0];
    members[2] = originate_group(inner, 1);
    error = originate_group(members, 3);
    assert_report(error, &newest_last,
                  "  + Exception Group Traceback (most recent call last):\n"
                  "  |   (C) ??? (0x1234)\n"
                  "  | DoubleError: two\n"
                  "  | note: first\n"
                  "  | note: two\n"
                  "  | | lines\n"
                  "  +-+---------------- 1 ----------------\n"
                  "    | Traceback (most recent call last):\n"
                  "    |   File \"x.py\", line 1, in f\n"
                  "    | ValueError: bad amount 'x'\n"
                  "    |\n"
                  "    | The above exception was the direct cause of the following exception:\n"
                  "    |\n"
                  "    | Traceback (most recent call last):\n"
                  "    |   File \"x.py\", line 1, in f\n"
                  "    | ValueError: bad amount 'x'\n"
                  "    +---------------- 2 ----------------\n"
                  "    | an error of this report\n"
                  "    +---------------- 3 ----------------\n"
                  "    | Exception Group Traceback (most recent call last):\n"
                  "    |   (C) ??? (0x1234)\n"
                  "    | DoubleError: two\n"
                  "    | note: first\n"
                  "    | note: two\n"
                  "    | | lines\n"
                  "    +-+---------------- 1 ----------------\n"
                  "      | an error of this report\n"
                  "      +------------------------------------\n"
                  "    +---------------- ... ----------------\n"
                  "    | and 2 more errors\n"
                  "    +------------------------------------\n");
    assert_int_equal(count_of(json_of(error), "\"notes\":[\"first\",\"two\\nlines\"]"), 2);
    release(error);
    for (int i = 0; i < 3; i++)
        release(members[i]);
}

TEST(test_report_of_one_error_alone)
{
    const stacksplice_format_options alone = {.size = sizeof alone, .alone = 1};
    const uintptr_t frames[] = {fixture_script("python", "f", "x.py", 1)};
    fixture_error contents = value_error(frames, 1);
    IRestrictedErrorInfo *cause = fixture_originate(&contents), *error;

    contents.cause = cause;
    error = fixture_originate(&contents);
    assert_report(error, &alone, VALUE_ERROR STACK "    (Python) File \"x.py\", line 1, in f\n");
    release(error);
    release(cause);
}

TEST(test_report_of_a_node_is_its_own_stack)
{
    const uintptr_t frames[] = {fixture_script("python", "f", "x.py", 1)};
    const uintptr_t node_frames[] = {fixture_script("lua", "n", "n.lua", 9)};
    const fixture_error contents = value_error(frames, 1);
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    ILanguageExceptionErrorInfo2 *info, *node = NULL;
    void *out = NULL;
    const char *text;

    fixture_propagate(error, "lua", node_frames, 1);
    assert_int_equal(error->lpVtbl->QueryInterface(error, &IID_ILanguageExceptionErrorInfo2, &out),
                     S_OK);
    info = out;
    assert_int_equal(info->lpVtbl->GetPropagationContextHead(info, &node), S_OK);
    text = fixture_format((IUnknown *)node, STACKSPLICE_FORMAT_TEXT, NULL);
    assert_non_null(strstr(text, "bad amount 'x'\n"));
    assert_non_null(strstr(text, "    (Lua) File \"n.lua\", line 9, in n\n"));
    assert_null(strstr(text, "Propagation"));
    node->lpVtbl->Release(node);
    info->lpVtbl->Release(info);
    release(error);
}
