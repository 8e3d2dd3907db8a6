/* doctor: what is installed, what is missing, and what to do about it. */
#include "api/api.h"
#include "cross/cross.h"
#include "traceback/traceback.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include <stacksplice/script.h>

#include <lualib.h>

/* The file that has this address. */
static const char *file_of(const void *address)
{
    Dl_info info;

    return dladdr(address, &info) && info.dli_fname ? info.dli_fname : "an unknown file";
}

static void say_binaries(void)
{
    (void)printf("ok       module: for Lua %d.%d, %s\n", LUA_VERSION_NUM / 100,
                 LUA_VERSION_NUM % 100, file_of(&ss_lua_doctor_function));
    (void)printf("ok       core: %s, %s\n         %s\n", stacksplice_version(),
                 file_of(&stacksplice_version), stacksplice_build());
}

/* ---- What is missing --------------------------------------------------------------------------*/

/* What a capture of this moment has. */
typedef struct captured {
    bool native, lua;
    const char *native_gap, *lua_gap; /* static texts */
} captured;

static int look(const stacksplice_frame *frame, void *data)
{
    captured *now = data;
    bool of_lua = strcmp(frame->language, "lua") == 0;

    if (frame->kind == STACKSPLICE_FRAME_NATIVE)
        now->native = true;
    else if (frame->kind == STACKSPLICE_FRAME_GAP)
        *(of_lua ? &now->lua_gap : &now->native_gap) = frame->reason;
    else
        now->lua |= of_lua;
    return 0;
}

static captured look_around(lua_State *L, const void *above)
{
    enum { SEEN = 64 };
    uintptr_t frames[SEEN];
    uint32_t count = ss_lua_capture(L, above, SEEN, frames, NULL);
    captured now = {false, false, NULL, NULL};

    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], look, &now);
    return now;
}

/* Result: how much is missing. */
static int say_whether(bool is_there, const char *subject, const char *good, const char *bad,
                       const char *advice)
{
    if (is_there)
        (void)printf("ok       %s: %s\n", subject, good);
    else
        (void)printf("missing  %s: %s\n         -> %s\n", subject, bad, advice);
    return !is_there;
}

static int say_frames(captured now)
{
    const char *none = "none were found", *read = "they are read";

    return say_whether(now.lua, "Lua frames", read, now.lua_gap ? now.lua_gap : none,
                       "call doctor() from a Lua function, with a Lua from 5.3 to 5.5") +
           say_whether(now.native, "native frames", read, now.native_gap ? now.native_gap : none,
                       "native frames are read on x86-64 and 64-bit Arm with Linux");
}

static int say_lines(void)
{
    const char *reason = stacksplice_lines_missing();

    return say_whether(!reason, "lines of C code",
                       "shown where the binary has debug information: compile with -g", reason,
                       reason && strstr(reason, "without libdw")
                           ? "build the core with libdw: -DSTACKSPLICE_WITH_LIBDW=ON"
                           : "install the package libdw1 (elfutils-libs)");
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

static void say_place(owner who, const char *subject, const char *good, const char *bad,
                      const char *advice)
{
    if (who == OTHERS) {
        bad = "another library replaced it, and that one stays in effect";
        advice = "load stacksplice before that library";
    }
    if (who == OURS)
        (void)printf("ok       %s: %s\n", subject, good);
    else
        (void)printf("note     %s: %s\n         -> %s\n", subject, bad, advice);
}

static void say_places(lua_State *L)
{
    static const char good[] = "errors keep the frames of a coroutine that failed",
                      bad[] = "is not replaced: a coroutine that fails loses its frames",
                      advice[] = "call stacksplice.install()";

    say_place(owner_of(L, LUA_DBLIBNAME, "traceback", ss_lua_traceback), "debug.traceback",
              "shows the frames of all languages", "is not replaced: it shows Lua alone", advice);
    say_place(owner_of(L, LUA_COLIBNAME, "wrap", ss_lua_wrap_function), "coroutine.wrap", good, bad,
              advice);
    say_place(owner_of(L, LUA_COLIBNAME, "resume", ss_lua_resume_function), "coroutine.resume",
              good, bad, advice);
    say_place(ss_lua_serves_standalone(L) ? OURS : LUAS, "uncaught errors",
              "are shown with their reports", "are shown as the program that runs Lua does it",
              "start the script by lua -lstacksplice, or let stacksplice.report handle messages");
}

/* Result: whether nothing is missing. */
SS_LUA_OWN int ss_lua_doctor_function(lua_State *L)
{
    const void *above = SS_LUA_HERE();
    captured now;
    int missing;

    ss_lua_plant_gc_canary(L, ss_lua_state_open(L));
    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    now = look_around(L, above);
    say_binaries();
    missing = say_frames(now) + say_lines();
    say_places(L);
    if (missing)
        (void)printf("\n%d missing: see above\n", missing);
    else
        (void)puts("\nnothing is missing");
    (void)fflush(stdout);
    lua_pushboolean(L, missing == 0);
    return 1;
}
