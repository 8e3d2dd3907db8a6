/*
 * A Lua for which no binding is loaded: each stack through it says that its frames are missing,
 * once for each call into it, and no longer when the module of the binding is there.
 */
#include "frames.h"
#include "support.h"

#include <dlfcn.h>
#include <stdbool.h>

#include <lauxlib.h>
#include <lualib.h>

#include <stacksplice/script.h>

#define GAP "Lua frames unknown: stacksplice is not loaded in "

/* Exported, so that they have names without debug information, too. */
#define SHOWN __attribute__((noinline, visibility("default")))
SHOWN int unread_look(lua_State *L);
SHOWN int unread_fail(lua_State *L);
SHOWN void unread_run(const char *script);

typedef struct seen {
    int gaps, scripts;
    char order[2000]; /* names of native functions of ours, and "gap" */
} seen;

static seen last;
static char text[65536];

static int see(const stacksplice_frame *frame, void *data)
{
    seen *out = data;
    size_t used = strlen(out->order);

    out->scripts += frame->kind == STACKSPLICE_FRAME_SCRIPT;
    if (frame->kind == STACKSPLICE_FRAME_GAP) {
        if (strncmp(frame->reason, GAP, sizeof GAP - 1) != 0 || strcmp(frame->language, "lua") != 0)
            fail_msg("%s", frame->reason);
        out->gaps++;
        (void)snprintf(out->order + used, sizeof out->order - used, "gap ");
    } else if (frame->function && strncmp(frame->function, "unread_", 7) == 0) {
        (void)snprintf(out->order + used, sizeof out->order - used, "%s ", frame->function);
    }
    return 0;
}

static int keep_text(const char *part, size_t length, void *data)
{
    (void)strncat(text, part, length);
    return strlen(text) > sizeof text / 2;
}

/* What the stack at this place says. */
SHOWN int unread_look(lua_State *L)
{
    uintptr_t frames[256];
    uint32_t count = 0;

    memset(&last, 0, sizeof last);
    assert_int_equal(stacksplice_capture(0, 256, frames, &count, NULL), S_OK);
    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], see, &last);
    AFTER();
    return 0;
}

/* The report of an error that is made at this place. */
SHOWN int unread_fail(lua_State *L)
{
    IRestrictedErrorInfo *error = NULL;
    stacksplice_format_kind kind = (stacksplice_format_kind)luaL_checkinteger(L, 1);

    *text = '\0';
    assert_int_equal(stacksplice_originate(E_FAIL, "native", 6, NULL, &error), S_OK);
    assert_int_equal(stacksplice_format((IUnknown *)error, kind, NULL, keep_text, NULL), S_OK);
    error->lpVtbl->Release(error);
    RoClearError();
    AFTER();
    return 0;
}

SHOWN void unread_run(const char *script)
{
    lua_State *L = luaL_newstate();

    luaL_openlibs(L);
    lua_register(L, "look", unread_look);
    lua_register(L, "fail", unread_fail);
    if (luaL_loadbuffer(L, script, strlen(script), "=script") != LUA_OK ||
        lua_pcall(L, 0, 0, 0) != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
    lua_close(L);
    AFTER();
}

TEST(test_a_stack_says_it_where_lua_was_entered)
{
    unread_run("local function f() look() return 1 end f()");
    assert_string_equal(last.order, "unread_look gap unread_run ");
}

TEST(test_each_call_into_lua_says_it)
{
    unread_run("local function f() look() return 1 end\n"
               "local function g() pcall(f) return 1 end\n"
               "coroutine.wrap(function() g() return 1 end)()");
    assert_int_equal(last.gaps, 3);
}

TEST(test_a_metamethod_says_it)
{
    lua_State *L = luaL_newstate();

    luaL_openlibs(L);
    lua_register(L, "look", unread_look);
    assert_int_equal(luaL_dostring(L, "return setmetatable({}, {__index = function() look() end})"),
                     LUA_OK);
    lua_pushliteral(L, "x");
    (void)lua_gettable(L, -2); /* lua_getfield may give its frame to what it calls */
    lua_close(L);
    assert_int_equal(last.gaps, 1);
}

TEST(test_reports_say_it)
{
    const char *at;

    unread_run("local function f() fail(1) return 1 end f()");
    at = strstr(text, "[gap: " GAP);
    assert_non_null(at);
    assert_non_null(strstr(at, "require \"stacksplice\" in it, lupa: stacksplice.install(), "
                               "others: not supported]\n"));
    assert_null(strstr(at + sizeof "[gap: ", GAP));
    unread_run("local function f() fail(2) return 1 end f()");
    assert_non_null(strstr(text, "\"reason\":\"" GAP));
}

/* The module calls the Lua of whoever loads it, which must be seen by it. */
TEST(test_nothing_is_said_of_a_lua_that_is_read)
{
    if (!dlopen(MODULE, RTLD_NOW | RTLD_GLOBAL))
        fail_msg("%s", dlerror());
    unread_run("local function f() look() return 1 end f()");
    unread_run("local function f() look() return 1 end f()");
    assert_int_equal(last.gaps, 0);
    assert_int_equal(last.scripts, 2);
}
