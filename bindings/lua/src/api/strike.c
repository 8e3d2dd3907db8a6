/*
 * Ends the call that misses its deadline.  The core interrupts the late thread by a signal, whose
 * handler sets a hook, as the standalone Lua does for Ctrl-C.  The hook raises the error at the
 * next instruction, as an interrupt, which plain protected calls may not swallow.
 */
#include "api/deadline.h"
#include "frames/frames.h"

#include <string.h>

enum {
    TIMED_OUT = (int)0x800705B4u, /* HRESULT_FROM_WIN32(ERROR_TIMEOUT) */
    RESTS = 50,                   /* interrupts between the first two errors */
    INSISTENT_RESTS = 10          /* and between later ones */
};

static void ss_lua_deadline_hook(lua_State *L, lua_Debug *activation);

static bool is_on_stack(const ss_lua_activation_log *log, const lua_State *L)
{
    for (uint32_t i = 0; i < log->state_count; i++)
        if (log->states[i] == L)
            return true;
    return false;
}

/* Give the coroutines that run, or wait for one that they resumed, their hooks back.  Others may
   have been freed; one that lives puts our hook away itself. */
static void give_back(ss_lua_deadline *d, const void *above)
{
    ss_lua_activation_log log;

    if (!d->hooked_count)
        return;
    ss_lua_log_coroutines(d->state, above, &log);
    for (uint32_t i = 0; i < d->hooked_count; i++) {
        const ss_lua_displaced *former = &d->hooked[i];

        if (is_on_stack(&log, former->L) && lua_gethook(former->L) == ss_lua_deadline_hook)
            lua_sethook(former->L, former->hook, former->mask, former->count);
    }
    d->hooked_count = 0;
}

/* The innermost call whose error L is to raise. */
static ss_lua_deadline *find_hooked(lua_State *L)
{
    const ss_lua_state *state = ss_lua_state_find(L);

    for (ss_lua_deadline *d = state ? state->deadlines : NULL; d; d = d->outer)
        for (uint32_t i = 0; i < d->hooked_count; i++)
            if (d->hooked[i].L == L)
                return d;
    return NULL;
}

/* Raise the error: an interrupt until the call ends or stacksplice.pcall takes it. */
static void raise_error(lua_State *L, ss_lua_deadline *d, const void *above)
{
    stacksplice_saved_error saved;
    IUnknown **holder;

    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    holder = ss_lua_push_holder(L);
    (void)stacksplice_save_error(&saved); /* what the slot has is not the script's affair */
    (void)stacksplice_originate(TIMED_OUT, d->text, strlen(d->text), NULL,
                                (IRestrictedErrorInfo **)holder);
    (void)stacksplice_restore_error(&saved);
    if (!*holder)
        (void)luaL_error(L, "%s", d->text); /* no memory, or the host has errors switched off */
    ss_lua_push_error(L, d->state, *holder);
    ss_lua_drop_holder(L, -2);
    ss_lua_interrupt_set(L, d->state, above);
    d->state->insists = d->raised;
    d->raised = true;
    (void)ss_lua_raise_interrupt(L);
}

static SS_LUA_NOINLINE void ss_lua_deadline_hook(lua_State *L, lua_Debug *activation)
{
    ss_lua_deadline *d = find_hooked(L);

    (void)activation;
    if (!d) { /* it was suspended when the call ended */
        lua_sethook(L, NULL, 0, 0);
        return;
    }
    d->rests =
        d->raised ? INSISTENT_RESTS : RESTS; /* the handler leaves the hooks alone from here on */
    give_back(d, SS_LUA_HERE());
    raise_error(L, d, SS_LUA_HERE());
}

static void hook(ss_lua_deadline *d, lua_State *L)
{
    if (d->hooked_count == SS_LUA_HOOKED || lua_gethook(L) == ss_lua_deadline_hook)
        return;
    d->hooked[d->hooked_count++] =
        (ss_lua_displaced){L, lua_gethook(L), lua_gethookmask(L), lua_gethookcount(L)};
    lua_sethook(L, ss_lua_deadline_hook, LUA_MASKCOUNT, 1);
}

/*
 * In a signal handler.  Hooks the coroutines of the call that run on this thread's stack.  If the
 * call itself is not among them, its coroutine is suspended, and what runs is not late.
 */
void ss_lua_strike(void *data)
{
    ss_lua_deadline *d = data;
    ss_lua_activation_log log;
    uint32_t own = 0;

    if (d->rests) {
        d->rests--;
        return;
    }
    ss_lua_log_coroutines(d->state, SS_LUA_HERE(), &log);
    while (own < log.state_count && log.states[own] != d->L)
        own++;
    for (uint32_t i = 0; own < log.state_count && i <= own; i++)
        if (lua_topointer(log.states[i], LUA_REGISTRYINDEX) ==
            lua_topointer(d->L, LUA_REGISTRYINDEX)) {
            hook(d, log.states[i]);
            ss_lua_let_hooks_run(log.states[i]);
        }
}

SS_LUA_NOINLINE void ss_lua_strike_end(lua_State *L, ss_lua_deadline *d)
{
    give_back(d, SS_LUA_HERE());
    if (d->raised)
        ss_lua_interrupt_clear(L, d->state);
}
