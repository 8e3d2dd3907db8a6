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
#include "cross/cross.h"

#include <stdio.h>
#include <string.h>

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

void ss_lua_remember_resumed(lua_State *L, ss_lua_state *state)
{
    lua_Debug caller;

    if (!lua_getstack(L, 1, &caller))
        return;
    state->resumed = (ss_lua_resumed){.L = L,
                                      .ci = caller.i_ci,
                                      .function = function_of(L, &caller),
                                      .pc = ss_lua_saved_pc(caller.i_ci),
                                      .results = count_registers(L, &caller) + 1};
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
    return resumed->L == thread && resumed->ci == (const void *)activation->i_ci &&
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

/* Whether two values are one: of equal strings, the same object. [-0, +0, -] */
static bool is_one(lua_State *L, int a, int b)
{
    return lua_rawequal(L, a, b) &&
           (lua_type(L, a) != LUA_TSTRING || lua_type(L, b) != LUA_TSTRING ||
            lua_tostring(L, a) == lua_tostring(L, b));
}

/* Whether the results are still where resume left them. [-0, +0, -] */
static bool holds_results(lua_State *L, int original, lua_State *thread,
                          const lua_Debug *activation, int results)
{
    bool is;

    if (!is_false(thread, activation, results) || !lua_getlocal(thread, activation, results + 1))
        return false;
    if (thread != L)
        lua_xmove(thread, L, 1);
    is = is_one(L, -1, original);
    lua_pop(L, 1);
    return is;
}

/* Whether the activation calls by the instruction behind that which called resume. */
static bool is_next_call(const ss_lua_resumed *resumed, const lua_Debug *activation)
{
    const char *pc = ss_lua_saved_pc(activation->i_ci);

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
               holds_results(L, original, thread, &caller, resumed->results);
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

    if (!resumed.L || !state->last.exception || !lua_checkstack(thread, 4) ||
        !ss_lua_push_value(L, state->last.exception))
        return false;
    again = has_text(L, index, top + 1, thread, level) &&
            is_proven(L, top + 1, &resumed, thread, level);
    if (again && !lua_rawequal(L, index, top + 1))
        ss_lua_rename_last(L, state, index);
    lua_settop(L, top);
    return again;
}
