/* Names from separate debug files that a stripped binary names: beside it, and in .debug. */
#include "instruments.h"
#include "libraries.h"
#include "support.h"

#include <stacksplice/debugger.h>
#include <stacksplice/stacksplice.h>

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int (*entry_function)(int (*f)(void *), void *data);

/* Its return address lies in a static function of the plugin, which only debug information names. */
static int note_caller(void *data)
{
    *(uintptr_t *)data = (uintptr_t)__builtin_return_address(0);
    return 1;
}

static int is_named(const stacksplice_frame *frame, void *data)
{
    *(bool *)data |= frame->function && strstr(frame->function, "plugin_first");
    return 0;
}

static void run(const char *format, const char *folder)
{
    char command[4096];

    (void)snprintf(command, sizeof command, format, BARE_LIBRARY, folder);
    assert_int_equal(system(command), 0);
}

#define SPLIT                                                                               \
    "set -e; cp '%1$s' '%2$s/p.so'; cd '%2$s'; objcopy --only-keep-debug p.so p.so.debug; " \
    "objcopy --strip-all --add-gnu-debuglink=p.so.debug p.so"

static const struct {
    const char *then; /* what is done with the files */
    bool named;
} cases[] = {
    {"true", true},
    {"mkdir '%2$s/.debug'; mv '%2$s/p.so.debug' '%2$s/.debug'", true},
    {"rm '%2$s/p.so.debug'", false},
    {"printf x >>'%2$s/p.so.debug'", false},                   /* its checksum is another one */
    {"rm '%2$s/p.so.debug'; mkfifo '%2$s/p.so.debug'", false}, /* the last */
};

TEST(test_debug_file_is_found_by_its_name_and_checksum)
{
#ifndef HAVE_LIBDW
    SKIP("this build has no libdw");
#endif
    if (system("objcopy --version >/dev/null 2>&1"))
        SKIP("objcopy is not installed");
    /* Valgrind reads debug files of its own accord, and would wait for a writer. */
    for (size_t i = 0; i < COUNT_OF(cases) - (UNDER_VALGRIND ? 1 : 0); i++) {
        char folder[] = "/tmp/stacksplice-debuglink-XXXXXX", path[100];
        entry_function entry;
        uintptr_t address = 0;
        bool named = false, named_in_file = false;
        void *library, *at;
        Dl_info info;

        assert_non_null(mkdtemp(folder));
        run(SPLIT, folder);
        run(cases[i].then, folder);
        (void)snprintf(path, sizeof path, "%s/p.so", folder);
        library = open_library(path);
        at = find_in(library, "plugin_entry", &entry);
        assert_int_equal(entry(note_caller, &address), 3);
        assert_int_equal(stacksplice_resolve(address, is_named, &named), S_OK);
        assert_true(dladdr(at, &info));
        assert_int_equal(dlclose(library), 0);
        assert_int_equal(stacksplice_resolve_file(path, NULL, address - (uintptr_t)info.dli_fbase,
                                                  is_named, &named_in_file),
                         S_OK);
        if (named != cases[i].named || named_in_file != named)
            fail_msg("case %zu", i);
        run("rm -r '%2$s'", folder);
    }
}
