/* Protected calls for hosts: failures become the thread's error. */
#include "life/binding.h"

#include <string.h>

/* What a protected part gets and gives. */
typedef struct job {
    ss_lua_origin origin;
    HRESULT hr;
    IUnknown *exception;
    bool unseen; /* by any handler: an equal value without identity was another error */
} job;

/* Arguments: the error value, the job. */
static int originate_protected(lua_State *L)
{
    job *now = lua_touserdata(L, 2);
    ss_lua_state *state = ss_lua_state_open(L);

    ss_lua_state_tend(L, state);
    if (now->unseen)
        ss_lua_forget_equal(L, state, 1);
    else
        ss_lua_forget_originated(L, state, 1);
    now->hr = ss_lua_originate_value(L, state, 1, &now->origin);
    if (ss_lua_ties_find(L, state, 1) == &state->last)
        state->last_raised = false;
    return 0;
}

/*
 * Run BODY with the value at the top, which stays.  Lua may be without memory: then the error is
 * the one that needs none.  [-0, +0, -], four slots
 */
static HRESULT run_protected(lua_State *L, lua_CFunction body, job *now)
{
    lua_pushcfunction(L, body);
    lua_pushvalue(L, -2);
    lua_pushlightuserdata(L, now);
    if (lua_pcall(L, 2, 0, 0) == LUA_OK)
        return now->hr;
    lua_pop(L, 1);
    (void)stacksplice_originate(E_OUTOFMEMORY, NULL, 0, NULL, NULL);
    return E_OUTOFMEMORY;
}

/* ---- Interrupts ------------------------------------------------------------------------------*/

/* A plain pcall inside caught an interrupt and the call then succeeded, or failed otherwise: what
   comes out is the interrupt.  True when CALLED had one; the error is in the slot. */
static SS_LUA_NOINLINE bool take_interrupt(lua_State *L, lua_State *called, const void *above,
                                           HRESULT *hr)
{
    ss_lua_state *state;
    job now = {.origin = {.above = above, .status = LUA_ERRRUN}, .hr = E_UNEXPECTED};

    /* Results may have filled the stack.  Without room the mark stays, and its hooks. */
    if (!lua_checkstack(L, LUA_MINSTACK))
        return false;
    state = ss_lua_state_find(L);
    if (!state || !ss_lua_is_interrupted(called, state))
        return false;
    ss_lua_push_interrupt(L);
    ss_lua_interrupt_clear(L, state);
    *hr = run_protected(L, originate_protected, &now);
    lua_pop(L, 1);
    return true;
}

/* Whether take_interrupt can find one. */
static inline bool may_be_interrupted(void)
{
    return atomic_load_explicit(&ss_lua_the_shared->interrupted_states, memory_order_relaxed) != 0;
}

/* ---- Calls -----------------------------------------------------------------------------------*/

/* The error value is at the top; it becomes the thread's error and goes. */
static SS_LUA_NOINLINE HRESULT fail(lua_State *L, int status, const void *above)
{
    job now = {.origin = {.above = above, .status = status, .unwound = true}, .hr = E_UNEXPECTED};
    HRESULT hr;

    if (!may_be_interrupted() || !take_interrupt(L, L, above, &hr))
        hr = run_protected(L, originate_protected, &now);
    lua_pop(L, 1);
    return hr;
}

static int open_protected(lua_State *L)
{
    ss_lua_plant_sentinel(L, ss_lua_state_open(L));
    return 0;
}

/*
 * Another language may capture inside the call before anything of ours has run in this state, and
 * functions have their names only in a state that was opened.  Without memory the names are
 * missing, nothing else.  [-0, +0, -], one slot
 */
static SS_LUA_NOINLINE void know_state(lua_State *L)
{
    lua_pushcfunction(L, open_protected);
    if (lua_pcall(L, 0, 0, 0) == LUA_OK)
        atomic_store_explicit(ss_lua_known_place(L), L, memory_order_relaxed);
    else
        lua_pop(L, 1);
}

static inline bool is_known(lua_State *L)
{
    return atomic_load_explicit(ss_lua_known_place(L), memory_order_relaxed) == L;
}

static HRESULT invalid(const char *message)
{
    (void)stacksplice_originate(E_INVALIDARG, message, strlen(message), NULL, NULL);
    return E_INVALIDARG;
}

/* Lua itself trusts these numbers and would read and write below its stack. */
static HRESULT invalid_count(void)
{
    return invalid("the function and its arguments are not on the stack");
}

/* The call succeeded, with the handler at BASE; what comes out may be an interrupt nevertheless. */
static SS_LUA_NOINLINE HRESULT finish_interrupted(lua_State *L, int base, const void *above)
{
    HRESULT hr = S_OK;

    if (take_interrupt(L, L, above, &hr))
        lua_settop(L, base - 1);
    return hr;
}

/*
 * On success nothing but what the handler costs: pushed, put below the function and taken away
 * again, all of which the public API of Lua asks for.
 */
SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_pcall(lua_State *L, int nargs, int nresults)
{
    int base = lua_gettop(L) - nargs, status;

    if (nargs < 0 || base < 1 || nresults < LUA_MULTRET)
        return invalid_count();
    if (!is_known(L))
        know_state(L);
    lua_pushcfunction(L, stacksplice_lua_handler);
    lua_insert(L, base);
    status = lua_pcall(L, nargs, nresults, base);
    if (nresults == 0 && status == LUA_OK)
        lua_settop(L, base - 1);
    else
        lua_remove(L, base);
    if (status != LUA_OK)
        return fail(L, status, SS_LUA_HERE());
    return may_be_interrupted() ? finish_interrupted(L, base, SS_LUA_HERE()) : S_OK;
}

/*
 * What a yielding call needs when it comes back stands below its handler: what is called then, with
 * what context.
 */
enum { CONTINUATION, CONTEXT, HANDLER, FUNCTION };

static SS_LUA_NOINLINE HRESULT finish_yieldable(lua_State *L, int base, int status,
                                                const void *above)
{
    lua_rotate(L, base, -FUNCTION);
    lua_pop(L, FUNCTION);
    if (status != LUA_OK && status != LUA_YIELD)
        return fail(L, status, above);
    return may_be_interrupted() ? finish_interrupted(L, base, above) : S_OK;
}

static SS_LUA_NOINLINE int continue_call(lua_State *L, int status, lua_KContext where)
{
    int base = (int)where;
    lua_KFunction k = (lua_KFunction)(uintptr_t)lua_touserdata(L, base + CONTINUATION);
    lua_KContext context = (lua_KContext)lua_touserdata(L, base + CONTEXT);
    HRESULT hr = finish_yieldable(L, base, status, SS_LUA_HERE());

    return k(L, FAILED(hr) ? (int)hr : LUA_YIELD, context);
}

SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_pcallk(lua_State *L, int nargs, int nresults,
                                                           lua_KContext context, lua_KFunction k)
{
    int base = lua_gettop(L) - nargs, status;

    if (!k)
        return stacksplice_lua_pcall(L, nargs, nresults);
    if (nargs < 0 || base < 1 || nresults < LUA_MULTRET)
        return invalid_count();
    if (!is_known(L))
        know_state(L);
    lua_pushlightuserdata(L, (void *)(uintptr_t)k);
    lua_pushlightuserdata(L, (void *)context);
    lua_pushcfunction(L, stacksplice_lua_handler);
    lua_rotate(L, base, FUNCTION);
    status = lua_pcallk(L, nargs, nresults, base + HANDLER, base, continue_call);
    return finish_yieldable(L, base, status, SS_LUA_HERE());
}

/* ---- Coroutines ------------------------------------------------------------------------------*/

/* Closing runs __close methods, which may leave errors of their own: the first one stays. */
static void close_thread(lua_State *L, lua_State *from)
{
    stacksplice_saved_error saved;

    (void)stacksplice_save_error(&saved);
#if LUA_VERSION_RELEASE_NUM >= 50406
    (void)lua_closethread(L, from);
#else
    (void)from;
    (void)lua_resetthread(L);
#endif
    lua_settop(L, 0);
    (void)stacksplice_restore_error(&saved);
}

static lua_State *main_thread(lua_State *L)
{
    lua_State *main;

    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    main = lua_tothread(L, -1);
    lua_pop(L, 1);
    return main;
}

/* The main thread failed: only when it is closed can it run anything again, and its value stays. */
static void close_main(lua_State *L)
{
#if LUA_VERSION_RELEASE_NUM >= 50406
    (void)lua_closethread(L, NULL);
#else
    (void)lua_resetthread(L);
#endif
    if (lua_gettop(L) == 0)
        lua_pushnil(L); /* Lua 5.4.2 and older do not keep it */
}

/* The value at the top of L goes to HOST, which can run something, and becomes the error. */
static HRESULT fail_resumed(lua_State *L, lua_State *host, job *now)
{
    HRESULT hr;

    if (host == L && now->origin.dead) {
        close_main(L);
        now->origin.dead = NULL;
    }
    if (!lua_checkstack(host, LUA_MINSTACK)) {
        lua_pop(L, 1);
        (void)stacksplice_originate(E_OUTOFMEMORY, NULL, 0, NULL, NULL);
        return E_OUTOFMEMORY;
    }
    if (host != L)
        lua_xmove(L, host, 1);
    if (!may_be_interrupted() || !take_interrupt(host, L, now->origin.above, &hr))
        hr = run_protected(host, originate_protected, now);
    lua_pop(host, 1);
    return hr;
}

static SS_LUA_NOINLINE HRESULT resume_failed(lua_State *L, lua_State *from, lua_State *host,
                                             int status, const void *above)
{
    job now = {.origin = {.above = above, .status = status, .unwound = true, .dead = L}};
    /* One that runs, has returned or finds no room was not even entered and must not be closed. */
    bool refused = lua_status(L) == LUA_OK || lua_status(L) == LUA_YIELD;
    ss_lua_state *state = ss_lua_state_find(host);
    HRESULT hr;

    now.unseen = refused || !state || !ss_lua_take_raising(L, state, 0);
    if (refused) {
        now.origin.dead = NULL;
        now.origin.unwound = false;
    }
    hr = fail_resumed(L, host, &now);
    if (!refused && host != L)
        close_thread(L, from);
    return hr;
}

SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_resume(lua_State *L, lua_State *from, int nargs,
                                                           int *nresults)
{
    lua_State *host = from;
    int status;

    if (!nresults)
        return E_POINTER;
    if (nargs < 0 || nargs > lua_gettop(L))
        return invalid_count();
    *nresults = 0;
    if (!host)
        host = main_thread(L); /* now: a coroutine that failed has no free slot */
    status = lua_resume(L, from, nargs, nresults);
    if (status == LUA_OK || status == LUA_YIELD)
        return status == LUA_OK ? S_OK : S_FALSE;
    *nresults = 0;
    return resume_failed(L, from, host, status, SS_LUA_HERE());
}

/* ---- Error values in hand --------------------------------------------------------------------*/

/* lua_isnone asks only indices above the top: 0 and those below the stack are read blindly. */
static bool has_value(lua_State *L, int index)
{
    if (index <= 0 && index > LUA_REGISTRYINDEX)
        return index < 0 && -index <= lua_gettop(L);
    return !lua_isnone(L, index);
}

static HRESULT originate_at(lua_State *L, int index, int status, const void *above)
{
    job now = {.origin = {.above = above, .status = status, .unwound = true}, .hr = E_UNEXPECTED};
    HRESULT hr;

    if (!has_value(L, index))
        return invalid("there is no value at this index");
    lua_pushvalue(L, index);
    hr = run_protected(L, originate_protected, &now);
    lua_pop(L, 1);
    return hr;
}

SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_originate(lua_State *L, int index)
{
    return originate_at(L, index, LUA_ERRRUN, SS_LUA_HERE());
}

SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_originate_status(lua_State *L, int index,
                                                                     int status)
{
    return originate_at(L, index, status, SS_LUA_HERE());
}

/* Arguments: the error value, the job. */
static int exception_protected(lua_State *L)
{
    job *now = lua_touserdata(L, 2);
    ss_lua_state *state = ss_lua_state_open(L);
    IUnknown *error = ss_lua_to_error(L, 1);
    ss_lua_ties *ties;

    ss_lua_state_tend(L, state);
    if (error) {
        ss_lua_pin_error_object(L, state, 1);
        now->exception = ss_lua_error_exception(error);
        now->hr = now->exception ? S_OK : S_FALSE;
        return 0;
    }
    ties = ss_lua_ties_make(L, state, 1, &now->origin);
    ss_lua_find_causes(L, state, 1, &now->origin);
    ss_lua_pin(L, ties->exception, 1);
    now->exception = ss_lua_unknown(ties->exception);
    now->exception->lpVtbl->AddRef(now->exception);
    now->hr = S_OK;
    return 0;
}

SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_exception(lua_State *L, int index,
                                                              IUnknown **out)
{
    job now = {.origin = {.above = SS_LUA_HERE(), .status = LUA_ERRRUN, .unwound = true},
               .hr = E_UNEXPECTED};
    HRESULT hr;

    if (!out)
        return E_POINTER;
    if (!has_value(L, index))
        return E_INVALIDARG;
    *out = NULL;
    lua_pushvalue(L, index);
    lua_pushcfunction(L, exception_protected);
    lua_pushvalue(L, -2);
    lua_pushlightuserdata(L, &now);
    hr = lua_pcall(L, 2, 0, 0) == LUA_OK ? now.hr : E_OUTOFMEMORY;
    lua_pop(L, hr == E_OUTOFMEMORY && !now.exception ? 2 : 1);
    *out = now.exception;
    return hr;
}

int stacksplice_lua_push(lua_State *L, IUnknown *language_exception)
{
    ss_lua_state *state;
    ss_lua_exception *x;

    if (!language_exception || !lua_checkstack(L, 4))
        return 0;
    state = ss_lua_state_find(L);
    x = state ? ss_lua_exception_from(language_exception, state) : NULL;
    return x && ss_lua_push_value(L, x);
}
