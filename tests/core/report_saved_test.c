/* Reports that were saved are read back as they were written, or refused with the place. */
#include "report_text.h"

#include <stacksplice/read.h>

#define BEGIN "{\"hresult_signed\":-2147024809,\"message\":\"m\",\"propagation\":[],\"stack\":"
#define EMPTY BEGIN "[]"

static const stacksplice_document *read_json(const char *json)
{
    const stacksplice_document *document = NULL;
    stacksplice_document_problem problem = {0, ""};

    if (stacksplice_document_read(json, strlen(json), &document, &problem) != S_OK)
        fail_msg("%s at byte %zu of %s", problem.text, problem.position, json);
    return document;
}

/* ---- What is read ----------------------------------------------------------------------------*/

TEST(test_each_field_of_a_frame)
{
    const stacksplice_document *document = read_json(
        BEGIN "[{\"kind\":\"script\",\"trust\":\"inferred\",\"language\":\"python\","
              "\"function\":\"f\",\"file\":\"x.py\",\"line\":4294967295,\"end_line\":2,"
              "\"column\":3,\"end_column\":4,\"interpreter\":\"i\",\"calls\":\"g\","
              "\"source\":\"a\\u0000b\",\"source_column\":5,\"locals\":{\"x\":\"1\",\"y\":\"\"},"
              "\"address\":\"0xffffffffffffffff\"},"
              "{\"kind\":\"native\",\"language\":\"native\",\"function\":\"g\","
              "\"function_offset\":5,\"module\":\"/m\",\"module_offset\":18446744073709551615,"
              "\"build_id\":\"ab\",\"inlined\":true,\"glue\":true,\"reason\":null},"
              "{\"kind\":\"gap\",\"trust\":\"traceback\",\"language\":\"lua\",\"reason\":\"why\","
              "\"asynchronous\":true,\"address\":16}],\"frames_left_out\":7}");
    const stacksplice_document_frame *f = document->stack.frames;

    assert_int_equal(document->stack.count, 3);
    assert_int_equal(document->stack.left_out, 7);
    assert_int_equal(f[0].frame.size, sizeof f[0].frame);
    assert_int_equal(f[0].frame.kind, STACKSPLICE_FRAME_SCRIPT);
    assert_int_equal(f[0].frame.trust, STACKSPLICE_TRUST_INFERRED);
    assert_string_equal(f[0].frame.language, "python");
    assert_string_equal(f[0].frame.function, "f");
    assert_string_equal(f[0].frame.file, "x.py");
    assert_int_equal(f[0].frame.line, UINT32_MAX);
    assert_int_equal(f[0].frame.end_line, 2);
    assert_int_equal(f[0].frame.column, 3);
    assert_int_equal(f[0].frame.end_column, 4);
    assert_string_equal(f[0].frame.interpreter, "i");
    assert_string_equal(f[0].frame.calls, "g");
    assert_int_equal(f[0].source.length, 3);
    assert_memory_equal(f[0].source.text, "a\0b", 4);
    assert_int_equal(f[0].source_column, 5);
    assert_int_equal(f[0].locals.count, 2);
    assert_string_equal(f[0].locals.all[1].name, "y");
    assert_string_equal(f[0].locals.all[0].value.text, "1");
    assert_true(f[0].frame.address == UINTPTR_MAX);
    assert_int_equal(f[1].frame.kind, STACKSPLICE_FRAME_NATIVE);
    assert_int_equal(f[1].frame.trust, STACKSPLICE_TRUST_EXACT);
    assert_int_equal(f[1].frame.function_offset, 5);
    assert_string_equal(f[1].frame.module, "/m");
    assert_true(f[1].frame.module_offset == UINT64_MAX);
    assert_string_equal(f[1].frame.build_id, "ab");
    assert_true(f[1].frame.inlined && f[1].glue && !f[1].frame.reason);
    assert_int_equal(f[2].frame.kind, STACKSPLICE_FRAME_GAP);
    assert_int_equal(f[2].frame.trust, STACKSPLICE_TRUST_TRACEBACK);
    assert_string_equal(f[2].frame.reason, "why");
    assert_true(f[2].frame.asynchronous && f[2].frame.address == 16);
    stacksplice_document_free(document);
}

TEST(test_each_field_of_an_error)
{
    const stacksplice_document *document = read_json(
        EMPTY ",\"type\":\"T\",\"language\":\"lua\",\"description\":\"d\",\"notes\":[\"n\",\"\"],"
              "\"thread_id\":9,\"fingerprint\":\"0123\",\"unknown\":[{},[NaN,-1.5e+3,[]]],"
              "\"process\":{\"id\":7,\"host\":\"h\",\"name\":\"w\",\"interpreter\":2},"
              "\"exceptions\":[],\"exceptions_left_out\":3,\"transformed_above\":\"context\","
              "\"transformed_left_out\":4}");

    assert_true(document->hresult == (HRESULT)0x80070057);
    assert_string_equal(document->message.text, "m");
    assert_string_equal(document->type, "T");
    assert_string_equal(document->language, "lua");
    assert_string_equal(document->description.text, "d");
    assert_int_equal(document->note_count, 2);
    assert_string_equal(document->notes[0].text, "n");
    assert_int_equal(document->thread_id, 9);
    assert_string_equal(document->fingerprint, "0123");
    assert_string_equal(document->place, "in interpreter 2 of process 7 (w) on h");
    assert_true(document->is_group && !document->member_count);
    assert_int_equal(document->members_left_out, 3);
    assert_true(document->cause_above && !document->cause);
    assert_int_equal(document->relation, STACKSPLICE_RELATION_CONTEXT);
    assert_int_equal(document->causes_left_out, 4);
    stacksplice_document_free(document);
    stacksplice_document_free(NULL);
}

#define NODE "{\"language\":\"lua\",\"thread_id\":8,\"stack\":[],\"frames_left_out\":1}"

TEST(test_what_belongs_to_an_error)
{
    const stacksplice_document *document = read_json(
        "{\"hresult_signed\":1,\"message\":\"m\",\"stack\":[],\"propagation\":[" NODE "],"
        "\"reference\":\"r\",\"transformed_left_out\":2,"
        "\"exceptions\":[" EMPTY ",\"reference\":\"s\"}," EMPTY ",\"reference\":\"r\"}],"
        "\"transformed\":[" EMPTY ",\"relation\":\"cause\"}," EMPTY ",\"relation\":\"context\","
        "\"transformed\":[" EMPTY ",\"reference\":\"s\",\"relation\":\"context\"}]}]}");
    const stacksplice_document *second = document->cause->cause;

    assert_int_equal(document->node_count, 1);
    assert_string_equal(document->nodes[0].language, "lua");
    assert_int_equal(document->nodes[0].thread_id, 8);
    assert_int_equal(document->nodes[0].stack.left_out, 1);
    assert_int_equal(document->member_count, 2);
    assert_int_equal(document->relation, STACKSPLICE_RELATION_CAUSE);
    assert_int_equal(document->cause->relation, STACKSPLICE_RELATION_CONTEXT);
    assert_int_equal(second->causes_left_out, 2);
    assert_int_equal(second->relation, STACKSPLICE_RELATION_CONTEXT);
    assert_true(second->cause->identity == document->members[0]->identity);
    assert_true(document->identity && document->identity == document->members[1]->identity);
    assert_true(document->identity != document->members[0]->identity);
    assert_null(document->cause->identity);
    stacksplice_document_free(document);
}

#define FILE_BEGIN \
    "{\"schema\":\"stacksplice-report/1\",\"header\":{\"event\":\"SIGSEGV\",\"time\":\"T\","

TEST(test_the_file_of_a_process_that_failed)
{
    const stacksplice_document *document = read_json(
        FILE_BEGIN
        "\"signal\":11,\"signal_code\":-6},\"error\":" EMPTY "},\"current_error\":" BEGIN
        "[],\"type\":\"now\"},\"threads\":[{\"thread_id\":8,\"name\":\"t\",\"answered\":true,"
        "\"stack\":[{\"kind\":\"gap\",\"language\":\"lua\"}],\"frames_left_out\":3}],"
        "\"threads_left_out\":null,\"modules\":[{\"path\":\"/m\",\"build_id\":null,"
        "\"start\":\"0x10\",\"end\":\"0x20\"}]}");
    const stacksplice_document_file *file = document->file;

    assert_string_equal(document->message.text, "m");
    assert_string_equal(file->event, "SIGSEGV");
    assert_string_equal(file->time, "T");
    assert_int_equal(file->signal, 11);
    assert_int_equal(file->signal_code, -6);
    assert_string_equal(file->current_error->type, "now");
    assert_null(file->current_error->file);
    assert_int_equal(file->thread_count, 1);
    assert_int_equal(file->threads->stack.count, 1);
    assert_int_equal(file->threads->stack.left_out, 3);
    assert_int_equal(file->threads_left_out, 0);
    assert_int_equal(file->module_count, 1);
    assert_null(file->modules->build_id);
    assert_int_equal(file->modules->end, 0x20);
    stacksplice_document_free(document);
}

TEST(test_strings)
{
    const stacksplice_document *document =
        read_json(EMPTY ",\"type\":\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\uD83D\\ude00\\ud83dx\","
                        "\"language\":\"\xC3\xA9\xEF\xBF\xBD\"}");

    assert_string_equal(document->type, "\"\\/\b\f\n\r\t\xC3\xA9\xF0\x9F\x98\x80\xED\xA0\xBDx");
    assert_string_equal(document->language, "\xC3\xA9\xEF\xBF\xBD");
    stacksplice_document_free(document);
}

/* Every byte, so that every escape and every way to be invalid is there. */
TEST(test_every_byte_is_written)
{
    char bytes[256];
    const fixture_error contents = {
        .hr = E_FAIL, .type = "\"Odd\\Type\"", .message = bytes, .message_length = sizeof bytes};
    const stacksplice_document *document;
    IRestrictedErrorInfo *error;

    for (int i = 0; i < 256; i++)
        bytes[i] = (char)i;
    error = fixture_originate(&contents);
    document = read_json(json_of(error));
    assert_int_equal(document->message.length, 128 + 128 * strlen("\uFFFD"));
    assert_memory_equal(document->message.text, bytes, 128);
    for (size_t at = 128; at < document->message.length; at += 3)
        assert_memory_equal(document->message.text + at, "\uFFFD", 3);
    assert_string_equal(document->type, contents.type);
    stacksplice_document_free(document);
    release(error);
}

/* Each stands behind the one before it; only the outermost error has a schema. */
static void assert_members(const char *json)
{
    char names[] = "schema hresult hresult_signed symbol description message type language notes "
                   "thread_id reference fingerprint loose_fingerprint stack frames_left_out "
                   "propagation exceptions exceptions_left_out transformed transformed_left_out "
                   "transformed_above";

    assert_int_equal(count_of(json, "\"schema\":"), 1);
    for (char *name = strtok(names, " "); name; name = strtok(NULL, " ")) {
        char member[40];

        (void)snprintf(member, sizeof member, "\"%s\":", name);
        json = strstr(json, member);
        if (!json)
            fail_msg("%s is not in its place", name);
    }
}

TEST(test_each_kind_of_frame_is_written)
{
    uintptr_t frames[] = {fixture_script("python", "f\xff\"", "/a/x.py", 1), fixture_gap("why"),
                          (uintptr_t)fixture_format + 1, 0x10};
    fixture_error cause = {.hr = E_BOUNDS, .message = "the cause", .message_length = 9};
    fixture_error contents = value_error(frames, COUNT_OF(frames));
    IRestrictedErrorInfo *error;
    const stacksplice_document *document;
    const stacksplice_document_frame *f;
    char program[4096] = "";

    contents.cause = fixture_originate(&cause);
    error = fixture_originate(&contents);
    fixture_propagate(error, "c++", frames, 1);
    assert_members(json_of(error));
    document = read_json(json_of(error));
    f = document->stack.frames;
    assert_string_equal(f[0].frame.function, "f\uFFFD\"");
    assert_string_equal(f[1].frame.reason, "why");
    assert_true(readlink("/proc/self/exe", program, sizeof program - 1) > 0);
    assert_string_equal(f[2].frame.module, program);
    assert_int_equal(strspn(f[2].frame.build_id, "0123456789abcdef"), strlen(f[2].frame.build_id));
    assert_int_equal(f[2].frame.address % 4096, f[2].frame.module_offset % 4096);
    assert_true(f[3].frame.address == 0x10 && !f[3].frame.module && !f[3].frame.function);
    assert_string_equal(document->nodes[0].language, "c++");
    assert_string_equal(document->cause->message.text, "the cause");
    stacksplice_document_free(document);
    release(error);
    release(contents.cause);
}

/* The text of a report that was read back is that of the error. */
TEST(test_an_error_and_its_report_say_the_same)
{
    uintptr_t frames[] = {fixture_script("lua", "price", "/shop.lua", 7), fixture_gap("why"),
                          fixture_script("python", "f", "x.py", 1)};
    fixture_error contents = value_error(frames, 3);
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    const stacksplice_document *document;
    char text[4096] = "";

    fixture_propagate(error, "lua", frames, 3);
    document = read_json(json_of(error));
    assert_int_equal(stacksplice_format_document(document, &all_frames, append, text), S_OK);
    assert_string_equal(text,
                        fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, &all_frames));
    stacksplice_document_free(document);
    release(error);
}

/* ---- What is refused --------------------------------------------------------------------------*/

typedef struct refused {
    const char *json, *why;
    size_t position;
} refused;

static void assert_refused(const char *json, size_t length, const char *why, size_t position)
{
    const stacksplice_document *document = NULL;
    stacksplice_document_problem problem = {0, ""};

    assert_int_equal(stacksplice_document_read(json, length, &document, &problem), E_INVALIDARG);
    assert_null(document);
    assert_string_equal(problem.text, why);
    assert_int_equal(problem.position, position);
}

TEST(test_what_is_no_json)
{
    static const refused all[] = {
        {"", "a value is expected", 0},
        {" nul", "a value is expected", 1},
        {"[1,]", "a value is expected", 3},
        {"[1 2]", "',' or the end of an object or a list is expected", 3},
        {"[1}", "',' or the end of an object or a list is expected", 2},
        {"[", "a value is expected", 1},
        {"{\"a\"}", "':' is expected", 4},
        {"{1:2}", "the name of a member is expected", 1},
        {"{\"a\":1,}", "the name of a member is expected", 7},
        {"null null", "more follows", 5},
        {"\"a", "a string does not end", 2},
        {"\"\\", "an escape is none of JSON's", 1},
        {"\"\\x\"", "an escape is none of JSON's", 1},
        {"\"\\u12g4\"", "an escape has other digits", 1},
        {"\"\\ud800\\u12", "an escape has other digits", 7},
        {"\"a\nb\"", "a string has a control character", 2},
        {"\"\xFF\"", "a string is not UTF-8", 1},
        {"\"\xC3\"", "a string is not UTF-8", 1},
        {"\"\xEF", "a string is not UTF-8", 1}, /* nothing beyond the text is read */
        {"\"\xED\xA0\x80\"", "a string is not UTF-8", 1},
        {"01", "a number is damaged", 0},
        {"-", "a number is damaged", 0},
        {"1.", "a number is damaged", 0},
        {"1e+", "a number is damaged", 0},
        {"[] ", "an error must be an object", 0},
    };

    for (size_t i = 0; i < COUNT_OF(all); i++)
        assert_refused(all[i].json, strlen(all[i].json), all[i].why, all[i].position);
    assert_refused(FILE_BEGIN "\"signal\":1}}", strlen(FILE_BEGIN) + 12, "error is missing", 0);
    assert_refused("1\0", 2, "more follows", 1);
    assert_refused("\"\0\"", 3, "a string has a control character", 1);
}

/* Each stands behind the members that an error needs. */
TEST(test_values_of_a_wrong_kind)
{
    static const char *const all[][2] = {
        {"\"message\":null", "message must be a text"},
        {"\"hresult_signed\":\"1\"", "hresult_signed must be a number"},
        {"\"hresult_signed\":4294967296", "hresult_signed must be smaller"},
        {"\"hresult_signed\":-2147483649", "hresult_signed must be smaller"},
        {"\"hresult_signed\":1e9", "hresult_signed must be a whole number"},
        {"\"type\":5", "type must be a text"},
        {"\"stack\":{}", "stack must be a list"},
        {"\"stack\":[5]", "stack must be an object"},
        {"\"stack\":[{}]", "language is missing"},
        {"\"stack\":[{\"kind\":\"gap\"}]", "language is missing"},
        {"\"stack\":[{\"line\":\"5\"}]", "line must be a number"},
        {"\"stack\":[{\"line\":NaN}]", "line must be a whole number"},
        {"\"stack\":[{\"line\":4294967296}]", "line must be smaller"},
        {"\"stack\":[{\"module_offset\":18446744073709551616}]", "module_offset must be smaller"},
        {"\"stack\":[{\"column\":-1}]", "column must be 0 or more"},
        {"\"stack\":[{\"address\":\"0xg\"}]", "address must be a number"},
        {"\"stack\":[{\"address\":\"\"}]", "address must be a whole number"},
        {"\"stack\":[{\"glue\":1}]", "glue must be true or false"},
        {"\"stack\":[{\"locals\":{\"x\":1}}]", "locals must be a text"},
        {"\"notes\":[\"\",[]]", "notes must be a text"},
        {"\"propagation\":[{\"language\":\"c\",\"thread_id\":1}]", "stack is missing"},
        {"\"process\":{\"id\":1}", "host is missing"},
        {"\"process\":[]", "process must be an object"},
        {"\"exceptions\":[{}]", "hresult_signed is missing"},
        {"\"transformed\":[5]", "an error must be an object"},
    };
    char json[256];

    for (size_t i = 0; i < COUNT_OF(all); i++) {
        const stacksplice_document *document = NULL;
        stacksplice_document_problem problem;

        (void)snprintf(json, sizeof json, "%s,%s}", EMPTY, all[i][0]);
        assert_int_equal(stacksplice_document_read(json, strlen(json), &document, &problem),
                         E_INVALIDARG);
        assert_string_equal(problem.text, all[i][1]);
        assert_true(problem.position < strlen(json));
        assert_int_equal(stacksplice_document_read(json, strlen(json), &document, NULL),
                         E_INVALIDARG);
    }
    assert_refused(EMPTY ",\"type\":5}", strlen(EMPTY) + 10, "type must be a text",
                   strlen(EMPTY) + 8);
    assert_int_equal(stacksplice_document_read(NULL, 0, NULL, NULL), E_POINTER);
    assert_int_equal(stacksplice_document_read("1", 1, NULL, NULL), E_POINTER);
}

TEST(test_depth_is_bounded)
{
    enum { LEVELS = 401 };
    static char json[1024];

    memset(json, '[', LEVELS);
    assert_refused(json, LEVELS, "values are nested too deeply", 400);
    memset(json + LEVELS - 1, ']', LEVELS - 1);
    assert_refused(json, 2 * (size_t)(LEVELS - 1), "an error must be an object", 0);
}
