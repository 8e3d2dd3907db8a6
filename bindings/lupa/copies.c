/*
 * The copies of Lua in this process, and an instance of the Lua binding for each.
 *
 * The binding is in shared objects of the package, one for each version (loadable.h).  All variables
 * of one belong to one copy of Lua.  A second copy of the same version gets a second mapping: the
 * loader maps a file once, so we give it a copy of the file in memory.
 */
#include "lupa/lupa.h"
#include "shared/versions.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Which version --------------------------------------------------------------------------------*/

/* Stands for LuaJIT among the versions. */
enum { LUAJIT = 500 };

/* The version of the copy of Lua in HANDLE, as LUA_VERSION_NUM, found before any function is called that
   differs between the versions; 0 with an exception that names LIBRARY if it is none that we support. */
static int version_of(void *handle, const char *library)
{
    /* Since 5.4 it takes no notice of the state. */
    double (*version)(void *L) = (double (*)(void *))(uintptr_t)dlsym(handle, "lua_version");
    int number;

    if (!dlsym(handle, "lua_newstate")) {
        PyErr_Format(PyExc_OSError,
                     "%s exports no functions of Lua (lua_newstate was not found): build it so "
                     "that it does, or link it with a shared Lua",
                     library);
        return 0;
    }
    if (dlsym(handle, "luaJIT_setmode"))
        return LUAJIT;
    if (!version)
        return 501;
    if (!dlsym(handle, "lua_rotate"))
        return 502;
    if (!dlsym(handle, "lua_newuserdatauv"))
        return 503;
    number = (int)version(NULL);
    if (number == 504 || number == 505)
        return number;
    PyErr_Format(PyExc_ValueError,
                 "this version of Lua in %s is not supported: stacksplice reads the stacks of "
                 "Lua " SS_LUA_RANGE " and LuaJIT",
                 library);
    return 0;
}

/* ---- Which copy a file calls ----------------------------------------------------------------------*/

/*
 * A file may contain Lua and still call another one: if a Lua was loaded into the global scope first,
 * the loader binds the file's calls to that.
 */

/* A function that everybody calls who uses Lua. */
static const char asked[] = "lua_settop";

/* What is looked up in a file's dynamic section. */
typedef struct tables {
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * calls, *data;
    size_t call_size, data_size;
} tables;

/* The C library may have added the base address already. */
static const void *at(const struct link_map *map, ElfW(Addr) address)
{
    return (const void *)(address < map->l_addr ? map->l_addr + address : address);
}

static tables tables_of(const struct link_map *map)
{
    tables found = {NULL, NULL, NULL, NULL, 0, 0};

    for (const ElfW(Dyn) *each = map->l_ld; each->d_tag != DT_NULL; each++)
        switch (each->d_tag) {
        case DT_SYMTAB:
            found.symbols = at(map, each->d_un.d_ptr);
            break;
        case DT_STRTAB:
            found.names = at(map, each->d_un.d_ptr);
            break;
        case DT_JMPREL:
            found.calls = at(map, each->d_un.d_ptr);
            break;
        case DT_PLTRELSZ:
            found.call_size = each->d_un.d_val;
            break;
        case DT_RELA:
            found.data = at(map, each->d_un.d_ptr);
            break;
        case DT_RELASZ:
            found.data_size = each->d_un.d_val;
            break;
        default:
            break;
        }
    return found;
}

/* The address in the slot of the function, from the SIZE bytes of relocations; 0 without one. */
static uintptr_t bound(const struct link_map *map, const tables *of, const ElfW(Rela) * relocations,
                       size_t size)
{
    for (size_t i = 0; relocations && i < size / sizeof *relocations; i++) {
        size_t symbol = ELF64_R_SYM(relocations[i].r_info);

        if (symbol && strcmp(of->names + of->symbols[symbol].st_name, asked) == 0)
            return *(const uintptr_t *)(map->l_addr + relocations[i].r_offset);
    }
    return 0;
}

static bool calls(void *handle, const void *function)
{
    struct link_map *map = NULL;
    tables of;

    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) || !map)
        return false;
    of = tables_of(map);
    if (!of.symbols || !of.names)
        return false;
    return bound(map, &of, of.calls, of.call_size) == (uintptr_t)function ||
           bound(map, &of, of.data, of.data_size) == (uintptr_t)function;
}

/* The handle in which dlsym finds the functions of Lua that the loaded file LIBRARY calls; NULL if the
   file is not loaded. */
static void *handle_of(const char *library)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD), *global = dlopen(NULL, RTLD_LAZY);
    void *function = global ? dlsym(global, asked) : NULL;

    if (handle && function && function != dlsym(handle, asked) && calls(handle, function)) {
        (void)dlclose(handle);
        return global;
    }
    if (global)
        (void)dlclose(global);
    return handle;
}

/* ---- The files of the binding ---------------------------------------------------------------------*/

/* The path of the object for VERSION, beside the file that this function is in; false with an
   exception. */
static bool find_file(int version, char *path, size_t size)
{
    Dl_info here = {NULL, NULL, NULL, NULL};
    const char *slash;
    char name[8];
    int length;

    if (!dladdr((const void *)(uintptr_t)find_file, &here) || !here.dli_fname ||
        !(slash = strrchr(here.dli_fname, '/'))) {
        PyErr_SetString(PyExc_OSError, "the folder of the package was not found");
        return false;
    }
    (void)snprintf(name, sizeof name, version == LUAJIT ? "jit" : "%d%d", version / 100,
                   version % 100);
    length = snprintf(path, size, "%.*s/libstacksplice-lua%s.so.0", (int)(slash - here.dli_fname),
                      here.dli_fname, name);
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

    if (!found && access(path, F_OK) != 0)
        PyErr_Format(PyExc_OSError, "%s is missing", path);
    else if (!found)
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

/*
 * What the core is told of the file PATH: without UNREAD, a copy of ours, that its frames are glue;
 * else why nothing reads the Lua in it.  Lives as long as the process.
 */
static bool add_glue(const char *path, const char *unread)
{
    struct names {
        stacksplice_glue glue;
        const char *files[2];
        char reason[512];
        char name[];
    } * names;
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

    names = calloc(1, sizeof *names + strlen(name) + 1);
    if (!names)
        return false;
    memcpy(names->name, name, strlen(name));
    names->files[0] = names->name;
    names->glue = (stacksplice_glue){.size = sizeof names->glue, .language = "lua"};
    if (unread) {
        (void)snprintf(names->reason, sizeof names->reason,
                       "Lua frames unknown: stacksplice does not read %s", unread);
        names->glue.unread = names->reason;
        names->glue.libraries = names->files;
    } else {
        names->glue.binaries = names->files;
    }
    if (SUCCEEDED(stacksplice_add_glue(&names->glue)))
        return true;
    free(names);
    return false;
}

PyObject *sspy_lupa_unread(PyObject *Py_UNUSED(module), PyObject *arguments)
{
    const char *library, *reason;

    if (!PyArg_ParseTuple(arguments, "ss", &library, &reason))
        return NULL;
    return PyBool_FromLong(add_glue(library, reason));
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
        (void)add_glue(name, NULL); /* else its frames are shown: a report has more lines */
    return found;
}

/* Load the object for VERSION from the package's folder; AGAIN: a further mapping of it, with its own
   variables.  NULL with an exception. */
static const ss_lua_loadable *load_version(int version, bool again)
{
    char path[4096];

    if (!find_file(version, path, sizeof path))
        return NULL;
    return again ? load_copy(path) : load(path);
}

/* ---- Instances ------------------------------------------------------------------------------------*/

enum { COPIES = 24 /* the core has room for so many frame sources */ };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct copy {
    const void *identity; /* the address of its lua_newstate */
    int version;
    const ss_lua_loadable *instance; /* NULL: refused */
    ss_lua_reason reason;
} copies[COPIES];             /* (LOCK) */
static atomic_int copy_count; /* grows with the lock; signal handlers read it */
static bool shows_locals;     /* (LOCK) */

/* A child of a process in which another thread has the lock must not wait for it. */
static void lock_copies(void)
{
    (void)pthread_mutex_lock(&lock);
}

static void unlock_copies(void)
{
    (void)pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void register_fork_handlers(void)
{
    (void)pthread_atfork(lock_copies, unlock_copies, unlock_copies);
}

static const ss_lua_loadable *refuse(const char *library, const ss_lua_reason *reason)
{
    PyErr_Format(PyExc_OSError, "the Lua in %s cannot be used: %s", library, reason->text);
    return NULL;
}

/* Add the copy, with an instance of its own or with the reason why it has none; false with an
   exception if another attempt may succeed. */
static bool add(void *handle, const void *identity, int version, bool again)
{
    struct copy *new = &copies[copy_count];
    const ss_lua_loadable *instance;

    if (copy_count == COPIES) {
        PyErr_SetString(PyExc_OSError, "there are too many copies of Lua in this process");
        return false;
    }
    instance = load_version(version, again);
    if (!instance)
        return false;
    for (int i = 0; i < copy_count; i++)
        if (copies[i].instance == instance) {
            PyErr_SetString(PyExc_OSError, "the Lua binding could not be mapped a second time");
            return false;
        }
    *new = (struct copy){.identity = identity, .version = version, .instance = instance};
    if (instance->bind(dlsym, handle, &new->reason))
        instance->show_locals(shows_locals);
    else
        new->instance = NULL;
    copy_count++;
    return true;
}

/* With the lock. */
static const ss_lua_loadable *instance_of(void *handle, const char *library)
{
    int version = version_of(handle, library), at = 0;
    const void *identity = dlsym(handle, "lua_newstate");
    bool again = false;

    if (!version)
        return NULL;
    for (; at < copy_count && copies[at].identity != identity; at++)
        again |= copies[at].version == version && copies[at].instance;
    if (at == copy_count && !add(handle, identity, version, again))
        return NULL;
    return copies[at].instance ? copies[at].instance : refuse(library, &copies[at].reason);
}

/* The handle stays open: what we call is never unloaded. */
const ss_lua_loadable *sspy_lua_instance(const char *library)
{
    const ss_lua_loadable *instance;
    void *handle = handle_of(library);

    if (!handle)
        return (void *)PyErr_Format(PyExc_OSError, "%s is not loaded in this process", library);
    lock_copies();
    instance = instance_of(handle, library);
    unlock_copies();
    if (!instance)
        (void)dlclose(handle);
    return instance;
}

void sspy_lua_interrupt(uint64_t number, const ss_lua_loadable *calls, void *resumed)
{
    for (int i = 0; i < copy_count; i++) {
        const ss_lua_loadable *each = copies[i].instance;

        if (each)
            each->interrupt(number, each == calls ? resumed : NULL);
    }
}

void sspy_lua_show_locals(bool shows)
{
    lock_copies();
    shows_locals = shows;
    for (int i = 0; i < copy_count; i++) {
        if (copies[i].instance)
            copies[i].instance->show_locals(shows);
    }
    unlock_copies();
}
