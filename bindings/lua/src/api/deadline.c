/* deadline(seconds, f, ...): calls f, and has all threads reported if it is not done in time. */
#include "api/api.h"
#include "cross/cross.h"
#include "frames/frames.h"

#include <stacksplice/deadline.h>
#include <stdio.h>
#include <string.h>

/* One call, a userdata of Lua. */
typedef struct ss_lua_deadline {
    stacksplice_deadline number; /* 0: ended */
    ss_lua_state *state;
    struct ss_lua_deadline *outer; /* of the same state */
    lua_State *L;                  /* the coroutine that called */
    unsigned rests;                /* interrupts to ignore */
    bool raised;                   /* the state is interrupted by it */
    ss_lua_displaced hooked;       /* the hook that ours displaced; L is NULL: none */
    char text[STACKSPLICE_DEADLINE_NAME_MAX + 64];
} ss_lua_deadline;

/* ---- Interrupt -------------------------------------------------------------------------------*/

/*
 * Ends the call that misses its deadline.  The core interrupts the late thread by a signal, whose
 * handler sets a hook, as the standalone Lua does for Ctrl-C.  The hook raises the error at the
 * next instruction, as an interrupt, which plain protected calls may not swallow.
 */

enum {
    TIMED_OUT = (int)0x800705B4u, /* HRESULT_FROM_WIN32(ERROR_TIMEOUT) */
    RESTS = 50,                   /* interrupts between the first two errors */
    INSISTENT_RESTS = 10          /* and between later ones */
};

static void ss_lua_deadline_hook(lua_State *L, lua_Debug *activation);

/* Give the coroutine that HOOKED names its own hook back, if it is one of LOG, which run or wait for one
   that they resumed.  Another may have been freed; one that lives puts our hook away itself. */
static void put_back(ss_lua_displaced *hooked, const ss_lua_activation_log *log)
{
    const ss_lua_displaced former = *hooked;

    hooked->L = NULL;
    if (former.L && (SS_LUA_JIT || ss_lua_runs(log, former.L)) &&
        lua_gethook(former.L) == ss_lua_deadline_hook)
        lua_sethook(former.L, former.hook, former.mask, former.count);
}

static void give_back(ss_lua_displaced *hooked, const void *above)
{
    ss_lua_activation_log log;

    if (!hooked->L)
        return;
    ss_lua_log_coroutines(above, &log);
    put_back(hooked, &log);
}

/* The innermost call whose error L is to raise. */
static ss_lua_deadline *find_hooked(lua_State *L, const ss_lua_state *state)
{
    ss_lua_deadline *d = state ? state->deadlines : NULL;

    while (d && d->hooked.L != L)
        d = d->outer;
    return d;
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
    (void)ss_lua_raise_interrupt(L, d->state);
}

/* The same for the work of a program outside, of which the state knows the number. */
static void raise_outside(lua_State *L, ss_lua_state *state, const void *above)
{
    bool insists = state->interrupted;

    if (!ss_lua_push_outside(L, state, false))
        return;
    ss_lua_interrupt_set(L, state, above);
    state->insists = insists;
    state->outside.raised = true;
    (void)ss_lua_raise_interrupt(L, state);
}

static SS_LUA_NOINLINE void ss_lua_deadline_hook(lua_State *L, lua_Debug *activation)
{
    ss_lua_state *state = ss_lua_state_find(L);
    ss_lua_deadline *d = find_hooked(L, state);

    (void)activation;
    if (d) {
        /* The handler leaves the hooks alone from here on. */
        d->rests = d->raised ? INSISTENT_RESTS : RESTS;
        give_back(&d->hooked, SS_LUA_HERE());
        raise_error(L, d, SS_LUA_HERE());
    } else if (state && state->outside.hooked.L == ss_lua_owner_of_hook(L, state)) {
        give_back(&state->outside.hooked, SS_LUA_HERE());
        raise_outside(L, state, SS_LUA_HERE());
    } else { /* it was suspended when the call ended */
        lua_sethook(L, NULL, 0, 0);
    }
}

/* In a signal handler: have L raise an error at its next instruction.  HOOKED is for its own hook. */
static void hook(lua_State *L, const ss_lua_state *state, ss_lua_displaced *hooked,
                 const ss_lua_activation_log *log)
{
    if (lua_gethook(L) != ss_lua_deadline_hook) {
        put_back(hooked, log);
        *hooked = ss_lua_hook_of(L, state);
        lua_sethook(L, ss_lua_deadline_hook, LUA_MASKCOUNT, 1);
    }
    ss_lua_let_hooks_run(L);
}

/*
 * In a signal handler.  Hooks the innermost coroutine of the call that runs on this thread's stack.  If
 * the call itself is not among them, its coroutine is suspended, and what runs is not late.
 */
static void interrupt_late(void *data)
{
    ss_lua_deadline *d = data;
    ss_lua_activation_log log;
    uint32_t inner = 0;

    if (d->rests) {
        d->rests--;
        return;
    }
    ss_lua_log_coroutines(SS_LUA_HERE(), &log);
    if (!ss_lua_runs(&log, d->L))
        return;
    while (lua_topointer(log.states[inner], LUA_REGISTRYINDEX) !=
           lua_topointer(d->L, LUA_REGISTRYINDEX))
        inner++;
    hook(log.states[inner], d->state, &d->hooked, &log);
}

/* False if the state of L has no outside. */
static bool interrupt_outside(lua_State *L, uint64_t number, const ss_lua_activation_log *log)
{
    ss_lua_state *state = ss_lua_state_of_registry(lua_topointer(L, LUA_REGISTRYINDEX));

    if (!state || !state->outside.push)
        return false;
    state->outside.number = number;
    hook(L, state, &state->outside.hooked, log);
    return true;
}

void ss_lua_interrupt_outside(uint64_t number, void *resumed)
{
    ss_lua_activation_log log;

    ss_lua_log_coroutines(SS_LUA_HERE(), &log);
#if SS_LUA_JIT
    ss_lua_state *state = atomic_load(&ss_lua_the_shared->states);

    if (resumed && ss_lua_is_entered_here(&log, resumed))
        (void)interrupt_outside(resumed, number, &log);
    for (; state; state = __atomic_load_n(&state->next, __ATOMIC_ACQUIRE))
        if (state->outside.push && ss_lua_is_entered_here(&log, state->main))
            (void)interrupt_outside(state->main, number, &log);
#else
    /* A coroutine that is not among them runs inside of them, in Lua's own loop. */
    if (resumed && !ss_lua_runs(&log, resumed) && interrupt_outside(resumed, number, &log))
        return;
    for (uint32_t i = 0; i < log.state_count; i++)
        if (interrupt_outside(log.states[i], number, &log))
            return;
#endif
}

/* The call has ended: give hooks back, and raise nothing any more. [-0, +0, -] */
static SS_LUA_NOINLINE void end_interrupt(lua_State *L, ss_lua_deadline *d)
{
    give_back(&d->hooked, SS_LUA_HERE());
    if (d->raised)
        ss_lua_interrupt_clear(L, d->state);
}

/* ---- Deadline --------------------------------------------------------------------------------*/

#define MOST_SECONDS (UINT32_MAX / 1000)

/* ---- The call --------------------------------------------------------------------------------*/

static void forget(ss_lua_deadline *d)
{
    ss_lua_deadline *at = d->state->deadlines;

    if (at == d)
        d->state->deadlines = d->outer;
    while (at && at->outer != d)
        at = at->outer;
    if (at)
        at->outer = d->outer;
}

static void end(ss_lua_deadline *d)
{
    (void)stacksplice_deadline_end(d->number);
    d->number = 0;
    forget(d);
}

/* The call returns, or an error leaves it. */
static void leave(lua_State *L, ss_lua_deadline *d)
{
    if (!d->number)
        return;
    end(d);
    end_interrupt(L, d);
}

static int close_deadline(lua_State *L)
{
    leave(L, lua_touserdata(L, 1));
    return 0;
}

/* Its coroutine was dropped. */
static int collect_deadline(lua_State *L)
{
    ss_lua_deadline *d = lua_touserdata(L, 1);

    if (d->number)
        end(d);
    return 0;
}

/* Push a userdata that ends its deadline when it is closed or collected. [-0, +1, m] */
static ss_lua_deadline *push_deadline(lua_State *L)
{
    static const char key; /* its address */
    ss_lua_deadline *d = lua_newuserdatauv(L, sizeof *d, 0);

    memset(d, 0, sizeof *d);
    d->state = ss_lua_state_open(L);
    d->L = L;
    if (lua_rawgetp(L, LUA_REGISTRYINDEX, &key) == LUA_TNIL) {
        lua_pop(L, 1);
        lua_createtable(L, 0, 2);
        lua_pushcfunction(L, collect_deadline);
        lua_setfield(L, -2, "__gc");
        lua_pushcfunction(L, close_deadline);
        lua_setfield(L, -2, "__close");
        lua_pushvalue(L, -1);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
    }
    lua_setmetatable(L, -2);
    return d;
}

/* ---- Its options ----------------------------------------------------------------------------*/

typedef struct wanted {
    lua_Number seconds;
    const char *name; /* NULL: none */
    uint32_t flags;
    bool interrupts;
} wanted;

/* Push FIELD of the options. [-0, +1, e] */
static int push_option(lua_State *L, const char *field)
{
    if (lua_istable(L, 1))
        return lua_getfield(L, 1, field);
    lua_pushnil(L);
    return LUA_TNIL;
}

static bool is_set(lua_State *L, const char *field, bool otherwise)
{
    return lua_istable(L, 1) ? ss_lua_option(L, field, otherwise) : otherwise;
}

static lua_Number check_seconds(lua_State *L)
{
    bool is_field = lua_istable(L, 1);
    lua_Number seconds;
    int is_number;

    if (is_field)
        lua_getfield(L, 1, "seconds");
    else
        lua_pushvalue(L, 1);
    seconds = lua_tonumberx(L, -1, &is_number);
    if (!is_number && is_field)
        (void)luaL_argerror(L, 1, "field 'seconds' is not a number");
    luaL_argexpected(L, is_number, 1, "number");
    if (!(seconds >= 0 && seconds <= (lua_Number)MOST_SECONDS))
        (void)luaL_argerror(L, 1, "seconds must be between 0 and 4294967");
    lua_pop(L, 1);
    return seconds;
}

/* The name, valid while it is at the top, or NULL. [-0, +1, e] */
static const char *push_name(lua_State *L)
{
    if (push_option(L, "name") != LUA_TNIL && !lua_isstring(L, -1))
        (void)luaL_argerror(L, 1, "field 'name' is not a string");
    return lua_tostring(L, -1);
}

/* Those of the arguments; pushes what the name is part of. [-0, +1, e] */
static wanted read_options(lua_State *L)
{
    wanted w = {.seconds = check_seconds(L), .interrupts = is_set(L, "interrupt", false)};

    if (!is_set(L, "report", true))
        w.flags = STACKSPLICE_DEADLINE_NO_TEXT | STACKSPLICE_DEADLINE_NO_FILE;
    if (w.flags && !w.interrupts)
        (void)luaL_argerror(L, 1, "field 'report' can only be false if 'interrupt' is true");
    w.name = push_name(L);
    return w;
}

/* ---- Its begin -------------------------------------------------------------------------------*/

static uint32_t milliseconds_of(lua_Number seconds)
{
    uint32_t whole = (uint32_t)(seconds * 1000);

    return (lua_Number)whole < seconds * 1000 ? whole + 1 : whole;
}

static void write_text(ss_lua_deadline *d, const wanted *w)
{
    const char *name = w->name ? w->name : "this function";

    (void)snprintf(d->text, sizeof d->text, "%.*s did not finish within %.14g s",
                   (int)stacksplice_deadline_name_length(name), name, (double)w->seconds);
}

/* Begin the deadline and push what ends it. [-0, +1, m] */
static void begin(lua_State *L, const wanted *w)
{
    stacksplice_deadline_options options = {.size = sizeof options,
                                            .name = w->name,
                                            .flags = w->flags,
                                            .interrupt = w->interrupts ? interrupt_late : NULL};
    ss_lua_deadline *d;

    if (SS_LUA_JIT &&
        w->interrupts) /* compiled code calls no hook: such a deadline could not be kept */
        (void)luaL_error(L,
                         "LuaJIT cannot be interrupted at a deadline: use one without interrupt");
    d = push_deadline(L);
    options.data = d;
    write_text(d, w);
    d->outer = d->state->deadlines;
    d->state->deadlines = d;
    if (SUCCEEDED(stacksplice_deadline_begin(milliseconds_of(w->seconds), &options, &d->number)))
        return;
    d->state->deadlines = d->outer;
    (void)luaL_error(L, "not enough memory");
}

/* ---- The function ----------------------------------------------------------------------------*/

enum { DEADLINE = 1, HANDLER, RESULTS = HANDLER };

/* Raise the value at the top again: it is still the error that the handler has recorded. */
static int raise_again(lua_State *L, ss_lua_state *state)
{
    const ss_lua_origin origin = ss_lua_landing(L, LUA_ERRRUN, HANDLER, HANDLER + 1, NULL);

    if (ss_lua_ties_known(L, state, -1, &origin) == &state->last)
        ss_lua_mark_last(L, state);
    return lua_error(L);
}

static int finish(lua_State *L, int status, lua_KContext unused)
{
    ss_lua_deadline *d = lua_touserdata(L, DEADLINE);

    bool failed = status != LUA_OK && status != LUA_YIELD;

    (void)unused;
    /* Lua 5.3 makes another error of one in a finalizer. */
    if (failed && d->raised && ss_lua_is_interrupted(L, d->state))
        ss_lua_push_interrupt(L);
    leave(L, d);
    if (failed)
        return raise_again(L, d->state);
    return lua_gettop(L) - RESULTS;
}

SS_LUA_CONTINUATION(finish);

/*
 * A coroutine that fails closes its variables only when it is closed itself, and those of Lua 5.3
 * are never closed.  There the call is a protected one, and its error is raised again.  Elsewhere
 * no error is caught, so that handlers outside see where it was raised.
 */
static bool is_closed_by_errors(lua_State *L)
{
    bool is_main = lua_pushthread(L);

    lua_pop(L, 1);
    return is_main && SS_LUA_CLOSES;
}

/* Call the function above DEADLINE with what is above it.  Inlined, so that stacks have no frame of
 * it. */
static inline __attribute__((always_inline)) int run(lua_State *L)
{
    int count = lua_gettop(L) - DEADLINE - 1;

    lua_pushcfunction(L, stacksplice_lua_handler);
    lua_insert(L, HANDLER);
#if SS_LUA_CLOSES
    lua_toclose(L, DEADLINE);
#endif
    if (!is_closed_by_errors(L))
        return finish(L, lua_pcallk(L, count, LUA_MULTRET, HANDLER, 0, SS_LUA_K(finish)), 0);
    lua_callk(L, count, LUA_MULTRET, 0, SS_LUA_K(finish));
    return finish(L, LUA_OK, 0);
}

SS_LUA_OWN int ss_lua_deadline_function(lua_State *L)
{
    wanted w;

    luaL_checkany(L, 2);
    w = read_options(L);
    begin(L, &w);
    lua_replace(L, DEADLINE);
    lua_pop(L, 1); /* the name */
    return run(L);
}

/* Of stacksplice.host: the signal's handler belongs to the whole process. */
SS_LUA_OWN int ss_lua_report_on_signal_function(lua_State *L)
{
    lua_Integer number = luaL_checkinteger(L, 1);
    stacksplice_hresult hr =
        stacksplice_report_on_signal(number < 0 || number > INT32_MAX ? -1 : (int)number);

    luaL_argcheck(L, hr != E_INVALIDARG, 1,
                  "a signal that can be caught and is not of a crash expected");
    return SUCCEEDED(hr) ? 0 : luaL_error(L, "no thread can be started");
}

/* ---- Of hosts --------------------------------------------------------------------------------*/

/* Its first argument is what the host wants. */
static SS_LUA_OWN int ss_lua_deadline_call(lua_State *L)
{
    begin(L, lua_touserdata(L, DEADLINE));
    lua_replace(L, DEADLINE);
    return run(L);
}

SS_LUA_NOINLINE stacksplice_hresult stacksplice_lua_pcall_within(lua_State *L, int nargs,
                                                                 int nresults,
                                                                 uint32_t milliseconds,
                                                                 uint32_t flags, const char *name)
{
    const uint32_t known = STACKSPLICE_DEADLINE_NO_TEXT | STACKSPLICE_DEADLINE_NO_FILE;
    wanted w = {(lua_Number)milliseconds / 1000, name, flags, true};
    int base = lua_gettop(L) - nargs;

    if (flags & ~known)
        return ss_lua_invalid("unknown flags");
    if (nargs < 0 || base < 1 || nresults < LUA_MULTRET)
        return ss_lua_invalid_count();
    lua_pushcfunction(L, ss_lua_deadline_call);
    lua_pushlightuserdata(L, &w);
    lua_rotate(L, base, 2);
    return stacksplice_lua_pcall(L, nargs + 2, nresults);
}
