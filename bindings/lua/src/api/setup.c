/* What a host or a program sets up: install, -lstacksplice, redaction; and doctor, which checks it. */
#include "api/api.h"
#include "cross/cross.h"
#include "shared/versions.h"
#include "value/value.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <lualib.h>
#include <stacksplice/crash.h>
#include <stacksplice/lua.h>
#include <stacksplice/script.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- install ------------------------------------------------------------------------------------*/

/*
 * install: replaces functions of the standard library that lose frames of an error.  What others
 * have put there, such as a profiler, stays.  Uninstalling restores each one if ours is still there.
 */

#define KEEPS_COROUTINES "errors keep the frames of a coroutine that failed"
#define LOSES_COROUTINES "a coroutine that fails loses its frames"

#define KEEPS_CAUGHT "errors that are raised again keep their frames"
#define LOSES_CAUGHT "an error that is raised again loses its frames"

/* A field of the library to replace; what doctor says of it where it is, and where it is not. */
static const struct replacement {
    const char *library, *field;
    lua_CFunction function;
    const char *effect, *lack;
    bool on_demand;
} replacements[] = {
    {LUA_DBLIBNAME, "traceback", ss_lua_traceback, "shows the frames of all languages",
     "it shows Lua alone", false},
    {LUA_COLIBNAME, "wrap", ss_lua_wrap_function, KEEPS_COROUTINES, LOSES_COROUTINES, false},
    {LUA_COLIBNAME, "resume", ss_lua_resume_function, KEEPS_COROUTINES, LOSES_COROUTINES, false},
#if !SS_LUA_JIT
    {LUA_GNAME, "pcall", ss_lua_keeping_pcall, KEEPS_CAUGHT, LOSES_CAUGHT, true},
    {LUA_GNAME, "xpcall", ss_lua_keeping_xpcall, KEEPS_CAUGHT, LOSES_CAUGHT, true},
#endif
};

enum { REPLACEMENTS = sizeof replacements / sizeof *replacements };

/* The binary that FUNCTION lies in; NULL: unknown, as in a static program. */
static const void *binary_of(const void *function)
{
    Dl_info info;

    return dladdr(function, &info) ? info.dli_fbase : NULL;
}

/* Whether the value at the top is a function of Lua's own libraries. [-0, +0, -], 1 slot */
static bool is_of_lua(lua_State *L)
{
    lua_CFunction function = lua_tocfunction(L, -1);

    if (!function) /* LuaJIT tells no address of those that it has in assembly */
        return SS_LUA_JIT && lua_iscfunction(L, -1);
    if (lua_getupvalue(L, -1, 1)) {
        lua_pop(L, 1);
        return false;
    }
    return binary_of((const void *)(uintptr_t)function) ==
           binary_of((const void *)(uintptr_t)lua_newstate);
}

/* Upvalues: for each replacement the library's table, or nil, and its former function; true if this
   installation switched local variables on. */
static int uninstall(lua_State *L)
{
    ss_lua_state *state = ss_lua_state_open(L);

    if (lua_toboolean(L, lua_upvalueindex(REPLACEMENTS * 2 + 1)))
        state->shows_locals = false;
    ss_lua_forget_all_caught(state); /* another pcall may fail where ours did */
    for (int i = 0; i < REPLACEMENTS; i++) {
        int library = lua_upvalueindex(i * 2 + 1);

        if (!lua_istable(L, library))
            continue;
        lua_pushstring(L, replacements[i].field);
        lua_pushvalue(L, -1);
        lua_rawget(L, library);
        if (lua_tocfunction(L, -1) == replacements[i].function) {
            lua_pop(L, 1);
            lua_pushvalue(L, lua_upvalueindex(i * 2 + 2));
            lua_rawset(L, library);
        }
        lua_settop(L, 0);
        lua_pushnil(L);
        lua_replace(L, library);
    }
    return 0;
}

/*
 * Push the replacement.  It is another function than the module's, with the same effect, so that
 * package.loaded has one name for each, the library's: Lua itself uses that name in tracebacks and
 * messages.  What it is a closure over is of no use, also to a script that reads it by the library
 * debug.
 */
static void push_replacement(lua_State *L, const struct replacement *what)
{
    lua_pushboolean(L, 1);
    lua_pushcclosure(L, what->function, 1);
}

/* Report crashes, as the table of options at 1 wants it. [-0, +0, e] */
static void report_crashes(lua_State *L)
{
    const stacksplice_crash_options options = {.size = sizeof options, .others_first = 1};

    if (FAILED(stacksplice_install_crash_handler(ss_lua_option(L, "others_first", false) ? &options
                                                                                         : NULL)))
        luaL_error(L, "not enough memory");
}

/* What the table of options at 1, or nothing, asks for; whether it asks for local variables.
   [-0, +0, e] */
static bool take_host_options(lua_State *L, ss_lua_state *state)
{
    if (lua_isnoneornil(L, 1))
        return false;
    luaL_checktype(L, 1, LUA_TTABLE);
    if (ss_lua_option(L, "crash", false))
        report_crashes(L);
    if (!ss_lua_option(L, "locals", false))
        return false;
    state->shows_locals = true;
    return true;
}

/* Whether the table of options at 1, or nothing, asks for the functions that are replaced on demand. */
static bool wants_pcall(lua_State *L)
{
    return !lua_isnoneornil(L, 1) && ss_lua_option(L, "pcall", false);
}

static int install(lua_State *L, bool with_locals, bool with_pcall)
{
    lua_settop(L, 0);
    luaL_checkstack(L, 2 * REPLACEMENTS + 8, "stacksplice");
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    for (int i = 0; i < REPLACEMENTS; i++) {
        bool wanted = with_pcall || !replacements[i].on_demand;

        lua_pushstring(L, wanted ? replacements[i].library : "");
        if (lua_rawget(L, 1) != LUA_TTABLE) {
            lua_pop(L, 1);
            lua_pushnil(L);
            lua_pushnil(L);
            continue;
        }
        lua_pushstring(L, replacements[i].field);
        lua_rawget(L, -2);
        if (!is_of_lua(L)) {
            lua_pushnil(L);
            lua_replace(L, -3);
        }
    }
    /* Replace only now: nothing can fail any more except for want of memory, in an existing
       field. */
    for (int i = 0; i < REPLACEMENTS; i++) {
        if (!lua_istable(L, 2 + i * 2))
            continue;
        lua_pushstring(L, replacements[i].field);
        push_replacement(L, &replacements[i]);
        lua_rawset(L, 2 + i * 2);
    }
    lua_pushboolean(L, with_locals);
    lua_pushcclosure(L, uninstall, REPLACEMENTS * 2 + 1);
    return 1;
}

int ss_lua_install_function(lua_State *L)
{
    static const char *const of_hosts[] = {"crash", "others_first", "locals"};

    if (!lua_isnoneornil(L, 1))
        luaL_checktype(L, 1, LUA_TTABLE);
    for (size_t i = 0; lua_istable(L, 1) && i < sizeof of_hosts / sizeof *of_hosts; i++)
        if (ss_lua_option(L, of_hosts[i], false))
            return luaL_argerror(L, 1, "only install of stacksplice.host has this option");
    return install(L, false, wants_pcall(L));
}

int ss_lua_host_install_function(lua_State *L)
{
    bool with_locals = take_host_options(L, ss_lua_state_open(L));

    return install(L, with_locals, wants_pcall(L));
}

/* ---- lua -lstacksplice ------------------------------------------------------------------------*/

/*
 * lua -lstacksplice SCRIPT: uncaught errors of the standalone Lua show their reports.
 *
 * That program (lua.c) calls each chunk with a message handler of its own, which it pushes just
 * below the chunk, and ends with status 1 after printing what the handler returned.  A call hook,
 * set while -l loads the module, sees the call of the chunk before its first instruction.  There it
 * puts our handler in the place of the program's, among the values of the program's C function,
 * which debug.setlocal can reach, too.  Then the hook is gone.  All the rest stays the program's:
 * arguments, standard input, the prompt, the exit status.
 *
 * A module that a script requires does none of this: the program's own arguments must ask for it,
 * and nothing but require may stand between that C function and the module.
 */

/* In the registry, under the address of STANDING_KEY. */
typedef struct standing {
    lua_CFunction theirs; /* the program's message handler */
    lua_Hook former;      /* a hook that was set before, still called */
    int mask, count;
    bool interactive; /* each line that is typed is a chunk */
} standing;

static const char standing_key;

/* [-0, +0, -], 1 slot */
static standing *find(lua_State *L)
{
    standing *now;

    lua_rawgetp(L, LUA_REGISTRYINDEX, &standing_key);
    now = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return now;
}

/* ---- The arguments of the program -------------------------------------------------------------*/

/* arg[I] of the table at the top, which keeps it, or NULL. [-0, +0, -], 1 slot */
static const char *word_at(lua_State *L, int i)
{
    const char *word = lua_rawgeti(L, -1, i) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;

    lua_pop(L, 1);
    return word;
}

/* Whether NAME, what follows -l, loads this module: also as GLOBAL=MODULE. */
static bool is_module(const char *name)
{
    const char *equals = strchr(name, '=');

    return strcmp(equals ? equals + 1 : name, "stacksplice") == 0;
}

/* The options of the program. */
typedef struct asked {
    bool module, interactive;
} asked;

/* Read those from FIRST up to LAST of the table at the top, up to the word that ends them; false if
   there is one. */
static bool read_options(lua_State *L, int first, int last, asked *options)
{
    for (int i = first; i <= last; i++) {
        const char *word = word_at(L, i), *rest;

        if (!word || word[0] != '-' || !word[1] || word[1] == '-')
            return false;
        options->interactive |= word[1] == 'i';
        if (word[1] != 'e' && word[1] != 'l')
            continue;
        rest = word[2] ? word + 2 : word_at(L, ++i);
        options->module |= word[1] == 'l' && rest && is_module(rest);
    }
    return true;
}

/* Lua 5.1 and 5.2 make the table arg after the options have been carried out. */
#if SS_LUA_MAKES_ARG_LATE
/* Push what arg would be without a script. [-0, +1, m], 2 slots */
static void push_command_line(lua_State *L)
{
    char words[4096];
    int file = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC), count = 0;
    ssize_t length = file < 0 ? 0 : read(file, words, sizeof words - 1);

    if (file >= 0)
        (void)close(file);
    words[length > 0 ? length : 0] = '\0';
    lua_newtable(L);
    for (ssize_t at = 0; at < length; at += (ssize_t)strlen(words + at) + 1) {
        lua_pushstring(L, words + at);
        lua_rawseti(L, -2, count++);
    }
}
#endif

/* The words before the script have negative numbers; without a script all words are options. */
static asked read_arguments(lua_State *L)
{
    asked options = {false, false};
    int first = 0;

    lua_pushglobaltable(L);
    lua_pushliteral(L, "arg");
    lua_rawget(L, -2);
#if SS_LUA_MAKES_ARG_LATE
    if (lua_isnil(L, -1)) {
        push_command_line(L);
        lua_replace(L, -2);
    }
#endif
    if (lua_istable(L, -1)) {
        while (word_at(L, first - 1))
            first--;
        if (read_options(L, first + 1, first ? -1 : (int)lua_rawlen(L, -1), &options) && first == 0)
            options.interactive |= isatty(STDIN_FILENO) != 0;
    }
    lua_pop(L, 2);
    return options;
}

/* ---- The handler ------------------------------------------------------------------------------*/

static void set_hook(lua_State *L, const standing *now);

/* Without memory for the report, the program's own handler does what it would have done. */
static SS_LUA_OWN int show_uncaught(lua_State *L)
{
    const standing *now;

    lua_settop(L, 1);
    if (lua_checkstack(L, 2)) {
        now = find(L);
        if (now->interactive && !lua_gethook(L))
            set_hook(L, now); /* the program removes all hooks when a line is interrupted */
        if (!ss_lua_report(L, SS_LUA_HERE(), isatty(STDERR_FILENO)))
            return now->theirs(L);
    }
    return 1;
}

/* ---- Its place --------------------------------------------------------------------------------*/

/* The C function that is the last value of the program's C function below what it calls now: its
   handler, when it called require; or NULL. [-0, +0, -], 1 slot */
static lua_CFunction last_function(lua_State *L, const lua_Debug *program)
{
    lua_CFunction last = NULL;

    for (int n = 1; lua_getlocal(L, program, n); n++) {
        last = lua_tocfunction(L, -1);
        lua_pop(L, 1);
    }
    return last;
}

/* Put our handler in the place of the program's. [-0, +0, -], 1 slot */
static void replace_handler(lua_State *L, const lua_Debug *program, lua_CFunction theirs)
{
    for (int n = 1; lua_getlocal(L, program, n); n++) {
        bool found = lua_tocfunction(L, -1) == theirs;

        lua_pop(L, 1);
        if (found) {
            lua_pushcfunction(L, show_uncaught);
            (void)lua_setlocal(L, program, n);
            return;
        }
    }
}

/* Whether ACTIVATION is the outermost one of the main thread, and of a C function. */
static bool is_program(lua_State *L, int level, lua_Debug *activation)
{
    const ss_lua_state *state = ss_lua_state_find(L);
    lua_Debug further;

    if (!state || state->main != L || !lua_getstack(L, level, activation) ||
        lua_getstack(L, level + 1, &further))
        return false;
    lua_getinfo(L, "S", activation);
    return *activation->what == 'C';
}

/* The chunk that ends our work: the script.  Code of -e and lines at the prompt are followed by
   others. */
static bool is_last_chunk(lua_State *L, lua_Debug *called, const standing *now)
{
    lua_getinfo(L, "S", called);
    return !now->interactive && *called->what == 'm' && strcmp(called->source, "=(command line)");
}

/* A hook for calls also gets tail calls. */
static bool wanted_by_former(const standing *now, int event)
{
    return now->former && (now->mask & (1 << (event == LUA_HOOKTAILCALL ? LUA_HOOKCALL : event)));
}

static void before_call(lua_State *L, lua_Debug *called)
{
    standing *now = find(L);
    lua_Debug program;

    if (wanted_by_former(now, called->event))
        now->former(L, called);
    if (called->event != LUA_HOOKCALL || !is_program(L, 1, &program))
        return;
    replace_handler(L, &program, now->theirs);
    if (is_last_chunk(L, called, now))
        lua_sethook(L, now->former, now->mask, now->count);
}

static void set_hook(lua_State *L, const standing *now)
{
    lua_sethook(L, before_call, now->mask | LUA_MASKCALL, now->count);
}

/* ---- Loading ----------------------------------------------------------------------------------*/

/* Replace the library functions that lose frames, pcall too, and let reports have source lines: a script
   of the standalone Lua may open files anyway. [-0, +0, m] */
static void set_up(lua_State *L)
{
    lua_pushcfunction(L, ss_lua_install_function);
    lua_createtable(L, 0, 1);
    lua_pushboolean(L, 1);
    lua_setfield(L, -2, "pcall");
    lua_call(L, 1, 0);
    stacksplice_lua_allow_source_lines(L, 1);
}

void ss_lua_serve_standalone(lua_State *L)
{
    lua_Debug program;
    lua_CFunction theirs;
    asked options;
    standing *now;

    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    if (find(L) || !is_program(L, 2, &program))
        return;
    theirs = last_function(L, &program);
    options = read_arguments(L);
    if (!theirs || !options.module)
        return;
    set_up(L);
    now = lua_newuserdatauv(L, sizeof *now, 0);
    *now = (standing){theirs, lua_gethook(L), lua_gethookmask(L), lua_gethookcount(L),
                      options.interactive};
    lua_rawsetp(L, LUA_REGISTRYINDEX, &standing_key);
    set_hook(L, now);
}

/* ---- Redaction --------------------------------------------------------------------------------*/

/* redaction: what reports leave out; redact: a text as they show it. */

bool ss_lua_option(lua_State *L, const char *key, bool usual)
{
    bool found = usual;

    if (lua_getfield(L, 1, key) != LUA_TNIL)
        found = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return found;
}

/* Read the list OPTIONS.names, which stays on the stack. [-0, +1, e] */
static uint32_t read_names(lua_State *L, const char *names[STACKSPLICE_REDACT_NAMES_MAX])
{
    size_t count;

    if (lua_getfield(L, 1, "names") == LUA_TNIL)
        return 0;
    luaL_argcheck(L, lua_istable(L, -1), 1, "names must be a list of strings");
    count = lua_rawlen(L, -1);
    luaL_argcheck(L, count <= STACKSPLICE_REDACT_NAMES_MAX, 1, "too many names");
    for (size_t i = 0; i < count; i++) {
        luaL_argcheck(L, lua_rawgeti(L, -1, (lua_Integer)i + 1) == LUA_TSTRING, 1,
                      "names must be a list of strings");
        names[i] = lua_tostring(L, -1); /* the list keeps it */
        lua_pop(L, 1);
    }
    return (uint32_t)count;
}

int ss_lua_redaction_function(lua_State *L)
{
    const char *names[STACKSPLICE_REDACT_NAMES_MAX];
    stacksplice_redaction redaction = {.size = sizeof redaction, .names = names};
    HRESULT hr;

    if (lua_isnoneornil(L, 1)) {
        lua_settop(L, 0);
        lua_newtable(L);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_settop(L, 1);
    redaction.rules = (ss_lua_option(L, "on", true) ? STACKSPLICE_REDACT_DEFAULT : 0) |
                      (ss_lua_option(L, "emails", false) ? STACKSPLICE_REDACT_EMAILS : 0);
    redaction.name_count = read_names(L, names);
    if (lua_getfield(L, 1, "hook") != LUA_TNIL) {
        luaL_argcheck(L, lua_isfunction(L, -1), 1, "hook must be a function");
        redaction.hook = ss_lua_redact_hook;
    }
    hr = stacksplice_set_redaction(&redaction);
    luaL_argcheck(L, hr != E_INVALIDARG, 1, "a name has 1 to 47 letters, digits, '_' and '-'");
    if (FAILED(hr))
        return luaL_error(L, "not enough memory");
    ss_lua_set_redact_hook(L);
    return 0;
}

int ss_lua_redact_function(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TSTRING);
    lua_settop(L, 1);
    ss_lua_redact_top(L);
    return 1;
}

/* ---- doctor -----------------------------------------------------------------------------------*/

/* doctor: what is installed, what is missing, and what to do about it. */

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

/* ADVICE may be NULL. */
static void say(const char *word, const char *subject, const char *text, const char *advice)
{
    (void)printf("%-8s %s: %s\n", word, subject, text);
    if (advice)
        (void)printf("         -> %s\n", advice);
}

/* Result: how much is missing. */
static int say_whether(bool is_there, const char *subject, const char *good, const char *bad,
                       const char *advice)
{
    say(is_there ? "ok" : "missing", subject, is_there ? good : bad, is_there ? NULL : advice);
    return !is_there;
}

static int say_frames(captured now)
{
    const char *none = "none were found", *read = "they are read";

    return say_whether(now.lua, "Lua frames", read, now.lua_gap ? now.lua_gap : none,
                       "call doctor() from a Lua function, with Lua " SS_LUA_RANGE " or LuaJIT") +
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
                       : reason && strstr(reason, "Alpine")
                           ? "apk add elfutils"
                           : "install the package libdw1 (elfutils-libs)");
}

/* ---- What is in place -------------------------------------------------------------------------*/

/* What the place of a replacement has: ours, Lua's, or somebody else's. [-0, +0, m] */
static void say_place(lua_State *L, const struct replacement *what)
{
    char subject[40], lack[80];

    (void)snprintf(subject, sizeof subject, "%s.%s", what->library, what->field);
    (void)snprintf(lack, sizeof lack, "is not replaced: %s", what->lack);
    luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_pushstring(L, what->library);
    if (lua_rawget(L, -2) == LUA_TTABLE) {
        lua_pushstring(L, what->field);
        lua_rawget(L, -2);
    }
    if (lua_tocfunction(L, -1) == what->function)
        say("ok", subject, what->effect, NULL);
    else if (!lua_isnil(L, -1) && !is_of_lua(L))
        say("note", subject, "another library replaced it, and that one stays in effect",
            "load stacksplice before that library");
    else
        say("note", subject, lack,
            what->on_demand ? "call stacksplice.install{pcall = true}"
                            : "call stacksplice.install()");
    lua_settop(L, 0);
}

static void say_places(lua_State *L)
{
    lua_settop(L, 0);
    for (int i = 0; i < REPLACEMENTS; i++)
        say_place(L, &replacements[i]);
    if (find(L))
        say("ok", "uncaught errors", "are shown with their reports", NULL);
    else
        say("note", "uncaught errors", "are shown as the program that runs Lua does it",
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
