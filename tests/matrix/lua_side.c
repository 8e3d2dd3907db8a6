/* Lua: two states, each with the steps of steps.lua.  The module "matrix" there:
 *
 *   call(i)         step I, whose error is raised here
 *   path, modes, styles, kind   the case
 *   thrown(value)   VALUE is about to be raised by the origin
 *   again()         what it raised was caught by something that keeps no stack, and is raised again
 *   mark()          on the line that resumes a coroutine, before it does
 *   number(name, n), text(name, s)        what the catcher sees
 *   collect(hr)     the slot's error is what was caught
 *   fail()          raises an error of C
 *   slot()          the slot has to be empty
 */
#include "matrix.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stacksplice/lua.h>
#include <stdlib.h>
#include <string.h>

enum { STATES = 2, MAX_SEGMENTS = 64, ROOM = 2 * LUA_MINSTACK };

/* Lua calls in one coroutine that no native step interrupts. */
typedef struct segment {
    lua_State *L; /* NULL until the coroutine that was resumed calls */
    int levels;   /* that were there before */
    int log;      /* entries that were there before */
} segment;

static lua_State *states[STATES], *running[STATES];
static int left_at[STATES]; /* where in the log the state called a native step */
static segment segments[MAX_SEGMENTS];
static int segment_count;
static const char step_key, thrown_key, module_key;

/* ---- The log ----------------------------------------------------------------------------------*/

static int count_levels(lua_State *L)
{
    lua_Debug activation;
    int count = 0;

    while (lua_getstack(L, count, &activation))
        count++;
    return count;
}

static void open_segment(lua_State *L)
{
    if (segment_count == MAX_SEGMENTS)
        abort();
    segments[segment_count++] = (segment){L, L ? count_levels(L) : 0, matrix_log_count()};
}

/* The innermost segment of L; one without an owner is taken. */
static segment *segment_of(lua_State *L)
{
    segment *last = &segments[segment_count - 1];

    if (!last->L)
        last->L = L;
    while (last->L != L && last > segments)
        last--;
    if (last->L != L)
        abort();
    return last;
}

/* Lua's own word for what is on L's stack, outermost first. */
static void log_levels(lua_State *L)
{
    const segment *s = segment_of(L);
    lua_Debug activation;

    for (int level = count_levels(L) - s->levels - 1; level >= 0; level--) {
        if (!lua_getstack(L, level, &activation) || !lua_getinfo(L, "Slt", &activation))
            abort();
        if (activation.istailcall)
            matrix_log_add('x', "", 0);
        if (*activation.what != 'C')
            matrix_log_add('l', activation.short_src, activation.currentline);
    }
}

/* ---- The module -------------------------------------------------------------------------------*/

static int which(lua_State *L)
{
    return (int)lua_tointeger(L, lua_upvalueindex(1));
}

MATRIX_NODE int matrix_from_lua(lua_State *L)
{
    lua_State **place = &running[which(L)], *before = *place;
    int i = (int)luaL_checkinteger(L, 1), outer;
    HRESULT hr;

    log_levels(L);
    outer = segment_count;
    matrix_enter();
    matrix_border(i - 1);
    *place = L;
    left_at[which(L)] = matrix_log_count();
    hr = matrix.modes[i - 1] == 't' ? matrix_c_thread(i) : matrix_step(i);
    *place = before;
    segment_count = outer;
    if (FAILED(hr)) {
        matrix_passed(hr);
        return stacksplice_lua_raise(L, hr);
    }
    return 0;
}

static int lua_thrown(lua_State *L)
{
    luaL_checkany(L, 1);
    log_levels(L);
    lua_createtable(L, 1, 0);
    lua_pushvalue(L, 1);
    lua_rawseti(L, -2, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &thrown_key);
    return 0;
}

static int lua_again(lua_State *L)
{
    const segment *s = segment_of(L);

    segment_count = (int)(s - segments) + 1;
    matrix_log_cut(s->log);
    log_levels(L);
    return 0;
}

static int lua_mark(lua_State *L)
{
    log_levels(L);
    matrix_log_add('c', "", 0);
    open_segment(NULL);
    return 0;
}

static int lua_number(lua_State *L)
{
    matrix_fact_number(luaL_checkstring(L, 1), luaL_checkinteger(L, 2));
    return 0;
}

static int lua_text(lua_State *L)
{
    size_t length;
    const char *text = luaL_checklstring(L, 2, &length);

    matrix_fact_text(luaL_checkstring(L, 1), text, length);
    return 0;
}

static int lua_collect(lua_State *L)
{
    matrix_collect((HRESULT)(uint32_t)luaL_checkinteger(L, 1));
    return 0;
}

static int lua_fail(lua_State *L)
{
    (void)stacksplice_originate(E_ABORT, "clean-up", 8, NULL, NULL);
    return stacksplice_lua_raise(L, E_ABORT);
}

static int lua_slot(lua_State *L)
{
    (void)L;
    matrix_check_slot();
    return 0;
}

static const luaL_Reg functions[] = {{"call", matrix_from_lua}, {"thrown", lua_thrown},
                                     {"again", lua_again},      {"mark", lua_mark},
                                     {"number", lua_number},    {"text", lua_text},
                                     {"collect", lua_collect},  {"fail", lua_fail},
                                     {"slot", lua_slot},        {NULL, NULL}};

/* ---- The states -------------------------------------------------------------------------------*/

typedef struct script {
    const char *source;
    size_t length;
    int state;
} script;

static int open_state(lua_State *L)
{
    const script *s = lua_touserdata(L, 1);

    luaL_openlibs(L);
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 0);
    if (luaL_loadbuffer(L, s->source, s->length, "@steps.lua") != LUA_OK)
        return lua_error(L);
    luaL_newlibtable(L, functions);
    lua_pushinteger(L, s->state);
    luaL_setfuncs(L, functions, 1);
    lua_pushvalue(L, -1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &module_key);
    lua_pushvalue(L, -3);
    lua_call(L, 2, 1);
    lua_rawsetp(L, LUA_REGISTRYINDEX, &step_key);
    return 0;
}

const char *matrix_lua_open(const char *source, size_t length)
{
    for (int i = 0; i < STATES; i++) {
        script s = {source, length, i};

        running[i] = states[i] = luaL_newstate();
        if (!states[i])
            return "not enough memory";
        lua_pushcfunction(states[i], open_state);
        lua_pushlightuserdata(states[i], &s);
        if (lua_pcall(states[i], 1, 0, 0) != LUA_OK)
            return lua_tostring(states[i], -1);
    }
    return NULL;
}

void matrix_lua_reset(void)
{
    segment_count = 0;
    for (int i = 0; i < STATES; i++) {
        lua_State *L = running[i] = states[i];

        lua_settop(L, 0);
        lua_rawgetp(L, LUA_REGISTRYINDEX, &module_key);
        lua_pushstring(L, matrix.path);
        lua_setfield(L, 1, "path");
        lua_pushstring(L, matrix.modes);
        lua_setfield(L, 1, "modes");
        lua_pushstring(L, matrix.styles);
        lua_setfield(L, 1, "styles");
        lua_pushlstring(L, &matrix.kind, 1);
        lua_setfield(L, 1, "kind");
        lua_settop(L, 0);
    }
}

void matrix_lua_close(void)
{
    for (int i = 0; i < STATES; i++)
        if (states[i])
            lua_close(states[i]);
    memset(states, 0, sizeof states);
}

/* ---- The border -------------------------------------------------------------------------------*/

/* Step I in a coroutine that C resumes. */
static HRESULT resume(lua_State *L, lua_State **place, int i)
{
    lua_State *co = lua_newthread(L);
    int results;
    HRESULT hr;

    matrix_log_add('c', "", 0);
    open_segment(co);
    *place = co;
    lua_rawgetp(co, LUA_REGISTRYINDEX, &step_key);
    lua_pushinteger(co, i);
    hr = stacksplice_lua_resume(co, L, 1, &results);
    if (hr == S_FALSE) { /* it yielded once */
        lua_pop(co, results);
        hr = stacksplice_lua_resume(co, L, 0, &results);
    }
    lua_pop(L, 1);
    return hr;
}

MATRIX_NODE HRESULT matrix_to_lua(int i)
{
    int state = matrix.path[i] == 'M', outer = segment_count;
    lua_State **place = &running[state], *L = *place;
    HRESULT hr;

    matrix_enter();
    if (!lua_checkstack(L, ROOM))
        abort();
    if (matrix.modes[i] == 'h') {
        hr = resume(L, place, i);
    } else {
        if (count_levels(L) && left_at[state] <= matrix_log_thread())
            matrix_log_add('o', "", 0);
        open_segment(L);
        lua_rawgetp(L, LUA_REGISTRYINDEX, &step_key);
        lua_pushinteger(L, i);
        hr = stacksplice_lua_pcall(L, 1, 0);
    }
    *place = L;
    segment_count = outer;
    return hr;
}

/* ---- What was thrown --------------------------------------------------------------------------*/

int matrix_is_thrown_by_lua(IUnknown *language_exception)
{
    lua_State *L = running[matrix.path[matrix.length - 1] == 'M'];
    int top = lua_gettop(L), same = 0;

    if (!lua_checkstack(L, LUA_MINSTACK))
        abort();
    lua_rawgetp(L, LUA_REGISTRYINDEX, &thrown_key);
    if (lua_istable(L, -1) && stacksplice_lua_push(L, language_exception)) {
        lua_rawgeti(L, -2, 1);
        same = lua_rawequal(L, -1, -2);
    }
    lua_settop(L, top);
    return same;
}

int matrix_lua_forget(void)
{
    int left = 0;

    for (int i = 0; i < STATES; i++) {
        lua_State *L = states[i];

        lua_pushnil(L);
        lua_rawsetp(L, LUA_REGISTRYINDEX, &thrown_key);
        lua_getglobal(L, "left");
        lua_call(L, 0, 1);
        left += (int)lua_tointeger(L, -1);
        lua_settop(L, 0);
    }
    return left;
}
