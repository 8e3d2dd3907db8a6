/*
 * traceback: the text of debug.traceback.  With no other language's frames on the stack, and no error that
 * is raised again, it is exactly that text, but for secrets.  Otherwise it continues through coroutines and
 * other languages, in true order, and begins where the error did.
 */
#include "traceback/traceback.h"

#include "frames/frames.h"
#include "value/value.h"

#include <stacksplice/script.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Text ------------------------------------------------------------------------------------*/

/* Lines in the form of luaL_traceback, for stacks with other languages' frames. */

static void ss_lua_text_add(ss_lua_gathered *text, const char *more)
{
    (void)ss_lua_gather(more, strlen(more), text);
}

static void ss_lua_text_number(ss_lua_gathered *text, int number)
{
    char digits[16];

    (void)snprintf(digits, sizeof digits, "%d", number);
    ss_lua_text_add(text, digits);
}

static void ss_lua_text_begin(ss_lua_gathered *text, const char *message)
{
    if (message) {
        ss_lua_text_add(text, message);
        ss_lua_text_add(text, "\n");
    }
    ss_lua_text_add(text, "stack traceback:");
}

/* Write that COUNT levels are left out here. */
static void ss_lua_text_skipped(ss_lua_gathered *text, int count)
{
    ss_lua_text_add(text, "\n\t...");
#if SS_LUA_COUNTS_SKIPPED
    ss_lua_text_add(text, "\t(skipping ");
    ss_lua_text_number(text, count);
    ss_lua_text_add(text, " levels)");
#else
    (void)count;
#endif
}

static void add_quoted(ss_lua_gathered *text, const char *what, const char *name)
{
    ss_lua_text_add(text, what);
    ss_lua_text_add(text, " '");
    ss_lua_text_add(text, name ? name : "(null)"); /* like lua_pushfstring */
    ss_lua_text_add(text, "'");
}

static void add_definition(ss_lua_gathered *text, const lua_Debug *activation)
{
    ss_lua_text_add(text, "function <");
    ss_lua_text_add(text, activation->short_src);
    ss_lua_text_add(text, ":");
    ss_lua_text_number(text, activation->linedefined);
    ss_lua_text_add(text, ">");
}

/* The name that package.loaded has, if there is one. */
static bool add_loaded(lua_State *L, ss_lua_gathered *text, lua_Debug *activation)
{
    char name[SS_LUA_NAME_SIZE];
    bool has;

    lua_getinfo(L, "f", activation);
    has = ss_lua_global_name(L, lua_topointer(L, -1), name);
    lua_pop(L, 1);
    if (has)
        add_quoted(text, "function", name);
    return has;
}

static void add_name(lua_State *L, ss_lua_gathered *text, lua_Debug *activation)
{
    bool is_c = *activation->what == 'C';

    if (SS_LUA_NAMES == SS_LUA_CODE_FIRST && *activation->namewhat)
        add_quoted(text, activation->namewhat, activation->name);
    else if (SS_LUA_NAMES >= SS_LUA_LOADED_FIRST && add_loaded(L, text, activation))
        return;
    else if (*activation->namewhat)
        add_quoted(text, SS_LUA_NAMES < SS_LUA_LOADED_FIRST ? "function" : activation->namewhat,
                   activation->name);
    else if (*activation->what == 'm')
        ss_lua_text_add(text, "main chunk");
    else if (SS_LUA_NAMES == SS_LUA_LOADED_OF_C && is_c && add_loaded(L, text, activation))
        return;
    else if (is_c)
        ss_lua_text_add(text, "?");
    else
        add_definition(text, activation);
}

/* Add the line of an activation of THREAD. [-0, +0, -], 6 slots in L */
static void add_activation(lua_State *L, ss_lua_gathered *text, lua_State *thread,
                           lua_Debug *activation)
{
    bool nameless =
        !*activation->namewhat && (*activation->what == 'C' || *activation->what == 't');

    ss_lua_text_add(text, "\n\t");
    ss_lua_text_add(text, activation->short_src);
    ss_lua_text_add(text, ":");
    if (activation->currentline > 0) {
        ss_lua_text_number(text, activation->currentline);
        ss_lua_text_add(text, ":");
    }
    if (SS_LUA_NAMES == SS_LUA_PLAIN && nameless) {
        ss_lua_text_add(text, " ?"); /* a function in C, or what a tail call has dropped */
        return;
    }
    ss_lua_text_add(text, " in ");
    add_name(L, text, activation);
    if (SS_LUA_NAMES > SS_LUA_PLAIN && ss_lua_is_tail_called(thread, activation))
        ss_lua_text_add(text, "\n\t(...tail calls...)");
}

static void ss_lua_text_activation(lua_State *L, ss_lua_gathered *text, const ss_lua_seen *seen)
{
    lua_Debug activation = {.i_ci = seen->ci};

    lua_getinfo(seen->L, SS_LUA_ALL_INFO, &activation);
    add_activation(L, text, seen->L, &activation);
}

/* ---- Lua alone -------------------------------------------------------------------------------*/

#if !SS_LUA_HAS_TRACEBACK
/* The text of debug.traceback, which 5.1 has in that function only, and scripts may replace it. */
static void push_alone(lua_State *L, lua_State *thread, const char *message, int level)
{
    enum { INNER = 12, OUTER = 10 };
    ss_lua_gathered text = {0};
    bool skipped = false;
    lua_Debug at;

    if (message) /* may have NULs */
        (void)ss_lua_gather(message, lua_rawlen(L, lua_isthread(L, 1) ? 2 : 1), &text);
    ss_lua_text_add(&text, message ? "\nstack traceback:" : "stack traceback:");
    for (; lua_getstack(thread, level, &at); level++) {
        if (level + 1 > INNER && !skipped) {
            skipped = true;
            if (lua_getstack(thread, level + 1 + OUTER, &at)) {
                ss_lua_text_skipped(&text, 0);
                while (lua_getstack(thread, level + 1 + OUTER, &at))
                    level++;
                continue;
            }
            (void)lua_getstack(thread, level, &at);
        }
        lua_getinfo(thread, "Snl", &at);
        add_activation(L, &text, thread, &at);
    }
    ss_lua_push_gathered(L, &text);
}
#else
#define push_alone luaL_traceback
#endif

/* ---- Traceback -------------------------------------------------------------------------------*/

enum { MAX_ELEMENTS = 1024, FEW_ELEMENTS = 192 };

/* A long stack shows so many lines, as in Lua. */
enum { SHOWN_INNER = 10, SHOWN_OUTER = 11 };

/* One capture with its activations. */
typedef struct snapshot {
    ss_lua_activation_log log;
    uint32_t count, capacity; /* of both arrays */
    uintptr_t *elements;
    ss_lua_seen *seen;
} snapshot;

/* A line of the text: an activation of Lua, or an element of another language or in C. */
typedef struct line {
    const ss_lua_seen *seen;
    uintptr_t element;
} line;

static int is_foreign(const stacksplice_frame *frame, void *data)
{
    *(bool *)data = strcmp(frame->language, "lua") != 0 && strcmp(frame->language, "native") != 0;
    return 1;
}

static bool is_foreign_token(uintptr_t element)
{
    bool foreign = false;

    if (stacksplice_is_token(element))
        (void)stacksplice_resolve(element, is_foreign, &foreign);
    return foreign;
}

/* Whether a frame is worth a line: a native one must have a name, and be no interpreter's. */
static bool is_shown(const stacksplice_frame *frame)
{
    return frame->kind != STACKSPLICE_FRAME_NATIVE ||
           (frame->function && stacksplice_frame_role(frame) != STACKSPLICE_ROLE_GLUE);
}

static int find_shown(const stacksplice_frame *frame, void *data)
{
    return *(bool *)data = is_shown(frame);
}

static bool has_line(uintptr_t element)
{
    bool shown = false;

    (void)stacksplice_resolve(element, find_shown, &shown);
    return shown;
}

static bool take(lua_State *L, const void *above, snapshot *shot)
{
    shot->log = (ss_lua_activation_log){.seen = shot->seen, .capacity = shot->capacity};
    shot->count = ss_lua_capture(L, above, shot->capacity, shot->elements, &shot->log);
    return !stacksplice_frames_left_out(shot->elements, shot->count);
}

static bool has_foreign(const snapshot *shot)
{
    for (uint32_t i = 0; i < shot->count; i++)
        if (is_foreign_token(shot->elements[i]))
            return true;
    return false;
}

/* The index of the first element that is a gap of the limit; COUNT when there is none. */
static uint32_t inner_count(const snapshot *shot)
{
    uint32_t i = 0;

    while (i < shot->count && !stacksplice_frames_left_out(&shot->elements[i], 1))
        i++;
    return i;
}

/*
 * Find the activations of the elements, or NULL.  The log and the stack have the same order, and
 * both have both ends: read outward inside of the gap, inward outside of it.
 */
static void find_activations(const snapshot *shot, line *lines)
{
    uint32_t inner = inner_count(shot), next = 0, end = shot->log.count;

    for (uint32_t i = 0; i < shot->count; i++)
        lines[i] = (line){NULL, shot->elements[i]};
    for (uint32_t i = 0; i < inner && next < end; i++)
        if (ss_lua_seen_at(&shot->log, next)->element == shot->elements[i])
            lines[i].seen = ss_lua_seen_at(&shot->log, next++);
    for (uint32_t i = shot->count; i > inner && end > next; i--)
        if (ss_lua_seen_at(&shot->log, end - 1)->element == shot->elements[i - 1])
            lines[i - 1].seen = ss_lua_seen_at(&shot->log, --end);
}

/* The line of a tail-called function includes the gap of its tail calls, but in 5.1. */
static uint32_t make_lines(const snapshot *shot, line *lines)
{
    uintptr_t tail_calls = !SS_LUA_TAIL_CALLS_HAVE_LEVELS ? ss_lua_gap(SS_LUA_TAIL_CALLS) : 0;
    uint32_t count = 0;

    find_activations(shot, lines);
    for (uint32_t i = 0; i < shot->count; i++)
        if (lines[i].seen || (lines[i].element != tail_calls && has_line(lines[i].element)))
            lines[count++] = lines[i];
    return count;
}

/* ---- Lines -----------------------------------------------------------------------------------*/

/* Like Lua, write "[C]" as the place if nothing is known of the source. */
static void add_place(ss_lua_gathered *out, const stacksplice_frame *frame)
{
    if (frame->file)
        ss_lua_text_add(out, frame->file);
    else
        ss_lua_text_add(out, frame->kind == STACKSPLICE_FRAME_NATIVE ? "[C]" : "?");
    if (frame->line > 0) {
        ss_lua_text_add(out, ":");
        ss_lua_text_number(out, (int)frame->line);
    }
}

/* Write the lines of one frame that is not Lua's.  Nothing of Lua may run while it is resolved. */
static int add_foreign(const stacksplice_frame *frame, void *data)
{
    ss_lua_gathered *out = data;

    if (!is_shown(frame))
        return 0;
    if (frame->kind == STACKSPLICE_FRAME_GAP) {
        ss_lua_text_add(out, "\n\t...\t(");
        ss_lua_text_add(out, frame->language);
        ss_lua_text_add(out, ": ");
        ss_lua_text_add(out, frame->reason ? frame->reason : "unknown");
        ss_lua_text_add(out, ")");
        return 0;
    }
    ss_lua_text_add(out, "\n\t");
    add_place(out, frame);
    ss_lua_text_add(out, ": in ");
    ss_lua_text_add(out, frame->language);
    ss_lua_text_add(out, " function '");
    ss_lua_text_add(out, frame->function ? frame->function : "?");
    ss_lua_text_add(out, "'");
    return 0;
}

/* ---- The text of several languages -----------------------------------------------------------*/

/* The first line of LEVEL of THREAD, or COUNT when it has none. */
static uint32_t first_line(lua_State *thread, const line *lines, uint32_t count, int level)
{
    lua_Debug activation;

    if (!lua_getstack(thread, level, &activation))
        return count;
    for (uint32_t i = 0; i < count; i++)
        if (lines[i].seen && lines[i].seen->L == thread && lines[i].seen->ci == activation.i_ci)
            return i;
    return count;
}

/* The number of levels in COUNT lines. */
static int levels_of(const line *lines, uint32_t count)
{
    uint32_t levels = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t left_out = stacksplice_frames_left_out(&lines[i].element, 1);

        levels += left_out ? left_out : 1;
    }
    return (int)levels;
}

/* The coroutines of these lines run, or wait for one that runs: their activations stay. */
static void push_mixed(lua_State *L, const char *message, const line *lines, uint32_t count)
{
    uint32_t skipped = 0;
    ss_lua_gathered text = {0};

    if (count > SHOWN_INNER + SHOWN_OUTER + 1)
        skipped = count - SHOWN_INNER - SHOWN_OUTER;
    ss_lua_text_begin(&text, message);
    for (uint32_t i = 0; i < count; i++) {
        if (skipped && i == SHOWN_INNER) {
            ss_lua_text_skipped(&text, levels_of(lines + SHOWN_INNER, skipped));
            i += skipped;
        }
        if (lines[i].seen)
            ss_lua_text_activation(L, &text, lines[i].seen);
        else
            (void)stacksplice_resolve(lines[i].element, add_foreign, &text);
    }
    ss_lua_push_gathered(L, &text);
}

/* Whether no other language's frames are on the stack, by a capture of a few frames. */
static SS_LUA_NOINLINE bool is_alone(lua_State *L, const void *above)
{
    uintptr_t elements[FEW_ELEMENTS];
    ss_lua_seen seen[FEW_ELEMENTS];
    snapshot shot = {.capacity = FEW_ELEMENTS, .elements = elements, .seen = seen};

    return take(L, above, &shot) && !has_foreign(&shot);
}

/* Push the text from LEVEL of THREAD on, if THREAD is on this stack and other languages are too;
   else push nothing and return false. [-0, +(0|1), m] */
static SS_LUA_NOINLINE bool push_with_others(lua_State *L, lua_State *thread, const char *message,
                                             int level, const void *above)
{
    snapshot shot = {.capacity = MAX_ELEMENTS};
    ss_lua_state *state = ss_lua_state_find(L);
    uint32_t count, first;
    lua_Debug activation;
    ss_lua_seen own = {.L = L}; /* the traceback itself, which no capture has */
    line *lines;

    if (state) /* none in a finalizer of a state that closes */
        ss_lua_plant_gc_canary(L, state);
    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    if (is_alone(L, above))
        return false;
    shot.elements = lua_newuserdatauv(L, MAX_ELEMENTS * sizeof *shot.elements, 0);
    shot.seen = lua_newuserdatauv(L, MAX_ELEMENTS * sizeof *shot.seen, 0);
    lines = lua_newuserdatauv(L, (1 + MAX_ELEMENTS) * sizeof *lines, 0);
    (void)take(L, above, &shot);
    if (!has_foreign(&shot))
        return false;
    (void)lua_getstack(L, 0, &activation);
    own.ci = activation.i_ci;
    *lines = (line){.seen = &own};
    count = 1 + make_lines(&shot, lines + 1);
    first = first_line(thread, lines, count, level);
    if (first == count && thread != L)
        return false;
    push_mixed(L, message, lines + first, count - first);
    return true;
}

#if !SS_LUA_HAS_TRACEBACK
/*
 * Leave the message alone behind ARG, and set *LEVEL to where to begin, if there is such an argument; false if
 * the value at the top is the result, as it is no message.  5.1 ignores a level that is no number: with one
 * that is it drops the last argument, and all that are left then make up the message. [-n, +0, e]
 */
static bool take_arguments(lua_State *L, int arg, int *level)
{
    if (lua_isnumber(L, arg + 2)) {
        *level = (int)lua_tointeger(L, arg + 2);
        lua_pop(L, 1);
    }
    if (lua_gettop(L) > arg && !lua_isstring(L, arg + 1))
        return false;
    if (lua_gettop(L) > arg + 1)
        lua_concat(L, lua_gettop(L) - arg);
    return true;
}
#else
/* Set *LEVEL to where to begin, if there is such an argument behind ARG; false if the value at the top is the
   result, as it is no message.  LuaJIT takes nil for one that is none. [-0, +(0|1), e] */
static bool take_arguments(lua_State *L, int arg, int *level)
{
    if (!lua_isstring(L, arg + 1) &&
        (SS_LUA_JIT ? !lua_isnone(L, arg + 1) : !lua_isnoneornil(L, arg + 1))) {
        lua_pushvalue(L, arg + 1);
        return false;
    }
    *level = (int)luaL_optinteger(L, arg + 2, *level);
    return true;
}
#endif

/* Push the text from LEVEL of THREAD on. [-0, +1, m] */
static void push_live(lua_State *L, lua_State *thread, const char *message, int level,
                      const void *above)
{
    if (!stacksplice_has_other_sources("lua") ||
        !push_with_others(L, thread, message, level, above))
        push_alone(L, thread, message, level);
}

/* ---- Raised again -----------------------------------------------------------------------------*/

/* Write the line of a frame that an error had before, of any language. */
static int add_former(const stacksplice_frame *frame, void *data)
{
    ss_lua_gathered *out = data;
    const char *name = frame->function;
    bool is_name = name && strncmp(name, "function <", 10) && strcmp(name, "main chunk");

    if (frame->kind != STACKSPLICE_FRAME_SCRIPT || strcmp(frame->language, "lua"))
        return add_foreign(frame, data);
    ss_lua_text_add(out, "\n\t");
    ss_lua_text_add(out, frame->file ? "" : "[C]");
    if (frame->file)
        add_place(out, frame);
    ss_lua_text_add(out, ": in ");
    if (is_name)
        add_quoted(out, "function", name);
    else
        ss_lua_text_add(out, name ? name : "?");
    return 0;
}

/* How many of the COUNT elements at FORMER are inward of those that both have, now, too. */
static uint32_t count_ended(const uintptr_t *former, uint32_t count, const snapshot *now)
{
    uint32_t same = 0;

    while (same < count && same < now->count &&
           former[count - 1 - same] == now->elements[now->count - 1 - same])
        same++;
    return count - same;
}

/* Add the lines that the stack of X has inward of what is still there. */
static SS_LUA_NOINLINE void add_ended(lua_State *L, ss_lua_gathered *text, stacksplice_exception *x,
                                      const void *above)
{
    uintptr_t elements[FEW_ELEMENTS];
    ss_lua_seen seen[FEW_ELEMENTS];
    snapshot now = {.capacity = FEW_ELEMENTS, .elements = elements, .seen = seen};
    uint32_t count, ended, shown = 0, skipped = 0;
    uintptr_t *former = ss_lua_copy_stack(x, &count);

    (void)take(L, above, &now);
    ended = count_ended(former, count, &now);
    for (uint32_t i = 0; i < ended; i++)
        if (has_line(former[i]))
            former[shown++] = former[i];
    if (shown > SHOWN_INNER + SHOWN_OUTER + 1)
        skipped = shown - SHOWN_INNER - SHOWN_OUTER;
    for (uint32_t i = 0; i < shown; i++) {
        if (skipped && i == SHOWN_INNER) {
            ss_lua_text_skipped(text, (int)skipped);
            i += skipped;
        }
        (void)stacksplice_resolve(former[i], add_former, text);
    }
    free(former);
}

/* Push the text from LEVEL of L on, which has at RAISER the function that raises the error of X again.
   [-0, +1, m] */
static void push_again(lua_State *L, const char *message, int level, int raiser,
                       stacksplice_exception *x, const void *above)
{
    static const char head[] = "stack traceback:";
    ss_lua_gathered text = {0};
    lua_Debug at;

    push_live(L, L, NULL, raiser, above); /* which may fail: nothing is gathered yet */
    ss_lua_text_begin(&text, message);
    for (; level < raiser && lua_getstack(L, level, &at); level++) {
        lua_getinfo(L, SS_LUA_ALL_INFO, &at);
        add_activation(L, &text, L, &at);
    }
    add_ended(L, &text, x, above);
    (void)ss_lua_gather(lua_tostring(L, -1) + sizeof head - 1,
                        lua_rawlen(L, -1) - (sizeof head - 1), &text);
    ss_lua_push_gathered(L, &text);
}

int ss_lua_traceback_with(lua_State *L, ss_lua_former *former, const void *above)
{
    enum { HANDLERS = 3 }; /* functions of a handler that the text may begin with */
    int arg = lua_isthread(L, 1) ? 1 : 0;
    lua_State *thread = arg ? lua_tothread(L, 1) : L;
    int level = thread == L ? 1 : 0, raiser;
    stacksplice_exception *x = NULL;
    const char *message;

    if (!take_arguments(L, arg, &level))
        return 1;
    message = lua_tostring(L, arg + 1);
    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    for (raiser = level; thread == L && !x && raiser < level + HANDLERS; raiser++)
        x = former(L, raiser);
    if (x)
        push_again(L, message, level, raiser - 1, x, above);
    else
        push_live(L, thread, message, level, above);
    ss_lua_redact_top(L);
    return 1;
}
