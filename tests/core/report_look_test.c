/* Stacks without a message, and what the frames of each language look like. */
#include "report_text.h"

#include <stacksplice/script.h>

static const stacksplice_document_frame frames[] = {
    {.frame = {.size = sizeof(stacksplice_frame),
               .kind = STACKSPLICE_FRAME_SCRIPT,
               .trust = STACKSPLICE_TRUST_EXACT,
               .language = "python",
               .function = "f",
               .file = "x.py",
               .line = 3,
               .address = 0x3000},
     .source = {"raise", 5},
     .source_column = 9},
    {.frame = {.size = sizeof(stacksplice_frame),
               .kind = STACKSPLICE_FRAME_SCRIPT,
               .trust = STACKSPLICE_TRUST_EXACT,
               .language = "lua",
               .function = "g",
               .file = "x.lua",
               .line = 4,
               .address = 0x4000}},
};
/* As tracebacks do: the columns, which frames have beside the line, do not count.  A stack that is cut
   is counted on both sides. */
TEST(test_repetitions_are_counted_line_by_line)
{
    uintptr_t elements[10];
    fixture_error contents = value_error(elements, 10);
    IRestrictedErrorInfo *error;

    for (uint32_t i = 0; i < 10; i++) {
        const stacksplice_token_info info = {SCRIPT_TOKEN,    .language = i < 5 ? "python" : "lua",
                                             .function = "f", .file = "x",
                                             .line = 1,       .column = i < 5 ? i + 1 : 0};

        assert_int_equal(stacksplice_intern(&info, &elements[i]), S_OK);
    }
    elements[5] = stacksplice_left_out(7);
    error = fixture_originate(&contents);
    assert_report(error, &newest_last,
                  "Traceback (most recent call last):\n"
                  "  (Lua) File \"x\", line 1, in f\n"
                  "  (Lua) File \"x\", line 1, in f\n"
                  "  (Lua) File \"x\", line 1, in f\n"
                  "  [Previous line repeated 1 more time]\n"
                  "  [gap: 7 frames omitted here: stack longer than the limit]\n"
                  "  File \"x\", line 1, in f\n"
                  "  File \"x\", line 1, in f\n"
                  "  File \"x\", line 1, in f\n"
                  "  [Previous line repeated 2 more times]\n" VALUE_ERROR);
    assert_non_null(strstr(json_of(error), "],\"frames_left_out\":7,"));
    release(error);
}

TEST(test_a_stack_alone)
{
    const uintptr_t elements[] = {fixture_script("python", "f", "x.py", 1),
                                  fixture_script("lua", "g", "x.lua", 2)};
    fixture_error contents = value_error(elements, 2);
    IRestrictedErrorInfo *error = fixture_originate(&contents);

    assert_string_equal(fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_STACK, &newest_last),
                        "  (Lua) File \"x.lua\", line 2, in g\n  File \"x.py\", line 1, in f\n");
    release(error);
    contents.type = "stacksplice.HResultError";
    contents.frame_count = 1;
    error = fixture_originate(&contents);
    assert_string_equal(fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_STACK, &newest_last),
                        "  File \"x.py\", line 1, in f\n" INVALID_ARGUMENT);
    release(error);
}

TEST(test_the_mark_of_each_language_has_a_colour)
{
    static const stacksplice_document_frame native = {.frame = {.size = sizeof(stacksplice_frame),
                                                                .kind = STACKSPLICE_FRAME_NATIVE,
                                                                .trust = STACKSPLICE_TRUST_EXACT,
                                                                .language = "native",
                                                                .function = "h"}};
    const stacksplice_document_frame stack[] = {frames[0], frames[1], native};
    const stacksplice_document mixed = {
        .size = sizeof mixed, .message = {"bad", 3}, .thread_id = 7, .stack = {stack, 3, 0}};
    char text[1024] = "";

    assert_int_equal(stacksplice_format_document(&mixed, &coloured, append, text), S_OK);
    assert_non_null(strstr(text, "    \033[32m(Python)\033[0m File \033[35m\"x.py\"\033[0m"));
    assert_non_null(strstr(text, "    \033[36m(Lua)\033[0m File \033[35m\"x.lua\"\033[0m"));
    assert_non_null(strstr(text, "    \033[1m(C)\033[0m \033[35mh\033[0m\n"));
}
