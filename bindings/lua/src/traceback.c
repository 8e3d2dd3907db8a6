/*
 * traceback: the text of debug.traceback.  While no other language's frames are on the stack it is
 * that text exactly; else it goes on through coroutines and other languages, in true order.
 */
#include "traceback.h"

#include <string.h>

enum { MAX_ELEMENTS = 1024, FEW_ELEMENTS = 192 };

/* One capture and what it met. */
typedef struct snapshot {
    ss_lua_notebook book;
    uint32_t count, capacity; /* of both arrays */
    uintptr_t *elements;
    ss_lua_seen *seen;
} snapshot;

/* A line of the text: an activation of Lua, or an element of another language or in C. */
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
    bool more;

    shot->book = (ss_lua_notebook){.seen = shot->seen, .capacity = shot->capacity};
    shot->count = ss_lua_capture(L, above, shot->capacity, shot->elements, &more, &shot->book);
    return !more && shot->book.count <= shot->capacity;
}

/* The activation that the element at I stands for, or NULL; notebook and stack are in the same
   order, *NEXT is how far the notebook was read. */
static const ss_lua_seen *activation_at(const snapshot *shot, uint32_t i, uint32_t *next)
{
    uint32_t known = shot->book.count < shot->capacity ? shot->book.count : shot->capacity;

    if (*next < known && shot->seen[*next].element == shot->elements[i])
        return &shot->seen[(*next)++];
    return NULL;
}

static bool has_foreign(const snapshot *shot)
{
    uint32_t next = 0;

    for (uint32_t i = 0; i < shot->count; i++)
        if (!activation_at(shot, i, &next) && is_foreign_token(shot->elements[i]))
            return true;
    return false;
}

static uint32_t make_lines(const snapshot *shot, line *lines)
{
    uint32_t next = 0, count = 0;

    for (uint32_t i = 0; i < shot->count; i++) {
        const ss_lua_seen *seen = activation_at(shot, i, &next);

        if (seen || has_line(shot->elements[i]))
            lines[count++] = (line){seen, shot->elements[i]};
    }
    return count;
}

/* ---- Lines -----------------------------------------------------------------------------------*/

/* A copy of what a line says, since nothing of Lua may run while a frame is resolved. */
typedef struct foreign_frame {
    stacksplice_frame_kind kind;
    uint32_t line;
    char language[24], function[128], file[512], reason[128];
} foreign_frame;

/* An element stands for several frames when functions were inlined. */
enum { MOST_FRAMES = 8 };
typedef struct foreign_frames {
    uint32_t count;
    foreign_frame frames[MOST_FRAMES];
} foreign_frames;

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
    foreign_frames *all = data;
    foreign_frame *copy = &all->frames[all->count];

    if (!is_shown(frame))
        return 0;
    copy->kind = frame->kind;
    copy->line = frame->line;
    copy_text(copy->language, sizeof copy->language, frame->language);
    copy_text(copy->function, sizeof copy->function, frame->function);
    copy_text(copy->file, sizeof copy->file, frame->file);
    copy_text(copy->reason, sizeof copy->reason, frame->reason);
    return ++all->count == MOST_FRAMES;
}

/* As Lua has it, a place is "[C]" where nothing is known of the source. */
static void add_foreign_frame(luaL_Buffer *text, const foreign_frame *frame)
{
    if (frame->kind == STACKSPLICE_FRAME_GAP) {
        luaL_addstring(text, "\n\t...\t(");
        luaL_addstring(text, frame->language);
        luaL_addstring(text, ": ");
        luaL_addstring(text, frame->reason);
        luaL_addchar(text, ')');
        return;
    }
    luaL_addstring(text, "\n\t");
    luaL_addstring(text, *frame->file                              ? frame->file
                         : frame->kind == STACKSPLICE_FRAME_NATIVE ? "[C]"
                                                                   : "?");
    luaL_addchar(text, ':');
    if (frame->line > 0) {
        ss_lua_text_number(text, (int)frame->line);
        luaL_addchar(text, ':');
    }
    luaL_addstring(text, " in ");
    luaL_addstring(text, frame->language);
    luaL_addstring(text, " function '");
    luaL_addstring(text, *frame->function ? frame->function : "?");
    luaL_addchar(text, '\'');
}

/* Apart, so that its copies are on the stack only while they are needed. */
static SS_LUA_NOINLINE void add_foreign(luaL_Buffer *text, uintptr_t element)
{
    foreign_frames all;

    all.count = 0;
    (void)stacksplice_resolve(element, copy_foreign, &all);
    for (uint32_t i = 0; i < all.count; i++)
        add_foreign_frame(text, &all.frames[i]);
}

/* ---- The text of several languages -----------------------------------------------------------*/

/* The first line that belongs to LEVEL of THREAD, or COUNT when it has none. */
static uint32_t first_line(lua_State *thread, const line *lines, uint32_t count, int level)
{
    lua_Debug activation;

    if (!lua_getstack(thread, level, &activation))
        return count;
    for (uint32_t i = 0; i < count; i++)
        if (lines[i].seen && lines[i].seen->ci == activation.i_ci)
            return i;
    return count;
}

/* Push the names of the functions of LINES, as many as are shown, by their numbers. */
static void push_names(lua_State *L, const line *lines, uint32_t count, uint32_t skipped)
{
    const void *functions[SS_LUA_SHOWN_INNER + SS_LUA_SHOWN_OUTER + 1] = {NULL};
    uint32_t shown = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (skipped && i == SS_LUA_SHOWN_INNER)
            i += skipped;
        if (lines[i].seen) {
            lua_Debug activation = {.i_ci = lines[i].seen->ci};

            functions[shown] = ss_lua_text_nameless(L, lines[i].seen->L, &activation);
        }
        shown++;
    }
    ss_lua_push_loaded_names(L, functions, shown);
}

/* The coroutines of these lines run, or wait for one that does: their activations stay. */
static void push_mixed(lua_State *L, const char *message, const line *lines, uint32_t count)
{
    uint32_t skipped = 0, number = 0;
    luaL_Buffer text;
    int names;

    if (count > SS_LUA_SHOWN_INNER + SS_LUA_SHOWN_OUTER + 1)
        skipped = count - SS_LUA_SHOWN_INNER - SS_LUA_SHOWN_OUTER;
    push_names(L, lines, count, skipped);
    names = lua_gettop(L);
    ss_lua_text_begin(L, &text, message);
    for (uint32_t i = 0; i < count; i++, number++) {
        if (skipped && number == SS_LUA_SHOWN_INNER) {
            ss_lua_text_skipped(&text, (int)skipped);
            i += skipped;
        }
        if (lines[i].seen) {
            lua_Debug activation = {.i_ci = lines[i].seen->ci};

            ss_lua_text_activation(&text, lines[i].seen->L, &activation, names, number);
        } else {
            add_foreign(&text, lines[i].element);
        }
    }
    luaL_pushresult(&text);
}

/* Whether no other language's frames are on the stack, by a capture of no more than a few. */
static SS_LUA_NOINLINE bool is_alone(lua_State *L, const void *above)
{
    uintptr_t elements[FEW_ELEMENTS];
    ss_lua_seen seen[FEW_ELEMENTS];
    snapshot shot = {.capacity = FEW_ELEMENTS, .elements = elements, .seen = seen};

    return take(L, above, &shot) && !has_foreign(&shot);
}

/* Push the text that LEVEL of THREAD begins, if THREAD is on this stack and other languages are;
   else false and nothing. [-0, +(0|1), m] */
static SS_LUA_NOINLINE bool push_with_others(lua_State *L, lua_State *thread, const char *message,
                                             int level, const void *above)
{
    snapshot shot = {.capacity = MAX_ELEMENTS};
    ss_lua_state *state = ss_lua_state_find(L);
    uint32_t count, first;
    line *lines;

    if (state) /* none in a finalizer of a state that closes */
        ss_lua_plant_sentinel(L, state);
    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    if (is_alone(L, above))
        return false;
    shot.elements = lua_newuserdatauv(L, MAX_ELEMENTS * sizeof *shot.elements, 0);
    shot.seen = lua_newuserdatauv(L, MAX_ELEMENTS * sizeof *shot.seen, 0);
    lines = lua_newuserdatauv(L, MAX_ELEMENTS * sizeof *lines, 0);
    (void)take(L, above, &shot);
    if (!has_foreign(&shot))
        return false;
    count = make_lines(&shot, lines);
    first = first_line(thread, lines, count, level);
    if (first == count && thread != L)
        return false;
    push_mixed(L, message, lines + first, count - first);
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
    if (!stacksplice_has_other_sources("lua") ||
        !push_with_others(L, thread, message, level, SS_LUA_HERE()))
        ss_lua_push_text(L, thread, message, level);
    return 1;
}
