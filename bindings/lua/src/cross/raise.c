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

bool ss_lua_call_protected(lua_State *L, lua_CFunction body, void *data)
{
    lua_pushcfunction(L, body);
    lua_pushvalue(L, -2);
    lua_pushlightuserdata(L, data);
    if (lua_pcall(L, 2, 0, 0) == LUA_OK)
        return true;
    lua_pop(L, 1);
    return false;
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

/* ---- Raised again -----------------------------------------------------------------------------*/

/*
 * Errors that coroutine.resume returned, raised again by the script.  A string has no identity, so
 * an equal text alone proves nothing.  It is the same error if the value raised is provably the one
 * that resume returned:
 *
 *     local ok, e = coroutine.resume(co)       The same activation raises it, and the registers of
 *     if not ok then error(e) end              the results still hold them.
 *     assert(coroutine.resume(co))             The next instruction calls what raises it, with the
 *     check(coroutine.resume(co))              results as its arguments.
 */

enum { INSTRUCTION = 4 /* bytes */ };

/* How many registers of a Lua function are in use while it calls another one. [-0, +0, -] */
static int count_registers(lua_State *thread, const lua_Debug *activation)
{
    int count = 0;

    while (lua_getlocal(thread, activation, count + 1)) {
        lua_pop(thread, 1);
        count++;
    }
    return count;
}

/* The function of the activation, to compare. [-0, +0, -] */
static const void *function_of(lua_State *thread, lua_Debug *activation)
{
    const void *function;

    (void)lua_getinfo(thread, "f", activation);
    function = lua_topointer(thread, -1);
    lua_pop(thread, 1);
    return function;
}

void ss_lua_remember_resumed(lua_State *L, ss_lua_state *state, const stacksplice_ties *ties)
{
    ss_lua_resumed *resumed = &state->resumed, former = *resumed;
    lua_Debug caller;

    if (!lua_getstack(L, 1, &caller))
        return;
    *resumed = (ss_lua_resumed){.L = L,
                                .ci = caller.i_ci,
                                .function = function_of(L, &caller),
                                .pc = ss_lua_saved_pc(L, caller.i_ci),
                                .results = count_registers(L, &caller) + 1};
    resumed->is_one_of_two = former.L == L && ss_lua_is_same_ci(former.ci, caller.i_ci) &&
                             former.function == resumed->function &&
                             former.pc != resumed->pc && /* else called again, or a loop */
                             ss_lua_is_value_of(L, &former.ties, -1);
    ss_lua_keep(&resumed->ties, ties);
    ss_lua_let_go(state, &former.ties);
}

/* ---- The text --------------------------------------------------------------------------------*/

/* Whether TEXT begins with the place at LEVEL of THREAD, as `error` puts it in front; its length. */
static size_t place_length(lua_State *thread, int level, const char *text)
{
    char place[LUA_IDSIZE + 16];
    lua_Debug at;
    int length;

    if (!lua_getstack(thread, level, &at) || !lua_getinfo(thread, "Sl", &at) || at.currentline <= 0)
        return 0;
    length = snprintf(place, sizeof place, "%s:%d: ", at.short_src, at.currentline);
    return strncmp(text, place, (size_t)length) == 0 ? (size_t)length : 0;
}

/* Whether the value at INDEX is ORIGINAL, or that text behind the place of a caller of LEVEL. */
static bool has_text(lua_State *L, int index, int original, lua_State *thread, int level)
{
    const char *text, *end;

    if (lua_rawequal(L, index, original))
        return true;
    if (lua_type(L, index) != LUA_TSTRING || lua_type(L, original) != LUA_TSTRING)
        return false;
    text = lua_tostring(L, index);
    end = lua_tostring(L, original);
    for (int outer = 1; outer <= 2; outer++) {
        size_t length = place_length(thread, level + outer, text);

        if (length && strcmp(text + length, end) == 0)
            return true;
    }
    return false;
}

/* ---- The proof -------------------------------------------------------------------------------*/

static bool is_resumer(lua_State *thread, const ss_lua_resumed *resumed, lua_Debug *activation)
{
    return resumed->L == thread && ss_lua_is_same_ci(resumed->ci, activation->i_ci) &&
           resumed->function == function_of(thread, activation);
}

/* Whether local variable NUMBER is false. [-0, +0, -] */
static bool is_false(lua_State *thread, const lua_Debug *activation, int number)
{
    bool is = false;

    if (lua_getlocal(thread, activation, number)) {
        is = lua_isboolean(thread, -1) && !lua_toboolean(thread, -1);
        lua_pop(thread, 1);
    }
    return is;
}

/* Whether a register other than NUMBER has that value, too: it may be that of another error.
   [-0, +0, -] */
static bool has_twice(lua_State *L, int original, lua_State *thread, const lua_Debug *activation,
                      int number)
{
    bool twice = false;

    for (int i = 1; !twice && lua_getlocal(thread, activation, i); i++) {
        if (thread != L)
            lua_xmove(thread, L, 1);
        twice = i != number && ss_lua_is_one(L, -1, original);
        lua_pop(L, 1);
    }
    return twice;
}

/* The first argument of a call, counted from its function. */
#if SS_LUA_JIT
#define FIRST_ARGUMENT (ss_lua_narrow ? 1U : 2U)
#else
#define FIRST_ARGUMENT 1U
#endif

/* Of an instruction that copies: where the numbers of its registers begin. */
enum {
    AT_TARGET = SS_LUA_JIT ? 8 : SS_LUA_AT_REGISTER,
    AT_COPIED = SS_LUA_JIT || LUA_VERSION_NUM >= 504 ? 16 : 23,
    OPCODE = LUA_VERSION_NUM >= 504 ? 0x7f : 0x3f,
    COPY = 0,
    MOST_ARGUMENTS = 2 /* of `error` */
};

static inline bool copies(uint32_t instruction)
{
    return SS_LUA_JIT || (instruction & OPCODE) == COPY; /* LuaJIT's numbers change */
}

/* Whether the activation calls with register NUMBER, as lua_getlocal counts, as the first argument. */
static bool passes(lua_State *thread, const lua_Debug *activation, int number)
{
    const uint32_t *pc = ss_lua_saved_pc(thread, activation->i_ci);
    uint32_t function = pc ? pc[-1] >> AT_TARGET & 0xff : 0;

    for (int i = 2; pc && i < 2 + MOST_ARGUMENTS; i++) {
        uint32_t target = pc[-i] >> AT_TARGET & 0xff;

        if (target == function + FIRST_ARGUMENT)
            return copies(pc[-i]) && (pc[-i] >> AT_COPIED & 0xff) == (uint32_t)number - 1;
        if (target <= function)
            return false;
    }
    return false;
}

/* Whether the results are still where resume left them. [-0, +0, -] */
static bool holds_results(lua_State *L, int original, lua_State *thread,
                          const lua_Debug *activation, const ss_lua_resumed *resumed)
{
    int results = resumed->results;
    bool is;

    if (!is_false(thread, activation, results) || !lua_getlocal(thread, activation, results + 1))
        return false;
    if (thread != L)
        lua_xmove(thread, L, 1);
    is = ss_lua_is_one(L, -1, original);
    lua_pop(L, 1);
    return is &&
           ((!resumed->is_one_of_two && !has_twice(L, original, thread, activation, results + 1)) ||
            passes(thread, activation, results + 1));
}

/* Whether the activation calls by the instruction behind that which called resume. */
static bool is_next_call(const ss_lua_resumed *resumed, const lua_Debug *activation)
{
    const char *pc = ss_lua_saved_pc(resumed->L, activation->i_ci);

    return pc && resumed->pc && pc == (const char *)resumed->pc + INSTRUCTION;
}

/* LEVEL is the function that raises, a C function; the value of resume is at ORIGINAL. */
static bool is_proven(lua_State *L, int original, const ss_lua_resumed *resumed, lua_State *thread,
                      int level)
{
    lua_Debug caller, outer;

    if (!lua_getstack(thread, level + 1, &caller))
        return false;
    if (is_resumer(thread, resumed, &caller))
        return is_next_call(resumed, &caller) ||
               holds_results(L, original, thread, &caller, resumed);
    return lua_getstack(thread, level + 2, &outer) && is_resumer(thread, resumed, &outer) &&
           is_next_call(resumed, &outer) &&
           (is_false(thread, &caller, 1) || is_false(thread, &caller, -1));
}

bool ss_lua_is_raised_again(lua_State *L, ss_lua_state *state, int index, lua_State *thread,
                            int level)
{
    const ss_lua_resumed resumed = state->resumed;
    int top = lua_gettop(L);
    bool again;

    if (!resumed.L || !lua_checkstack(thread, 4) || !ss_lua_push_value(L, resumed.ties.exception))
        return false;
    again = has_text(L, index, top + 1, thread, level) &&
            is_proven(L, top + 1, &resumed, thread, level);
    if (again && lua_rawequal(L, index, top + 1))
        ss_lua_set_last(state, &resumed.ties);
    else if (again)
        ss_lua_rename_last(L, state, &resumed.ties, index);
    if (again)
        state->resumed.L = NULL;
    lua_settop(L, top);
    return again;
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

/* Push the function of an activation of THREAD.  Until 5.1 only its own state knows an activation.
   [-0, +1, -], a slot in THREAD, too, which an error there has left */
static void push_function(lua_State *L, lua_State *thread, lua_Debug *activation)
{
    lua_State *asked = LUA_VERSION_NUM == 501 ? thread : L;

    lua_getinfo(asked, "f", activation);
    if (asked != L)
        lua_xmove(asked, L, 1);
}

/* Whether the mark of the raise is in its activation, where no other can have it. [-0, +0, -], one
   slot in THREAD */
static bool has_mark(lua_State *thread, const lua_Debug *activation, const ss_lua_raising *raising)
{
    bool has = false;

    if (lua_checkstack(thread, 1) && lua_getlocal(thread, activation, raising->slot)) {
        has = lua_type(thread, -1) == LUA_TLIGHTUSERDATA &&
              lua_touserdata(thread, -1) == (const void *)raising->mark;
        lua_pop(thread, 1);
    }
    return has;
}

/* Whether what runs in that activation is the function that raises, and not a later one. [-0, +0, -], a
   slot */
static bool runs_raiser(lua_State *L, const ss_lua_raising *raising, lua_Debug *activation)
{
    bool same;

    if (!lua_checkstack(L, 1))
        return false;
    push_function(L, raising->L, activation);
    same = lua_topointer(L, -1) == raising->function;
    lua_pop(L, 1);
    return same && (!raising->slot || has_mark(raising->L, activation, raising));
}

/* Whether the function at LEVEL of THREAD is raising what the state remembers. [-0, +0, -], a slot */
static bool is_raiser(lua_State *L, lua_State *thread, const ss_lua_raising *raising, int level)
{
    lua_Debug activation;

    return raising->L == thread && lua_getstack(thread, level, &activation) &&
           ss_lua_is_same_ci(activation.i_ci, raising->ci) && runs_raiser(L, raising, &activation);
}

/* Whether that function still runs: clean-up code of its own may raise meanwhile. [-0, +0, -], a slot */
static bool may_raise(lua_State *L, const ss_lua_raising *raising)
{
    lua_Debug activation = {.i_ci = raising->ci};

    return ss_lua_has_activation(raising->L, raising->ci) && runs_raiser(L, raising, &activation);
}

/* What the function at LEVEL of THREAD began to raise last, or NULL. [-0, +0, -], a slot in both */
static ss_lua_raising *raising_at(lua_State *L, ss_lua_state *state, lua_State *thread, int level)
{
    ss_lua_raising *newest = NULL;

    for (uint32_t i = 0; i < SS_LUA_AT_ONCE; i++)
        if ((!newest || state->raising[i].mark > newest->mark) &&
            is_raiser(L, thread, &state->raising[i], level))
            newest = &state->raising[i];
    return newest;
}

/* Let go what functions of THREAD raised that have ended, and what the one at LEVEL raises. */
static void release_ended(lua_State *L, ss_lua_state *state, lua_State *thread, int level)
{
    for (uint32_t i = 0; i < SS_LUA_AT_ONCE; i++) {
        ss_lua_raising *raising = &state->raising[i];

        if (raising->L == thread &&
            (is_raiser(L, thread, raising, level) || !may_raise(L, raising)))
            ss_lua_release_raised(state, raising);
    }
}

bool ss_lua_take_raising(lua_State *L, ss_lua_state *state, int index, lua_State *thread, int level)
{
    const ss_lua_raising *raising = raising_at(L, state, thread, level);
    bool raised = raising && ss_lua_is_value_of(L, &raising->ties, index);

    if (raised)
        ss_lua_set_last(state, &raising->ties);
    release_ended(L, state, thread, level);
    return raised;
}

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
    push_function(L, thread, &activation);
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
    if (LUA_VERSION_NUM >= 504 || lua_status(wrapped) == LUA_OK || lua_status(wrapped) == LUA_YIELD)
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
    bool has_context;

    if (state->handling)
        return 0;
    state->handling++;
#if LUA_VERSION_NUM >= 505
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
    if (!ss_lua_take_raising(L, state, 1, L, 2) && !ss_lua_is_raised_again(L, state, 1, L, 2)) {
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

/* A free place, or the oldest. */
static ss_lua_raising *place_to_hold(ss_lua_state *state)
{
    ss_lua_raising *place = state->raising;

    for (uint32_t i = 1; i < SS_LUA_AT_ONCE; i++)
        if (state->raising[i].mark < place->mark)
            place = &state->raising[i];
    return place;
}

static ss_lua_raising *hold(ss_lua_state *state, const stacksplice_ties *ties)
{
    ss_lua_raising *place = place_to_hold(state);
    stacksplice_ties kept;

    ss_lua_keep(&kept, ties);
    ss_lua_release_raised(state, place);
    *place = (ss_lua_raising){.mark = ++state->marks, .ties = kept};
    return place;
}

uintptr_t ss_lua_hold_raised(ss_lua_state *state, const stacksplice_ties *ties)
{
    return hold(state, ties)->mark;
}

ss_lua_raising *ss_lua_held_raised(ss_lua_state *state, uintptr_t mark)
{
    for (uint32_t i = 0; mark && i < SS_LUA_AT_ONCE; i++)
        if (state->raising[i].mark == mark)
            return &state->raising[i];
    return NULL;
}

void ss_lua_release_raised(ss_lua_state *state, ss_lua_raising *raising)
{
    raising->L = NULL;
    raising->mark = 0;
    ss_lua_let_go(state, &raising->ties);
}

/* The running function is about to raise the error of RAISING. */
static void set_raiser(lua_State *L, ss_lua_raising *raising)
{
    lua_Debug activation;

    if (!lua_getstack(L, 0, &activation))
        return;
    lua_getinfo(L, "f", &activation);
    raising->L = L;
    raising->ci = activation.i_ci;
    raising->function = lua_topointer(L, -1);
    lua_pop(L, 1);
}

void ss_lua_mark_raiser(lua_State *L, ss_lua_raising *raising)
{
    set_raiser(L, raising);
    raising->slot = lua_gettop(L);
    lua_pushlightuserdata(L, (void *)raising->mark);
    lua_insert(L, -2);
}

void ss_lua_mark_last(lua_State *L, ss_lua_state *state)
{
    ss_lua_mark_raiser(L, hold(state, &state->last));
}

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
        set_raiser(L, hold(state, &state->last));
    return 1;
}
