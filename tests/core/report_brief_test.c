/* What a brief report leaves out because it tells a reader nothing; with all frames it is there. */
#include "report_text.h"

#include <stacksplice/read.h>

static const char *all_of(IRestrictedErrorInfo *error)
{
    return fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, &all_frames);
}

static IRestrictedErrorInfo *originate(const char *language, const char *type, HRESULT hr,
                                       const char *message)
{
    const uintptr_t frames[] = {fixture_script("lua", "f", "f.lua", 1)};
    const fixture_error contents = {.hr = hr,
                                    .language = language,
                                    .type = type,
                                    .message = message,
                                    .message_length = strlen(message),
                                    .frames = frames,
                                    .frame_count = 1};

    return fixture_originate(&contents);
}

/* The report of that error has HRESULT as its second line, or has none. */
static void assert_title(const char *language, const char *type, HRESULT hr, const char *title,
                         const char *hresult)
{
    IRestrictedErrorInfo *error = originate(language, type, hr, "bad");
    char want[256];

    snprintf(want, sizeof want, "%s\n%s" STACK "    (Lua) File \"f.lua\", line 1, in f\n", title,
             hresult);
    assert_report(error, NULL, want);
    assert_non_null(strstr(all_of(error), "\nHRESULT 0x"));
    release(error);
}

TEST(test_the_hresult_is_shown_where_native_code_gave_it)
{
    assert_title("python", "ValueError", E_INVALIDARG, "ValueError: bad", "");
    assert_title("python", "OSError", E_ACCESSDENIED, "OSError: bad", "");
    assert_title("python", "stacksplice.HResultError", E_INVALIDARG,
                 "stacksplice.HResultError: bad", INVALID_ARGUMENT);
    assert_title("c++", "stacksplice::error", E_INVALIDARG, "stacksplice::error: bad",
                 INVALID_ARGUMENT);
    assert_title(NULL, NULL, E_INVALIDARG, "bad", INVALID_ARGUMENT);
}

TEST(test_the_type_of_a_value_is_no_type_of_an_exception)
{
    assert_title("lua", "string", E_FAIL, "bad", "");
    assert_title("lua", "table", E_INVALIDARG, "bad", INVALID_ARGUMENT);
    assert_title("lua", "app.error", E_FAIL, "app.error: bad", "");
    assert_title("python", "string", E_FAIL, "string: bad", "");
}

static uintptr_t gap(const char *language, const char *reason)
{
    const stacksplice_token_info info = {GAP_TOKEN, .language = language, .reason = reason};
    uintptr_t token = 0;

    assert_int_equal(stacksplice_intern(&info, &token), S_OK);
    return token;
}

TEST(test_gaps_that_tracebacks_never_mention_are_left_out)
{
    const uintptr_t frames[] = {fixture_script("python", "f", "x.py", 1),
                                gap("python", STACKSPLICE_GAP_RETURNED),
                                fixture_script("python", "<module>", "x.py", 2),
                                gap("lua", STACKSPLICE_GAP_RETURNED), gap("python", "other")};
    const fixture_error contents = value_error(frames, 5);
    IRestrictedErrorInfo *error = fixture_originate(&contents);

    assert_report(error, NULL,
                  VALUE_ERROR STACK "    (Python) File \"x.py\", line 1, in f\n"
                                    "    (Python) File \"x.py\", line 2, in <module>\n"
                                    "    [gap: " STACKSPLICE_GAP_RETURNED "]\n"
                                    "    [gap: other]\n");
    assert_non_null(strstr(all_of(error), "in f\n    [gap: " STACKSPLICE_GAP_RETURNED "]\n"));
    release(error);
}

static uintptr_t in_state(const char *language, const char *state, const char *function)
{
    const stacksplice_token_info info = {SCRIPT_TOKEN, .language = language, .function = function,
                                         .interpreter = state};
    uintptr_t token = 0;

    assert_int_equal(stacksplice_intern(&info, &token), S_OK);
    return token;
}

TEST(test_a_state_is_named_where_its_language_has_several)
{
    const uintptr_t frames[] = {in_state("lua", "state 2", "f"), in_state("python", "sub 1", "g"),
                                in_state("lua", "state 2", "h"), in_state("lua", NULL, "main")};
    fixture_error contents = value_error(frames, 3);
    IRestrictedErrorInfo *one = fixture_originate(&contents), *several;

    contents.frame_count = 4;
    several = fixture_originate(&contents);
    assert_report(one, NULL, VALUE_ERROR STACK "    (Lua) f\n    (Python) g\n    (Lua) h\n");
    assert_report(several, NULL,
                  VALUE_ERROR STACK "    (Lua) [state 2] f\n    (Python) g\n"
                                    "    (Lua) [state 2] h\n    (Lua) main\n");
    assert_non_null(strstr(all_of(one), "(Lua) [state 2] f\n    (Python) [sub 1] g\n"));
    release(one);
    release(several);
}

TEST(test_loaders_are_hidden)
{
    const uintptr_t frames[] = {
        fixture_script("python", "<module>", "x.py", 1),
        fixture_script("python", "_call_with_frames_removed", "<frozen importlib._bootstrap>", 241),
        fixture_script("lua", "f", "<frozen importlib._bootstrap>", 1)};
    const fixture_error contents = value_error(frames, 3);
    IRestrictedErrorInfo *error = fixture_originate(&contents);

    assert_report(error, NULL,
                  VALUE_ERROR STACK
                  "    (Python) File \"x.py\", line 1, in <module>\n"
                  "    (Lua) File \"<frozen importlib._bootstrap>\", line 1, in f\n");
    assert_non_null(strstr(all_of(error), "_call_with_frames_removed"));
    release(error);
}

TEST(test_what_runs_the_users_code_is_hidden_and_counted)
{
    const char *const runner = "/x/_pytest/python.py";
    const uintptr_t frames[] = {fixture_script("python", "pytest_pyfunc_call", runner, 7),
                                fixture_script("python", "test_price", "test_x.py", 1),
                                fixture_script("python", "pytest_pyfunc_call", runner, 9),
                                fixture_script("python", "main", "/x/_pytest/config.py", 3),
                                0x1234};
    const fixture_error contents = value_error(frames, 5);
    IRestrictedErrorInfo *error = fixture_originate(&contents);

    assert_report(error, NULL, /* a runner is the user's code where nothing is further in */
                  VALUE_ERROR STACK
                  "    (Python) File \"/x/_pytest/python.py\", line 7, in pytest_pyfunc_call\n"
                  "    (Python) File \"test_x.py\", line 1, in test_price\n"
                  "    ... 3 frames of pytest hidden\n");
    assert_report(error, &newest_last,
                  "Traceback (most recent call last):\n"
                  "  ... 3 frames of pytest hidden\n"
                  "  File \"test_x.py\", line 1, in test_price\n"
                  "  File \"/x/_pytest/python.py\", line 7, in pytest_pyfunc_call\n" VALUE_ERROR);
    assert_non_null(strstr(all_of(error), "_pytest/config.py"));
    release(error);
}

/* The token of a seam. */
static uintptr_t seam(void)
{
    const stacksplice_token_info info = {GAP_TOKEN, .language = "python", .reason = "awaited",
                                         .asynchronous = 1};
    uintptr_t token;

    assert_int_equal(stacksplice_intern(&info, &token), S_OK);
    return token;
}

TEST(test_tasks_that_wait_outside_of_what_runs_the_code_are_shown)
{
    const char *const runner = "/x/_pytest/python.py";
    const uintptr_t frames[] = {fixture_script("python", "leaf", "x.py", 1),
                                fixture_script("python", "pytest_pyfunc_call", runner, 7), seam(),
                                fixture_script("python", "outer", "x.py", 2)};
    const fixture_error contents = value_error(frames, 4);
    IRestrictedErrorInfo *error = fixture_originate(&contents);

    assert_report(error, NULL,
                  VALUE_ERROR STACK "    (Python) File \"x.py\", line 1, in leaf\n"
                                    "    ... 1 frame of pytest hidden\n"
                                    "    [async: awaited]\n"
                                    "    (Python) File \"x.py\", line 2, in outer\n");
    release(error);
}

#define LOOP "/v/lib/python3.11/asyncio/events.py"
#define KERNEL "/v/lib/python3.11/site-packages/ipykernel/kernelbase.py"

TEST(test_loops_between_the_users_frames_are_folded)
{
    const uintptr_t frames[] = {fixture_script("python", "wait_for", LOOP, 1),
                                fixture_script("python", "leaf", "x.py", 1),
                                fixture_script("python", "_run", LOOP, 2),
                                fixture_script("python", "run_forever", LOOP, 3),
                                fixture_script("python", "mine", "/my/asyncio/events.py", 4),
                                fixture_script("python", "run", LOOP, 5)};
    const fixture_error contents = value_error(frames, 6);
    IRestrictedErrorInfo *error = fixture_originate(&contents);

    assert_report(error, &newest_last,
                  "Traceback (most recent call last):\n"
                  "  ... 1 frame of asyncio hidden\n"
                  "  File \"/my/asyncio/events.py\", line 4, in mine\n"
                  "  ... 2 frames of asyncio hidden\n"
                  "  File \"x.py\", line 1, in leaf\n"
                  "  File \"" LOOP "\", line 1, in wait_for\n" VALUE_ERROR);
    assert_non_null(strstr(all_of(error), "in run_forever"));
    release(error);
}

TEST(test_a_kernel_is_one_line_with_the_tasks_that_wait_for_it)
{
    const char *const shell = "/v/lib/python3.11/site-packages/IPython/core/interactiveshell.py";
    const uintptr_t frames[] = {fixture_script("python", "<module>", "In[1]", 1),
                                fixture_script("python", "run_code", shell, 2),
                                fixture_script("python", "execute_request", KERNEL, 3),
                                seam(),
                                fixture_script("python", "run_in_context", KERNEL, 4),
                                fixture_script("python", "_run", LOOP, 5)};
    const fixture_error contents = value_error(frames, 6);
    IRestrictedErrorInfo *error = fixture_originate(&contents);

    assert_report(error, NULL,
                  VALUE_ERROR STACK "    (Python) File \"In[1]\", line 1, in <module>\n"
                                    "    ... 4 frames of IPython hidden\n");
    release(error);
}

TEST(test_the_start_of_a_command_line_is_hidden_with_what_it_starts)
{
    const char *const click = "/v/lib/python3.11/site-packages/click/core.py";
    const uintptr_t frames[] = {fixture_script("python", "rate", "shop.py", 1),
                                fixture_script("python", "invoke", click, 2),
                                fixture_script("python", "<module>", "/v/bin/shop", 3)};
    const uintptr_t own[] = {fixture_script("python", "rate", "shop.py", 1),
                             fixture_script("python", "<module>", "/v/bin/shop", 3)};
    const fixture_error started = value_error(frames, 3), direct = value_error(own, 2);
    IRestrictedErrorInfo *error = fixture_originate(&started);
    IRestrictedErrorInfo *other = fixture_originate(&direct);

    assert_report(error, NULL,
                  VALUE_ERROR STACK "    (Python) File \"shop.py\", line 1, in rate\n"
                                    "    ... 2 frames of click hidden\n");
    assert_report(other, NULL,
                  VALUE_ERROR STACK "    (Python) File \"shop.py\", line 1, in rate\n"
                                    "    (Python) File \"/v/bin/shop\", line 3, in <module>\n");
    release(error);
    release(other);
}

TEST(test_programs_in_a_row_are_one_line)
{
    const char *const site = "/v/lib/python3.11/site-packages/";
    const char *const names[] = {"flask",   "click",   "celery",   "django",
                                 "tornado", "uvicorn", "gunicorn", "flask"};
    char files[COUNT_OF(names)][128];
    uintptr_t frames[1 + COUNT_OF(names)] = {fixture_script("python", "rate", "shop.py", 1)};
    fixture_error contents;
    IRestrictedErrorInfo *error;

    for (size_t i = 0; i < COUNT_OF(names); i++)
        (void)snprintf(files[i], sizeof files[i], "%s%s/app.py", site, names[i]);
    for (uint32_t i = 0; i < 3; i++)
        frames[1 + i] = fixture_script("python", "call", files[i], i);
    contents = value_error(frames, 4);
    error = fixture_originate(&contents);
    assert_report(error, NULL,
                  VALUE_ERROR STACK "    (Python) File \"shop.py\", line 1, in rate\n"
                                    "    ... 3 frames of celery, click and flask hidden\n");
    assert_report(error, &newest_last,
                  "Traceback (most recent call last):\n"
                  "  ... 3 frames of celery, click and flask hidden\n"
                  "  File \"shop.py\", line 1, in rate\n" VALUE_ERROR);
    release(error);

    /* Each is named once, at most six are, and a seam between two is shown. */
    for (uint32_t i = 0; i < COUNT_OF(names); i++)
        frames[1 + i] = fixture_script("python", "call", files[i], i);
    contents = value_error(frames, 9);
    error = fixture_originate(&contents);
    assert_report(
        error, NULL,
        VALUE_ERROR STACK
        "    (Python) File \"shop.py\", line 1, in rate\n"
        "    ... 8 frames of uvicorn, tornado, django, celery, click, flask and others hidden\n");
    release(error);
    frames[2] = seam();
    contents = value_error(frames, 4);
    error = fixture_originate(&contents);
    assert_report(error, NULL,
                  VALUE_ERROR STACK "    (Python) File \"shop.py\", line 1, in rate\n"
                                    "    ... 1 frame of flask hidden\n"
                                    "    [async: awaited]\n"
                                    "    ... 1 frame of celery hidden\n");
    release(error);
}

/* ---- What a user hides -------------------------------------------------------------------------*/

TEST(test_libraries_that_a_user_names_are_hidden)
{
    const char *const packed = "/v/lib/python3.11/site-packages/acme_frames/core/apply.py";
    const char *const single = "/usr/lib/python3/dist-packages/acme_frames.py";
    const char *const lua = "/usr/local/share/lua/5.4/acme_frames/route.lua";
    const char *const longer = "/v/lib/python3.11/site-packages/acme_frames_too/x.py";
    const char *const mine = "/srv/acme_frames/app.py";
    const uintptr_t frames[] = {
        fixture_script("python", "leaf", packed, 1),  fixture_script("python", "rule", mine, 2),
        fixture_script("python", "apply", packed, 3), fixture_script("lua", "route", lua, 4),
        fixture_script("python", "map", single, 5),   fixture_script("python", "too", longer, 6),
        fixture_script("python", "<module>", mine, 7)};
    const fixture_error contents = value_error(frames, 7);
    IRestrictedErrorInfo *error = fixture_originate(&contents);
    const char *before = VALUE_ERROR STACK
        "    (Python) File \"/v/lib/python3.11/site-packages/acme_frames/core/apply.py\", line 1, "
        "in leaf\n"
        "    (Python) File \"/srv/acme_frames/app.py\", line 2, in rule\n";
    const char *behind =
        "    (Python) File \"/v/lib/python3.11/site-packages/acme_frames_too/x.py\", line 6, in "
        "too\n"
        "    (Python) File \"/srv/acme_frames/app.py\", line 7, in <module>\n";
    char want[2048];

    assert_null(strstr(fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL), "hidden"));
    assert_int_equal(stacksplice_hide("acme_frames", NULL), S_OK);
    assert_int_equal(stacksplice_hide("acme_frames", NULL), S_FALSE);
    (void)snprintf(want, sizeof want, "%s    ... 3 frames of acme_frames hidden\n%s", before,
                   behind);
    assert_report(error, NULL, want);
    assert_non_null(strstr(all_of(error), "in route"));
    release(error);
}

TEST(test_a_part_of_a_path_is_hidden_in_scripts_and_binaries)
{
    static const stacksplice_document_frame saved[] = {
        {.frame = {.size = sizeof(stacksplice_frame),
                   .kind = STACKSPLICE_FRAME_SCRIPT,
                   .language = "tcl",
                   .file = "x.tcl",
                   .line = 1}},
        {.frame = {.size = sizeof(stacksplice_frame),
                   .kind = STACKSPLICE_FRAME_NATIVE,
                   .language = "native",
                   .function = "relay",
                   .module = "/opt/acme_vendor2/librelay.so"}},
        {.frame = {.size = sizeof(stacksplice_frame),
                   .kind = STACKSPLICE_FRAME_SCRIPT,
                   .language = "tcl",
                   .file = "acme_vendor1/y.tcl",
                   .line = 2}}};
    const stacksplice_document document = {.size = sizeof document,
                                           .type = "ValueError",
                                           .message = {"bad", 3},
                                           .stack = {saved, 3, 0}};
    char text[1024] = "";

    assert_int_equal(stacksplice_hide("vendor", "/acme_vendor*/"), S_OK);
    assert_int_equal(stacksplice_format_document(&document, NULL, append, text), S_OK);
    assert_non_null(strstr(text, "    (Tcl) File \"x.tcl\", line 1\n"
                                 "    ... 2 frames of vendor hidden\n"));
}

TEST(test_what_cannot_be_hidden_is_refused)
{
    char longest[1025];

    memset(longest, 'x', sizeof longest - 1);
    longest[1024] = '\0';
    assert_int_equal(stacksplice_hide(NULL, "x"), E_POINTER);
    assert_int_equal(stacksplice_hide("", NULL), E_INVALIDARG);
    assert_int_equal(stacksplice_hide("x", ""), E_INVALIDARG);
    assert_int_equal(stacksplice_hide("a/b", NULL), E_INVALIDARG);
    assert_int_equal(stacksplice_hide(longest, NULL), E_INVALIDARG);
    assert_int_equal(stacksplice_hide("x", longest), E_INVALIDARG);
    assert_int_equal(stacksplice_document_folds(NULL, NULL, NULL), E_POINTER);
}

TEST(test_more_than_can_be_hidden_is_refused)
{
    char name[32];
    stacksplice_hresult hr = S_OK;
    int number = 0;

    while (hr == S_OK && number < 1000) {
        (void)snprintf(name, sizeof name, "acme_many_%d", number++);
        hr = stacksplice_hide(name, NULL);
    }
    assert_int_equal(hr, E_OUTOFMEMORY);
    assert_true(number > 200 && number <= 257);
    assert_int_equal(stacksplice_hide("acme_many_0", NULL), S_FALSE);
}

/* ---- Frames that were saved ------------------------------------------------------------------*/

#define NATIVE(function_, module_)             \
    {                                          \
        .frame = {                             \
            .size = sizeof(stacksplice_frame), \
            .kind = STACKSPLICE_FRAME_NATIVE,  \
            .trust = STACKSPLICE_TRUST_EXACT,  \
            .language = "native",              \
            .function = function_,             \
            .module = module_,                 \
            .module_offset = 0x24a             \
        }                                      \
    }

static const char *document_text(const stacksplice_document_frame *frames, uint32_t count)
{
    static char text[4096];
    const stacksplice_document document = {.size = sizeof document,
                                           .type = "ValueError",
                                           .message = {"bad", 3},
                                           .stack = {frames, count, 0}};
    const stacksplice_format_options last = {.size = sizeof last,
                                             .order = STACKSPLICE_ORDER_NEWEST_LAST};

    text[0] = '\0';
    assert_int_equal(stacksplice_format_document(&document, &last, append, text), S_OK);
    return text;
}

TEST(test_start_up_code_without_names_is_hidden_at_the_outer_end)
{
    static const stacksplice_document_frame frames[] = {
        NATIVE("compare", "/bin/host"), NATIVE(NULL, "/lib/libc.so.6"), NATIVE("main", "/bin/host"),
        NATIVE(NULL, "/lib/libc.so.6"), NATIVE(NULL, "/lib/libc.so.6")};

    assert_string_equal(document_text(frames, 5), "Traceback (most recent call last):\n"
                                                  "  (C) main (host)\n"
                                                  "  (C) ??? (libc.so.6+0x24a)\n"
                                                  "  (C) compare (host)\n"
                                                  "ValueError: bad\n");
}

TEST(test_a_program_without_symbols_starts_in_a_nameless_frame)
{
    static const stacksplice_document_frame started[] = {
        NATIVE("main", "/bin/host"), NATIVE(NULL, "/lib/libc.so.6"), NATIVE(NULL, "/bin/host")};
    static const stacksplice_document_frame other[] = {
        NATIVE("compare", "/bin/host"), NATIVE("run", "/bin/host"), NATIVE(NULL, "/bin/host")};

    assert_string_equal(document_text(started, 3), "Traceback (most recent call last):\n"
                                                   "  (C) main (host)\n"
                                                   "ValueError: bad\n");
    assert_string_equal(document_text(other, 3), "Traceback (most recent call last):\n"
                                                 "  (C) ??? (host+0x24a)\n"
                                                 "  (C) run (host)\n"
                                                 "  (C) compare (host)\n"
                                                 "ValueError: bad\n");
}

TEST(test_functions_inlined_into_glue_are_hidden_with_it)
{
    stacksplice_document_frame frames[] = {
        NATIVE("run", "/bin/host"), NATIVE("advance", "/lib/libpython3.11.so.1.0"),
        NATIVE("PyObject_Call", "/lib/libpython3.11.so.1.0"), NATIVE("main", "/bin/host")};

    frames[1].frame.inlined = 1;
    frames[1].glue = frames[2].glue = 1;
    assert_string_equal(document_text(frames, 4), "Traceback (most recent call last):\n"
                                                  "  (C) main (host)\n"
                                                  "  (C) run (host)\n"
                                                  "ValueError: bad\n");
}

TEST(test_an_error_without_frames_has_no_header)
{
    assert_string_equal(document_text(NULL, 0), "ValueError: bad\n");
}

static stacksplice_role role(const char *function, const char *file)
{
    const stacksplice_frame frame = {.size = sizeof frame,
                                     .file = file,
                                     .kind = STACKSPLICE_FRAME_NATIVE,
                                     .language = "native",
                                     .function = function,
                                     .module = "/bin/host"};

    return stacksplice_frame_role(&frame);
}

TEST(test_start_up_code_is_glue_in_all_versions_and_parts)
{
    assert_int_equal(role("__libc_start_main@@GLIBC_2.34", NULL), STACKSPLICE_ROLE_GLUE);
    assert_int_equal(role("__libc_start_call_main", NULL), STACKSPLICE_ROLE_GLUE);
    assert_int_equal(role("start_thread.cold", NULL), STACKSPLICE_ROLE_GLUE);
    assert_int_equal(role("start_threads", NULL), STACKSPLICE_ROLE_OWN);
}

TEST(test_the_cpp_headers_of_this_library_are_glue)
{
    const char *const header = "/opt/include/stacksplice/stacksplice.hpp";

    assert_int_equal(role("stacksplice::check", NULL), STACKSPLICE_ROLE_GLUE);
    assert_int_equal(role("int stacksplice::detail::run<f::{lambda()#1}>({lambda()#1}&&)", NULL),
                     STACKSPLICE_ROLE_GLUE);
    assert_int_equal(role("run", header), STACKSPLICE_ROLE_GLUE);
    assert_int_equal(role("run", "/srv/stacksplice/run.hpp"), STACKSPLICE_ROLE_OWN);
    assert_int_equal(role("stacksplice::error make<int>(int)", NULL), STACKSPLICE_ROLE_OWN);
    assert_int_equal(role("shop::fail(stacksplice::error const&)", NULL), STACKSPLICE_ROLE_OWN);
    assert_int_equal(role("main::{lambda()#1}::operator()() const", NULL), STACKSPLICE_ROLE_OWN);
}
