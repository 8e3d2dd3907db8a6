/*
 * Interrupts of another language that plain protected calls may not swallow: while a state is
 * marked, a count hook on each of its running coroutines raises the interrupt again.
 */
#include "binding.h"

bool ss_lua_is_interrupt(IUnknown *error)
{
    IUnknown *exception = ss_lua_error_exception(error);
    void *marker = NULL;
    bool interrupt;

    if (!exception)
        return false;
    interrupt = SUCCEEDED(exception->lpVtbl->QueryInterface(
                    exception, &stacksplice_IID_IScriptInterrupt, &marker)) &&
                marker;
    if (marker)
        ((IUnknown *)marker)->lpVtbl->Release(marker);
    exception->lpVtbl->Release(exception);
    return interrupt;
}

void ss_lua_push_interrupt(lua_State *L)
{
    ss_lua_push_table(L, SS_LUA_INTERRUPT);
}

/* A coroutine that was made meanwhile inherited the hook: it takes it off itself. */
static void raise_again(lua_State *L, lua_Debug *activation)
{
    ss_lua_state *state = ss_lua_state_find(L);

    (void)activation;
    if (!state || !state->interrupted) {
        lua_sethook(L, NULL, 0, 0);
        return;
    }
    ss_lua_push_interrupt(L);
    lua_error(L);
}

static void displace_hook(ss_lua_state *state, lua_State *L)
{
    if (lua_gethook(L) == state->interrupt_hook || state->displaced_count == SS_LUA_DISPLACED)
        return;
    state->displaced[state->displaced_count++] =
        (ss_lua_displaced){L, lua_gethook(L), lua_gethookmask(L), lua_gethookcount(L)};
    lua_sethook(L, state->interrupt_hook, LUA_MASKCOUNT, 1);
}

/* The coroutines on the stack, by a capture, whose frames nobody wants. */
static void running_threads(lua_State *L, const void *above, ss_lua_notebook *book)
{
    bool more;

    *book = (ss_lua_notebook){.seen = NULL};
    (void)ss_lua_capture(L, above, 0, NULL, &more, book);
}

void ss_lua_interrupt_set(lua_State *L, ss_lua_state *state, const void *above)
{
    const void *registry = lua_topointer(L, LUA_REGISTRYINDEX);
    ss_lua_notebook book;

    lua_pushvalue(L, -1);
    ss_lua_set_table(L, SS_LUA_INTERRUPT);
    if (!state->interrupted) {
        state->interrupted = true;
        state->interrupt_hook = raise_again;
        atomic_fetch_add(&ss_lua_the_shared->interrupted_states, 1);
    }
    running_threads(L, above, &book);
    displace_hook(state, L);
    for (uint32_t i = 0; i < book.state_count; i++)
        if (lua_topointer(book.states[i], LUA_REGISTRYINDEX) == registry)
            displace_hook(state, book.states[i]);
}

/*
 * Whether the coroutine may still be touched: one that finished can have been collected.  Those on
 * the stack now are alive, and the main one always is.
 */
static bool is_running(lua_State *L, const ss_lua_state *state, const ss_lua_notebook *book,
                       lua_State *thread)
{
    if (thread == L || thread == state->main)
        return true;
    for (uint32_t i = 0; i < book->state_count; i++)
        if (book->states[i] == thread)
            return true;
    return false;
}

void ss_lua_interrupt_clear(lua_State *L, ss_lua_state *state)
{
    ss_lua_notebook book;

    if (!state->interrupted)
        return;
    running_threads(L, SS_LUA_HERE(), &book);
    state->interrupted = false;
    atomic_fetch_sub(&ss_lua_the_shared->interrupted_states, 1);
    for (uint32_t i = 0; i < state->displaced_count; i++) {
        const ss_lua_displaced *former = &state->displaced[i];

        if (is_running(L, state, &book, former->L) &&
            lua_gethook(former->L) == state->interrupt_hook)
            lua_sethook(former->L, former->hook, former->mask, former->count);
    }
    state->displaced_count = 0;
    lua_pushnil(L);
    ss_lua_set_table(L, SS_LUA_INTERRUPT);
}
