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

/* ---- A language whose functions are called and call: one of its frames for each of ours ------*/

#define PUBLIC __attribute__((visibility("default"), noinline))
#define AFTER() __asm__ volatile("" ::: "memory") /* so that no call before it is a tail call */

PUBLIC int interpret_logo(lua_State *L);

PUBLIC int interpret_logo(lua_State *L)
{
    lua_call(L, lua_gettop(L) - 1, 1);
    AFTER();
    return 1;
}

static void collect_logo(stacksplice_walk *walk, void *data)
{
    static const stacksplice_token_info turtle = {.size = sizeof turtle,
                                                  .kind = STACKSPLICE_FRAME_SCRIPT,
                                                  .trust = STACKSPLICE_TRUST_EXACT,
                                                  .language = "logo",
                                                  .function = "turtle",
                                                  .file = "garden.logo",
                                                  .line = 12};
    uintptr_t token = 0;

    (void)stacksplice_intern(&turtle, &token);
    for (uint32_t i = 0; i < walk->frame_count; i++)
        if (walk->frames[i].function == (uintptr_t)interpret_logo &&
            stacksplice_walk_splice(walk, i, 1))
            (void)stacksplice_walk_push(walk, token);
}

static void add_logo(void)
{
    static const stacksplice_source source = {.size = sizeof source,
                                              .version = STACKSPLICE_SOURCE_VERSION,
                                              .language = "logo",
                                              .identity = "logo",
                                              .collect = collect_logo};

    (void)stacksplice_add_source(&source);
}

/* A native function between Lua's and the other language's. */
PUBLIC int lend_a_hand(lua_State *L);

PUBLIC int lend_a_hand(lua_State *L)
{
    int results = interpret_logo(L);

    AFTER();
    return results;
}

/* logo(f, ...): the turtle calls f. */
static int logo(lua_State *L)
{
    int results;

    add_logo();
    results = lend_a_hand(L);
    AFTER();
    return results;
}

static const luaL_Reg functions[] = {
    {"among_others", among_others},       {"border", border}, {"fail", fail},
    {"handler", stacksplice_lua_handler}, {"logo", logo},     {NULL, NULL},
};

PUBLIC int luaopen_stacksplice_test_border(lua_State *L);

int luaopen_stacksplice_test_border(lua_State *L)
{
    luaL_newlib(L, functions);
    return 1;
}
