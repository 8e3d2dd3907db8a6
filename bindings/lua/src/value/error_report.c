/* Reports as Lua strings. */
#include "value/error_object.h"
#include "value/redact.h"

/* In the registry, which scripts cannot reach: one answer for all copies of the binding. */
#define SOURCE_LINES_KEY "stacksplice.source_lines"

void stacksplice_lua_allow_source_lines(lua_State *L, int allow)
{
    luaL_checkstack(L, 2, "stacksplice");
    lua_pushliteral(L, SOURCE_LINES_KEY);
    lua_pushboolean(L, allow);
    lua_rawset(L, LUA_REGISTRYINDEX);
}

/* [-0, +0, m] */
static bool may_read_source_lines(lua_State *L)
{
    bool may;

    lua_pushliteral(L, SOURCE_LINES_KEY);
    lua_rawget(L, LUA_REGISTRYINDEX);
    may = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return may;
}

void ss_lua_push_report(lua_State *L, IUnknown *error, stacksplice_format_kind kind,
                        bool all_frames)
{
    stacksplice_format_options options = {.size = sizeof options, .all_frames = all_frames};
    ss_lua_gathered out = {0};
    lua_State *before;

    options.without_source = !may_read_source_lines(L);
    before = ss_lua_reporting_begin(L);
    if (stacksplice_format(error, kind, &options, ss_lua_gather, &out) != S_OK)
        out.failed = true;
    ss_lua_reporting_end(before);
    ss_lua_push_gathered(L, &out);
}
