/*
 * Interrupts of another language that plain protected calls may not swallow.  While a state is
 * marked, a hook on each of its running coroutines raises the interrupt again.  It does so at the
 * next instruction of an interrupted function, or when that function returns.  It leaves the
 * __close methods alone that the interrupt runs on its way: they are clean-up code.
 */
#include "cross/cross.h"
#include "calibrate/calibrate.h"

bool ss_lua_is_interrupt(IUnknown *error)
{
    IUnknown *exception = ss_lua_error_exception(error);
    IScriptException *script = ss_lua_query(exception, &stacksplice_IID_IScriptException);
    bool interrupt = script && script->lpVtbl->IsInterrupt(script);

    ss_lua_release(script);
    ss_lua_release(exception);
    return interrupt;
}

void ss_lua_push_interrupt(lua_State *L)
{
    ss_lua_push_table(L, SS_LUA_INTERRUPT);
}

/* ---- Closing ---------------------------------------------------------------------------------*/

/* Whether L runs in a method that closes a variable on the interrupt's way. */
static bool is_closing(lua_State *L, const ss_lua_state *state)
{
    ss_lua_activation_log log;
    bool inside = false;

    if (!state->closing.ci || state->insists)
        return false;
    if (state->closing.L == L)
        return ss_lua_has_activation(L, state->closing.ci);
    /* Either a coroutine that this method runs, or the method has failed and its coroutine is
       gone. */
    ss_lua_log_coroutines(SS_LUA_HERE(), &log);
    for (uint32_t i = 0; i < log.state_count; i++) {
        if (log.states[i] == state->closing.L)
            return inside && ss_lua_has_activation(state->closing.L, state->closing.ci);
        inside = inside || log.states[i] == L;
    }
    return false;
}

/* Push parameter NUMBER of the function that Lua is just calling, or nil. [-0, +1, -] */
static void push_parameter(lua_State *L, lua_Debug *activation, int number)
{
    if (!lua_getlocal(L, activation, number) && !lua_getlocal(L, activation, -number))
        lua_pushnil(L);
}

/* Whether the function that Lua is just calling is the __close of its first parameter, because of
   an error. */
static bool closes_for_error(lua_State *L, lua_Debug *activation)
{
    int top = lua_gettop(L);
    bool closes;

    lua_getinfo(L, "f", activation);
    push_parameter(L, activation, 2);
    push_parameter(L, activation, 1);
    closes = !lua_isnil(L, -2) && luaL_getmetafield(L, -1, "__close") != LUA_TNIL &&
             lua_rawequal(L, -1, top + 1);
    lua_settop(L, top);
    return closes;
}

/* ---- Raising ---------------------------------------------------------------------------------*/

#if !SS_LUA_JIT
bool ss_lua_hears_interrupts(const ss_lua_state *state, uintptr_t slot)
{
    return ss_lua_is_plain_c(slot) ||
           (state->outside.handler &&
            ss_lua_c_function_at(slot) == (uintptr_t)state->outside.handler);
}
#endif

/* Remove the message handler of the next error, which is *DISTANCE above the base of L's stack, unless
   interrupts are told to it. */
static void remove_handler(lua_State *L, const ss_lua_state *state, uintptr_t *distance)
{
#if SS_LUA_JIT
    (void)L; /* its layout has no place of the handler */
    (void)state;
    (void)distance;
#else
    uintptr_t ci = ss_lua_innermost(L), slot;

    if (!*distance || !ci)
        return;
    slot = ss_lua_base_slot(ci) + *distance;
    if (!ss_lua_hears_interrupts(state, slot))
        *distance = 0;
#endif
}

int ss_lua_raise_interrupt(lua_State *L, const ss_lua_state *state)
{
    const ss_lua_layout *layout = ss_lua_layout_get();

    if (layout && !layout->failure && layout->knows_state)
        remove_handler(L, state, ss_lua_handler_of(L));
    return lua_error(L);
}

void ss_lua_let_hooks_run(lua_State *L)
{
    const ss_lua_layout *layout = ss_lua_layout_peek();

    if (layout && !layout->failure && layout->knows_state)
        *ss_lua_hooks_of(L) = true;
}

/* ---- The hook --------------------------------------------------------------------------------*/

/* Whether the script's functions called the function that Lua is just calling. */
static bool is_called_by_script(lua_State *L)
{
    lua_Debug activation;

    for (int level = 1; lua_getstack(L, level, &activation); level++) {
        lua_getinfo(L, "S", &activation);
        if (*activation.what != 'C')
            return true;
    }
    return false;
}

static void note_call(lua_State *L, ss_lua_state *state, lua_Debug *activation)
{
    /* Lua reuses activations: what closed before in this one has ended. */
    if (state->closing.L == L && state->closing.ci == activation->i_ci)
        state->closing = (ss_lua_closing){0};
    if (is_closing(L, state))
        return;
    if (closes_for_error(L, activation))
        state->closing = (ss_lua_closing){L, activation->i_ci};
    else if (L == state->interrupt_base && !is_called_by_script(L))
        /* The interrupted script has ended, and its host, which got the error, starts another
           script. */
        ss_lua_interrupt_clear(L, state);
}

/* Restore the hook that L had.  A coroutine made during the interrupt inherited ours and had
   none. */
static void give_back(lua_State *L, ss_lua_state *state)
{
    for (uint32_t i = 0; state && i < state->displaced_count; i++) {
        ss_lua_displaced former = state->displaced[i];

        if (former.L != ss_lua_owner_of_hook(L, state))
            continue;
        state->displaced[i] = state->displaced[--state->displaced_count];
        lua_sethook(L, former.hook, former.mask, former.count);
        return;
    }
    lua_sethook(L, NULL, 0, 0);
}

/* Push the error that is raised again; false if there is none any more.  One of a program outside is
   made anew: what the bridge keeps of a Python exception, for instance, is of its last raise. */
static bool push_interrupt(lua_State *L, const ss_lua_state *state)
{
    if (state->outside.raised)
        return ss_lua_push_outside(L, state, true);
    ss_lua_push_interrupt(L);
    return true;
}

static void raise_again(lua_State *L, lua_Debug *activation)
{
    ss_lua_state *state = ss_lua_state_find(L);

    if (!state || !state->interrupted) {
        give_back(L, state);
        return;
    }
    if (activation->event == LUA_HOOKCALL || activation->event == LUA_HOOKTAILCALL) {
        note_call(L, state, activation);
        return;
    }
    if (activation->event == LUA_HOOKRET) {
        lua_getinfo(L, "S", activation);
        if (*activation->what == 'C') /* a message handler, for instance */
            return;
    }
    if (is_closing(L, state))
        return;
    if (push_interrupt(L, state))
        (void)ss_lua_raise_interrupt(L, state);
    ss_lua_interrupt_clear(L, state);
}

/* ---- Marking ---------------------------------------------------------------------------------*/

static void displace_hook(ss_lua_state *state, lua_State *L)
{
    ss_lua_displaced now = ss_lua_hook_of(L, state);
    uint32_t i = 0;

    if (now.hook == state->interrupt_hook)
        return;
    /* Reuse an entry at L: of an earlier interrupt, or of a coroutine that had this address. */
    while (i < state->displaced_count && state->displaced[i].L != now.L)
        i++;
    if (i == SS_LUA_DISPLACED)
        return;
    if (i == state->displaced_count)
        state->displaced_count++;
    state->displaced[i] = now;
    lua_sethook(L, state->interrupt_hook, LUA_MASKCOUNT | LUA_MASKCALL | LUA_MASKRET, 1);
}

void ss_lua_interrupt_set(lua_State *L, ss_lua_state *state, const void *above)
{
    const void *registry = lua_topointer(L, LUA_REGISTRYINDEX);
    ss_lua_activation_log log;

    lua_pushvalue(L, -1);
    ss_lua_set_table(L, SS_LUA_INTERRUPT);
    if (!state->interrupted) {
        state->interrupted = true;
        state->interrupt_hook = raise_again;
        atomic_fetch_add(&ss_lua_the_shared->interrupted_states, 1);
    }
    state->closing = (ss_lua_closing){0};
    state->outside.raised = false;
    state->interrupt_base = L;
    ss_lua_log_coroutines(above, &log);
    /* Entries of earlier interrupts make room: their coroutines do not run. */
    if (state->displaced_count + log.state_count >= SS_LUA_DISPLACED)
        state->displaced_count = 0;
    displace_hook(state, L);
    for (uint32_t i = 0; i < log.state_count; i++)
        if (lua_topointer(log.states[i], LUA_REGISTRYINDEX) == registry) {
            state->interrupt_base = log.states[i];
            displace_hook(state, log.states[i]);
        }
}

bool ss_lua_is_interrupted(lua_State *L, const ss_lua_state *state)
{
    return state->interrupted && lua_gethook(L) == state->interrupt_hook && !is_closing(L, state);
}

/*
 * Whether we may still touch the coroutine: one that finished may have been collected.  Coroutines
 * on the stack now are alive, and the main one always is.
 */
static bool is_running(lua_State *L, const ss_lua_state *state, const ss_lua_activation_log *log,
                       lua_State *thread)
{
    return thread == L || thread == state->main || ss_lua_runs(log, thread);
}

/* Suspended coroutines keep our hook and their entry: the hook restores what it displaced. */
void ss_lua_interrupt_clear(lua_State *L, ss_lua_state *state)
{
    ss_lua_activation_log log;
    uint32_t kept = 0;

    if (!state->interrupted)
        return;
    ss_lua_log_coroutines(SS_LUA_HERE(), &log);
    state->interrupted = state->insists = state->outside.raised = false;
    state->closing = (ss_lua_closing){0};
    atomic_fetch_sub(&ss_lua_the_shared->interrupted_states, 1);
    for (uint32_t i = 0; i < state->displaced_count; i++) {
        ss_lua_displaced former = state->displaced[i];

        if (!is_running(L, state, &log, former.L))
            state->displaced[kept++] = former;
        else if (lua_gethook(former.L) == state->interrupt_hook)
            lua_sethook(former.L, former.hook, former.mask, former.count);
    }
    state->displaced_count = kept;
    lua_pushnil(L);
    ss_lua_set_table(L, SS_LUA_INTERRUPT);
}
