/* The frames of tiny: true order, signal handlers, the stack and the report of an error. */
#include "host.h"

#include <signal.h>
#include <string.h>

EXPORTED void at_signal(int number);

static const char calls[] = "function leaf\n capture\nfunction middle\n\n leaf\n"
                            "function main\n x = middle\n";

TEST(test_frames_are_in_true_order_between_interpreters)
{
    host *inner = open_host(calls), *outer = open_host("function main\n other\n");

    NEEDS_NATIVE_FRAMES();
    assert_true(tiny_define(inner->t, "capture", at_capture, inner->text));
    assert_true(tiny_define(outer->t, "other", at_other, inner));
    assert_int_equal(run(outer, "main"), S_OK);
    assert_string_equal(inner->text, "at_capture leaf:2 middle:5 main:7 at_other main:2 ");
    close_host(inner);
    close_host(outer);
}

static host *interrupted;
static uintptr_t in_handler[500];
static uint32_t in_handler_count;

/* Names are looked up later: that may allocate. */
void at_signal(int number)
{
    (void)number;
    assert_int_equal(stacksplice_capture(0, 500, in_handler, &in_handler_count, NULL), S_OK);
}

static tiny_value interrupt(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)t;
    (void)data;
    (void)arguments;
    (void)count;
    (void)raise(SIGUSR1);
    return (tiny_value){0, NULL};
}

TEST(test_frames_are_found_in_a_signal_handler_on_a_stack_of_its_own)
{
    static char memory[1 << 17];
    stack_t own = {.ss_sp = memory, .ss_size = sizeof memory}, before;
    struct sigaction action = {.sa_handler = at_signal, .sa_flags = SA_ONSTACK}, old;

    NEEDS_NATIVE_FRAMES();
    interrupted = open_host(calls);
    assert_true(tiny_define(interrupted->t, "capture", interrupt, NULL));
    assert_int_equal(sigaltstack(&own, &before), 0);
    assert_int_equal(sigaction(SIGUSR1, &action, &old), 0);
    assert_int_equal(run(interrupted, "main"), S_OK);
    write_frames(interrupted->text, in_handler, in_handler_count);
    assert_string_equal(interrupted->text, "at_signal leaf:2 middle:5 main:7 ");
    (void)sigaction(SIGUSR1, &old, NULL);
    (void)sigaltstack(&before, NULL);
    close_host(interrupted);
}

TEST(test_an_error_has_the_stack_of_its_throw)
{
    host *h = open_host("function throws\n e = error \"odd\" \"it is\"\n throw e\n"
                        "function main\n e = try throws\n throw e\n"
                        "function made\n e = error \"odd\" \"it is\"\n return e\n");
    IRestrictedErrorInfo *error;
    tiny_value value;

    assert_int_equal(run(h, "main"), E_FAIL);
    error = take_error();
    write_error_stack(h->text, error);
    if (has_native_frames())
        assert_string_equal(h->text, "throws:3 main:5 ");
    error->lpVtbl->Release(error);
    assert_true(tiny_call(h->t, "made", NULL, 0, &value));
    assert_int_equal(stacksplice_tiny_originate(h->t, value.object), E_FAIL);
    tiny_drop(h->t, value);
    error = take_error();
    write_error_stack(h->text, error);
    assert_non_null(strstr(h->text, "[" STACKSPLICE_GAP_RETURNED "] "));
    error->lpVtbl->Release(error);
    close_host(h);
}

static const char reports[] = "function fails\n e = error \"odd\" \"the cause\"\n throw e\n"
                              "function main\n cause = try fails\n"
                              " e = error \"access\" \"no entry\" cause\n throw e\n"
                              "function show\n e = try main\n text = report e\n return text\n";

TEST(test_a_script_can_read_the_report)
{
    host *h = open_host(reports);
    tiny_value text;

    assert_true(tiny_call(h->t, "show", NULL, 0, &text));
    assert_non_null(strstr(text.object->text, "access: no entry"));
    assert_non_null(strstr(text.object->text, "odd: the cause"));
    if (has_native_frames()) {
        assert_non_null(strstr(text.object->text, "(Tiny) File \"test.tiny\", line 7, in main"));
        assert_null(strstr(text.object->text, "tiny_enter"));
    }
    tiny_drop(h->t, text);
    check_slot_is_empty();
    close_host(h);
}
