/* Frames that a binding writes in the look of its language, and stacks without a message. */
#include "report_text.h"

#include <stacksplice/read.h>
#include <stacksplice/script.h>

typedef struct looking {
    char line[64]; /* lent to the report */
    uint32_t calls;
    int refuses;
} looking;

static int look(const stacksplice_document_frame *shown, stacksplice_document_text *out, void *data)
{
    looking *l = data;

    l->calls++;
    if (l->refuses)
        return 1;
    snprintf(l->line, sizeof l->line, "  <%s:%u %.*s %u>\n", shown->frame.function,
             shown->frame.line, (int)shown->source.length, shown->source.text,
             shown->source_column);
    *out = (stacksplice_document_text){l->line, strlen(l->line)};
    return 0;
}

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
static const stacksplice_document document = {
    .size = sizeof document, .type = "ValueError", .message = {"bad", 3}, .stack = {frames, 2, 0}};

static const char *text_with(looking *l, stacksplice_order order, int all_frames_too)
{
    static char text[4096];
    const stacksplice_format_options options = {.size = sizeof options,
                                                .order = order,
                                                .all_frames = all_frames_too,
                                                .look = look,
                                                .look_data = l};

    text[0] = '\0';
    l->calls = 0;
    assert_int_equal(stacksplice_format_document(&document, &options, append, text), S_OK);
    return text;
}

TEST(test_a_language_writes_its_own_frames)
{
    looking l = {.refuses = 0};

    assert_string_equal(text_with(&l, STACKSPLICE_ORDER_NEWEST_LAST, 0),
                        "Traceback (most recent call last):\n"
                        "  (Lua) File \"x.lua\", line 4, in g\n"
                        "  <f:3 raise 9>\n"
                        "ValueError: bad\n");
    assert_int_equal(l.calls, 1);
}

TEST(test_what_it_refuses_is_written_as_ever)
{
    looking l = {.refuses = 1};

    assert_string_equal(text_with(&l, STACKSPLICE_ORDER_NEWEST_LAST, 0),
                        "Traceback (most recent call last):\n"
                        "  (Lua) File \"x.lua\", line 4, in g\n"
                        "  File \"x.py\", line 3, in f\n"
                        "    raise\n"
                        "ValueError: bad\n");
    assert_int_equal(l.calls, 1);
}

TEST(test_it_is_not_asked_where_no_language_has_its_look)
{
    looking l = {.refuses = 0};

    (void)text_with(&l, STACKSPLICE_ORDER_NEWEST_FIRST, 0);
    assert_int_equal(l.calls, 0);
    (void)text_with(&l, STACKSPLICE_ORDER_NEWEST_LAST, 1);
    assert_int_equal(l.calls, 0);
}

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
                  "  [Previous frame repeated 1 more time]\n"
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
