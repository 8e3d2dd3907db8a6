#include "life/shared.h"

static ss_lua_shared own_shared = {.size = sizeof own_shared, .lock = PTHREAD_MUTEX_INITIALIZER};
ss_lua_shared *ss_lua_the_shared = &own_shared;
const ss_lua_frame_source *ss_lua_the_source;

/* Each copy's fork handlers take its own lock, even if another copy uses it. */
static void lock_own(void)
{
    (void)pthread_mutex_lock(&own_shared.lock);
}

static void unlock_own(void)
{
    (void)pthread_mutex_unlock(&own_shared.lock);
}

__attribute__((constructor)) static void register_fork_handlers(void)
{
    (void)pthread_atfork(lock_own, unlock_own, unlock_own);
}

void ss_lua_forget_known(void)
{
    for (uint32_t i = 0; i < SS_LUA_KNOWN_THREADS; i++)
        atomic_store_explicit(&ss_lua_the_shared->known[i], NULL, memory_order_relaxed);
}

/* ---- Own functions ---------------------------------------------------------------------------*/

/* The linker's names for the ends of the section.  They are weak, since a program may have no such
   functions. */
extern const char __start_ss_lua_own[] __attribute__((weak, visibility("hidden")));
extern const char __stop_ss_lua_own[] __attribute__((weak, visibility("hidden")));

static const ss_lua_code own_code = {__start_ss_lua_own, __stop_ss_lua_own};

bool ss_lua_is_own_function(uintptr_t function)
{
    for (uint32_t i = 0; i < SS_LUA_COPIES; i++) {
        const ss_lua_code *code = atomic_load(&ss_lua_the_shared->own[i]);

        if (!code)
            return false;
        if (function >= (uintptr_t)code->start && function < (uintptr_t)code->end)
            return true;
    }
    return false;
}

static void add_own_code(ss_lua_shared *shared)
{
    for (uint32_t i = 0; i < SS_LUA_COPIES; i++) {
        const ss_lua_code *none = NULL;

        if (atomic_compare_exchange_strong(&shared->own[i], &none, &own_code) || none == &own_code)
            return;
    }
}

/* ---- The frame source ------------------------------------------------------------------------*/

void ss_lua_source_register(void)
{
    static atomic_bool done;
    const void *identity = (const void *)(uintptr_t)lua_newstate;
    stacksplice_source source = {.size = sizeof source,
                                 .version = STACKSPLICE_SOURCE_VERSION,
                                 .language = "lua",
                                 .identity = identity,
                                 .collect = ss_lua_the_source->collect,
                                 .data = ss_lua_the_shared,
                                 .classify = ss_lua_the_source->classify,
                                 .reports = 1};
    ss_lua_shared *shared;

    if (atomic_load(&done) || FAILED(stacksplice_add_source(&source)))
        return;
    /* Another copy may have registered first: then both use its data. */
    shared = stacksplice_source_data("lua", identity);
    if (shared && shared->size == sizeof *shared) {
        __atomic_store_n(&ss_lua_the_shared, shared, __ATOMIC_RELAXED);
        add_own_code(shared);
    }
    atomic_store(&done, true);
}
