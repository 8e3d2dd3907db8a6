/* Error values at a border: originated, recorded by the message handler, raised, raised again. */
#include "cross/cross.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- Protected work: Lua may run out of memory ------------------------------------------------*/

/* Arguments: the error value, the job. */
static SS_LUA_BODY int originate_protected(lua_State *L)
{
    ss_lua_job *now = lua_touserdata(L, 2);
    ss_lua_state *state = ss_lua_state_open(L);

    ss_lua_state_tend(L, state);
    now->hr = ss_lua_originate_value(L, state, 1, &now->origin);
    return 0;
}

/* Put the error back if the value at the top is one of another language; this allocates nothing. */
static bool put_back(lua_State *L, HRESULT *hr)
{
    ss_lua_state *state = ss_lua_state_find(L);
    ss_lua_hold *hold = state && ss_lua_state_is_tended(state) ? ss_lua_foreign_hold(L) : NULL;
    HRESULT result;

    if (!hold)
        return false;
    result = stacksplice_leave(&hold->ties, hr);
    if (FAILED(result))
        *hr = result;
    return true;
}

HRESULT ss_lua_originate_top(lua_State *L, ss_lua_job *now)
{
    if (put_back(L, &now->hr))
        return now->hr;
    if (ss_lua_call_protected(L, originate_protected, now))
        return now->hr;
    (void)stacksplice_originate(E_OUTOFMEMORY, NULL, 0, NULL, NULL);
    return E_OUTOFMEMORY;
}

/* ---- Interrupts ------------------------------------------------------------------------------*/

bool ss_lua_take_interrupt(lua_State *L, lua_State *called, const void *above, HRESULT *hr)
{
    ss_lua_state *state;
    ss_lua_job now = {.origin = {.above = above, .status = LUA_ERRRUN}, .hr = E_UNEXPECTED};

    /* Results may have filled the stack.  Without room the mark and its hooks stay. */
    if (!lua_checkstack(L, LUA_MINSTACK))
        return false;
    state = ss_lua_state_find(L);
    if (!state || !ss_lua_is_interrupted(called, state))
        return false;
    ss_lua_push_interrupt(L);
    if (!state->insists)
        ss_lua_interrupt_clear(L, state);
    *hr = ss_lua_originate_top(L, &now);
    lua_pop(L, 1);
    return true;
}

/* ---- Wrong arguments -------------------------------------------------------------------------*/

HRESULT ss_lua_invalid(const char *message)
{
    (void)stacksplice_originate(E_INVALIDARG, message, strlen(message), NULL, NULL);
    return E_INVALIDARG;
}

HRESULT ss_lua_invalid_count(void)
{
    return ss_lua_invalid("the function and its arguments are not on the stack");
}

/* ---- The message handler ----------------------------------------------------------------------*/

/* The message handler: records the error at the raise, and never prevents the raise. */

/* The arguments of the protected part. */
typedef struct raise_note {
    const void *above;
    ss_lua_state *state; /* NULL if it was not open yet */
    ss_lua_call_place call;
    ss_lua_ci called; /* by that call, if that may be a method __close; else 0 */
} raise_note;

static bool ends_with(const char *text, const char *end)
{
    size_t length = text ? strlen(text) : 0, wanted = strlen(end);

    return length >= wanted && strcmp(text + length - wanted, end) == 0;
}

/* Whether the coroutine failed and was closed since: nothing runs in it, and it has no frames
   left. */
static bool is_closed(lua_State *thread)
{
    lua_Debug activation;

    return lua_status(thread) == LUA_OK && lua_gettop(thread) == 0 &&
           !lua_getstack(thread, 0, &activation);
}

/* The coroutine of a function that coroutine.wrap made, at LEVEL of THREAD; or NULL.  Such a
   function is a C closure over nothing else. [-0, +0, -], 3 slots in L */
static lua_State *wrapped_at(lua_State *L, lua_State *thread, int level)
{
    lua_State *wrapped = NULL;
    lua_Debug activation;
    int top = lua_gettop(L);

    if (!lua_getstack(thread, level, &activation))
        return NULL;
    ss_lua_push_function_of(L, thread, &activation);
    if (lua_iscfunction(L, -1) && lua_getupvalue(L, -1, 1) && !lua_getupvalue(L, -2, 2))
        wrapped = lua_tothread(L, -1);
    lua_settop(L, top);
    return wrapped;
}

/*
 * Whether a function that coroutine.wrap made raised the error at index 1 again.  Since Lua 5.4
 * that function closes its coroutine first.  Its frames are gone then, unless the error is that
 * there was nothing to resume.  In Lua 5.3 they still exist: *DEAD is the coroutine, if the error
 * was born in it.
 */
static bool comes_from_wrap(lua_State *L, lua_State **dead)
{
    static const char nothing[] = "cannot resume dead coroutine";
    lua_State *wrapped = wrapped_at(L, L, 2);

    if (!wrapped || (lua_type(L, 1) == LUA_TSTRING && ends_with(lua_tostring(L, 1), nothing)))
        return false;
    if (is_closed(wrapped))
        return true;
    if (SS_LUA_CLOSES || lua_status(wrapped) == LUA_OK || lua_status(wrapped) == LUA_YIELD)
        return false;
    if (!wrapped_at(L, wrapped, 0))
        *dead = wrapped;
    return true;
}

/* Arguments: the value, the note. */
static SS_LUA_BODY int note_raise(lua_State *L)
{
    const raise_note *now = lua_touserdata(L, 2);
    ss_lua_origin origin = {.above = now->above, .status = LUA_ERRRUN};
    ss_lua_state *state = now->state ? now->state : ss_lua_state_open(L);
    ss_lua_caught caught;
    bool has_context;

    if (state->handling)
        return 0;
    state->handling++;
#if SS_LUA_REPLACES_NIL_ERROR
    /* After the handler Lua replaces a nil error by this text, so the text is the error. */
    if (lua_isnil(L, 1)) {
        lua_pushliteral(L, "<no error object>");
        lua_replace(L, 1);
    }
#endif
    ss_lua_state_drain(L, state);
    if (ss_lua_to_error(L, 1))
        return 0;
    has_context =
        now->called && ss_lua_push_displaced(L, state, now->called, now->call, now->above);
    /* The function that called stacksplice_lua_raise is the handler's caller, two levels out. */
    if (!ss_lua_take_raising(L, state, 1, L, 2) && !ss_lua_is_raised_again(L, state, 1, L, 2) &&
        !ss_lua_take_caught(L, state, 1, L, 2, &caught)) {
        origin.caught = caught.number ? &caught : NULL;
        has_context =
            has_context || (!origin.caught && ss_lua_push_caught(L, state, 1, 2, now->above));
        origin.unwound = comes_from_wrap(L, &origin.dead);
        origin.has_lost = origin.dead && ss_lua_has_lost_frames(origin.dead, false);
        (void)ss_lua_ties_make(L, state, 1, &origin);
    }
    if (has_context)
        ss_lua_set_context(L, state, 1, -1);
    if (!ss_lua_has_identity(L, 1))
        ss_lua_begin_flight(state, L, now->call);
    ss_lua_plant_gc_canary(L, state); /* for the next error: this one is recorded by now */
    return 0;
}

void ss_lua_note_raise(lua_State *L, const void *above)
{
    ss_lua_state *state = ss_lua_state_find(L);
    raise_note now = {.above = above, .state = state};
    int handling = state ? state->handling : 0;

    now.call = ss_lua_innermost_call(L, &now.called);
    if (handling || (state && ss_lua_foreign_hold(L)))
        return; /* another language has recorded its error */
    /* Out of memory or of stack: let the value through, without its stack if necessary. */
    (void)ss_lua_call_protected(L, note_raise, &now);
    if (!state)
        state = ss_lua_state_find(L);
    if (state)
        state->handling = handling;
}

SS_LUA_OWN int stacksplice_lua_handler(lua_State *L)
{
    lua_settop(L, 1);
    ss_lua_note_raise(L, SS_LUA_HERE());
    return 1;
}

/* ---- Values that a host holds -----------------------------------------------------------------*/

/* Error values that a host holds: as the thread's error, or as a language exception. */

/* lua_isnone checks only indices above the top: it reads 0 and those below the stack unchecked. */
static bool has_value(lua_State *L, int index)
{
    if (index <= 0 && index > LUA_REGISTRYINDEX)
        return index < 0 && -index <= lua_gettop(L);
    return !lua_isnone(L, index);
}

/* ORIGIN of the value at INDEX, which a call of the running function failed with. */
static void find_call(lua_State *L, int index, ss_lua_origin *origin)
{
    const ss_lua_state *state = ss_lua_state_find(L);

    if (state)
        ss_lua_find_call(L, state, lua_absindex(L, index), origin);
}

static HRESULT originate_at(lua_State *L, int index, int status, const void *above)
{
    ss_lua_job now = {
        .origin = {.which = SS_LUA_LANDED, .above = above, .status = status, .unwound = true},
        .hr = E_UNEXPECTED};
    HRESULT hr;

    if (!has_value(L, index))
        return ss_lua_invalid("no value at this index");
    find_call(L, index, &now.origin);
    lua_pushvalue(L, index);
    hr = ss_lua_originate_top(L, &now);
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
static SS_LUA_BODY int exception_protected(lua_State *L)
{
    ss_lua_job *now = lua_touserdata(L, 2);
    ss_lua_state *state = ss_lua_state_open(L);
    const stacksplice_ties *ties;

    ss_lua_state_tend(L, state);
    ties = ss_lua_ties_ready(L, state, 1, &now->origin);
    if (ties->exception) {
        now->exception = stacksplice_exception_unknown(ties->exception);
        now->exception->lpVtbl->AddRef(now->exception);
    } else {
        now->exception = ss_lua_error_exception((IUnknown *)ties->error);
    }
    now->hr = now->exception ? S_OK : S_FALSE;
    return 0;
}

SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_exception(lua_State *L, int index,
                                                              IUnknown **out)
{
    ss_lua_job now = {.origin = {.which = SS_LUA_IN_FLIGHT,
                                 .above = SS_LUA_HERE(),
                                 .status = LUA_ERRRUN,
                                 .unwound = true},
                      .hr = E_UNEXPECTED};
    HRESULT hr;

    if (!out)
        return E_POINTER;
    if (!has_value(L, index))
        return E_INVALIDARG;
    *out = NULL;
    find_call(L, index, &now.origin);
    lua_pushvalue(L, index);
    hr = ss_lua_call_protected(L, exception_protected, &now) ? now.hr : E_OUTOFMEMORY;
    lua_pop(L, 1);
    *out = now.exception;
    return hr;
}

int stacksplice_lua_push(lua_State *L, IUnknown *language_exception)
{
    ss_lua_state *state;
    stacksplice_exception *x;

    if (!language_exception || !lua_checkstack(L, 4))
        return 0;
    state = ss_lua_state_find(L);
    x = state ? stacksplice_exception_from(language_exception, ss_lua_owner(state)) : NULL;
    return x && ss_lua_push_value(L, x);
}

/* ---- Raising ----------------------------------------------------------------------------------*/

/* Raises the thread's error in Lua. */

/* Push the value to raise for ERROR, and return true if that is the value it was born from, without
   identity: then the last value is that; else the value, tied to ERROR again, or its error object.
   [-0, +1, m] */
static bool push_raised(lua_State *L, ss_lua_state *state, IUnknown *error)
{
    stacksplice_exception *x = stacksplice_own_exception(ss_lua_owner(state), error);
    stacksplice_ties ties = {x, NULL, 0};

    if (!x || !ss_lua_push_value(L, x)) {
        ss_lua_push_error(L, state, error);
        return false;
    }
    if (ss_lua_has_identity(L, -1) && ss_lua_ties_find(L, -1))
        return false;
    ties.error = ss_lua_query(error, &stacksplice_IID_IScriptErrorInfo);
    ss_lua_set_last(state, &ties);
    ss_lua_release(ties.error);
    return !ss_lua_has_identity(L, -1);
}

/* lua.h does not tell the compiler that its errors do not return. */
__attribute__((noreturn)) static void raise_text(lua_State *L, const char *format,
                                                 stacksplice_hresult hr)
{
    char code[16];

    (void)snprintf(code, sizeof code, "0x%08" PRIx32, (uint32_t)hr);
    (void)luaL_error(L, format, code);
    __builtin_unreachable();
}

/*
 * Allocate everything before the error leaves the slot: a finalizer that runs then may cross
 * borders and use the slot.  Result: the holder.
 */
static int prepare(lua_State *L)
{
    ss_lua_state *state = ss_lua_state_open(L);

    ss_lua_state_tend(L, state);
    (void)ss_lua_push_holder(L);
    return 1;
}

/* Push the holder, or Lua's message and return NULL; save the error in flight while we allocate
   memory, if we must. [-0, +1, -] */
static IUnknown **push_prepared(lua_State *L)
{
    const ss_lua_state *state = ss_lua_state_find(L);
    IUnknown **spare = state && ss_lua_state_is_tended(state) ? ss_lua_push_spare_holder(L) : NULL;
    stacksplice_saved_error saved;
    int status;

    if (spare)
        return spare;
    (void)stacksplice_save_error(&saved);
    lua_pushcfunction(L, prepare);
    status = lua_pcall(L, 0, 1, 0);
    (void)stacksplice_restore_error(&saved);
    if (status != LUA_OK)
        return NULL;
    return &(*(ss_lua_hold **)lua_touserdata(L, -1))->outside;
}

SS_LUA_NOINLINE int stacksplice_lua_raise(lua_State *L, stacksplice_hresult hr)
{
    const void *above = SS_LUA_HERE();
    ss_lua_state *state;
    IUnknown **holder;
    bool interrupts, plain;

    if (SUCCEEDED(hr))
        raise_text(L, "stacksplice_lua_raise: %s is a success code", hr);
    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    /* Do what may run out of memory before the error leaves the slot, or while the holder owns
       it. */
    holder = push_prepared(L);
    if (!holder)
        (void)lua_error(L);
    state = ss_lua_state_open(L);
    (void)stacksplice_arrive(ss_lua_owner(state), above, hr, (IRestrictedErrorInfo **)holder);
    if (!*holder)
        raise_text(L, "error %s has no error object", hr);
    plain = push_raised(L, state, *holder);
    interrupts = ss_lua_is_interrupt(*holder);
    if (interrupts)
        ss_lua_interrupt_set(L, state, above);
    ss_lua_drop_holder(L, -2);
    if (plain)
        ss_lua_mark_last(L, state);
    (void)(interrupts ? ss_lua_raise_interrupt(L, state) : lua_error(L));
    __builtin_unreachable();
}

/* An error to push, or NULL. */
typedef struct pushed {
    IUnknown *error;
    const void *above;
    bool plain; /* as push_raised says */
} pushed;

/* Argument: what is to be pushed. */
static int push_argument(lua_State *L)
{
    pushed *now = lua_touserdata(L, 1);
    ss_lua_state *state = ss_lua_state_open(L);

    if (!now->error)
        return luaL_error(L, "not enough memory for an error object");
    now->plain = push_raised(L, state, now->error);
    if (ss_lua_is_interrupt(now->error))
        ss_lua_interrupt_set(L, state, now->above);
    return 1;
}

SS_LUA_NOINLINE int stacksplice_lua_push_error(lua_State *L, stacksplice_hresult hr)
{
    pushed now = {.above = SS_LUA_HERE()};
    ss_lua_state *state;
    IUnknown **holder;

    if (!lua_checkstack(L, LUA_MINSTACK))
        return 0;
    holder = push_prepared(L);
    if (!holder)
        return 1;
    state = ss_lua_state_find(L);
    (void)stacksplice_arrive(ss_lua_owner(state), now.above, FAILED(hr) ? hr : E_UNEXPECTED,
                             (IRestrictedErrorInfo **)holder);
    now.error = *holder;
    lua_pushcfunction(L, push_argument);
    lua_pushlightuserdata(L, &now);
    (void)lua_pcall(L, 1, 1, 0);
    ss_lua_drop_holder(L, -2);
    if (now.plain)
        ss_lua_set_raiser(L, state);
    return 1;
}
