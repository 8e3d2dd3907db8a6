/* One instance of the Lua binding for each copy of Lua in the process. */
#include "lua/lua.h"

#include <dlfcn.h>
#include <pthread.h>

enum { COPIES = 24 /* the core has room for so many frame sources */ };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct copy {
    const void *identity; /* the address of its lua_newstate */
    int version;
    const ss_lua_loadable *instance;
} copies[COPIES]; /* (LOCK) */
static int copy_count;

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

static const ss_lua_loadable *bind_copy(void *handle, const char *library, int version, bool again)
{
    const ss_lua_loadable *instance = sspy_lua_load(version, again);
    const char *missing;

    if (!instance)
        return NULL;
    for (int i = 0; i < copy_count; i++)
        if (copies[i].instance == instance)
            return (void *)PyErr_Format(PyExc_OSError,
                                        "the Lua binding could not be mapped a second time");
    missing = instance->bind(find_function, handle);
    if (!missing)
        return instance;
    return (void *)PyErr_Format(PyExc_OSError,
                                "%s does not export the function %s of Lua: build it so that it "
                                "does",
                                library ? library : "this program", missing);
}

/* With the lock. */
static const ss_lua_loadable *instance_of(void *handle, const char *library)
{
    int version = sspy_lua_version(handle, library);
    const void *identity = dlsym(handle, "lua_newstate");
    const ss_lua_loadable *instance;
    bool again = false;

    if (!version)
        return NULL;
    for (int i = 0; i < copy_count; i++) {
        if (copies[i].identity == identity)
            return copies[i].instance;
        again |= copies[i].version == version;
    }
    if (copy_count == COPIES)
        return (void *)PyErr_Format(PyExc_OSError, "there are too many copies of Lua");
    instance = bind_copy(handle, library, version, again);
    if (instance)
        copies[copy_count++] = (struct copy){identity, version, instance};
    return instance;
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
