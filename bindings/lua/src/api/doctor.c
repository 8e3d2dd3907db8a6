/* doctor: what is installed, what is missing, and what to do about it. */
#include "api/api.h"
#include "cross/cross.h"
#include "traceback/traceback.h"
#include "value/gather.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <stacksplice/script.h>

#include <lualib.h>

/* The text so far. */
typedef struct answer {
    ss_lua_gathered text;
    int missing;
} answer;

static void add(answer *to, const char *text)
{
    (void)ss_lua_gather(text, strlen(text), &to->text);
}

/* ---- One finding ------------------------------------------------------------------------------*/

static void begin(answer *to, const char *state, const char *subject)
{
    char start[64];

    (void)snprintf(start, sizeof start, "%-9s%s: ", state, subject);
    add(to, start);
    to->missing += strcmp(state, "missing") == 0;
}

/* Another line of the same finding. */
static void go_on(answer *to, const char *text)
{
    add(to, "\n         ");
    add(to, text);
}

static void say(answer *to, const char *state, const char *subject, const char *text,
                const char *advice)
{
    begin(to, state, subject);
    add(to, text);
    if (advice) {
        go_on(to, "-> ");
        add(to, advice);
    }
    add(to, "\n");
}

/* The file that has this address. */
static const char *file_of(const void *address)
{
    Dl_info info;

    return dladdr(address, &info) && info.dli_fname ? info.dli_fname : "an unknown file";
}

/* ---- What is loaded ---------------------------------------------------------------------------*/

static void say_binaries(answer *to)
{
    char lua[32];

    (void)snprintf(lua, sizeof lua, "for Lua %d.%d, ", LUA_VERSION_NUM / 100,
                   LUA_VERSION_NUM % 100);
    begin(to, "ok", "module");
    add(to, lua);
    add(to, file_of(&ss_lua_doctor_function));
    add(to, "\n");
    begin(to, "ok", "core");
    add(to, stacksplice_version());
    add(to, ", ");
    add(to, file_of(&stacksplice_version));
    go_on(to, stacksplice_build());
    add(to, "\n");
}

/* What a capture of this moment has. */
typedef struct sight {
    bool native, lua;
    const char *native_gap, *lua_gap; /* static texts */
} sight;

static int look(const stacksplice_frame *frame, void *data)
{
    sight *now = data;
    bool of_lua = strcmp(frame->language, "lua") == 0;

    if (frame->kind == STACKSPLICE_FRAME_NATIVE)
        now->native = true;
    else if (frame->kind == STACKSPLICE_FRAME_GAP)
        *(of_lua ? &now->lua_gap : &now->native_gap) = frame->reason;
    else
        now->lua |= of_lua;
    return 0;
}

static sight look_around(lua_State *L, const void *above)
{
    enum { SEEN = 64 };
    uintptr_t frames[SEEN];
    uint32_t count = ss_lua_capture(L, above, SEEN, frames, NULL);
    sight now = {false, false, NULL, NULL};

    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], look, &now);
    return now;
}

static void say_frames(answer *to, sight now)
{
    if (now.lua)
        say(to, "ok", "Lua frames", "they are read", NULL);
    else
        say(to, "missing", "Lua frames", now.lua_gap ? now.lua_gap : "none were found",
            "call doctor() from a Lua function, with a Lua from 5.3 to 5.5");
    if (now.native)
        say(to, "ok", "native frames", "they are read", NULL);
    else
        say(to, "missing", "native frames", now.native_gap ? now.native_gap : "none were found",
            "native frames are read on x86-64 and 64-bit Arm with Linux");
}

static void say_lines(answer *to)
{
    const char *reason = stacksplice_lines_missing();

    if (reason)
        say(to, "missing", "lines of C code", reason,
            strstr(reason, "without libdw")
                ? "build the core with libdw: -DSTACKSPLICE_WITH_LIBDW=ON"
                : "install the package libdw1 (elfutils-libs)");
    else
        say(to, "ok", "lines of C code",
            "shown where the binary has debug information: compile with -g", NULL);
}

/* ---- What is in place -------------------------------------------------------------------------*/

/* Whose function is in a place. */
typedef enum owner { LUAS, OURS, OTHERS } owner;

/* That of LIBRARY's FIELD, for which ours is FUNCTION. [-0, +0, m] */
static owner owner_of(lua_State *L, const char *library, const char *field, lua_CFunction function)
{
    int top = lua_gettop(L);
    owner who = LUAS;

    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushstring(L, library);
    if (lua_rawget(L, -2) == LUA_TTABLE) {
        lua_pushstring(L, field);
        lua_rawget(L, -2);
        if (lua_tocfunction(L, -1) == function)
            who = OURS;
        else if (!ss_lua_is_of_lua(L))
            who = OTHERS;
    }
    lua_settop(L, top);
    return who;
}

/* What is in the place of Lua's. */
typedef struct places {
    owner traceback, wrap, resume;
    bool uncaught;
} places;

static places find_places(lua_State *L)
{
    return (places){
        .traceback = owner_of(L, LUA_DBLIBNAME, "traceback", ss_lua_traceback),
        .wrap = owner_of(L, LUA_COLIBNAME, "wrap", ss_lua_wrap_function),
        .resume = owner_of(L, LUA_COLIBNAME, "resume", ss_lua_resume_function),
        .uncaught = ss_lua_serves_standalone(L),
    };
}

static void say_place(answer *to, const char *subject, owner who, const char *good, const char *bad)
{
    if (who == OURS)
        say(to, "ok", subject, good, NULL);
    else if (who == LUAS)
        say(to, "note", subject, bad, "call stacksplice.install()");
    else
        say(to, "note", subject, "another library replaced it, and that one stays in effect",
            "load stacksplice before that library");
}

static void say_places(answer *to, places ours)
{
    static const char good[] = "errors keep the frames of a coroutine that failed",
                      bad[] = "is not replaced: a coroutine that fails loses its frames";

    say_place(to, "debug.traceback", ours.traceback, "shows the frames of all languages",
              "is not replaced: it shows Lua alone");
    say_place(to, "coroutine.wrap", ours.wrap, good, bad);
    say_place(to, "coroutine.resume", ours.resume, good, bad);
    if (ours.uncaught)
        say(to, "ok", "uncaught errors", "are shown with their reports", NULL);
    else
        say(to, "note", "uncaught errors", "are shown as the program that runs Lua does it",
            "start the script by lua -lstacksplice, or let stacksplice.report handle messages");
}

/* Result: whether nothing is missing. */
SS_LUA_OWN int ss_lua_doctor_function(lua_State *L)
{
    const void *above = SS_LUA_HERE();
    answer now = {.missing = 0};
    places ours;
    sight frames;
    char end[64];

    ss_lua_plant_sentinel(L, ss_lua_state_open(L));
    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    ours = find_places(L);
    frames = look_around(L, above);
    /* From here on nothing raises until the text is Lua's. */
    say_binaries(&now);
    say_frames(&now, frames);
    say_lines(&now);
    say_places(&now, ours);
    (void)snprintf(end, sizeof end, "\n%d missing: see above\n", now.missing);
    add(&now, now.missing ? end : "\nnothing is missing\n");
    ss_lua_push_gathered(L, &now.text);
    (void)fputs(lua_tostring(L, -1), stdout);
    (void)fflush(stdout);
    lua_pushboolean(L, now.missing == 0);
    return 1;
}
