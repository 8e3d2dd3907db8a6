/*
 * The texts of an error as strings of Lua.  Lua must not raise through the core, so what the core
 * hands out piece by piece is gathered in C memory first; what it lends lives in a holder.
 */
#include "value/error_object.h"

#include <string.h>

void *ss_lua_push_exception(lua_State *L, IUnknown *error, REFIID iid)
{
    IUnknown **holder = ss_lua_push_holder(L);
    IUnknown *exception = ss_lua_error_exception(error);

    *holder = ss_lua_query(exception, iid);
    ss_lua_release(exception);
    return *holder;
}

/* ---- The message -----------------------------------------------------------------------------*/

/* UNITS of TEXT, without the line end, as UTF-8. */
static void gather_wide(const WCHAR *text, uint32_t units, ss_lua_gathered *out)
{
    char *room;

    while (units > 0 && (text[units - 1] == '\n' || text[units - 1] == '\r'))
        units--;
    room = ss_lua_gather_room(out, (size_t)units * 3 + 1);
    if (room)
        out->length += stacksplice_utf8(text, units, room, (size_t)units * 3 + 1);
}

/* The restricted description; nothing when there is none. */
static void gather_description(IUnknown *error, ss_lua_gathered *out)
{
    IRestrictedErrorInfo *info = ss_lua_query(error, &IID_IRestrictedErrorInfo);
    BSTR description = NULL, restricted = NULL, sid = NULL;
    HRESULT details, hr = E_FAIL;

    if (!info)
        return;
    details = info->lpVtbl->GetErrorDetails(info, &description, &hr, &restricted, &sid);
    out->failed = details == E_OUTOFMEMORY;
    if (SUCCEEDED(details) && restricted)
        gather_wide(restricted, SysStringLen(restricted), out);
    SysFreeString(description);
    SysFreeString(restricted);
    SysFreeString(sid);
    ss_lua_release(info);
}

static void push_description(lua_State *L, IUnknown *error)
{
    ss_lua_gathered out = {0};

    gather_description(error, &out);
    ss_lua_push_gathered(L, &out);
}

void ss_lua_push_message(lua_State *L, IUnknown *error)
{
    IScriptException *script = ss_lua_push_exception(L, error, &stacksplice_IID_IScriptException);
    size_t length = 0;
    const char *message = script ? script->lpVtbl->GetMessage(script, &length) : NULL;

    if (message)
        lua_pushlstring(L, message, length);
    else
        push_description(L, error);
    ss_lua_drop_holder(L, -2);
}

bool ss_lua_push_type_name(lua_State *L, IUnknown *error)
{
    IScriptException *script = ss_lua_push_exception(L, error, &stacksplice_IID_IScriptException);
    const char *name = script ? script->lpVtbl->GetTypeName(script) : NULL;
    bool has = name && *name;

    if (has)
        lua_pushstring(L, name);
    ss_lua_drop_holder(L, has ? -2 : -1);
    return has;
}

/* ---- Reports and notes -----------------------------------------------------------------------*/

/* In the registry, which scripts do not reach: one answer for all copies of the binding. */
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

    options.without_source = !may_read_source_lines(L);
    if (stacksplice_format(error, kind, &options, ss_lua_gather, &out) != S_OK)
        out.failed = true;
    ss_lua_push_gathered(L, &out);
}

/* The notes, one after the other, each behind its length. */
static int gather_note(const char *text, size_t length, void *data)
{
    return ss_lua_gather((const char *)&length, sizeof length, data) ||
           ss_lua_gather(text, length, data);
}

static int push_each_note(lua_State *L)
{
    const ss_lua_gathered *notes = lua_touserdata(L, 1);
    lua_Integer count = 0;
    size_t length;

    lua_newtable(L);
    for (size_t at = 0; at < notes->length; at += length) {
        memcpy(&length, notes->text + at, sizeof length);
        at += sizeof length;
        lua_pushlstring(L, notes->text + at, length);
        lua_rawseti(L, -2, ++count);
    }
    return 1;
}

void ss_lua_push_notes(lua_State *L, IUnknown *error)
{
    ss_lua_gathered notes = {0};

    (void)stacksplice_error_notes(error, gather_note, &notes);
    ss_lua_push_made_of(L, push_each_note, &notes);
}
