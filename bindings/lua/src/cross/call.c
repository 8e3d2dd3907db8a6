/* Calls and coroutines, of hosts and of scripts: failures become the thread's error, or have an error
   object. */
#include "version/call_info.h"
#include "cross/cross.h"

/* Make the error value at the top the thread's error, and pop it.  HANDLER and FUNCTION are the indices of
   the call's message handler and function. */
static SS_LUA_NOINLINE HRESULT fail(lua_State *L, int status, int handler, int function,
                                    const void *above)
{
    ss_lua_job now = {.origin = ss_lua_landing(L, status, handler, function, above),
                      .hr = E_UNEXPECTED};
    HRESULT hr;

    if (!ss_lua_may_be_interrupted() || !ss_lua_take_interrupt(L, L, above, &hr))
        hr = ss_lua_originate_top(L, &now);
    lua_pop(L, 1);
    return hr;
}

static int open_protected(lua_State *L)
{
    ss_lua_plant_gc_canary(L, ss_lua_state_open(L));
    return 0;
}

/*
 * Another language may capture inside the call before any of our functions has run in this state,
 * and functions have their names only in a state that was opened.  Without memory only the names
 * are missing. [-0, +0, -], one slot
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

/* The call succeeded, with the function at BASE or its handler, but its result may still be an
   interrupt. */
static SS_LUA_NOINLINE HRESULT finish_interrupted(lua_State *L, int base, const void *above)
{
    HRESULT hr = S_OK;

    if (ss_lua_take_interrupt(L, L, above, &hr))
        lua_settop(L, base - 1);
    return hr;
}

/* A call with the handler at index MSGH of the stack, below the function at BASE. */
SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_xpcall(lua_State *L, int nargs, int nresults,
                                                           int msgh)
{
    int base = lua_gettop(L) - nargs, status;

    if (nargs < 0 || msgh < 1 || base <= msgh || nresults < LUA_MULTRET)
        return ss_lua_invalid_count();
    if (!is_known(L))
        know_state(L);
    status = lua_pcall(L, nargs, nresults, msgh);
    if (status != LUA_OK)
        return fail(L, status, msgh, base, SS_LUA_HERE());
    return ss_lua_may_be_interrupted() ? finish_interrupted(L, base, SS_LUA_HERE()) : S_OK;
}

/*
 * On success the only cost is the handler's: it is pushed, put below the function and removed
 * again, all through the public API of Lua.
 */
SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_pcall(lua_State *L, int nargs, int nresults)
{
    int base = lua_gettop(L) - nargs, status;

    if (nargs < 0 || base < 1 || nresults < LUA_MULTRET)
        return ss_lua_invalid_count();
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
        return fail(L, status, base, base + 1, SS_LUA_HERE());
    return ss_lua_may_be_interrupted() ? finish_interrupted(L, base, SS_LUA_HERE()) : S_OK;
}

#if SS_LUA_CONTINUES
/*
 * A yielding call keeps below its handler what it needs when it comes back: the continuation and
 * its context.
 */
enum { CONTINUATION, CONTEXT, YIELDING_HANDLER, FUNCTION };

static SS_LUA_NOINLINE HRESULT finish_yieldable(lua_State *L, int base, int status,
                                                const void *above)
{
    lua_rotate(L, base, -FUNCTION);
    lua_pop(L, FUNCTION);
    if (status != LUA_OK && status != LUA_YIELD)
        return fail(L, status, base + YIELDING_HANDLER, base + FUNCTION, above);
    return ss_lua_may_be_interrupted() ? finish_interrupted(L, base, above) : S_OK;
}

static SS_LUA_NOINLINE int continue_call(lua_State *L, int status, lua_KContext where)
{
    int base = (int)where;
    lua_KFunction k = (lua_KFunction)(uintptr_t)lua_touserdata(L, base + CONTINUATION);
    lua_KContext context = (lua_KContext)lua_touserdata(L, base + CONTEXT);
    HRESULT hr = finish_yieldable(L, base, status, SS_LUA_HERE());

    return k(L, FAILED(hr) ? (int)hr : LUA_YIELD, context);
}

SS_LUA_CONTINUATION(continue_call);

SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_pcallk(lua_State *L, int nargs, int nresults,
                                                           lua_KContext context, lua_KFunction k)
{
    int base = lua_gettop(L) - nargs, status;

    if (!k)
        return stacksplice_lua_pcall(L, nargs, nresults);
    if (nargs < 0 || base < 1 || nresults < LUA_MULTRET)
        return ss_lua_invalid_count();
    if (!is_known(L))
        know_state(L);
    lua_pushlightuserdata(L, (void *)(uintptr_t)k);
    lua_pushlightuserdata(L, (void *)context);
    lua_pushcfunction(L, stacksplice_lua_handler);
    lua_rotate(L, base, FUNCTION);
    status = lua_pcallk(L, nargs, nresults, base + YIELDING_HANDLER, base, SS_LUA_K(continue_call));
    return finish_yieldable(L, base, status, SS_LUA_HERE());
}
#endif

/* ---- Coroutines of hosts ----------------------------------------------------------------------*/

/* stacksplice_lua_resume: captures the stack of a coroutine that fails, then closes it. */

/* Closing runs __close methods, which may set errors of their own: the first error stays. */
static void close_thread(lua_State *L, lua_State *from)
{
    stacksplice_saved_error saved;

    (void)stacksplice_save_error(&saved);
#if SS_LUA_HAS_CLOSETHREAD
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

    ss_lua_push_main(L);
    main = lua_tothread(L, -1);
    lua_pop(L, 1);
    return main;
}

/* The main thread failed.  It can run nothing again until it is closed, and its value stays. */
static void close_main(lua_State *L)
{
#if SS_LUA_HAS_CLOSETHREAD
    (void)lua_closethread(L, NULL);
#else
    (void)lua_resetthread(L);
#endif
    if (lua_gettop(L) == 0)
        lua_pushnil(L); /* Lua 5.4.2 and older do not keep it */
}

/* Move the value at the top of L to HOST, which can run code, and make it the error. */
static HRESULT fail_resumed(lua_State *L, lua_State *host, ss_lua_job *now)
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
    if (!ss_lua_may_be_interrupted() || !ss_lua_take_interrupt(host, L, now->origin.above, &hr))
        hr = ss_lua_originate_top(host, now);
    lua_pop(host, 1);
    return hr;
}

static SS_LUA_NOINLINE HRESULT resume_failed(lua_State *L, lua_State *from, lua_State *host,
                                             int status, const void *above)
{
    ss_lua_job now = {.origin = {.above = above, .status = status, .unwound = true, .dead = L}};
    /* Lua did not enter a thread that runs, has returned or has no room; it must not be closed. */
    bool refused = lua_status(L) == LUA_OK || lua_status(L) == LUA_YIELD;
    ss_lua_state *state = ss_lua_state_find(host);
    HRESULT hr;

    now.origin.has_lost = !refused && ss_lua_has_lost_frames(L, true);
    if (!refused && state && ss_lua_take_raising(L, state, -1, L, 0)) {
        ss_lua_begin_flight(state, host, (ss_lua_call_place){0, 0});
        now.origin.which = SS_LUA_LANDED;
    }
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
    HRESULT hr;
    int status;

    if (!nresults)
        return E_POINTER;
    if (nargs < 0 || nargs > lua_gettop(L))
        return ss_lua_invalid_count();
    *nresults = 0;
    if (!host)
        host = main_thread(L); /* now: a coroutine that failed has no free slot */
    status = lua_resume(L, from, nargs, nresults);
    if (SS_LUA_JIT && status == LUA_OK && ss_lua_may_be_interrupted() &&
        ss_lua_take_interrupt(host, L, SS_LUA_HERE(), &hr)) { /* its pcall returns without a hook */
        lua_pop(L, *nresults);
        *nresults = 0;
        return hr;
    }
    if (status == LUA_OK || status == LUA_YIELD)
        return status == LUA_OK ? S_OK : S_FALSE;
    *nresults = 0;
    return resume_failed(L, from, host, status, SS_LUA_HERE());
}

/* ---- Protected calls of scripts ---------------------------------------------------------------*/

/*
 * stacksplice.pcall and stacksplice.xpcall: like the standard ones, also across yields.  After a
 * failure they return the error object as one more result.
 */

/* Indices on the stack of both functions while the call runs. */
enum { HANDLER = 1, RESULTS = 2 /* true, then what the function returns */ };

/* The state, or NULL in a finalizer that runs after ours while Lua closes.  Then these functions do
   what the standard ones do. */
static ss_lua_state *state_of_function(lua_State *L)
{
    ss_lua_state **holder = lua_touserdata(L, lua_upvalueindex(1));

    return holder ? *holder : NULL;
}

/* The script asked for it: an interrupt that a plain pcall may not swallow ends here. */
static int catch_interrupt(lua_State *L, ss_lua_state *state)
{
    lua_pushboolean(L, 0);
    ss_lua_push_interrupt(L);
    lua_pushvalue(L, -1);
    ss_lua_interrupt_clear(L, state);
    return 3;
}

static bool may_catch(lua_State *L, const ss_lua_state *state)
{
    return state->interrupted && !state->insists && ss_lua_is_interrupted(L, state);
}

/* Push the value that was raised: the handler may have replaced it. */
static void push_raised_value(lua_State *L, int status)
{
    if (lua_iscfunction(L, HANDLER) && status == LUA_ERRRUN && lua_getupvalue(L, HANDLER, 2)) {
        lua_getupvalue(L, HANDLER, 3);
        if (lua_toboolean(L, -1)) {
            lua_pop(L, 1);
            return;
        }
        lua_pop(L, 2);
    }
    lua_pushvalue(L, -1);
}

/* The call failed, or an interrupt is in progress; the value is at the top. */
static SS_LUA_NOINLINE int finish_failed(lua_State *L, ss_lua_state *state, int status,
                                         const void *above)
{
    const ss_lua_origin origin = ss_lua_landing(L, status, HANDLER, RESULTS + 1, above);

    luaL_checkstack(L, LUA_MINSTACK, "too many results"); /* which may fill the stack */
    if (state && may_catch(L, state))
        return catch_interrupt(L, state);
    lua_pushboolean(L, 0);
    lua_insert(L, -2);
    if (!state)
        return 2;
    push_raised_value(L, status);
    ss_lua_push_error_of(L, state, -1, &origin);
    lua_remove(L, -2);
    return 3;
}

/* HANDLING is how many handlers ran when the call began. */
static SS_LUA_NOINLINE int finish(lua_State *L, int status, lua_KContext handling)
{
    ss_lua_state *state = state_of_function(L);

    /* A handler that raised did not reset the count.  After a yield fewer handlers may run than
       before. */
    if (state && (int)handling < state->handling)
        state->handling = (int)handling;
    if ((status == LUA_OK || status == LUA_YIELD) && !(state && may_catch(L, state)))
        return lua_gettop(L) - HANDLER;
    return finish_failed(L, state, status, SS_LUA_HERE());
}

SS_LUA_CONTINUATION(finish);

/* The handler, true and the function with its arguments are on the stack.  Inlined, so that a stack
   shows the frame of the function that scripts know. */
static inline __attribute__((always_inline)) int call(lua_State *L)
{
    ss_lua_state *state = state_of_function(L);
    int handling = state ? state->handling : 0;

    if (state)
        ss_lua_state_drain(L, state);
    return finish(L,
                  lua_pcallk(L, lua_gettop(L) - RESULTS - 1, LUA_MULTRET, HANDLER, handling,
                             SS_LUA_K(finish)),
                  handling);
}

/* A function in C begins with LUA_MINSTACK free slots. */
SS_LUA_OWN int ss_lua_pcall_function(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_pushcfunction(L, stacksplice_lua_handler);
    lua_pushboolean(L, 1);
    lua_rotate(L, HANDLER, RESULTS);
    return call(L);
}

/*
 * Upvalues: the script's handler; its argument; whether it was called.  While it runs we do not
 * capture its own errors: Lua may call it again for each of them.
 */
static SS_LUA_OWN int run_script_handler(lua_State *L)
{
    ss_lua_state *state;
    int handling;

    lua_settop(L, 1);
    ss_lua_note_raise(L, SS_LUA_HERE());
    state = ss_lua_state_find(L);
    handling = state ? state->handling : 0;
    if (state && !handling) {
        lua_pushvalue(L, 1);
        lua_replace(L, lua_upvalueindex(2));
        lua_pushboolean(L, 1);
        lua_replace(L, lua_upvalueindex(3));
    }
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    if (state)
        state->handling = handling + 1;
    lua_call(L, 1, 1); /* if it raises, the end of xpcall corrects the count */
    if (state)
        state->handling = handling;
    return 1;
}

SS_LUA_OWN int ss_lua_xpcall_function(lua_State *L)
{
    luaL_checktype(L, 2, LUA_TFUNCTION);
    lua_pushvalue(L, 1);
    lua_insert(L, RESULTS + 1);
    lua_pushvalue(L, 2);
    lua_pushnil(L);
    lua_pushboolean(L, 0);
    lua_pushcclosure(L, run_script_handler, 3);
    lua_replace(L, HANDLER);
    lua_pushboolean(L, 1);
    lua_replace(L, RESULTS);
    return call(L);
}

/* ---- Coroutines of scripts --------------------------------------------------------------------*/

/*
 * stacksplice.wrap and stacksplice.resume: coroutine.wrap and coroutine.resume that keep the frames
 * of a coroutine that fails.  Lua itself closes such a coroutine, or returns only the error value,
 * before a message handler outside could look at the frames.
 *
 * We capture the frames where the coroutine is left: its own activations, which still exist, a gap
 * (the native frames of C functions are gone), and the live stack from here outward.
 */

/* The arguments of the protected parts. */
typedef struct failure {
    lua_State *co;
    const void *above;
    uintptr_t mark; /* of a value without identity: how to find it again; else 0 */
    bool has_lost;  /* the coroutine may have lost its innermost frames */
} failure;

static bool has_failed(lua_State *co)
{
    return lua_status(co) != LUA_OK && lua_status(co) != LUA_YIELD;
}

/* ---- Remembering -----------------------------------------------------------------------------*/

/* Arguments: the value that the coroutine failed with, the failure. */
static SS_LUA_BODY int remember_protected(lua_State *L)
{
    failure *now = lua_touserdata(L, 2);
    ss_lua_state *state = ss_lua_state_open(L);
    ss_lua_origin origin = {.above = now->above,
                            .status = lua_status(now->co),
                            .unwound = true,
                            .dead = now->co,
                            .has_lost = now->has_lost};
    ss_lua_caught caught;

    ss_lua_state_drain(L, state);
    if (state->handling || ss_lua_to_error(L, 1))
        return 0;
    /* A function of ours may have raised it inside the coroutine.  Then its stack is known already, from
       the innermost coroutine on. */
    if (!ss_lua_take_raising(L, state, 1, now->co, 0) &&
        !ss_lua_is_raised_again(L, state, 1, now->co, 0) &&
        !ss_lua_take_caught(L, state, 1, now->co, 0, &caught)) {
        origin.caught = caught.number ? &caught : NULL;
        (void)ss_lua_ties_make(L, state, 1, &origin);
    }
    if (!ss_lua_has_identity(L, 1))
        now->mark = ss_lua_hold_raised(state, &state->last);
    ss_lua_plant_gc_canary(L, state);
    return 0;
}

/* Without memory the value goes on without its stack. */
static void call_protected(lua_State *L, lua_CFunction body, failure *now)
{
    if (lua_checkstack(L, LUA_MINSTACK))
        (void)ss_lua_call_protected(L, body, now);
}

/* Arguments: the value about to be raised, the failure before its place was added. */
static SS_LUA_BODY int rename_protected(lua_State *L)
{
    failure *now = lua_touserdata(L, 2);
    ss_lua_state *state = ss_lua_state_open(L);
    ss_lua_raising *held = ss_lua_held_raised(state, now->mark);

    now->mark = 0;
    if (held) {
        ss_lua_rename_last(L, state, &held->ties, 1, 0);
        ss_lua_release_raised(state, held);
        now->mark = ss_lua_hold_raised(state, &state->last);
    }
    return 0;
}

/* ---- Resuming --------------------------------------------------------------------------------*/

/* What the library says of CO, which L cannot resume; NULL if it may, or if lua_resume says it. */
static const char *refusal(lua_State *L, lua_State *co)
{
#if SS_LUA_LIBRARY_REFUSES
    lua_Debug activation;

    if (lua_status(co) == LUA_YIELD)
        return NULL;
    if (co == L)
        return "cannot resume running coroutine";
    if (lua_status(co) == LUA_OK && lua_getstack(co, 0, &activation))
        return SS_LUA_JIT ? "cannot resume running coroutine" : "cannot resume normal coroutine";
    if (lua_status(co) != LUA_OK)
        return "cannot resume dead coroutine";
#endif
    (void)L;
    if (!SS_LUA_RESUME_REFUSES && lua_status(co) == LUA_OK && lua_gettop(co) == 0)
        return "cannot resume dead coroutine";
    return NULL;
}

/*
 * Whether what a coroutine failed with is an interrupt that ends the script.  LuaJIT has no frame of a script
 * that called us by a tail call: what we call next would be taken for another script, and no hook runs on
 * the way to the host.
 */
static bool goes_on(lua_State *L)
{
    const ss_lua_state *state = SS_LUA_JIT ? ss_lua_state_find(L) : NULL;

    return state && ss_lua_is_interrupted(L, state);
}

/*
 * Resume CO with the NARGS values at the top.  Returns the number of results, which are pushed, or
 * -1 with the error value.  Messages and checks are those of the Lua library.
 */
static int resume(lua_State *L, lua_State *co, int nargs, failure *now)
{
    bool could_run = !has_failed(co);
    const char *refused = refusal(L, co);
    int status, nresults;

    if (!lua_checkstack(co, nargs)) {
        lua_pushliteral(L, "too many arguments to resume");
        return -1;
    }
    if (refused) {
        lua_pushstring(L, refused);
        return -1;
    }
    lua_xmove(L, co, nargs);
    status = lua_resume(co, L, nargs, &nresults);
    if (status != LUA_OK && status != LUA_YIELD) {
        now->has_lost = has_failed(co) && ss_lua_has_lost_frames(co, true);
        lua_xmove(co, L, 1);
        if (could_run && has_failed(co) && !goes_on(L))
            call_protected(L, remember_protected, now);
        return -1;
    }
    if (!lua_checkstack(L, nresults + 1)) {
        lua_pop(co, nresults);
        lua_pushliteral(L, "too many results to resume");
        return -1;
    }
    lua_xmove(co, L, nresults);
    return nresults;
}

/* The error value is at the top. */
static void remember_resumed(lua_State *L, const failure *now)
{
    ss_lua_state *state = ss_lua_state_find(L);

    ss_lua_raising *held = state ? ss_lua_held_raised(state, now->mark) : NULL;

    if (!held)
        return;
    if (lua_checkstack(L, 4))
        ss_lua_remember_resumed(L, state, &held->ties);
    ss_lua_release_raised(state, held);
}

SS_LUA_OWN int ss_lua_resume_function(lua_State *L)
{
    lua_State *co = lua_tothread(L, 1);
    failure now = {.co = co, .above = SS_LUA_HERE()};
    int results;

#if SS_LUA_HAS_TYPEERROR
    luaL_argexpected(L, co, 1, "thread");
#else
    luaL_argcheck(L, co, 1, SS_LUA_THREAD_EXPECTED);
#endif
    results = resume(L, co, lua_gettop(L) - 1, &now);
    if (results < 0 && goes_on(L))
        return ss_lua_raise_interrupt(L, ss_lua_state_find(L));
    if (results < 0 && now.mark)
        remember_resumed(L, &now);
    lua_pushboolean(L, results >= 0);
    lua_insert(L, results >= 0 ? -(results + 1) : -2);
    return results >= 0 ? results + 1 : 2;
}

/* ---- Wrapping --------------------------------------------------------------------------------*/

#if SS_LUA_CLOSES
/*
 * Closing a coroutine returns the status of its last error, and a closer may have raised it with
 * an equal value.  So the coroutine's own error gets a status that nothing in a coroutine raises,
 * and that Lua treats alike.  False: the status stays what it was.
 */
static bool mark_status(lua_State *co)
{
    volatile uint8_t *status = (uint8_t *)co + SS_LUA_AT_LUA_STATUS;

    if (lua_status(co) != LUA_ERRRUN || *status != LUA_ERRRUN)
        return false;
    *status = LUA_ERRSYNTAX;
    if (lua_status(co) == LUA_ERRSYNTAX)
        return true;
    *status = LUA_ERRRUN; /* this Lua has it in another place */
    return false;
}
#endif

/* Since Lua 5.4 a wrapped coroutine that failed is closed.  Its variables may replace the error at
   the top; returns whether they may have, and then the first one is below. */
static bool close_wrapped(lua_State *L, lua_State *co)
{
    bool replaced = false;
#if SS_LUA_CLOSES
    bool marked = mark_status(co);
    int status;

#if SS_LUA_HAS_CLOSETHREAD
    status = lua_closethread(co, L);
#else
    status = lua_resetthread(co);
#endif
    if (lua_gettop(co) == 0)
        return false; /* Lua 5.4.2 and older return only what a closer raised */
    lua_xmove(co, L, 1);
    replaced = !marked || status != LUA_ERRSYNTAX;
    if (!replaced)
        lua_remove(L, -2);
#else
    (void)L;
    (void)co;
#endif
    return replaced;
}

/* Push the error object of the failure, whose value is at INDEX. [-0, +1, m] */
static void push_failure(lua_State *L, ss_lua_state *state, int index, const failure *now)
{
    const ss_lua_origin origin = {.above = now->above, .status = LUA_ERRRUN, .unwound = true};
    IUnknown **holder = ss_lua_push_holder(L);
    ss_lua_raising *held = ss_lua_held_raised(state, now->mark);

    if (held) {
        ss_lua_set_last(state, &held->ties);
        ss_lua_release_raised(state, held);
        ss_lua_push_made_error(L, state, holder, &state->last);
    } else {
        ss_lua_push_error_of(L, state, index, &origin);
    }
}

/* Arguments: the value about to be raised, the failure before a method __close took its place, that
   failure's value. */
static SS_LUA_BODY int replace_protected(lua_State *L)
{
    failure *now = lua_touserdata(L, 2);
    ss_lua_state *state = ss_lua_state_open(L);
    const ss_lua_origin origin = {.above = now->above, .status = LUA_ERRRUN, .unwound = true};

    if (state->handling || ss_lua_to_error(L, 1)) {
        now->mark = 0;
        return 0;
    }
    push_failure(L, state, 3, now);
    (void)ss_lua_ties_make(L, state, 1, &origin);
    if (ss_lua_to_error(L, -1) && !lua_rawequal(L, 1, 3))
        ss_lua_set_context(L, state, 1, -1);
    now->mark = ss_lua_has_identity(L, 1) ? 0 : ss_lua_hold_raised(state, &state->last);
    return 0;
}

/* The error at the top took the place of the one below it. */
static void replace(lua_State *L, failure *now)
{
    if (!lua_checkstack(L, LUA_MINSTACK)) {
        now->mark = 0;
        return;
    }
    lua_pushcfunction(L, replace_protected);
    lua_pushvalue(L, -2);
    lua_pushlightuserdata(L, now);
    lua_pushvalue(L, -5);
    if (lua_pcall(L, 3, 0, 0) == LUA_OK)
        return;
    lua_pop(L, 1);
    now->mark = 0;
}

/* Put the place of the caller before a message that is a string, as coroutine.wrap does; returns
   whether it was one. */
static bool add_place(lua_State *L, int status)
{
    if (SS_LUA_WRAP_SPARES_ERRMEM && status == LUA_ERRMEM)
        return false;
    if (lua_type(L, -1) != LUA_TSTRING)
        return false;
    luaL_where(L, 1);
    lua_insert(L, -2);
    lua_concat(L, 2);
    return true;
}

/* The error that comes out of the coroutine is at the top; STATUS is the coroutine's.  REPLACED: below it
   is the one whose place it took. */
static int raise_again(lua_State *L, int status, bool replaced, failure *now)
{
    ss_lua_state *state;
    ss_lua_raising *held;
    bool renamed = add_place(L, status);

    if (replaced)
        replace(L, now);
    else if (now->mark && renamed)
        call_protected(L, rename_protected, now);
    state = ss_lua_state_find(L);
    held = state ? ss_lua_held_raised(state, now->mark) : NULL;
    if (held)
        ss_lua_mark_raiser(L, held);
    return lua_error(L);
}

static SS_LUA_OWN int call_wrapped(lua_State *L)
{
    lua_State *co = lua_tothread(L, lua_upvalueindex(1));
    failure now = {.co = co, .above = SS_LUA_HERE()};
    int results, status;
    bool replaced;

    if (!co)
        return luaL_error(L, "the coroutine was exchanged"); /* by debug.setupvalue */
    results = resume(L, co, lua_gettop(L), &now);
    status = lua_status(co);
    if (results >= 0)
        return results;
    replaced = has_failed(co) && close_wrapped(L, co);
    return raise_again(L, status, replaced, &now);
}

SS_LUA_OWN int ss_lua_wrap_function(lua_State *L)
{
    lua_State *co;

    if (!SS_LUA_WRAPS_C)
        luaL_argcheck(L, lua_isfunction(L, 1) && !lua_iscfunction(L, 1), 1,
                      "Lua function expected");
    luaL_checktype(L, 1, LUA_TFUNCTION);
    co = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, co, 1);
    lua_pushcclosure(L, call_wrapped, 1);
    return 1;
}
