/*
 * The shared objects of the Lua binding.  All variables of one belong to one copy of Lua.  A second
 * copy of the same version gets a second mapping: the loader maps a file once, so we give it a copy
 * of the file in memory.
 */
#include "lua/lua.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

/* The path of the object for VERSION, beside the file that this function is in; false with an
   exception. */
static bool find_file(int version, char *path, size_t size)
{
    Dl_info here = {NULL, NULL, NULL, NULL};
    const char *slash;
    int length;

    if (!dladdr((const void *)(uintptr_t)find_file, &here) || !here.dli_fname ||
        !(slash = strrchr(here.dli_fname, '/'))) {
        PyErr_SetString(PyExc_OSError, "the folder of the package was not found");
        return false;
    }
    length = snprintf(path, size, "%.*s/libstacksplice-lua%d%d.so.0", (int)(slash - here.dli_fname),
                      here.dli_fname, version / 100, version % 100);
    if (length < 0 || (size_t)length >= size) {
        PyErr_SetString(PyExc_OSError, "the path of the package is too long");
        return false;
    }
    return true;
}

static const ss_lua_loadable *load(const char *path)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const ss_lua_loadable *found = object ? dlsym(object, SS_LUA_LOADABLE_SYMBOL) : NULL;

    if (!found)
        PyErr_Format(PyExc_OSError, "the Lua binding could not be loaded: %s", dlerror());
    else if (found->size == sizeof *found)
        return found;
    else
        PyErr_Format(PyExc_OSError,
                     "%s belongs to another version of stacksplice: install it again", path);
    return NULL;
}

/* A descriptor of a copy of the file in memory; -1 with errno. */
static int copy_file(const char *path)
{
    int from = open(path, O_RDONLY | O_CLOEXEC), copy = -1, failed;
    struct stat status;
    off_t done = 0;

    if (from >= 0 && fstat(from, &status) == 0)
        copy = memfd_create("stacksplice-lua", MFD_CLOEXEC);
    while (copy >= 0 && done < status.st_size) {
        ssize_t sent = sendfile(copy, from, &done, (size_t)(status.st_size - done));

        if (sent > 0 || (sent < 0 && errno == EINTR))
            continue;
        failed = errno;
        (void)close(copy);
        errno = failed ? failed : EIO;
        copy = -1;
    }
    failed = errno;
    if (from >= 0)
        (void)close(from);
    errno = failed;
    return copy;
}

/* The frames of a copy are glue, as those of the file are.  Lives as long as the process. */
static bool add_glue(const char *path)
{
    struct names {
        stacksplice_glue glue;
        const char *binaries[2];
        char name[16];
    } *names = calloc(1, sizeof *names);

    if (!names)
        return false;
    (void)snprintf(names->name, sizeof names->name, "%s", strrchr(path, '/') + 1);
    names->binaries[0] = names->name;
    names->glue = (stacksplice_glue){
        .size = sizeof names->glue, .language = "lua", .binaries = names->binaries};
    if (SUCCEEDED(stacksplice_add_glue(&names->glue)))
        return true;
    free(names);
    return false;
}

/* The descriptor stays open: its number is the name under which the loader knows the copy. */
static const ss_lua_loadable *load_copy(const char *path)
{
    const ss_lua_loadable *found;
    int copy = copy_file(path);
    char name[40];

    if (copy < 0)
        return (void *)PyErr_Format(
            PyExc_OSError,
            "a second copy of this version of Lua needs a copy of %s in memory, which the system "
            "refused: %s",
            path, strerror(errno));
    (void)snprintf(name, sizeof name, "/proc/self/fd/%d", copy);
    found = load(name);
    if (!found)
        (void)close(copy);
    else
        (void)add_glue(name); /* else its frames are shown: a report has more lines */
    return found;
}

const ss_lua_loadable *sspy_lua_load(int version, bool again)
{
    char path[4096];

    if (!find_file(version, path, sizeof path))
        return NULL;
    return again ? load_copy(path) : load(path);
}
