/*
 * traceback: the text of debug.traceback.  While no other language's frames are on the stack it is
 * that text exactly; else it goes on through coroutines and other languages, in true order.
 */
#include "binding.h"

#include <string.h>

enum { MAX_ELEMENTS = 1024, MAX_SEEN = 1024, SHOWN_INNER = 10, SHOWN_OUTER = 11 };

/* One capture and what it met. */
typedef struct snapshot {
    ss_lua_notebook book;
    uint32_t count;
    uintptr_t elements[MAX_ELEMENTS];
    ss_lua_seen seen[MAX_SEEN];
} snapshot;

/* A line of the text: an activation of Lua, or an element of another language. */
typedef struct line {
    const ss_lua_seen *seen;
    uintptr_t element;
} line;

static bool is_token(uintptr_t element)
{
    return element >> 48 == 0x5353;
}

static int is_foreign(const stacksplice_frame *frame, void *data)
{
    *(bool *)data = strcmp(frame->language, "lua") != 0 && strcmp(frame->language, "native") != 0;
    return 1;
}

static bool is_foreign_token(uintptr_t element)
{
    bool foreign = false;

    if (is_token(element))
        (void)stacksplice_resolve(element, is_foreign, &foreign);
    return foreign;
}

/* The notebook and the stack are in the same order; what the notebook lacks is of no interest. */
static uint32_t make_lines(const snapshot *shot, line *lines)
{
    uint32_t seen = 0, known, count = 0;

    known = shot->book.count < MAX_SEEN ? shot->book.count : MAX_SEEN;
    for (uint32_t i = 0; i < shot->count; i++) {
        if (seen < known && shot->seen[seen].element == shot->elements[i])
            lines[count++] = (line){&shot->seen[seen++], 0};
        else if (is_foreign_token(shot->elements[i]))
            lines[count++] = (line){NULL, shot->elements[i]};
    }
    return count;
}

static bool has_foreign(const line *lines, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (!lines[i].seen)
            return true;
    return false;
}

/* ---- Lines -----------------------------------------------------------------------------------*/

/* As luaL_traceback names a function. */
static void add_function(lua_State *L, luaL_Buffer *text, const ss_lua_seen *seen,
                         lua_Debug *activation)
{
    char name[128];
    const void *function;

    lua_getinfo(seen->L, "f", activation);
    function = lua_topointer(seen->L, -1);
    lua_pop(seen->L, 1);
    if (ss_lua_global_name(L, function, name, sizeof name))
        lua_pushfstring(L, "function '%s'", name);
    else if (*activation->namewhat)
        lua_pushfstring(L, "%s '%s'", activation->namewhat, activation->name);
    else if (*activation->what == 'm')
        lua_pushliteral(L, "main chunk");
    else if (*activation->what != 'C')
        lua_pushfstring(L, "function <%s:%d>", activation->short_src, activation->linedefined);
    else
        lua_pushliteral(L, "?");
    luaL_addvalue(text);
}

static void add_activation(lua_State *L, luaL_Buffer *text, const ss_lua_seen *seen)
{
    lua_Debug activation = {.i_ci = seen->ci};

    if (seen->L != L && !lua_checkstack(seen->L, 1))
        return;
    lua_getinfo(seen->L, "Slnt", &activation);
    if (activation.currentline > 0)
        lua_pushfstring(L, "\n\t%s:%d: in ", activation.short_src, activation.currentline);
    else
        lua_pushfstring(L, "\n\t%s: in ", activation.short_src);
    luaL_addvalue(text);
    add_function(L, text, seen, &activation);
    if (activation.istailcall)
        luaL_addstring(text, "\n\t(...tail calls...)");
}

/* A copy of what a line says, since nothing of Lua may run while a frame is resolved. */
typedef struct foreign_frame {
    stacksplice_frame_kind kind;
    uint32_t line;
    char language[24], function[128], file[512], reason[128];
} foreign_frame;

static void copy_text(char *to, size_t capacity, const char *from)
{
    size_t length = from ? strlen(from) : 0;

    if (length >= capacity)
        length = capacity - 1;
    if (length)
        memcpy(to, from, length);
    to[length] = '\0';
}

static int copy_foreign(const stacksplice_frame *frame, void *data)
{
    foreign_frame *copy = data;

    copy->kind = frame->kind;
    copy->line = frame->line;
    copy_text(copy->language, sizeof copy->language, frame->language);
    copy_text(copy->function, sizeof copy->function, frame->function);
    copy_text(copy->file, sizeof copy->file, frame->file);
    copy_text(copy->reason, sizeof copy->reason, frame->reason);
    return 1;
}

static void add_foreign(lua_State *L, luaL_Buffer *text, uintptr_t element)
{
    foreign_frame frame = {.kind = STACKSPLICE_FRAME_GAP};

    (void)stacksplice_resolve(element, copy_foreign, &frame);
    if (frame.kind == STACKSPLICE_FRAME_GAP)
        lua_pushfstring(L, "\n\t...\t(%s: %s)", frame.language, frame.reason);
    else
        lua_pushfstring(L, "\n\t%s:%d: in %s function '%s'", *frame.file ? frame.file : "?",
                        (int)frame.line, frame.language, *frame.function ? frame.function : "?");
    luaL_addvalue(text);
}

/* ---- The text --------------------------------------------------------------------------------*/

/* The first line that belongs to LEVEL of L, or COUNT when that is deeper than the stack. */
static uint32_t first_line(lua_State *L, const line *lines, uint32_t count, int level)
{
    lua_Debug activation;

    if (!lua_getstack(L, level, &activation))
        return count;
    for (uint32_t i = 0; i < count; i++)
        if (lines[i].seen && lines[i].seen->ci == activation.i_ci)
            return i;
    return 0;
}

static void push_mixed(lua_State *L, const char *message, int level, const line *lines,
                       uint32_t count)
{
    uint32_t first = first_line(L, lines, count, level), shown = count - first;
    luaL_Buffer text;

    luaL_buffinit(L, &text);
    if (message) {
        luaL_addstring(&text, message);
        luaL_addchar(&text, '\n');
    }
    luaL_addstring(&text, "stack traceback:");
    for (uint32_t i = 0; i < shown; i++) {
        if (shown > SHOWN_INNER + SHOWN_OUTER && i == SHOWN_INNER) {
            lua_pushfstring(L, "\n\t...\t(skipping %d levels)",
                            (int)(shown - SHOWN_INNER - SHOWN_OUTER));
            luaL_addvalue(&text);
            i = shown - SHOWN_OUTER;
        }
        if (lines[first + i].seen)
            add_activation(L, &text, lines[first + i].seen);
        else
            add_foreign(L, &text, lines[first + i].element);
    }
    luaL_pushresult(&text);
}

static SS_LUA_NOINLINE bool push_with_others(lua_State *L, const char *message, int level,
                                             const void *above)
{
    snapshot *shot;
    line *lines;
    uint32_t count;
    bool more;

    (void)ss_lua_state_open(L);
    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    shot = lua_newuserdatauv(L, sizeof *shot, 0);
    lines = lua_newuserdatauv(L, MAX_ELEMENTS * sizeof *lines, 0);
    shot->book = (ss_lua_notebook){.seen = shot->seen, .capacity = MAX_SEEN};
    shot->count = ss_lua_capture(L, above, MAX_ELEMENTS, shot->elements, &more, &shot->book);
    count = make_lines(shot, lines);
    if (!has_foreign(lines, count))
        return false;
    push_mixed(L, message, level, lines, count);
    return true;
}

SS_LUA_NOINLINE int ss_lua_traceback(lua_State *L)
{
    int arg = lua_isthread(L, 1) ? 1 : 0;
    lua_State *thread = arg ? lua_tothread(L, 1) : L;
    const char *message = lua_tostring(L, arg + 1);
    int level;

    if (!message && !lua_isnoneornil(L, arg + 1)) { /* an error value that is no text */
        lua_pushvalue(L, arg + 1);
        return 1;
    }
    level = (int)luaL_optinteger(L, arg + 2, thread == L ? 1 : 0);
    if (thread != L || !push_with_others(L, message, level, SS_LUA_HERE()))
        luaL_traceback(L, thread, message, level);
    return 1;
}
