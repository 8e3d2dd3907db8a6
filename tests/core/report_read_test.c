/* The walk that visitors take: what it hands them, in which order, and that they can stop it. */
#include "report_fixture.h"

#include <stacksplice/script.h>
#include "support.h"

#include <stacksplice/read.h>

#include <stdio.h>
#include <string.h>

/* Writes each value as "key=value " and stops at call number STOP. */
typedef struct writer {
    stacksplice_visitor visitor;
    char text[16384];
    size_t length;
    unsigned calls, stop; /* 0: never */
} writer;

static int put(stacksplice_visitor *self, const char *key, const char *format, ...)
{
    writer *w = (writer *)self;
    size_t room = sizeof w->text - w->length;
    va_list arguments;
    int length;

    assert_true(!w->stop || w->calls < w->stop); /* nothing comes after it has stopped */
    va_start(arguments, format);
    if (key)
        w->length += (size_t)snprintf(w->text + w->length, room, "%s=", key);
    length = vsnprintf(w->text + w->length, sizeof w->text - w->length, format, arguments);
    va_end(arguments);
    assert_true(length >= 0 && (size_t)length < sizeof w->text - w->length);
    w->length += (size_t)length;
    return ++w->calls == w->stop;
}

static int begin(stacksplice_visitor *self, const char *key, stacksplice_container container)
{
    return put(self, key, container == STACKSPLICE_OBJECT ? "{ " : "[ ");
}

static int end(stacksplice_visitor *self, stacksplice_container container)
{
    return put(self, NULL, container == STACKSPLICE_OBJECT ? "} " : "] ");
}

static int null(stacksplice_visitor *self, const char *key)
{
    return put(self, key, "null ");
}

static int boolean(stacksplice_visitor *self, const char *key, int value)
{
    return put(self, key, value ? "true " : "false ");
}

static int integer(stacksplice_visitor *self, const char *key, int64_t value)
{
    return put(self, key, "%lld ", (long long)value);
}

static int hex(stacksplice_visitor *self, const char *key, uint64_t value, unsigned digits)
{
    return put(self, key, "0x%0*llx ", (int)digits, (unsigned long long)value);
}

static int utf8(stacksplice_visitor *self, const char *key, const char *text, size_t length)
{
    return put(self, key, "'%.*s' ", (int)length, text);
}

static int utf16(stacksplice_visitor *self, const char *key, const uint16_t *text, size_t length)
{
    char narrow[512];

    assert_true(length < sizeof narrow);
    for (size_t i = 0; i < length; i++)
        narrow[i] = (char)text[i];
    return put(self, key, "\"%.*s\" ", (int)length, narrow);
}

static int element(stacksplice_visitor *self, uintptr_t address)
{
    return put(self, NULL, "<%llx> ", (unsigned long long)address);
}

static int error(stacksplice_visitor *self, const char *key, IUnknown *related)
{
    assert_non_null(related);
    return put(self, key, "(error) ");
}

static const stacksplice_visitor fields = {.size = sizeof fields,
                                           .begin = begin,
                                           .end = end,
                                           .null = null,
                                           .boolean = boolean,
                                           .integer = integer,
                                           .hex = hex,
                                           .utf8 = utf8,
                                           .utf16 = utf16};

static IRestrictedErrorInfo *make_error(IRestrictedErrorInfo *cause, const uintptr_t *frames)
{
    const fixture_error contents = {.hr = (HRESULT)0x80070057,
                                    .type = "ValueError",
                                    .message = "bad",
                                    .message_length = 3,
                                    .frames = frames,
                                    .frame_count = 2,
                                    .cause = cause};

    return fixture_originate(&contents);
}

static void assert_parts(IRestrictedErrorInfo *of, writer *w, uint32_t parts, const char *expected)
{
    const stacksplice_read_options options = {
        .size = sizeof options, .parts = parts, .without_source = 1};

    w->length = 0;
    assert_int_equal(stacksplice_error_visit((IUnknown *)of, &options, &w->visitor), S_OK);
    assert_string_equal(w->text, expected);
}

TEST(test_a_frame)
{
    const stacksplice_frame script = {.size = sizeof script,
                                      .kind = STACKSPLICE_FRAME_SCRIPT,
                                      .trust = STACKSPLICE_TRUST_TRACEBACK,
                                      .language = "python",
                                      .function = "f",
                                      .file = "x.py",
                                      .line = 1,
                                      .end_line = 2,
                                      .column = 3,
                                      .end_column = 4,
                                      .interpreter = "i",
                                      .calls = "g",
                                      .address = 0x20};
    const stacksplice_frame native = {.size = sizeof native,
                                      .kind = STACKSPLICE_FRAME_NATIVE,
                                      .trust = STACKSPLICE_TRUST_EXACT,
                                      .language = "native",
                                      .function = "lua_callk",
                                      .function_offset = 5,
                                      .module = "/m",
                                      .build_id = "ab",
                                      .address = 0xffffffffff600000};
    const stacksplice_frame gap = {.size = sizeof gap,
                                   .kind = STACKSPLICE_FRAME_GAP,
                                   .trust = STACKSPLICE_TRUST_INFERRED,
                                   .language = "lua",
                                   .reason = "why",
                                   .asynchronous = 1};
    writer w = {.visitor = fields};

    assert_int_equal(stacksplice_frame_visit(&script, "key", &w.visitor), S_OK);
    assert_string_equal(
        w.text,
        "key={ kind='script' trust='traceback' language='python' function='f' file='x.py' "
        "line=1 end_line=2 column=3 end_column=4 interpreter='i' calls='g' address=0x20 } ");
    w.length = 0;
    assert_int_equal(stacksplice_frame_visit(&native, NULL, &w.visitor), S_OK);
    assert_string_equal(w.text,
                        "{ kind='native' trust='exact' language='native' function='lua_callk' "
                        "function_offset=5 module='/m' module_offset=0 build_id='ab' "
                        "inlined=false glue=true address=0xffffffffff600000 } ");
    w.length = 0;
    assert_int_equal(stacksplice_frame_visit(&gap, NULL, &w.visitor), S_OK);
    assert_string_equal(w.text, "{ kind='gap' trust='inferred' language='lua' reason='why' "
                                "asynchronous=true address=0x0 } ");
}

TEST(test_a_stack)
{
    const uintptr_t frames[] = {fixture_script("lua", "f", "x.lua", 3), stacksplice_left_out(7)};
    writer w = {.visitor = fields};
    char expected[512];

    assert_int_equal(stacksplice_stack_visit(frames, 2, NULL, &w.visitor), S_OK);
    (void)snprintf(
        expected, sizeof expected,
        "{ stack=[ { kind='script' trust='exact' language='lua' function='f' file='x.lua' line=3 "
        "address=0x%llx } { kind='gap' trust='exact' language='native' reason='7 frames omitted "
        "here: stack longer than the limit' address=0x%llx } ] frames_left_out=7 } ",
        (unsigned long long)frames[0], (unsigned long long)frames[1]);
    assert_string_equal(w.text, expected);
    w.length = 0;
    w.visitor.element = element;
    assert_int_equal(stacksplice_stack_visit(NULL, 0, "s", &w.visitor), S_OK);
    assert_string_equal(w.text, "s={ stack=[ ] frames_left_out=0 } ");
}

/* Parts, and what a visitor takes as it is. */
TEST(test_parts_of_an_error)
{
    const uintptr_t frames[] = {fixture_script("python", "f", "x.py", 1), 0x1000};
    IRestrictedErrorInfo *cause = make_error(NULL, frames), *of = make_error(cause, frames);
    writer w = {.visitor = fields};
    char expected[1024], stack[128];
    uint64_t thread = 0;

    w.visitor.element = element;
    w.visitor.error = error;
    (void)snprintf(stack, sizeof stack, "stack=[ <%llx> <1000> ] frames_left_out=0 ",
                   (unsigned long long)frames[0]);
    fixture_propagate(of, "lua", frames, 2);
    assert_int_equal(stacksplice_add_note((IUnknown *)of, "a note", 6), S_OK);
    assert_int_equal(stacksplice_error_thread((IUnknown *)of, &thread), S_OK);
    assert_parts(of, &w, STACKSPLICE_READ_NOTES, "{ notes=[ 'a note' ] } ");
    assert_parts(of, &w, STACKSPLICE_READ_CAUSES, "{ relation='cause' cause=(error) } ");
    assert_parts(cause, &w, STACKSPLICE_READ_CAUSES, "{ } ");
    assert_parts(of, &w, STACKSPLICE_READ_MEMBERS, "{ exceptions=null exceptions_left_out=0 } ");
    (void)snprintf(expected, sizeof expected, "{ %s} ", stack);
    assert_parts(of, &w, STACKSPLICE_READ_STACK, expected);
    (void)snprintf(expected, sizeof expected,
                   "{ propagation=[ { language='lua' thread_id=%llu %s} ] } ",
                   (unsigned long long)thread, stack);
    assert_parts(of, &w, STACKSPLICE_READ_PROPAGATION, expected);
    w.length = 0;
    assert_int_equal(stacksplice_error_visit((IUnknown *)of, NULL, &w.visitor), S_OK);
    assert_int_equal(strncmp(w.text, "{ hresult=0x80070057 hresult_signed=-2147024809 ", 47), 0);
    assert_non_null(strstr(w.text, " symbol='E_INVALIDARG' description=\"The parameter is "
                                   "incorrect.\" message='bad' type='ValueError' "
                                   "language='python' notes=[ 'a note' ] thread_id="));
    assert_non_null(strstr(w.text, " reference=\""));
    assert_non_null(strstr(w.text, " relation='cause' cause=(error) } "));
    of->lpVtbl->Release(of);
    cause->lpVtbl->Release(cause);
}

/* At each call, once. */
TEST(test_a_visitor_stops)
{
    const uintptr_t frames[] = {fixture_script("python", "f", "x.py", 1), 0x1000};
    IRestrictedErrorInfo *cause = make_error(NULL, frames), *of = make_error(cause, frames);
    writer w = {.visitor = fields};
    unsigned calls;

    fixture_propagate(of, "lua", frames, 2);
    assert_int_equal(stacksplice_error_visit((IUnknown *)of, NULL, &w.visitor), S_OK);
    calls = w.calls;
    assert_true(calls > 80);
    for (unsigned i = 1; i <= calls; i++) {
        w.calls = 0;
        w.stop = i;
        w.length = 0;
        assert_int_equal(stacksplice_error_visit((IUnknown *)of, NULL, &w.visitor), S_FALSE);
        assert_int_equal(w.calls, i);
    }
    of->lpVtbl->Release(of);
    cause->lpVtbl->Release(cause);
}

TEST(test_language)
{
    IRestrictedErrorInfo *of = make_error(NULL, (const uintptr_t[]){0x1000, 0x2000});
    const char *language = "";

    assert_int_equal(stacksplice_error_language((IUnknown *)of, &language), S_OK);
    assert_string_equal(language, "python");
    of->lpVtbl->Release(of);
    assert_true(RoOriginateErrorW(E_FAIL, 0, NULL));
    assert_int_equal(stacksplice_peek_error(&of), S_OK);
    assert_int_equal(stacksplice_error_language((IUnknown *)of, &language), S_OK);
    assert_string_equal(language, "native");
    of->lpVtbl->Release(of);
    RoClearError();
    assert_int_equal(stacksplice_error_language(NULL, &language), E_POINTER);
}

TEST(test_bad_arguments)
{
    const stacksplice_read_options old = {.size = 3};
    stacksplice_frame frame = {.size = sizeof frame,
                               .kind = STACKSPLICE_FRAME_GAP,
                               .trust = STACKSPLICE_TRUST_EXACT,
                               .language = "lua"};
    IRestrictedErrorInfo *of = make_error(NULL, (const uintptr_t[]){0x1000, 0x2000});
    stacksplice_visitor unknown = fields;
    writer w = {.visitor = fields};

    unknown.size = 3;
    assert_int_equal(stacksplice_frame_visit(NULL, NULL, &w.visitor), E_POINTER);
    assert_int_equal(stacksplice_frame_visit(&frame, NULL, NULL), E_POINTER);
    assert_int_equal(stacksplice_frame_visit(&frame, NULL, &unknown), E_INVALIDARG);
    frame.kind = 0;
    assert_int_equal(stacksplice_frame_visit(&frame, NULL, &w.visitor), E_INVALIDARG);
    frame.kind = STACKSPLICE_FRAME_GAP;
    frame.trust = STACKSPLICE_TRUST_TRACEBACK + 1;
    assert_int_equal(stacksplice_frame_visit(&frame, NULL, &w.visitor), E_INVALIDARG);
    frame.trust = STACKSPLICE_TRUST_EXACT;
    frame.size = 3;
    assert_int_equal(stacksplice_frame_visit(&frame, NULL, &w.visitor), E_INVALIDARG);
    frame.size = sizeof frame;
    frame.language = NULL;
    assert_int_equal(stacksplice_frame_visit(&frame, NULL, &w.visitor), E_POINTER);
    assert_int_equal(w.length, 0);
    assert_int_equal(stacksplice_stack_visit(NULL, 1, NULL, &w.visitor), E_POINTER);
    assert_int_equal(stacksplice_stack_visit(NULL, 0, NULL, NULL), E_POINTER);
    assert_int_equal(stacksplice_stack_visit(NULL, 0, NULL, &unknown), E_INVALIDARG);
    assert_int_equal(stacksplice_error_visit(NULL, NULL, &w.visitor), E_POINTER);
    assert_int_equal(stacksplice_error_visit((IUnknown *)of, NULL, NULL), E_POINTER);
    assert_int_equal(stacksplice_error_visit((IUnknown *)of, NULL, &unknown), E_INVALIDARG);
    assert_int_equal(stacksplice_error_visit((IUnknown *)of, &old, &w.visitor), E_INVALIDARG);
    assert_int_equal(w.calls, 0);
    of->lpVtbl->Release(of);
}
