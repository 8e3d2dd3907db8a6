/* Learns the layout, once in a process. */
#include "calibrate/calibrate.h"
#include "life/life.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

/* API functions that can call back into Lua or out of it. */
static void add_known_apis(ss_lua_layout *layout)
{
    const uintptr_t known[] = {
        (uintptr_t)SS_LUA_CALL,
        (uintptr_t)lua_close,
        (uintptr_t)lua_concat,
        (uintptr_t)lua_createtable,
        (uintptr_t)lua_error,
        (uintptr_t)lua_gc,
        (uintptr_t)lua_getfield,
        (uintptr_t)lua_gettable,
        (uintptr_t)lua_load,
        (uintptr_t)lua_newthread,
        (uintptr_t)SS_LUA_PCALL,
        (uintptr_t)lua_pushcclosure,
        (uintptr_t)lua_pushfstring,
        (uintptr_t)lua_pushlstring,
        (uintptr_t)lua_pushstring,
        (uintptr_t)lua_pushvfstring,
        (uintptr_t)lua_resume,
        (uintptr_t)lua_setfield,
        (uintptr_t)lua_settable,
        (uintptr_t)lua_settop,
        (uintptr_t)lua_tolstring,
        (uintptr_t)SS_LUA_YIELD,
        (uintptr_t)lua_checkstack,
#if !SS_LUA_HAS_ARITH
        (uintptr_t)lua_equal,
        (uintptr_t)lua_lessthan,
#else
        (uintptr_t)lua_arith,
        (uintptr_t)lua_compare,
        (uintptr_t)lua_getglobal,
        (uintptr_t)lua_len,
        (uintptr_t)lua_setglobal,
#endif
#if SS_LUA_HAS_GETI
        (uintptr_t)lua_geti,
        (uintptr_t)lua_seti,
#endif
#if SS_LUA_HAS_CLOSESLOT
        (uintptr_t)lua_closeslot,
#endif
#if SS_LUA_HAS_CLOSETHREAD
        (uintptr_t)lua_closethread,
#endif
#if SS_LUA_HAS_USER_VALUES
        (uintptr_t)lua_newuserdatauv,
        (uintptr_t)lua_toclose,
#else
        (uintptr_t)lua_newuserdata,
#endif
#if SS_LUA_HAS_RESETTHREAD
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

/* Learning happens once in each copy of the binding. */
static const char *another_version(void)
{
    static char reason[96];
    int version = ss_lua_version();

    (void)snprintf(reason, sizeof reason,
                   "stacksplice is built with the lua.h of Lua %d.%d, and this is Lua %d.%d",
                   LUA_VERSION_NUM / 100, LUA_VERSION_NUM % 100, version / 100, version % 100);
    return reason;
}

/* False when memory ran out: nothing was learnt, and a later capture may try again. */
static bool learn(ss_lua_layout *layout)
{
    *layout = (ss_lua_layout){.failure = ss_lua_kind_reason()};
    if (ss_lua_version() != LUA_VERSION_NUM)
        layout->failure = another_version();
    if (layout->failure)
        return true;
    add_known_apis(layout);
    return ss_lua_sample(layout);
}

static _Atomic(const ss_lua_layout *) learnt;
static __thread bool learning_here;
enum { LEARNING_STACK = 1 << 20 };

static ss_lua_layout the_layout;

/* The name of a thread that learns.  Its captures ask the sources of other copies, too, and two of them
   would wait for each other: no copy learns on a thread of that name. */
static const char learner[] = "stacksplice-lua";

static bool is_learner(void)
{
    char name[16] = "";

    return prctl(PR_GET_NAME, name) == 0 && strcmp(name, learner) == 0;
}

static void *learning_thread(void *result)
{
    (void)prctl(PR_SET_NAME, learner);
    learning_here = true;
    *(const ss_lua_layout **)result = learn(&the_layout) ? &the_layout : &starved;
    return NULL;
}

static bool start_learning(pthread_t *thread, const ss_lua_layout **result)
{
    pthread_attr_t attributes;
    size_t size;
    bool started;

    if (pthread_attr_init(&attributes) != 0)
        return false;
    if (pthread_attr_getstacksize(&attributes, &size) == 0 && size < LEARNING_STACK)
        (void)pthread_attr_setstacksize(&attributes, LEARNING_STACK);
    started = pthread_create(thread, &attributes, learning_thread, result) == 0;
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

    if (start_learning(&thread, &result))
        (void)pthread_join(thread, NULL);
    return result;
}

/* What this copy has learnt, or learns now. */
static const ss_lua_layout *learn_once(void)
{
    const ss_lua_layout *layout;

    (void)pthread_mutex_lock(&ss_lua_the_shared->lock);
    layout = atomic_load_explicit(&learnt, memory_order_relaxed);
    if (!layout) {
        layout = learn_elsewhere();
        if (layout == &the_layout)
            atomic_store_explicit(&learnt, &the_layout, memory_order_release);
    }
    (void)pthread_mutex_unlock(&ss_lua_the_shared->lock);
    return layout;
}

/* No signal is handled meanwhile, on neither thread: its handler could fork, or capture.  To wait for
   a thread can be cancelled. */
static SS_LUA_NOINLINE const ss_lua_layout *learn_undisturbed(void)
{
    const ss_lua_layout *layout;
    int saved_errno = errno, cancel;
    sigset_t all, before;

    if (learning_here || is_learner())
        return NULL;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
    layout = learn_once();
    (void)pthread_setcancelstate(cancel, &cancel);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = saved_errno;
    return layout;
}

const ss_lua_layout *ss_lua_layout_get(void)
{
    const ss_lua_layout *layout = ss_lua_layout_peek();

    return layout ? layout : learn_undisturbed();
}

const ss_lua_layout *ss_lua_layout_peek(void)
{
    return atomic_load_explicit(&learnt, memory_order_acquire);
}
