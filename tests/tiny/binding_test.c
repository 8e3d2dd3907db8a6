/* The binding of tiny: identity, causes, order of frames, memory, threads and ends. */
#include <stacksplice/tiny.h>

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "failing_allocator.h"
#include "frames.h"
#include "support.h"

/* ---- Interpreters whose memory is counted and can fail ----------------------------------------*/

typedef struct host {
    tiny *t;
    int blocks, left; /* allocations until one fails, once; negative: none */
    char text[2000];  /* what the test wants to keep */
} host;

/* The linker gives these to the binding: one allocation of it can fail. */
static int binding_left = -1;
void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);

void *__wrap_malloc(size_t size)
{
    return binding_left-- == 0 ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return binding_left-- == 0 ? NULL : __real_calloc(count, size);
}

static void *allocate(void *data, void *block, size_t size)
{
    host *h = data;

    if (!size) {
        h->blocks--;
        free(block);
        return NULL;
    }
    if (h->left-- == 0)
        return NULL;
    h->blocks++;
    return __real_malloc(size);
}

static host *open_host(const char *source)
{
    host *h = calloc(1, sizeof *h);

    assert_non_null(h);
    h->left = -1;
    h->t = tiny_open(allocate, h);
    assert_non_null(h->t);
    assert_int_equal(stacksplice_tiny_open(h->t), S_OK);
    assert_true(tiny_load(h->t, "test.tiny", source));
    return h;
}

static void close_host(host *h)
{
    stacksplice_tiny_close(h->t);
    tiny_close(h->t);
    assert_int_equal(h->blocks, 0);
    free(h);
}

static HRESULT run(host *h, const char *name)
{
    tiny_value result;
    HRESULT hr = stacksplice_tiny_call(h->t, name, NULL, 0, &result);

    tiny_drop(h->t, result);
    return hr;
}

static IRestrictedErrorInfo *take_error(void)
{
    IRestrictedErrorInfo *error = NULL;

    assert_int_equal(GetRestrictedErrorInfo(&error), S_OK);
    return error;
}

static void check_slot_is_empty(void)
{
    IRestrictedErrorInfo *error = NULL;

    assert_int_equal(stacksplice_peek_error(&error), S_FALSE);
}

static int add_text(const char *text, size_t length, void *data)
{
    char *out = data;

    strncat(out, text, length);
    return 0;
}

/* ---- Stacks -----------------------------------------------------------------------------------*/

/* "function:line " of scripts, "name " of the native functions at_..., "[reason] " of gaps. */
static int add_frame(const stacksplice_frame *frame, void *data)
{
    char *out = (char *)data + strlen(data);

    if (frame->kind == STACKSPLICE_FRAME_GAP)
        (void)sprintf(out, "[%s] ", frame->reason);
    else if (frame->kind == STACKSPLICE_FRAME_SCRIPT)
        (void)sprintf(out, "%s:%u ", frame->function, (unsigned)frame->line);
    else if (frame->function && strncmp(frame->function, "at_", 3) == 0)
        (void)sprintf(out, "%s ", frame->function);
    return 0;
}

static void write_frames(char *out, const uintptr_t *frames, uint32_t count)
{
    *out = 0;
    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], add_frame, out);
}

static void write_error_stack(char *out, void *error)
{
    uintptr_t frames[500];
    uint32_t count = 0;

    assert_int_equal(stacksplice_error_stack(error, 500, frames, &count), S_OK);
    write_frames(out, frames, count);
}

/* Named by the symbol table, too. */
#define EXPORTED NOINLINE __attribute__((visibility("default")))
EXPORTED tiny_native at_capture, at_other;
EXPORTED void at_signal(int number);

tiny_value at_capture(tiny *t, void *data, const tiny_value *arguments, int count)
{
    uintptr_t frames[500];
    uint32_t taken = 0;

    (void)t;
    (void)arguments;
    (void)count;
    assert_int_equal(stacksplice_capture(0, 500, frames, &taken, NULL), S_OK);
    write_frames(data, frames, taken);
    return (tiny_value){0, NULL};
}

tiny_value at_other(tiny *t, void *data, const tiny_value *arguments, int count)
{
    HRESULT hr = run(data, "main");

    (void)arguments;
    (void)count;
    return FAILED(hr) ? stacksplice_tiny_raise(t, hr) : (tiny_value){0, NULL};
}

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

void at_signal(int number)
{
    (void)number;
    (void)at_capture(NULL, interrupted->text, NULL, 0);
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
    assert_string_equal(interrupted->text, "at_capture at_signal leaf:2 middle:5 main:7 ");
    (void)sigaction(SIGUSR1, &old, NULL);
    (void)sigaltstack(&before, NULL);
    close_host(interrupted);
}

/* ---- Identity ---------------------------------------------------------------------------------*/

static const char throws[] =
    "function throws\n e = error \"access\" \"no entry\"\n made e\n throw e\n"
    "function main\n throws\n"
    "function again\n e = try native\n throw e\n";

static tiny_value made(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)t;
    assert_int_equal(count, 1);
    *(tiny_object **)data = arguments->object;
    return (tiny_value){0, NULL};
}

static tiny_value raise_native(tiny *t, void *error, const tiny_value *arguments, int count)
{
    (void)arguments;
    (void)count;
    assert_int_equal(SetRestrictedErrorInfo(error), S_OK);
    return stacksplice_tiny_raise(t, E_BOUNDS);
}

TEST(test_an_error_that_comes_back_is_the_same_object)
{
    host *h = open_host(throws);
    tiny_object *first = NULL;
    tiny_value second;

    assert_true(tiny_define(h->t, "made", made, &first));
    assert_true(tiny_define(h->t, "native", at_other, h));
    assert_true(tiny_load(h->t, "more.tiny", "function outer\n native\n"));
    assert_false(tiny_call(h->t, "outer", NULL, 0, &second));
    assert_non_null(first);
    assert_ptr_equal(second.object, first);
    check_slot_is_empty();
    tiny_drop(h->t, second);
    close_host(h);
}

TEST(test_an_error_object_stays_the_same_when_its_value_leaves_again)
{
    host *h = open_host(throws);
    IRestrictedErrorInfo *first, *second;
    tiny_object *object = NULL;

    assert_true(tiny_define(h->t, "made", made, &object));
    assert_int_equal(run(h, "main"), E_ACCESSDENIED);
    first = take_error();
    assert_int_equal(stacksplice_tiny_originate(h->t, object), E_ACCESSDENIED);
    second = take_error();
    assert_ptr_equal(first, second);
    first->lpVtbl->Release(first);
    second->lpVtbl->Release(second);
    close_host(h);
}

TEST(test_an_error_from_elsewhere_is_one_object_and_leaves_as_itself)
{
    host *h = open_host(throws);
    IRestrictedErrorInfo *error, *left;

    (void)stacksplice_originate(E_BOUNDS, "too far", 7, NULL, NULL);
    error = take_error();
    assert_true(tiny_define(h->t, "native", raise_native, error));
    assert_int_equal(run(h, "again"), E_BOUNDS);
    left = take_error();
    assert_ptr_equal(left, error);
    left->lpVtbl->Release(left);
    error->lpVtbl->Release(error);
    check_slot_is_empty();
    close_host(h);
}

static tiny_value compare(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)t;
    assert_int_equal(count, 2);
    assert_ptr_equal(arguments[0].object, arguments[1].object);
    assert_string_equal(arguments[0].object->text, "too far");
    *(bool *)data = true;
    return (tiny_value){0, NULL};
}

TEST(test_an_error_that_arrives_twice_is_one_object)
{
    host *h = open_host("function main\n a = try native\n b = try native\n compare a b\n");
    IRestrictedErrorInfo *error;
    bool compared = false;

    (void)stacksplice_originate(E_BOUNDS, "too far", 7, NULL, NULL);
    error = take_error();
    assert_true(tiny_define(h->t, "native", raise_native, error));
    assert_true(tiny_define(h->t, "compare", compare, &compared));
    assert_int_equal(run(h, "main"), S_OK);
    assert_true(compared);
    error->lpVtbl->Release(error);
    close_host(h);
}

TEST(test_another_interpreter_sees_a_foreign_error)
{
    host *inner = open_host(throws), *outer = open_host("function main\n other\n");
    tiny_object *object = NULL;
    tiny_value error;

    assert_true(tiny_define(inner->t, "made", made, &object));
    assert_true(tiny_define(outer->t, "other", at_other, inner));
    assert_false(tiny_call(outer->t, "main", NULL, 0, &error));
    assert_ptr_not_equal(error.object, object);
    assert_string_equal(error.object->type, "access");
    assert_string_equal(error.object->text, "no entry");
    tiny_drop(outer->t, error);
    close_host(inner);
    close_host(outer);
}

/* ---- Stack, chain and report of an error ------------------------------------------------------*/

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
    assert_non_null(strstr(text.object->text, "access: no entry (0x80070005)"));
    assert_non_null(strstr(text.object->text, "odd: the cause (0x80004005)"));
    if (has_native_frames()) {
        assert_non_null(strstr(text.object->text, "(Tiny) File \"test.tiny\", line 7, in main"));
        assert_null(strstr(text.object->text, "tiny_enter"));
    }
    tiny_drop(h->t, text);
    check_slot_is_empty();
    close_host(h);
}

/* ---- Causes -----------------------------------------------------------------------------------*/

TEST(test_an_error_has_its_cause)
{
    host *h = open_host(reports);
    IRestrictedErrorInfo *error, *cause = NULL;
    stacksplice_relation relation;
    IUnknown *exception = NULL;
    ILanguageExceptionErrorInfo *info = NULL;

    assert_int_equal(run(h, "main"), E_ACCESSDENIED);
    error = take_error();
    assert_int_equal(stacksplice_error_cause((IUnknown *)error, &cause, &relation), S_OK);
    assert_int_equal(relation, STACKSPLICE_RELATION_CAUSE);
    write_error_stack(h->text, cause);
    if (has_native_frames())
        assert_string_equal(h->text, "fails:3 main:5 ");
    /* While somebody holds the error, its value and that of the cause are alive. */
    assert_int_equal(run(h, "return"), S_OK);
    assert_int_equal(
        cause->lpVtbl->QueryInterface(cause, &IID_ILanguageExceptionErrorInfo, (void **)&info),
        S_OK);
    assert_int_equal(info->lpVtbl->GetLanguageException(info, &exception), S_OK);
    assert_string_equal(stacksplice_tiny_object(h->t, exception)->text, "the cause");
    exception->lpVtbl->Release(exception);
    info->lpVtbl->Release(info);
    cause->lpVtbl->Release(cause);
    error->lpVtbl->Release(error);
    close_host(h);
}

TEST(test_a_cause_that_was_never_thrown_says_so)
{
    host *h =
        open_host("function main\n a = error \"a\" \"inside\"\n e = error \"b\" \"outside\" a\n"
                  " throw e\n");
    IRestrictedErrorInfo *error, *cause = NULL;

    assert_int_equal(run(h, "main"), E_FAIL);
    error = take_error();
    assert_int_equal(stacksplice_error_cause((IUnknown *)error, &cause, NULL), S_OK);
    write_error_stack(h->text, cause);
    assert_string_equal(h->text, "[exception created but never raised] ");
    cause->lpVtbl->Release(cause);
    error->lpVtbl->Release(error);
    close_host(h);
}

TEST(test_causes_end_at_the_limit)
{
    enum { ERRORS = 400 };
    host *h = open_host("");
    IRestrictedErrorInfo *error;
    tiny_value value = {0, NULL}, outer;
    uint32_t depth = 0;

    for (int i = 0; i < ERRORS; i++) {
        outer = tiny_error(h->t, "odd", "it is", 5, value.object);
        tiny_drop(h->t, value);
        value = outer;
    }
    assert_int_equal(stacksplice_tiny_originate(h->t, value.object), E_FAIL);
    error = take_error();
    assert_int_equal(stacksplice_error_depth((IUnknown *)error, &depth), S_OK);
    assert_int_equal(depth, STACKSPLICE_MAX_DEPTH);
    /* One that is made from it again has no room for all of them. */
    outer = tiny_error(h->t, "odd", "it is", 5, value.object);
    assert_int_equal(stacksplice_tiny_originate(h->t, outer.object), E_FAIL);
    error->lpVtbl->Release(error);
    error = take_error();
    assert_int_equal(stacksplice_error_depth((IUnknown *)error, &depth), S_OK);
    assert_int_equal(depth, 0);
    error->lpVtbl->Release(error);
    tiny_drop(h->t, value);
    tiny_drop(h->t, outer);
    close_host(h);
}

/* ---- Threads and ends -------------------------------------------------------------------------*/

static void *release_here(void *error)
{
    ((IRestrictedErrorInfo *)error)->lpVtbl->Release(error);
    return NULL;
}

TEST(test_a_value_is_dropped_by_its_own_thread)
{
    host *h = open_host(throws);
    tiny_object *object = NULL;
    IRestrictedErrorInfo *error;
    pthread_t thread;
    int idle, held;

    assert_true(tiny_define(h->t, "made", made, &object));
    idle = h->blocks;
    assert_int_equal(run(h, "main"), E_ACCESSDENIED);
    error = take_error();
    held = h->blocks;
    assert_true(held > idle);
    assert_int_equal(object->references, 1);
    assert_int_equal(pthread_create(&thread, NULL, release_here, error), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(h->blocks, held); /* the other thread dropped nothing */
    assert_int_equal(run(h, "return"), S_OK);
    assert_int_equal(h->blocks, idle);
    close_host(h);
}

TEST(test_an_error_outlives_its_interpreter)
{
    host *h = open_host(throws);
    tiny_object *object = NULL;
    IRestrictedErrorInfo *error;
    char text[4000] = "";

    assert_true(tiny_define(h->t, "made", made, &object));
    assert_int_equal(run(h, "main"), E_ACCESSDENIED);
    error = take_error();
    close_host(h);
    assert_int_equal(
        stacksplice_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL, add_text, text), S_OK);
    assert_non_null(strstr(text, "access: no entry"));
    error->lpVtbl->Release(error);
}

/* ---- Memory -----------------------------------------------------------------------------------*/

/* MAIN crosses borders in both directions; whatever fails, it fails cleanly. */
static const char crossings[] = "function inner\n cause = try native\n"
                                " e = error \"access\" \"no entry\" cause\n throw e\n"
                                "function main\n inner\n"
                                "function outer\n e = try again\n report e\n throw e\n";

static HRESULT cross(host *h)
{
    IRestrictedErrorInfo *error = NULL;
    HRESULT hr = run(h, "outer");

    assert_true(hr == E_ACCESSDENIED || hr == E_OUTOFMEMORY || hr == E_FAIL || hr == E_BOUNDS);
    assert_int_equal(GetRestrictedErrorInfo(&error), S_OK);
    error->lpVtbl->Release(error);
    assert_int_equal(run(h, "return"), S_OK);
    return hr;
}

static tiny_value fail_native(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)data;
    (void)arguments;
    (void)count;
    (void)stacksplice_originate(E_BOUNDS, "too far", 7, NULL, NULL);
    return stacksplice_tiny_raise(t, E_BOUNDS);
}

static host *open_crossings(void)
{
    host *h = open_host(crossings);

    assert_true(tiny_define(h->t, "native", fail_native, NULL));
    assert_true(tiny_define(h->t, "again", at_other, h));
    return h;
}

TEST(test_every_allocation_of_the_interpreter_may_fail)
{
    for (int nth = 0; nth < 100; nth++) {
        host *h = open_crossings();
        int idle = h->blocks;

        h->left = nth;
        (void)cross(h);
        h->left = -1;
        assert_int_equal(run(h, "return"), S_OK);
        assert_int_equal(h->blocks, idle);
        (void)cross(h);
        close_host(h);
    }
}

TEST(test_every_allocation_of_the_binding_may_fail)
{
    int failures = 0;

    for (int nth = 0; nth < 40; nth++) {
        host *h = open_crossings();
        int idle = h->blocks;

        binding_left = nth;
        failures += cross(h) == E_OUTOFMEMORY;
        binding_left = -1;
        assert_int_equal(run(h, "return"), S_OK);
        assert_int_equal(h->blocks, idle);
        close_host(h);
    }
    assert_true(failures > 0);
}

TEST(test_every_allocation_of_the_core_may_fail)
{
    bool failed = true;

    for (long nth = 1; failed; nth++) {
        host *h = open_crossings();
        int idle = h->blocks;

        memory_arm(nth);
        (void)cross(h);
        failed = memory_failed;
        memory_disarm();
        assert_int_equal(run(h, "return"), S_OK);
        assert_int_equal(h->blocks, idle);
        close_host(h);
        assert_true(nth < 1000);
    }
}

static int use_memory(void **state)
{
    (void)state;
    return memory_use();
}

GROUP(use_memory, NULL)
