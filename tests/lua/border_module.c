/* A C module of somebody else, which brought its own copy of the binding along. */
#include <stdbool.h>
#include <string.h>

#include <lauxlib.h>

#include <stacksplice/lua.h>
#include <stacksplice/source.h>

/* border(f, ...): calls f as a host does, and raises again what comes out. */
static int border(lua_State *L)
{
    stacksplice_hresult hr = stacksplice_lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET);

    return hr < 0 ? stacksplice_lua_raise(L, hr) : lua_gettop(L);
}

/* fail(): an error that was born in C. */
static int fail(lua_State *L)
{
    RoOriginateErrorW(E_ACCESSDENIED, 0, (PCWSTR)u"no entry");
    return stacksplice_lua_raise(L, E_ACCESSDENIED);
}

/* ---- Frames of another language --------------------------------------------------------------*/

/* What a stack has outermost while among_others runs: a frame with every field, and a gap. */
enum { LONG_TEXT = 1000 };
static uintptr_t others[2];
static bool among;

static void collect_others(stacksplice_walk *walk, void *data)
{
    if (among && stacksplice_walk_splice(walk, walk->frame_count, 0))
        (void)stacksplice_walk_push_all(walk, others, 2);
}

static void make_others(void)
{
    static const stacksplice_source source = {.size = sizeof source,
                                              .version = STACKSPLICE_SOURCE_VERSION,
                                              .language = "toy",
                                              .identity = &among,
                                              .collect = collect_others};
    static char file[LONG_TEXT + 1], function[LONG_TEXT + 1];
    const stacksplice_token_info frame = {.size = sizeof frame,
                                          .kind = STACKSPLICE_FRAME_SCRIPT,
                                          .trust = STACKSPLICE_TRUST_INFERRED,
                                          .language = "toy",
                                          .function = function,
                                          .file = file,
                                          .line = 1,
                                          .end_line = 2,
                                          .column = 3,
                                          .end_column = 4,
                                          .interpreter = "second"};
    static const stacksplice_token_info gap = {.size = sizeof gap,
                                               .kind = STACKSPLICE_FRAME_GAP,
                                               .trust = STACKSPLICE_TRUST_EXACT,
                                               .language = "toy",
                                               .reason = "awaited by a toy",
                                               .asynchronous = 1};

    memset(file, 'f', LONG_TEXT);
    memset(function, 'p', LONG_TEXT);
    (void)stacksplice_add_source(&source);
    (void)stacksplice_intern(&frame, &others[0]);
    (void)stacksplice_intern(&gap, &others[1]);
}

/* among_others(f, ...): calls f, with those frames on every stack meanwhile. */
static int among_others(lua_State *L)
{
    int status;

    make_others();
    among = true;
    status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
    among = false;
    return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

static const luaL_Reg functions[] = {
    {"among_others", among_others},       {"border", border}, {"fail", fail},
    {"handler", stacksplice_lua_handler}, {NULL, NULL},
};

__attribute__((visibility("default"))) int luaopen_stacksplice_test_border(lua_State *L);

int luaopen_stacksplice_test_border(lua_State *L)
{
    luaL_newlib(L, functions);
    return 1;
}
