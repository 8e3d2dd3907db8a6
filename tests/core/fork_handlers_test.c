/*
 * Handlers of a fork that a host registered before it loaded the library: they run while the
 * library is getting ready for the fork.
 */
#include "frames.h"
#include "libraries.h"
#include "support.h"
#include "threads.h"

#include <stacksplice/script.h>

/* Nothing here waits: who is still there after so many seconds waits for itself. */
enum { PATIENCE = 60 };

typedef enum moment { NEVER, BEFORE, IN_PARENT, IN_CHILD, MOMENTS } moment;

static moment now;
static int calls;

static struct {
    __typeof__(stacksplice_capture) *capture;
    __typeof__(stacksplice_resolve) *resolve;
    __typeof__(stacksplice_originate) *originate;
    __typeof__(stacksplice_intern) *intern;
    __typeof__(stacksplice_name_function) *name_function;
    __typeof__(RoClearError) *clear;
} core;

static int count_frame(const stacksplice_frame *frame, void *data)
{
    return 0;
}

/* Every lock of the library is taken on the way. */
static void use(moment at)
{
    stacksplice_token_info info = {SCRIPT_TOKEN, .language = "test", .function = "handler"};
    uintptr_t frames[64], token;
    uint32_t captured = 0;

    if (at != now)
        return;
    info.line = (uint32_t)at; /* never seen before */
    calls += core.capture(0, 64, frames, &captured, NULL) == S_OK && captured > 0;
    calls += captured > 0 && core.resolve(frames[0], count_frame, NULL) == S_OK;
    calls += core.intern(&info, &token) == S_OK;
    calls += core.name_function(frames[0] + (uintptr_t)at, "test", "name") == S_OK;
    calls += core.originate(E_FAIL, "in a handler", 12, NULL, NULL) == S_OK;
    core.clear();
}

static void before_fork(void)
{
    use(BEFORE);
}

static void after_fork_in_parent(void)
{
    use(IN_PARENT);
}

static void after_fork_in_child(void)
{
    use(IN_CHILD);
}

static int load(void **state)
{
    void *library;

    assert_int_equal(pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child), 0);
    library = open_library(STACKSPLICE_LIBRARY);
    (void)find_in(library, "stacksplice_capture", &core.capture);
    (void)find_in(library, "stacksplice_resolve", &core.resolve);
    (void)find_in(library, "stacksplice_originate", &core.originate);
    (void)find_in(library, "stacksplice_intern", &core.intern);
    (void)find_in(library, "stacksplice_name_function", &core.name_function);
    (void)find_in(library, "stacksplice_RoClearError", &core.clear);
    return 0;
}

TEST(test_handlers_use_the_library)
{
    for (moment at = BEFORE; at < MOMENTS; at++) {
        pid_t child;

        calls = 0;
        now = at;
        alarm(PATIENCE);
        child = fork();
        if (child == 0) {
            int wanted = at == IN_PARENT ? 0 : 5;

            alarm(PATIENCE);
            if (calls != wanted)
                _exit(1);
            now = IN_CHILD; /* and afterwards as ever */
            calls = 0;
            if (at != IN_CHILD)
                use(IN_CHILD);
            _exit(calls == (at == IN_CHILD ? 0 : 5) ? 0 : 2);
        }
        assert_int_equal(calls, at == IN_CHILD ? 0 : 5);
        child_check(child);
        alarm(0);
    }
}

GROUP(load, NULL)
