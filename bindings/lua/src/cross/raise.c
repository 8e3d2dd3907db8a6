/* Raises the thread's error in Lua. */
#include "cross/cross.h"

#include <inttypes.h>
#include <stdio.h>

void ss_lua_remember_raiser(lua_State *L, ss_lua_state *state)
{
    lua_Debug activation;

    state->last_raised = true;
    state->raising = (ss_lua_raising){NULL, NULL, NULL};
    if (!lua_getstack(L, 0, &activation))
        return;
    lua_getinfo(L, "f", &activation);
    state->raising = (ss_lua_raising){L, activation.i_ci, lua_topointer(L, -1)};
    lua_pop(L, 1);
}

/* Push the value to raise for ERROR: the value it was born from, tied to it again, or its error
   object. [-0, +1, m] */
static void push_raised(lua_State *L, ss_lua_state *state, IUnknown *error)
{
    stacksplice_exception *x = stacksplice_own_exception(ss_lua_owner(state), error);

    if (!x || !ss_lua_push_value(L, x)) {
        ss_lua_push_error(L, state, error);
        return;
    }
    if (!ss_lua_ties_find(L, state, -1)) {
        IScriptErrorInfo *info = ss_lua_query(error, &stacksplice_IID_IScriptErrorInfo);

        stacksplice_exception_ref(x);
        ss_lua_set_last(state, x, info);
        ss_lua_release(info);
    }
    if (ss_lua_ties_find(L, state, -1) == &state->last)
        ss_lua_remember_raiser(L, state);
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
    bool interrupts;

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
    push_raised(L, state, *holder);
    interrupts = ss_lua_is_interrupt(*holder);
    if (interrupts)
        ss_lua_interrupt_set(L, state, above);
    ss_lua_drop_holder(L, -2);
    (void)(interrupts ? ss_lua_raise_interrupt(L) : lua_error(L));
    __builtin_unreachable();
}

/* Arguments: the error or NULL, the frame of what asks. */
static int push_argument(lua_State *L)
{
    IUnknown *error = lua_touserdata(L, 1);
    ss_lua_state *state = ss_lua_state_open(L);

    if (!error)
        return luaL_error(L, "not enough memory for an error object");
    push_raised(L, state, error);
    if (ss_lua_is_interrupt(error))
        ss_lua_interrupt_set(L, state, lua_touserdata(L, 2));
    return 1;
}

SS_LUA_NOINLINE int stacksplice_lua_push_error(lua_State *L, stacksplice_hresult hr)
{
    void *above = SS_LUA_HERE();
    ss_lua_state *state;
    IUnknown **holder;

    if (!lua_checkstack(L, LUA_MINSTACK))
        return 0;
    holder = push_prepared(L);
    if (!holder)
        return 1;
    state = ss_lua_state_find(L);
    (void)stacksplice_arrive(ss_lua_owner(state), above, FAILED(hr) ? hr : E_UNEXPECTED,
                             (IRestrictedErrorInfo **)holder);
    lua_pushcfunction(L, push_argument);
    lua_pushlightuserdata(L, *holder);
    lua_pushlightuserdata(L, above);
    (void)lua_pcall(L, 2, 1, 0);
    ss_lua_drop_holder(L, -2);
    if (ss_lua_ties_find(L, state, -1) == &state->last)
        ss_lua_remember_raiser(L, state);
    return 1;
}
