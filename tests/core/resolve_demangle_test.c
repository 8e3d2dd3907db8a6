/* Mangled names in a process without a C++ run-time, as in a C host of a library in Rust. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stacksplice/source.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

/* As Rust's older form, and as C++: one that other binaries see, and one that only .symtab has. */
__attribute__((noinline, visibility("default"))) int seen(int) __asm__(
    "_ZN2rs5inner17h0123456789abcdefE");
__attribute__((noinline, visibility("hidden"))) int unseen(int) __asm__("_ZN5shape4areaEi");

int seen(int n)
{
    __asm__ volatile("");
    return n + 1;
}

int unseen(int n)
{
    __asm__ volatile("");
    return n + 2;
}

static int copy_function(const stacksplice_frame *frame, void *name)
{
    (void)snprintf(name, 100, "%s", frame->function ? frame->function : "");
    return 0;
}

static bool is_loaded(const char *library)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);

    if (handle)
        dlclose(handle);
    return handle != NULL;
}

static bool has_run_time(void)
{
    return dlsym(RTLD_DEFAULT, "__cxa_demangle") || is_loaded("libstdc++.so.6") ||
           is_loaded("libc++abi.so.1");
}

/* In a child, whose libraries are its own. */
static bool can_be_loaded(void)
{
    pid_t child = fork();
    int status = 1;

    if (!child)
        _exit(!dlopen("libstdc++.so.6", RTLD_LAZY) && !dlopen("libc++abi.so.1", RTLD_LAZY));
    return child > 0 && waitpid(child, &status, 0) == child && !status;
}

TEST(test_mangled_names_are_readable_without_a_run_time)
{
    bool had = has_run_time(); /* sanitizers bring one */
    char name[100];

#ifndef HAVE_LIBDW
    SKIP("this build has no libdw");
#endif
    assert_int_equal(stacksplice_resolve((uintptr_t)is_loaded + 1, copy_function, name), S_OK);
    assert_string_equal(name, "is_loaded");
    assert_int_equal(has_run_time(), had); /* nothing was loaded for that */

    if (!can_be_loaded())
        skip();
    assert_int_equal(stacksplice_resolve((uintptr_t)unseen + 1, copy_function, name), S_OK);
    assert_string_equal(name, "shape::area(int)");
    assert_int_equal(stacksplice_resolve((uintptr_t)seen + 1, copy_function, name), S_OK);
    assert_string_equal(name, "rs::inner::h0123456789abcdef");
}
