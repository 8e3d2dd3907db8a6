/* A language of others floods the process with places: public functions alone. */
#include "instruments.h"
#include "frames.h"
#include "support.h"

#include <stacksplice/script.h>
#include <stacksplice/winrt/roerrorapi.h>

#include <stdbool.h>
#include <sys/resource.h>

enum { MANY = 300000, MAX = 64 };

static uintptr_t pushed;

static void collect(stacksplice_walk *walk, void *data)
{
    if (stacksplice_walk_splice(walk, 0, 0))
        (void)stacksplice_walk_push(walk, pushed);
}

static uintptr_t intern(const char *function, uint32_t line)
{
    stacksplice_token_info info = {SCRIPT_TOKEN, .language = "pascal", .function = function,
                                   .file = "made.pas", .line = line};
    uintptr_t token = 0;

    assert_int_equal(stacksplice_intern(&info, &token), S_OK);
    return token;
}

static void flood(void)
{
    for (uint32_t i = 0; i < MANY; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "made_%u", i);
        (void)intern(name, i);
    }
}

/* "pascal f:1" of a script frame, "gap: reason", or empty. */
typedef struct text {
    char text[200];
} text;

static int write_frame(const stacksplice_frame *frame, void *data)
{
    text *out = data;

    if (frame->kind == STACKSPLICE_FRAME_GAP)
        (void)snprintf(out->text, sizeof out->text, "gap: %s", frame->reason);
    else if (frame->kind == STACKSPLICE_FRAME_SCRIPT)
        (void)snprintf(out->text, sizeof out->text, "%s %s:%u", frame->language, frame->function,
                       frame->line);
    return 1;
}

static text text_of(uintptr_t element)
{
    text out = {""};

    (void)stacksplice_resolve(element, write_frame, &out);
    return out;
}

static uintptr_t captured(void)
{
    uintptr_t frames[MAX];
    uint32_t count = 0;

    assert_true(stacksplice_capture(0, MAX, frames, &count, NULL) >= 0);
    for (uint32_t i = 0; i < count; i++)
        if (frames[i] == pushed)
            return pushed;
    fail_msg("the source was not asked");
    return 0;
}

static bool has_frame(IUnknown *error, const char *wanted)
{
    uintptr_t frames[MAX];
    uint32_t count = 0;
    bool found = false;

    assert_true(stacksplice_error_stack(error, MAX, frames, &count) >= 0);
    for (uint32_t i = 0; i < count; i++)
        found |= strcmp(text_of(frames[i]).text, wanted) == 0;
    return found;
}

TEST(test_flood_of_a_foreign_language)
{
    struct rusage before, after;
    IRestrictedErrorInfo *error = NULL;
    uintptr_t in_array;

    pushed = intern("kept_by_nobody", 1);
    in_array = captured();
    pushed = intern("kept_by_an_error", 2);
    assert_int_equal(stacksplice_originate(E_FAIL, "x", 1, NULL, &error), S_OK);
    assert_int_equal(getrusage(RUSAGE_SELF, &before), 0);
    flood();
    assert_int_equal(getrusage(RUSAGE_SELF, &after), 0);
    assert_true(SANITIZED || after.ru_maxrss - before.ru_maxrss < 44 * 1024);
    assert_string_equal(text_of(in_array).text, "gap: name of this frame evicted: too many newer "
                                                "code locations");
    assert_true(has_frame((IUnknown *)error, "pascal kept_by_an_error:2"));
    pushed = intern("ordinary", 3);
    assert_string_equal(text_of(captured()).text, "pascal ordinary:3");
    pushed = intern("kept_by_nobody", 1);
    assert_true(pushed != in_array);
    error->lpVtbl->Release(error);
}

int main(void)
{
    static const stacksplice_source source = {SOURCE, .language = "pascal", .identity = &source,
                                              .collect = collect};
    if (stacksplice_add_source(&source) != S_OK)
        return 1;
    return run_all_tests();
}
