/* Errors as documents: the text that an error object would have, and what is refused. */
#include "report_fixture.h"

#include <stacksplice/script.h>
#include "support.h"
#include "kept_text.h"

#include <stdio.h>
#include <string.h>

#define TEXT(literal)                \
    {                                \
        literal, sizeof(literal) - 1 \
    }

static int stop(const char *text, size_t length, void *data)
{
    ++*(int *)data;
    return 1;
}

static void assert_told(const stacksplice_document *document,
                        const stacksplice_format_options *options, const char *expected)
{
    written out = {"", 0};

    assert_int_equal(stacksplice_format_document(document, options, keep, &out), S_OK);
    assert_string_equal(out.text, expected);
}

static const stacksplice_document_frame frames[] = {
    {.frame = {.size = sizeof(stacksplice_frame),
               .kind = STACKSPLICE_FRAME_NATIVE,
               .trust = STACKSPLICE_TRUST_EXACT,
               .language = "native",
               .function = "inner",
               .file = "/etc/passwd", /* never opened */
               .line = 1,
               .module = "/lib/x.so",
               .inlined = 1,
               .address = 0x1000}},
    {.frame = {.size = sizeof(stacksplice_frame),
               .kind = STACKSPLICE_FRAME_NATIVE,
               .trust = STACKSPLICE_TRUST_EXACT,
               .language = "native",
               .function = "outer",
               .function_offset = 0x5d,
               .module = "/lib/x.so",
               .address = 0x1000}},
    {.frame = {.size = sizeof(stacksplice_frame),
               .kind = STACKSPLICE_FRAME_NATIVE,
               .trust = STACKSPLICE_TRUST_EXACT,
               .language = "native",
               .address = 0x2000},
     .glue = 1},
    {.frame = {.size = sizeof(stacksplice_frame),
               .kind = STACKSPLICE_FRAME_SCRIPT,
               .trust = STACKSPLICE_TRUST_TRACEBACK,
               .language = "python",
               .function = "f",
               .file = "x.py",
               .line = 3,
               .calls = "g", /* the frame before it */
               .address = 0x3000},
     .source = TEXT("return\n1")},
};

static const stacksplice_document_text notes[] = {TEXT("a note\nof two lines"), TEXT("")};
static const stacksplice_document_node nodes[] = {{"lua", 8, {frames, 4, 0, 0}}};
static const stacksplice_document error = {.size = sizeof error,
                                           .hresult = (stacksplice_hresult)0x80070057,
                                           .type = "ValueError",
                                           .description = TEXT("The parameter is incorrect."),
                                           .message = TEXT("bad\nHRESULT 0x"),
                                           .notes = notes,
                                           .note_count = 2,
                                           .thread_id = 7,
                                           .place = "of process 4711",
                                           .stack = {frames, 4, 0},
                                           .nodes = nodes,
                                           .node_count = 1};

#define TITLE           \
    "ValueError: bad\n" \
    "| HRESULT 0x\n"    \
    "note: a note\n"    \
    "| of two lines\n"  \
    "note: \n"
#define PROPAGATION  \
    "Propagation:\n" \
    "  1. Lua received it in inner (passwd:1) on thread 8\n"
#define WHOLE(indent)                                                                    \
    indent "(C) File \"/etc/passwd\", line 1, in inner (inlined) (/lib/x.so)\n" indent   \
           "(C) outer+0x5d (/lib/x.so)\n" indent "(C) ??? (0x2000) (Python: g)\n" indent \
           "(Python) File \"x.py\", line 3, in f [traceback]\n" indent "    return\\x0a1\n"

TEST(test_told_in_either_order)
{
    const stacksplice_format_options last = {.size = sizeof last,
                                             .order = STACKSPLICE_ORDER_NEWEST_LAST};

    assert_told(&error, NULL,
                TITLE "Stack of thread 7 of process 4711 (most recent call first):\n"
                      "    (C) File \"/etc/passwd\", line 1, in inner (inlined) (x.so)\n"
                      "    (C) outer+0x5d (x.so)\n"
                      "    (Python) File \"x.py\", line 3, in f\n"
                      "        return\\x0a1\n" PROPAGATION);
    assert_told(
        &error, &last,
        "Traceback of process 4711 (most recent call last):\n"
        "  File \"x.py\", line 3, in f\n"
        "    return\\x0a1\n"
        "  (C) outer+0x5d (x.so)\n"
        "  (C) File \"/etc/passwd\", line 1, in inner (inlined) (x.so)\n" PROPAGATION TITLE);
}

TEST(test_all_frames_shows_what_is_left_out)
{
    const stacksplice_format_options all = {.size = sizeof all, .all_frames = 1};

    assert_told(&error, &all,
                TITLE "HRESULT 0x80070057 E_INVALIDARG: The parameter is incorrect.\n"
                      "Stack of thread 7 of process 4711 (most recent call first):\n" WHOLE(
                          "    ") "Propagation:\n"
                                  "  1. Lua received it on thread 8 at:\n" WHOLE("        "));
}

/* Errors and a circle, as one story. */
TEST(test_what_is_told_goes_together)
{
    stacksplice_document other = {.size = sizeof other,
                                  .type = "ValueError",
                                  .message = TEXT("other"),
                                  .stack = {&frames[3], 1, 0}};
    stacksplice_document text = {
        .size = sizeof text, .type = "KeyError", .message = TEXT("A text\nof two lines")};
    const stacksplice_document *members[] = {&text, &other, &text};
    stacksplice_document group = {.size = sizeof group,
                                  .type = "Group",
                                  .message = TEXT("A group"),
                                  .is_group = 1,
                                  .members = members,
                                  .member_count = 3,
                                  .members_left_out = 2,
                                  .cause = &other,
                                  .relation = STACKSPLICE_RELATION_CONTEXT};
    written out = {"", 0};

    other.cause_above = 1;
    other.relation = STACKSPLICE_RELATION_CAUSE;
    assert_int_equal(stacksplice_format_document(&group, NULL, keep, &out), S_OK);
    assert_non_null(strstr(out.text, "  + Group: A group\n"
                                     "  +-+---------------- 1 ----------------\n"
                                     "    | KeyError: A text\n"
                                     "    | | of two lines\n"
                                     "    +---------------- 2 ----------------\n"
                                     "    | ValueError: other\n"));
    assert_non_null(strstr(out.text, "    |         return\\x0a1\n"
                                     "    |\n"
                                     "    | Caused by an error above.\n"
                                     "    +---------------- 3 ----------------\n"
                                     "    | an error above\n"
                                     "    +---------------- ... ----------------\n"
                                     "    | and 2 more errors\n"
                                     "    +------------------------------------\n"
                                     "\nRaised while handling an error above.\n"));
}

TEST(test_an_event_for_sentry)
{
    stacksplice_document document = error;
    written out = {"", 0};

    document.fingerprint = "0123";
    assert_int_equal(stacksplice_format_document_for_sentry(&document, NULL, keep, &out), S_OK);
    assert_non_null(strstr(out.text, "\"fingerprint\":[\"0123\"]"));
    assert_non_null(strstr(out.text, "\"stacktrace\":{\"instruction_addr_adjustment\":\"all\""));
    assert_int_equal(out.text[out.length - 1], '\n');
}

TEST(test_a_line_for_a_log)
{
    stacksplice_document document = error;
    written out = {"", 0};

    document.fingerprint = "0123";
    document.loose_fingerprint = "4567";
    document.stack.hidden_left_out = 7;
    assert_int_equal(stacksplice_format_document_as_brief_json(&document, NULL, keep, &out), S_OK);
    assert_non_null(strstr(out.text, "\"fingerprint\":\"0123\",\"loose_fingerprint\":\"4567\","));
    assert_non_null(strstr(out.text, "\"hidden_left_out\":"));
    assert_string_equal(out.text + out.length - 26, "\"transformed_above\":null}\n");
}

TEST(test_told_refuses_bad_arguments)
{
    stacksplice_format_options options = {.size = 3};
    stacksplice_document old = error;
    int calls = 0;

    old.size = 3;
    assert_int_equal(stacksplice_format_document(NULL, NULL, stop, &calls), E_POINTER);
    assert_int_equal(stacksplice_format_document(&error, NULL, NULL, NULL), E_POINTER);
    assert_int_equal(stacksplice_format_document(&old, NULL, stop, &calls), E_INVALIDARG);
    assert_int_equal(stacksplice_format_document(&error, &options, stop, &calls), E_INVALIDARG);
    assert_int_equal(stacksplice_format_document_for_sentry(NULL, NULL, stop, &calls), E_POINTER);
    assert_int_equal(stacksplice_format_document_for_sentry(&old, NULL, stop, &calls),
                     E_INVALIDARG);
    assert_int_equal(stacksplice_format_document_as_brief_json(NULL, NULL, stop, &calls),
                     E_POINTER);
    assert_int_equal(stacksplice_format_document_as_brief_json(&old, NULL, stop, &calls),
                     E_INVALIDARG);
    assert_int_equal(stacksplice_format_frame(NULL, stop, &calls), E_POINTER);
    assert_int_equal(stacksplice_format_frame(&frames[0].frame, NULL, NULL), E_POINTER);
    assert_int_equal(calls, 0);
    assert_int_equal(stacksplice_format_document(&error, NULL, stop, &calls), S_FALSE);
    assert_int_equal(stacksplice_format_frame(&frames[0].frame, stop, &calls), S_FALSE);
    assert_int_equal(calls, 2);
}

TEST(test_a_frame_is_one_line)
{
    written out = {"", 0};

    assert_int_equal(stacksplice_format_frame(&frames[3].frame, keep, &out), S_OK);
    assert_string_equal(out.text, "(Python) File \"x.py\", line 3, in f [traceback]");
}

/* ---- Names of C++ ------------------------------------------------------------------------------*/

/* The report of one frame, whose function has this name. */
static const char *frame_of(const char *name, const stacksplice_format_options *options)
{
    const stacksplice_document_frame frame = {.frame = {.size = sizeof(stacksplice_frame),
                                                        .kind = STACKSPLICE_FRAME_NATIVE,
                                                        .language = "native",
                                                        .function = name}};
    const stacksplice_document document = {.size = sizeof document, .stack = {&frame, 1, 0}};
    static written out;
    const char *at;

    out.length = 0;
    assert_int_equal(stacksplice_format_document(&document, options, keep, &out), S_OK);
    at = strstr(out.text, "(C) ");
    assert_non_null(at);
    out.text[strcspn(at, "\n") + (size_t)(at - out.text)] = '\0';
    return at + 4;
}

#define TEN(text) text text text text text text text text text text
#define ARGUMENTS "<" TEN("std::map<int, A<B> >, ") "decltype(x->y), (a::operator<), int>"

TEST(test_long_names_are_shown_without_their_arguments)
{
    static const char *const names[][2] = {
        {"f<int>(std::vector<A<B> >)", "f<int>(std::vector<A<B> >)"}, /* it is short */
        {"f" ARGUMENTS "::g(std::vector<int>&)", "f<...>::g(std::vector<...>&)"},
        {"s" ARGUMENTS "::operator<<(A<int>, int)", "s<...>::operator<<(A<...>, int)"},
        {"s" ARGUMENTS "::operator-><int>()", "s<...>::operator-><...>()"},
        {"s" ARGUMENTS "::operator<=>(A<int>) const", "s<...>::operator<=>(A<...>) const"},
        {"s" ARGUMENTS "::operator()<int>() const", "s<...>::operator()<...>() const"},
        {"is not closed" ARGUMENTS "<" TEN("A<B>"), "is not closed<...><...>"},
    };

    const stacksplice_format_options all = {.size = sizeof all, .all_frames = 1};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_string_equal(frame_of(names[i][0], NULL), names[i][1]);
        assert_string_equal(frame_of(names[i][0], &all), names[i][0]);
    }
}

TEST(test_a_name_that_is_still_long_is_cut)
{
    const char *text = frame_of(TEN(TEN("namespace_::")) "f" ARGUMENTS, NULL);

    assert_true(strlen(text) < 500);
    assert_string_equal(text + strlen(text) - 3, "...");
}
