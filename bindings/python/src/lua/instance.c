/* One instance of the Lua binding for each copy of Lua in the process. */
#include "lua/lua.h"

#include <dlfcn.h>
#include <pthread.h>

enum { COPIES = 24 /* the core has room for so many frame sources */ };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct copy {
    const void *identity; /* the address of its lua_newstate */
    int version;
    const ss_lua_loadable *instance; /* NULL: refused */
    ss_lua_reason reason;
} copies[COPIES]; /* (LOCK) */
static int copy_count;
static bool shows_locals; /* (LOCK) */

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

static void *find_function(void *handle, const char *name)
{
    return dlsym(handle, name);
}

static const ss_lua_loadable *refuse(const char *library, const ss_lua_reason *reason)
{
    PyErr_Format(PyExc_OSError, "the Lua in %s cannot be used: %s",
                 library ? library : "this program", reason->text);
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
    instance = sspy_lua_load(version, again);
    if (!instance)
        return false;
    for (int i = 0; i < copy_count; i++)
        if (copies[i].instance == instance) {
            PyErr_SetString(PyExc_OSError, "the Lua binding could not be mapped a second time");
            return false;
        }
    *new = (struct copy){.identity = identity, .version = version, .instance = instance};
    if (instance->bind(find_function, handle, &new->reason))
        instance->show_locals(shows_locals);
    else
        new->instance = NULL;
    copy_count++;
    return true;
}

/* With the lock. */
static const ss_lua_loadable *instance_of(void *handle, const char *library)
{
    int version = sspy_lua_version(handle, library), at = 0;
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
    void *handle = sspy_lua_handle(library);

    if (!handle)
        return (void *)PyErr_Format(PyExc_OSError, "%s is not loaded in this process",
                                    library ? library : "the program");
    lock_copies();
    instance = instance_of(handle, library);
    unlock_copies();
    if (!instance)
        (void)dlclose(handle);
    return instance;
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
