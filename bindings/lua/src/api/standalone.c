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
#include "api/api.h"
#include "cross/cross.h"

#include <stacksplice/lua.h>

#include <lualib.h>

#include <string.h>
#include <unistd.h>

/* In the registry, under the address of KEY. */
typedef struct standing {
    lua_CFunction theirs; /* the program's message handler */
    lua_Hook former;      /* a hook that was set before, still called */
    int mask, count;
    bool interactive; /* each line that is typed is a chunk */
} standing;

static const char key = 0;

/* [-0, +0, -], 1 slot */
static standing *find(lua_State *L)
{
    standing *now;

    lua_rawgetp(L, LUA_REGISTRYINDEX, &key);
    now = lua_touserdata(L, -1);
    lua_pop(L, 1);
    return now;
}

/* ---- The arguments of the program -------------------------------------------------------------*/

/* Push arg[I] of the table at the top, or NULL. [-0, +1, -] */
static const char *push_word(lua_State *L, int i)
{
    return lua_rawgeti(L, -1, i) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
}

static bool has_word(lua_State *L, int i)
{
    bool has = push_word(L, i) != NULL;

    lua_pop(L, 1);
    return has;
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

/* Read the option at I of the table at the top; returns the index of the last word that belongs to
   it, or LAST + 1 if the options end here. [-0, +0, -], 1 slot */
static int read_option(lua_State *L, int i, int last, asked *options)
{
    const char *word = push_word(L, i);
    char letter = word && word[0] == '-' ? word[1] : 0;
    const char *rest = letter ? word + 2 : "";

    lua_pop(L, 1); /* the table keeps it */
    if (!letter || letter == '-')
        return last + 1;
    options->interactive |= letter == 'i';
    if (letter != 'e' && letter != 'l')
        return i;
    if (!*rest) {
        rest = push_word(L, ++i);
        lua_pop(L, 1);
    }
    options->module |= letter == 'l' && rest && is_module(rest);
    return i;
}

/* The words before the script have negative numbers; without a script all words are options. */
static asked read_arguments(lua_State *L)
{
    asked options = {false, false};
    int first = 0, last = -1;

    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_GLOBALS);
    lua_pushliteral(L, "arg");
    lua_rawget(L, -2);
    if (lua_istable(L, -1)) {
        while (has_word(L, first - 1))
            first--;
        if (first == 0) {
            last = (int)lua_rawlen(L, -1);
            options.interactive = isatty(STDIN_FILENO);
        }
        for (int i = first + 1; i <= last; i++)
            i = read_option(L, i, last, &options);
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
        if (!ss_lua_report(L, SS_LUA_HERE()))
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

/* Replace the library functions that lose frames, and let reports have source lines: a script of
   the standalone Lua may open files anyway. [-0, +0, m] */
static void set_up(lua_State *L)
{
    lua_pushcfunction(L, ss_lua_install_function);
    lua_call(L, 0, 0);
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
    lua_rawsetp(L, LUA_REGISTRYINDEX, &key);
    set_hook(L, now);
}

bool ss_lua_serves_standalone(lua_State *L)
{
    return find(L) != NULL;
}
