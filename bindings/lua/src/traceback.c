/*
 * traceback: the text of debug.traceback.  While no other language's frames are on the stack it is
 * that text exactly; else it goes on through coroutines and other languages, in true order.
 */
#include "binding.h"

#include <string.h>

enum { MAX_ELEMENTS = 1024, FEW_ELEMENTS = 192, SHOWN_INNER = 10, SHOWN_OUTER = 11 };

/* One capture and what it met. */
typedef struct snapshot {
    ss_lua_notebook book;
    uint32_t count, capacity; /* of both arrays */
    uintptr_t *elements;
    ss_lua_seen *seen;
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

static bool take(lua_State *L, const void *above, snapshot *shot)
{
    bool more;

    shot->book = (ss_lua_notebook){.seen = shot->seen, .capacity = shot->capacity};
    shot->count = ss_lua_capture(L, above, shot->capacity, shot->elements, &more, &shot->book);
    return !more && shot->book.count <= shot->capacity;
}

/*
 * The notebook and the stack are in the same order; what the notebook lacks is of no interest.
 * LINES may be NULL: then nothing but *FOREIGN is found out.
 */
static uint32_t make_lines(const snapshot *shot, line *lines, bool *foreign)
{
    uint32_t seen = 0, known, count = 0;

    *foreign = false;
    known = shot->book.count < shot->capacity ? shot->book.count : shot->capacity;
    for (uint32_t i = 0; i < shot->count; i++) {
        line now = {NULL, shot->elements[i]};

        if (seen < known && shot->seen[seen].element == shot->elements[i])
            now = (line){&shot->seen[seen++], 0};
        else if (is_foreign_token(shot->elements[i]))
            *foreign = true;
        else
            continue;
        if (lines)
            lines[count++] = now;
    }
    return count;
}

/* ---- Lines -----------------------------------------------------------------------------------*/

/* Push how luaL_traceback names a function; the name from package.loaded, or nil, is at the top.
   [-0, +1, m] */
static void push_function(lua_State *L, const lua_Debug *activation)
{
    if (lua_isstring(L, -1))
        lua_pushfstring(L, "function '%s'", lua_tostring(L, -1));
    else if (*activation->namewhat)
        lua_pushfstring(L, "%s '%s'", activation->namewhat, activation->name);
    else if (*activation->what == 'm')
        lua_pushliteral(L, "main chunk");
    else if (*activation->what != 'C')
        lua_pushfstring(L, "function <%s:%d>", activation->short_src, activation->linedefined);
    else
        lua_pushliteral(L, "?");
}

/* NAMES is the index of the table that has the function's name at NUMBER. */
static void add_activation(lua_State *L, luaL_Buffer *text, lua_State *thread, struct CallInfo *ci,
                           int names, uint32_t number)
{
    lua_Debug activation = {.i_ci = ci};

    lua_getinfo(thread, "Slnt", &activation);
    if (activation.currentline > 0)
        lua_pushfstring(L, "\n\t%s:%d: in ", activation.short_src, activation.currentline);
    else
        lua_pushfstring(L, "\n\t%s: in ", activation.short_src);
    luaL_addvalue(text);
    (void)lua_rawgeti(L, names, (lua_Integer)number + 1);
    push_function(L, &activation);
    lua_remove(L, -2);
    luaL_addvalue(text);
    if (activation.istailcall)
        luaL_addstring(text, "\n\t(...tail calls...)");
}

/* What lua_topointer gives for the function of an activation; L has room for it. */
static const void *function_of(lua_State *L, struct CallInfo *ci)
{
    lua_Debug activation = {.i_ci = ci};
    const void *function;

    lua_getinfo(L, "f", &activation);
    function = lua_topointer(L, -1);
    lua_pop(L, 1);
    return function;
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

static void begin_text(lua_State *L, luaL_Buffer *text, const char *message)
{
    luaL_buffinit(L, text);
    if (message) {
        luaL_addstring(text, message);
        luaL_addchar(text, '\n');
    }
    luaL_addstring(text, "stack traceback:");
}

static void add_skipped(lua_State *L, luaL_Buffer *text, int count)
{
    lua_pushfstring(L, "\n\t...\t(skipping %d levels)", count);
    luaL_addvalue(text);
}

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

/* Push the names of the functions of LINES, as many as are shown, by their numbers. */
static void push_names(lua_State *L, const line *lines, uint32_t count, uint32_t skip_from,
                       uint32_t skipped)
{
    const void *functions[SHOWN_INNER + SHOWN_OUTER];
    uint32_t shown = 0;

    for (uint32_t i = 0; i < count; i++) {
        if (i == skip_from)
            i += skipped;
        functions[shown++] = lines[i].seen ? function_of(L, lines[i].seen->ci) : NULL;
    }
    ss_lua_push_loaded_names(L, functions, shown);
}

static void push_mixed(lua_State *L, const char *message, int level, const line *lines,
                       uint32_t count)
{
    uint32_t first = first_line(L, lines, count, level), shown = count - first, skipped = 0;
    uint32_t number = 0;
    luaL_Buffer text;
    int names;

    if (shown > SHOWN_INNER + SHOWN_OUTER)
        skipped = shown - SHOWN_INNER - SHOWN_OUTER;
    push_names(L, lines + first, shown, skipped ? SHOWN_INNER : UINT32_MAX, skipped);
    names = lua_gettop(L);
    begin_text(L, &text, message);
    for (uint32_t i = first; i < count; i++, number++) {
        if (skipped && number == SHOWN_INNER) {
            add_skipped(L, &text, (int)skipped);
            i += skipped;
        }
        if (lines[i].seen)
            add_activation(L, &text, lines[i].seen->L, lines[i].seen->ci, names, number);
        else
            add_foreign(L, &text, lines[i].element);
    }
    luaL_pushresult(&text);
}

/* Whether no other language's frames are on the stack, by a capture of no more than a few. */
static SS_LUA_NOINLINE bool is_alone(lua_State *L, const void *above)
{
    uintptr_t elements[FEW_ELEMENTS];
    ss_lua_seen seen[FEW_ELEMENTS];
    snapshot shot = {.capacity = FEW_ELEMENTS, .elements = elements, .seen = seen};
    bool foreign;

    if (!take(L, above, &shot))
        return false;
    (void)make_lines(&shot, NULL, &foreign);
    return !foreign;
}

static SS_LUA_NOINLINE bool push_with_others(lua_State *L, const char *message, int level,
                                             const void *above)
{
    snapshot shot = {.capacity = MAX_ELEMENTS};
    line *lines;
    uint32_t count;
    bool foreign;

    ss_lua_plant_sentinel(L, ss_lua_state_open(L));
    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    if (is_alone(L, above))
        return false;
    shot.elements = lua_newuserdatauv(L, MAX_ELEMENTS * sizeof *shot.elements, 0);
    shot.seen = lua_newuserdatauv(L, MAX_ELEMENTS * sizeof *shot.seen, 0);
    lines = lua_newuserdatauv(L, MAX_ELEMENTS * sizeof *lines, 0);
    (void)take(L, above, &shot);
    count = make_lines(&shot, lines, &foreign);
    if (foreign)
        push_mixed(L, message, level, lines, count);
    return foreign;
}

/* ---- The text of one coroutine ---------------------------------------------------------------*/

#if LUA_VERSION_NUM >= 504

/* The levels that are shown, as luaL_traceback chooses them. */
typedef struct shown_levels {
    uint32_t count, first_outer; /* the latter: the first after those that are left out */
    int left_out;
    struct CallInfo *levels[SHOWN_INNER + SHOWN_OUTER + 1];
    const void *functions[SHOWN_INNER + SHOWN_OUTER + 1];
} shown_levels;

static int count_levels(lua_State *L)
{
    lua_Debug activation;
    int low = 0, high = 1;

    while (lua_getstack(L, high, &activation)) {
        low = high;
        high *= 2;
    }
    while (low < high) {
        int middle = (low + high) / 2;

        if (lua_getstack(L, middle, &activation))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* THREAD's levels from LEVEL on; each function is pushed on L for a moment. [-0, +0, -], 1 slot */
static void find_levels(lua_State *L, lua_State *thread, int level, shown_levels *shown)
{
    int end = count_levels(thread);
    lua_Debug activation;

    *shown = (shown_levels){.first_outer = UINT32_MAX};
    if (level < 0)
        return; /* no level at all, as Lua has it */
    if (end - level > SHOWN_INNER + SHOWN_OUTER + 1) {
        shown->first_outer = SHOWN_INNER;
        shown->left_out = end - level - SHOWN_INNER - SHOWN_OUTER;
    }
    for (; level < end; level++) {
        uint32_t i = shown->count;

        if (i == shown->first_outer)
            level += shown->left_out;
        if (!lua_getstack(thread, level, &activation))
            return;
        shown->levels[i] = activation.i_ci;
        shown->functions[i] = function_of(L, activation.i_ci);
        shown->count++;
    }
}

/* The text of luaL_traceback, which searches all of package.loaded for each function it names. */
static void push_alone(lua_State *L, lua_State *thread, const char *message, int level)
{
    shown_levels shown;
    luaL_Buffer text;
    int names;

    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    find_levels(L, thread, level, &shown);
    ss_lua_push_loaded_names(L, shown.functions, shown.count);
    names = lua_gettop(L);
    begin_text(L, &text, message);
    for (uint32_t i = 0; i < shown.count; i++) {
        if (i == shown.first_outer)
            add_skipped(L, &text, shown.left_out - 1); /* so luaL_traceback counts them */
        add_activation(L, &text, thread, shown.levels[i], names, i);
    }
    luaL_pushresult(&text);
}

#else

static void push_alone(lua_State *L, lua_State *thread, const char *message, int level)
{
    luaL_traceback(L, thread, message, level);
}

#endif

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
        push_alone(L, thread, message, level);
    return 1;
}
