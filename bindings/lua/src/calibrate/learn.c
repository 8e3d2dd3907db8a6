/* Learns the layout, once in a process. */
#include "calibrate/calibrate.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/sample.h"

/* API functions that can call back into Lua or out of it. */
static void add_known_apis(ss_lua_layout *layout)
{
    const uintptr_t known[] = {
        (uintptr_t)lua_arith,
        (uintptr_t)lua_callk,
        (uintptr_t)lua_close,
        (uintptr_t)lua_compare,
        (uintptr_t)lua_concat,
        (uintptr_t)lua_createtable,
        (uintptr_t)lua_error,
        (uintptr_t)lua_gc,
        (uintptr_t)lua_getfield,
        (uintptr_t)lua_getglobal,
        (uintptr_t)lua_geti,
        (uintptr_t)lua_gettable,
        (uintptr_t)lua_len,
        (uintptr_t)lua_load,
        (uintptr_t)lua_newthread,
        (uintptr_t)lua_pcallk,
        (uintptr_t)lua_pushcclosure,
        (uintptr_t)lua_pushfstring,
        (uintptr_t)lua_pushlstring,
        (uintptr_t)lua_pushstring,
        (uintptr_t)lua_pushvfstring,
        (uintptr_t)lua_resume,
        (uintptr_t)lua_setfield,
        (uintptr_t)lua_setglobal,
        (uintptr_t)lua_seti,
        (uintptr_t)lua_settable,
        (uintptr_t)lua_settop,
        (uintptr_t)lua_tolstring,
        (uintptr_t)lua_yieldk,
        (uintptr_t)lua_checkstack,
#if LUA_VERSION_NUM >= 504 && LUA_VERSION_RELEASE_NUM >= 50403
        (uintptr_t)lua_closeslot,
#endif
#if LUA_VERSION_NUM >= 504 && LUA_VERSION_RELEASE_NUM >= 50406
        (uintptr_t)lua_closethread,
#endif
#if LUA_VERSION_NUM >= 504
        (uintptr_t)lua_newuserdatauv,
        (uintptr_t)lua_toclose,
#else
        (uintptr_t)lua_newuserdata,
#endif
#if LUA_VERSION_NUM == 504
        (uintptr_t)lua_resetthread,
#endif
    };

    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i]) /* else this copy is older than the function */
            layout->apis[layout->api_count++] = known[i];
}

/* If memory runs out midway, keep nothing: a place could be wrong, or a site missing. */
static const ss_lua_layout starved = {.failure = "out of memory while locating Lua's call sites"};
static const ss_lua_layout threadless = {.failure =
                                             "could not start a thread to locate Lua's call sites"};

static bool are_seen_twice(const ss_lua_sample *sample)
{
    for (uint32_t i = 0; i < sample->layout->site_count; i++)
        if (sample->seen[i] != 3)
            return false;
    return true;
}

/*
 * Two states see every site; the second removes what agreed with the first one by accident.  They
 * call the probes in two ways, so a site of one way alone needs another run.
 */
static bool run_enough(ss_lua_sample *sample)
{
    int complete = 0;

    while (complete < 2) {
        sample->again = false;
        memset(sample->seen, 0, sizeof sample->seen);
        if (!ss_lua_sample_run(sample))
            return false;
        complete = sample->again ? 0 : complete + 1; /* ends: the registers of a site fail once */
        if (complete && are_seen_twice(sample))
            break;
    }
    return true;
}

/* False when memory ran out: nothing was learnt, and a later capture may try again. */
static bool learn(ss_lua_layout *layout)
{
    ss_lua_sample *sample;
    bool learned;

    *layout = (ss_lua_layout){0};
    if (ss_lua_version() != LUA_VERSION_NUM) {
        layout->failure = "this copy of Lua does not match the lua.h of the build";
        return true;
    }
    sample = calloc(1, sizeof *sample);
    if (!sample)
        return false;
    sample->layout = layout;
    add_known_apis(layout);
    learned = run_enough(sample);
    if (learned) {
        ss_lua_sample_finish(sample);
        ss_lua_sample_settle_state(sample);
    }
    free(sample);
    return learned;
}

static pthread_mutex_t learning = PTHREAD_MUTEX_INITIALIZER;
static _Atomic(const ss_lua_layout *) learnt;
static __thread bool learning_here; /* or waiting for it, with the lock */
enum { LEARNING_STACK = 1 << 20 };

static void lock_learning(void)
{
    if (!learning_here)
        (void)pthread_mutex_lock(&learning);
}

static void unlock_learning(void)
{
    if (!learning_here)
        (void)pthread_mutex_unlock(&learning);
}

/* A child of a process that was learning must not wait for a thread that the child does not
   have. */
__attribute__((constructor)) static void register_fork_handlers(void)
{
    (void)pthread_atfork(lock_learning, unlock_learning, unlock_learning);
}

static ss_lua_layout the_layout;

static void *learning_thread(void *result)
{
    learning_here = true;
    *(const ss_lua_layout **)result = learn(&the_layout) ? &the_layout : &starved;
    return NULL;
}

static bool start_learning(pthread_t *thread, const ss_lua_layout **result)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    size_t size;
    bool started;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    if (pthread_attr_getstacksize(&attributes, &size) == 0 && size < LEARNING_STACK)
        (void)pthread_attr_setstacksize(&attributes, LEARNING_STACK);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* the new thread handles no signals */
    started = pthread_create(thread, &attributes, learning_thread, result) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    return started;
}

/*
 * Learn on a separate thread, since Lua itself runs there.  The first capture may be near the end
 * of its stack, or on the small stack of a fiber.
 */
static const ss_lua_layout *learn_elsewhere(void)
{
    const ss_lua_layout *result = &threadless;
    pthread_t thread;
    int cancel;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* joining can be cancelled */
    if (start_learning(&thread, &result))
        (void)pthread_join(thread, NULL);
    (void)pthread_setcancelstate(cancel, &cancel);
    return result;
}

const ss_lua_layout *ss_lua_layout_get(void)
{
    const ss_lua_layout *layout = atomic_load_explicit(&learnt, memory_order_acquire);
    int saved_errno = errno;

    if (layout || learning_here)
        return layout;
    (void)pthread_mutex_lock(&learning);
    layout = atomic_load_explicit(&learnt, memory_order_relaxed);
    if (!layout) {
        learning_here = true;
        layout = learn_elsewhere();
        learning_here = false;
        if (layout == &the_layout)
            atomic_store_explicit(&learnt, &the_layout, memory_order_release);
    }
    (void)pthread_mutex_unlock(&learning);
    errno = saved_errno;
    return layout;
}

const ss_lua_layout *ss_lua_layout_peek(void)
{
    return atomic_load_explicit(&learnt, memory_order_acquire);
}
