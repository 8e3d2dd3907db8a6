/* Addresses of this program, of libraries without symbols, and tokens become frames. */
#include "forks.h"

#include <stacksplice/script.h>
#include <stacksplice/source.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>

#include "frames.h"
#include "libraries.h"
#include "support.h"
#include "threads.h"

#define RETURN_ADDRESS() ((uintptr_t)__builtin_return_address(0))

static uint32_t inherited[8]; /* descriptors below 256 that were open when the program began */

typedef struct kept_frame {
    stacksplice_frame frame;
    char function[200], file[4096], module[4096], build_id[200], language[64], interpreter[200];
} kept_frame;

typedef struct kept {
    unsigned count, stop_at;
    kept_frame frames[8];
} kept;

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

static int keep(const stacksplice_frame *frame, void *data)
{
    kept *k = data;
    kept_frame *at = &k->frames[k->count++ % 8];

    at->frame = *frame;
    copy(at->function, sizeof at->function, frame->function);
    copy(at->file, sizeof at->file, frame->file);
    copy(at->module, sizeof at->module, frame->module);
    copy(at->build_id, sizeof at->build_id, frame->build_id);
    copy(at->language, sizeof at->language, frame->language);
    copy(at->interpreter, sizeof at->interpreter, frame->interpreter);
    return k->count == k->stop_at;
}

static const kept *resolve(uintptr_t address)
{
    static kept k;

    memset(&k, 0, sizeof k);
    assert_int_equal(stacksplice_resolve(address, keep, &k), S_OK);
    assert_true(k.count >= 1);
    return &k;
}

/* ---- Tokens ----------------------------------------------------------------------------------*/

TEST(test_resolve_gives_a_token_back)
{
    const stacksplice_token_info info = {.size = sizeof info,
                                         .kind = STACKSPLICE_FRAME_SCRIPT,
                                         .trust = STACKSPLICE_TRUST_TRACEBACK,
                                         .language = "python",
                                         .function = "f",
                                         .file = "a.py",
                                         .line = 1,
                                         .end_line = 2,
                                         .column = 3,
                                         .end_column = 4,
                                         .interpreter = "sub-1"};
    uintptr_t token;
    const kept *k;

    assert_int_equal(stacksplice_intern(&info, &token), S_OK);
    k = resolve(token);
    assert_int_equal(k->count, 1);
    assert_int_equal(k->frames[0].frame.size, sizeof(stacksplice_frame));
    assert_int_equal(k->frames[0].frame.kind, STACKSPLICE_FRAME_SCRIPT);
    assert_int_equal(k->frames[0].frame.trust, STACKSPLICE_TRUST_TRACEBACK);
    assert_string_equal(k->frames[0].language, "python");
    assert_string_equal(k->frames[0].function, "f");
    assert_string_equal(k->frames[0].file, "a.py");
    assert_int_equal(k->frames[0].frame.line, 1);
    assert_int_equal(k->frames[0].frame.end_line, 2);
    assert_int_equal(k->frames[0].frame.column, 3);
    assert_int_equal(k->frames[0].frame.end_column, 4);
    assert_string_equal(k->frames[0].interpreter, "sub-1");
    assert_null(k->frames[0].frame.reason);
    assert_null(k->frames[0].frame.module);
    assert_true(k->frames[0].frame.address == token);
}

TEST(test_resolve_says_that_a_token_is_unknown)
{
    const kept *k = resolve((uintptr_t)0x5353000000000000 + 16 * 900000 + 8);

    assert_int_equal(k->frames[0].frame.kind, STACKSPLICE_FRAME_GAP);
    assert_non_null(k->frames[0].frame.reason);
}

/* ---- Native ----------------------------------------------------------------------------------*/

static uintptr_t outer_address, inner_address;
static uint32_t outer_line, inner_line;

static NOINLINE void note_address(uintptr_t *address)
{
    *address = RETURN_ADDRESS();
    AFTER();
}

static inline __attribute__((always_inline)) void inlined_function(void)
{
    inner_line = __LINE__ + 1;
    note_address(&inner_address);
    AFTER();
}

NOINLINE static void outer_function(void)
{
    outer_line = __LINE__ + 1;
    note_address(&outer_address);
    inlined_function();
    AFTER();
}

static char own_path[PATH_MAX]; /* not what /proc/self/exe says: the loader may have been started */

static void assert_ends(const char *text, const char *end)
{
    assert_true(strlen(text) >= strlen(end));
    assert_string_equal(text + strlen(text) - strlen(end), end);
}

TEST(test_resolve_finds_module_and_build_id)
{
    char command[5000], line[400], want[200] = "";
    const kept *k;
    FILE *notes;

    outer_function();
    k = resolve(outer_address);
    assert_int_equal(k->frames[0].frame.kind, STACKSPLICE_FRAME_NATIVE);
    assert_int_equal(k->frames[0].frame.trust, STACKSPLICE_TRUST_EXACT);
    assert_string_equal(k->frames[0].frame.language, "native");
    assert_string_equal(k->frames[0].module, own_path);
    assert_true(k->frames[0].frame.address == outer_address);
    assert_true(k->frames[0].frame.module_offset < 16u << 20);
    assert_int_equal((outer_address - k->frames[0].frame.module_offset) % 4096, 0);
    snprintf(command, sizeof command, "readelf -n '%s'", own_path);
    notes = popen(command, "r");
    assert_non_null(notes);
    while (fgets(line, sizeof line, notes))
        sscanf(line, " Build ID: %199s", want);
    pclose(notes);
    assert_string_equal(k->frames[0].build_id, want);
}

TEST(test_resolve_finds_lines_and_inlined_functions)
{
#if defined(HAVE_LIBDW)
    const kept *k;

    outer_function();
    k = resolve(outer_address);
    assert_int_equal(k->count, 1);
    assert_string_equal(k->frames[0].function, "outer_function");
    assert_ends(k->frames[0].file, "resolve_test.c");
    assert_int_equal(k->frames[0].frame.line, outer_line);
    assert_false(k->frames[0].frame.inlined);
    k = resolve(inner_address);
    assert_int_equal(k->count, 2);
    assert_string_equal(k->frames[0].function, "inlined_function");
    assert_int_equal(k->frames[0].frame.line, inner_line);
    assert_true(k->frames[0].frame.inlined);
    assert_string_equal(k->frames[1].function, "outer_function");
    assert_int_equal(k->frames[1].frame.line, outer_line + 1);
    assert_ends(k->frames[1].file, "resolve_test.c");
    assert_false(k->frames[1].frame.inlined);
#else
    (void)state;
    (void)assert_ends;
    SKIP("this build has no libdw");
#endif
}

TEST(test_resolve_stops_when_told)
{
    kept k = {0};

    outer_function();
    k.stop_at = 1;
    assert_int_equal(stacksplice_resolve(inner_address, keep, &k), S_FALSE);
    assert_int_equal(k.count, 1);
    assert_int_equal(stacksplice_resolve(inner_address, NULL, NULL), E_POINTER);
}

TEST(test_resolve_leaks_no_descriptor_to_other_programs)
{
    outer_function();
    (void)resolve(outer_address);
    (void)resolve((uintptr_t)snprintf + 1); /* its debug information may be in a separate file */
    for (int fd = 3; fd < 256; fd++) {
        int flags = fcntl(fd, F_GETFD);

        if (flags >= 0 && !(inherited[fd / 32] >> fd % 32 & 1))
            assert_true(flags & FD_CLOEXEC);
    }
}

TEST(test_resolve_of_no_code_is_one_bare_frame)
{
    static const uintptr_t nowhere[] = {0, 1, 0x1234, UINTPTR_MAX};

    for (size_t i = 0; i < sizeof nowhere / sizeof *nowhere; i++) {
        const kept *k = resolve(nowhere[i]);

        assert_int_equal(k->count, 1);
        assert_int_equal(k->frames[0].frame.kind, STACKSPLICE_FRAME_NATIVE);
        assert_null(k->frames[0].frame.module);
        assert_null(k->frames[0].frame.function);
        assert_true(k->frames[0].frame.address == nowhere[i]);
    }
}

/* ---- A library without debug information -----------------------------------------------------*/

typedef uintptr_t (*stripped_function)(uintptr_t *hidden);

TEST(test_resolve_in_a_stripped_library)
{
    void *library = open_library(STRIPPED_LIBRARY);
    stripped_function call;
    uintptr_t hidden, shown;
    const kept *k;

#ifndef __GLIBC__
    SKIP("this C library unloads nothing");
#endif
    (void)find_in(library, "stripped_call", &call);
    shown = call(&hidden);
    k = resolve(shown);
    assert_int_equal(k->count, 1);
    assert_string_equal(k->frames[0].function, "stripped_call");
    assert_string_equal(k->frames[0].file, "");
    assert_ends(k->frames[0].module, "stripped_library.so");
    k = resolve(hidden);
    assert_null(k->frames[0].frame.function);
    assert_ends(k->frames[0].module, "stripped_library.so");
    assert_true(k->frames[0].frame.module_offset > 0);
}

TEST(test_resolve_finds_a_build_id_among_aligned_notes)
{
    void (*function)(void);
    void *address = find_in(open_library(NOTES_LIBRARY), "notes_function", &function);

    assert_string_equal(resolve((uintptr_t)address + 1)->frames[0].build_id, "1122334455667788");
}

TEST(test_resolve_uses_the_name_that_scripts_use)
{
    void *library = open_library(STRIPPED_LIBRARY);
    uintptr_t (*begin)(void), hidden;
    stripped_function call;
    const kept *k;

    NEEDS_NATIVE_FRAMES();
    (void)find_in(library, "stripped_hidden_begin", &begin);
    (void)find_in(library, "stripped_call", &call);
    (void)call(&hidden);
    assert_int_equal(stacksplice_name_function(begin(), "lua", "string.rep"), S_OK);
    k = resolve(hidden);
    assert_string_equal(k->frames[0].function, "string.rep");
}

TEST(test_resolve_shows_a_symbol_where_scripts_have_no_name)
{
    stripped_function call;
    uintptr_t exported = (uintptr_t)find_in(open_library(STRIPPED_LIBRARY), "stripped_call", &call);

    NEEDS_NATIVE_FRAMES();
    assert_int_equal(stacksplice_name_function(exported, "lua", ""), S_OK);
    assert_int_equal(stacksplice_name_function(exported, "lua", "later"), S_FALSE);
    assert_string_equal(resolve(exported + 1)->frames[0].function, "stripped_call");
}

/* Opened for this test alone, as interpreters open extensions: RTLD_DEFAULT does not see it. */
TEST(test_resolve_demangles_with_the_run_time_of_a_library)
{
#if defined(CXX_LIBRARY)
    uintptr_t (*area)(void);
    const char *name;

    (void)find_in(open_library(CXX_LIBRARY), "cxx_address", &area);
    name = resolve(area())->frames[0].function;
    assert_memory_equal(name, "shape::area(std::", strlen("shape::area(std::"));
#else
    (void)state;
    SKIP("this build has no C++ compiler");
#endif
}

/* ---- Modules that go -------------------------------------------------------------------------*/

TEST(test_resolve_forgets_an_unloaded_library)
{
    void *library = open_library(UNLOADED_LIBRARY);
    stripped_function call;
    uintptr_t hidden, shown;

#ifndef __GLIBC__
    SKIP("this C library unloads nothing");
#endif
    (void)find_in(library, "stripped_call", &call);
    shown = call(&hidden);
    assert_string_equal(resolve(shown)->frames[0].function, "stripped_call");
    dlclose(library);
    assert_null(dlopen(UNLOADED_LIBRARY, RTLD_NOW | RTLD_NOLOAD));
    assert_null(resolve(shown)->frames[0].frame.function);
}

/* What is inlined into the inside of an interpreter is that, too; what is inlined elsewhere is not. */
TEST(test_inlined_functions_are_glue_with_their_function)
{
#if defined(HAVE_LIBDW)
    static const char *const functions[] = {"outer_function", NULL};
    static const stacksplice_glue glue = {
        .size = sizeof glue, .language = "toy", .functions = functions};
    const kept *k;

    outer_function();
    k = resolve(inner_address);
    assert_int_equal(k->count, 2);
    assert_int_equal(stacksplice_frame_role(&k->frames[0].frame), STACKSPLICE_ROLE_OWN);
    assert_int_equal(stacksplice_add_glue(&glue), S_OK);
    k = resolve(inner_address); /* found anew */
    assert_int_equal(k->count, 2);
    assert_string_equal(k->frames[0].function, "inlined_function");
    assert_int_equal(stacksplice_frame_role(&k->frames[0].frame), STACKSPLICE_ROLE_GLUE);
    k = resolve(outer_address);
    assert_false(k->frames[0].frame.inlined);
#else
    (void)state;
    SKIP("this build has no libdw");
#endif
}

/* ---- Threads and forks -----------------------------------------------------------------------*/

static void *resolve_often(void *data)
{
    for (int i = 0; i < 300; i++) {
        kept k = {0};

        if (stacksplice_resolve(inner_address + (uintptr_t)(i % 7), keep, &k) != S_OK || !k.count)
            return "failed";
    }
    return NULL;
}

/* Never returns: exit status 1, or SIGKILL where all is well.  Memcheck would look for leaks at an
   exit, and find what threads were at that the child does not have. */
static void resolve_in_child(void)
{
    if (resolve_often(NULL))
        _exit(1);
    (void)raise(SIGKILL);
}

TEST(test_resolve_in_threads_and_children)
{
    pthread_t threads[4];

    outer_function();
    for (int i = 0; i < 4; i++)
        threads[i] = thread_start(resolve_often, NULL);
    for (int i = 0; i < 10; i++) {
        pid_t child = fork();
        int status;

        if (!child)
            resolve_in_child();
        assert_true(child > 0);
        status = child_status(child);
        assert_int_equal(status, SIGKILL);
    }
    for (int i = 0; i < 4; i++) {
        void *failed;

        failed = thread_end(threads[i]);
        assert_null(failed);
    }
}

int main(int argc, char **argv)
{
    if (!realpath(argv[0], own_path))
        return 2;
    for (int fd = 0; fd < 256; fd++)
        inherited[fd / 32] |= (uint32_t)(fcntl(fd, F_GETFD) >= 0) << fd % 32;
    return run_all_tests();
}
