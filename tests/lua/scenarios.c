/* Runs scenarios.lua under the oracle, on whatever Lua this is built with. */
#include <stdio.h>

#include "calibrate/calibrate.h"
#include "version/compat.h"
#include "oracle.h"
#include "lua_state.h"
#include "threads.h"

#ifndef SCENARIOS
#error "SCENARIOS is the path of scenarios.lua"
#endif

static lua_State *home, *other; /* the two states */

static bool same_lua(lua_State *a, lua_State *b)
{
    return lua_topointer(a, LUA_REGISTRYINDEX) == lua_topointer(b, LUA_REGISTRYINDEX);
}

static const char *name_state(lua_State *L)
{
    return other && same_lua(L, other) ? "state 2" : "";
}

/* ---- What the scripts call -------------------------------------------------------------------*/

static int probe(lua_State *L)
{
    oracle_check(L);
    lua_pushboolean(L, 0); /* ends an iteration */
    lua_pop(L, 1);
    AFTER();
    return 0;
}

static int probe_sibling(lua_State *L)
{
    return probe(L);
}

static void probe_hook(lua_State *L, lua_Debug *activation)
{
    oracle_check(L);
    AFTER();
}

/* A hook whose last act is a call: its own frame is gone when the function runs. */
static void calling_hook(lua_State *L, lua_Debug *activation)
{
    lua_sethook(L, NULL, 0, 0);
    lua_getglobal(L, "hooked");
    lua_call(L, 0, 0);
}

static int set_hook(lua_State *L)
{
    if (lua_type(L, 1) == LUA_TSTRING)
        lua_sethook(L, probe_hook, LUA_MASKCALL | LUA_MASKRET, 0);
    else
        lua_sethook(L, lua_toboolean(L, 1) ? calling_hook : probe_hook, LUA_MASKCOUNT, 1);
    return 0;
}

static int clear_hook(lua_State *L)
{
    lua_sethook(L, NULL, 0, 0);
    return 0;
}

static int call(lua_State *L)
{
    lua_call(L, lua_gettop(L) - 1, 0);
    AFTER();
    return 0;
}

static int after(lua_State *L, int status, lua_KContext context)
{
    oracle_check(L);
    AFTER();
    return 0;
}

SS_LUA_CONTINUATION(after);

static int callk(lua_State *L)
{
    lua_callk(L, 0, 0, 0, SS_LUA_K(after));
    return after(L, LUA_OK, 0);
}

static int pcallk(lua_State *L)
{
    int status = lua_pcallk(L, 0, 0, 0, 0, SS_LUA_K(after));

    return status == LUA_OK ? after(L, LUA_OK, 0) : lua_error(L);
}

static int throw_error(lua_State *L)
{
    return luaL_error(L, "by luaL_error");
}

/* resume(co, ...): coroutine.resume that tells the oracle. */
static int resume(lua_State *L)
{
    lua_State *co = lua_tothread(L, 1);
    int results, status;

    lua_xmove(L, co, lua_gettop(L) - 1);
    oracle_enter(L, co, true, 0);
    status = lua_resume(co, L, lua_gettop(co) - (lua_status(co) == LUA_OK ? 1 : 0), &results);
    oracle_leave();
    if (status != LUA_OK && status != LUA_YIELD) {
        lua_xmove(co, L, 1);
        return lua_error(L);
    }
    lua_pop(co, results);
    return 0;
}

/* crossing(n): the calling function will resume something, n activations further in. */
static int announce(lua_State *L)
{
    oracle_enter(L, L, true, (int)luaL_checkinteger(L, 1) - 1);
    return 0;
}

static int crossed(lua_State *L)
{
    oracle_leave();
    return 0;
}

/* into(name): the other state runs its global function of that name. */
static int into(lua_State *L)
{
    lua_State *to = same_lua(L, home) ? other : home;

    lua_getglobal(to, luaL_checkstring(L, 1));
    oracle_enter(L, to, false, 0);
    if (lua_pcall(to, 0, 0, 0) != LUA_OK) {
        oracle_complain("other state", "success", lua_tostring(to, -1));
        lua_pop(to, 1);
    }
    oracle_leave();
    AFTER();
    return 0;
}

/* scenario(name, checks, adopted, function) */
static int scenario(lua_State *L)
{
    oracle_counts before = oracle;
    int checks = (int)luaL_checkinteger(L, 2), adopted = (int)luaL_checkinteger(L, 3);
    char got[32];

    oracle_scenario = luaL_checkstring(L, 1);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK)
        oracle_complain("script", "success", lua_tostring(L, -1));
    (void)snprintf(got, sizeof got, "%d", oracle.checks - before.checks);
    if (oracle.checks - before.checks < checks)
        oracle_complain("checks", "more", got);
    (void)snprintf(got, sizeof got, "%d", oracle.adopted - before.adopted);
    if (oracle.adopted - before.adopted > adopted && !oracle_site_is_missed)
        oracle_complain("adopted native frames", "fewer", got);
    return 0;
}

static const luaL_Reg helpers[] = {
    {"probe", probe},       {"probe_sibling", probe_sibling},
    {"hook", set_hook},     {"unhook", clear_hook},
    {"call", call},         {"callk", callk},
    {"pcallk", pcallk},     {"throw", throw_error},
    {"resume", resume},     {"crossing", announce},
    {"crossed", crossed},   {"into", into},
    {"scenario", scenario}, {NULL, NULL},
};

/* What the other state runs. */
static const char *const others = "function checked()\n"
                                  "    probe()\n"
                                  "    return 1\n"
                                  "end\n"
                                  "function and_back()\n"
                                  "    probe()\n"
                                  "    into('back')\n"
                                  "    return 1\n"
                                  "end\n"
                                  "function and_back_in_coroutine()\n"
                                  "    resume(coroutine.create(function()\n"
                                  "        probe()\n"
                                  "        into('back')\n"
                                  "        return 1\n"
                                  "    end))\n"
                                  "end\n";

/* ---- Tests -----------------------------------------------------------------------------------*/

/* The helpers are light functions, or closures with UPVALUES: Lua calls the two differently. */
static lua_State *new_state(int upvalues)
{
    lua_State *L = fill_state(luaL_newstate());

    lua_pushglobaltable(L);
    if (upvalues)
        lua_pushboolean(L, 1);
    luaL_setfuncs(L, helpers, upvalues);
    lua_settop(L, 0);
    return L;
}

static int run_all(const char *file, int upvalues)
{
    oracle_begin(file);
    oracle_name_state = name_state;
    home = new_state(upvalues);
    other = new_state(upvalues);
    run_chunk(other, "@others.lua", others, 0);
    if (luaL_loadfile(home, file) != LUA_OK || lua_pcall(home, 0, 0, 0) != LUA_OK)
        fail_msg("%s", lua_tostring(home, -1));
    lua_close(other);
    other = NULL;
    lua_close(home); /* finalizers may run here */
    print_message("%s: %d stacks, %d Lua activations, %d C activations (%d labelled, %d adopted)\n",
                  LUA_RELEASE, oracle.checks, oracle.lua,
                  oracle.exact + oracle.labelled + oracle.adopted, oracle.labelled, oracle.adopted);
    return oracle.failures;
}

/* ---- A call site that was not learnt ---------------------------------------------------------*/

/* As if calibration had never met that site. */
static void forget_site(uint32_t index)
{
    ss_lua_layout *layout = (ss_lua_layout *)(uintptr_t)ss_lua_layout_get();

    layout->site_count--;
    for (uint32_t i = index; i < layout->site_count; i++)
        layout->sites[i] = layout->sites[i + 1];
}

/* In a child, whose first capture happens without the site.  What comes out is in true order. */
static void run_without_site(uint32_t index)
{
    int failures;

    forget_site(index);
    oracle_site_is_missed = true;
    failures = run_all(SCENARIOS, 1);
    print_message("without site %u: %d inferred, %d gaps\n", index, oracle.inferred, oracle.gaps);
    (void)fflush(NULL);
    _exit(failures ? 1 : 0);
}

TEST(test_what_a_missed_site_hides_is_inferred_or_a_gap)
{
    uint32_t sites = ss_lua_layout_get()->site_count;
    int failed = 0;

#if SS_LUA_JIT
    SKIP("LuaJIT has one site only");
#endif
#ifdef INLINED_LUA
    SKIP("where Lua is inlined into the program, no frame shows that it called something");
#endif
    assert_in_range(sites, 2, SS_LUA_SITES);
    for (uint32_t i = 0; i < sites; i++) {
        pid_t child = fork();
        int status;

        if (child == 0)
            run_without_site(i);
        status = child_status(child);
        failed += status != 0;
    }
    assert_int_equal(failed, 0);
}

TEST(test_light_functions)
{
    assert_int_equal(run_all(SCENARIOS, 0), 0);
}

TEST(test_closures)
{
    assert_int_equal(run_all(SCENARIOS, 1), 0);
}

TEST(test_random_calls)
{
    assert_int_equal(run_all(RANDOM_CALLS, 1), 0);
}
