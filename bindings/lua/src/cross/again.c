/* Which error a value is that is raised: one that a function of ours raises, or that a coroutine ended with. */
#include "cross/cross.h"
#include "version/instructions.h"

#include <stdio.h>
#include <string.h>

/* ---- Protected work ---------------------------------------------------------------------------*/

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

/* ---- Functions that raise ---------------------------------------------------------------------*/

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

void ss_lua_set_raiser(lua_State *L, ss_lua_state *state)
{
    set_raiser(L, hold(state, &state->last));
}

void ss_lua_mark_last(lua_State *L, ss_lua_state *state)
{
    ss_lua_mark_raiser(L, hold(state, &state->last));
}

/* Until 5.1 only its own state knows an activation. */
void ss_lua_push_function_of(lua_State *L, lua_State *thread, lua_Debug *activation)
{
    lua_State *asked = SS_LUA_NUMBERS_CALLS ? thread : L;

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
    ss_lua_push_function_of(L, raising->L, activation);
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

stacksplice_exception *ss_lua_raised_at(lua_State *L, int level)
{
    ss_lua_state *state = ss_lua_state_find(L);
    const ss_lua_raising *raising = state ? raising_at(L, state, L, level) : NULL;

    return raising ? raising->ties.exception : NULL;
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

bool ss_lua_has_text(lua_State *L, int index, int original, lua_State *thread, int level)
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

/* Of an instruction that copies: where the number of the register begins that it sets. */
enum {
    AT_TARGET = SS_LUA_JIT ? 8 : SS_LUA_AT_REGISTER,
    MOST_ARGUMENTS = 2 /* of `error` */
};

static inline bool copies(uint32_t instruction)
{
    return SS_LUA_JIT ||
           (instruction & SS_LUA_OPERATION) == SS_LUA_MOVE; /* LuaJIT's numbers change */
}

/* Whether the activation calls with register NUMBER, as lua_getlocal counts, as the first argument. */
static bool passes(lua_State *thread, const lua_Debug *activation, int number)
{
    const uint32_t *pc = ss_lua_saved_pc(thread, activation->i_ci);
    uint32_t function = pc ? pc[-1] >> AT_TARGET & 0xff : 0;

    for (int i = 2; pc && i < 2 + MOST_ARGUMENTS; i++) {
        uint32_t target = pc[-i] >> AT_TARGET & 0xff;

        if (target == function + FIRST_ARGUMENT)
            return copies(pc[-i]) && (pc[-i] >> SS_LUA_AT_B & 0xff) == (uint32_t)number - 1;
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
    again = ss_lua_has_text(L, index, top + 1, thread, level) &&
            is_proven(L, top + 1, &resumed, thread, level);
    if (again && lua_rawequal(L, index, top + 1))
        ss_lua_set_last(state, &resumed.ties);
    else if (again)
        ss_lua_rename_last(L, state, &resumed.ties, index, 0);
    if (again)
        state->resumed.L = NULL;
    lua_settop(L, top);
    return again;
}

bool ss_lua_sees_raised(lua_State *L, ss_lua_state *state, int index, lua_State *thread, int level)
{
    const ss_lua_raising *raising = raising_at(L, state, thread, level);
    lua_State *resumer = state->resumed.L;
    bool is = raising && ss_lua_is_value_of(L, &raising->ties, index);

    if (is)
        ss_lua_set_last(state, &raising->ties);
    else
        is = ss_lua_is_raised_again(L, state, index, thread, level);
    state->resumed.L = resumer;
    return is;
}
