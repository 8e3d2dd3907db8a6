/* The first use by a thread of a library that was loaded at run time, when memory has run out. */
#include "instruments.h"
#include "libraries.h"
#include "support.h"
#include "threads.h"

#include <stacksplice/debugger.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

static struct {
    __typeof__(RoOriginateErrorW) *originate;
    __typeof__(stacksplice_thread_anchor) *anchor;
    __typeof__(stacksplice_peek_error) *peek;
} core;

static atomic_int exhausted;

static void exhaust_address_space(void)
{
    const struct rlimit none = {1, 1};
    size_t bytes = 1 << 20;

    setrlimit(RLIMIT_AS, &none);
    while (bytes >= 16) {
        void *volatile block = malloc(bytes);

        if (!block)
            bytes /= 2;
    }
}

/* As _exit takes it: 0 is success. */
static int use(void)
{
    IRestrictedErrorInfo *error = NULL;

    if (!core.originate(E_OUTOFMEMORY, 0, NULL))
        return 1;
    if (core.peek(&error) != S_OK || !error)
        return 2;
    return core.anchor()->error ? 0 : 3;
}

static void *use_in_thread(void *unused)
{
    while (!atomic_load(&exhausted))
        usleep(1000);
    _exit(use());
}

/* In a child: an emulator may know of limits and not keep them. */
static int limits_hold(void)
{
    const struct rlimit none = {1, 1};
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        setrlimit(RLIMIT_AS, &none);
        _exit(mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED);
    }
    return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

/* In a child, whose memory runs out. */
static void check_use(int in_thread)
{
    pid_t child = fork();

    if (child == 0) {
        pthread_t thread;

        if (in_thread && pthread_create(&thread, NULL, use_in_thread, NULL))
            _exit(4);
        exhaust_address_space();
        atomic_store(&exhausted, 1);
        while (in_thread)
            pause();
        _exit(use());
    }
    child_check(child);
}

TEST(test_first_use_of_a_loaded_library_needs_no_memory)
{
#if SANITIZED
    SKIP("a sanitizer's own allocations would end the process first");
#endif
    if (!limits_hold())
        SKIP("nothing holds this process to its limit of address space");
    check_use(0);
    check_use(1);
}

static int load(void **state)
{
    void *library = open_library(STACKSPLICE_LIBRARY);

    (void)find_in(library, "stacksplice_RoOriginateErrorW", &core.originate);
    (void)find_in(library, "stacksplice_thread_anchor", &core.anchor);
    (void)find_in(library, "stacksplice_peek_error", &core.peek);
    return 0;
}

GROUP(load, NULL)
