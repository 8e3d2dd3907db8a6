/*
 * Tokens of activations are found by addresses of code that a collection may have given to other
 * code since: what a capture says is compared with what lua_getinfo says at the same moment.
 */
#include "lua_state.h"
#include "frames.h"

#include <stdbool.h>
#include <stdlib.h>

#include <stacksplice/source.h>

enum { MAX_FRAMES = 256, ADDRESSES = 65536, ROUNDS = 5000 };

typedef struct place {
    char function[96], file[64];
    int line;
} place;

typedef struct places {
    uint32_t count;
    place items[MAX_FRAMES];
} places;

static unsigned long compared, wrong, reused;
static unsigned char seen[ADDRESSES]; /* addresses of closures, by a few of their bits */

static int add_place(const stacksplice_frame *frame, void *data)
{
    places *out = data;
    place *item = &out->items[out->count];

    if (frame->kind != STACKSPLICE_FRAME_SCRIPT || strcmp(frame->file, "[C]") == 0)
        return 0;
    out->count++;
    (void)snprintf(item->function, sizeof item->function, "%s", frame->function);
    (void)snprintf(item->file, sizeof item->file, "%s", frame->file);
    item->line = (int)frame->line;
    return 0;
}

static void captured_places(places *out)
{
    uintptr_t frames[MAX_FRAMES];
    uint32_t count = 0;

    out->count = 0;
    assert_int_equal(stacksplice_capture(0, MAX_FRAMES, frames, &count, NULL), S_OK);
    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], add_place, out);
}

/* The name "made.f" is in package.loaded in some rounds: whether it is now. */
static bool is_loaded(lua_State *L)
{
    bool same = false;

    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    if (lua_getfield(L, -1, "made") == LUA_TTABLE) {
        lua_getfield(L, -1, "f");
        same = lua_rawequal(L, -1, -4) != 0;
        lua_pop(L, 1);
    }
    lua_pop(L, 2);
    return same;
}

/* What Lua says of LEVEL; false when that is no function in Lua. */
static bool expected_place(lua_State *L, lua_Debug *activation, place *out)
{
    lua_getinfo(L, "Slnf", activation);
    if (*activation->what == 'C') {
        lua_pop(L, 1);
        return false;
    }
    if (*activation->namewhat)
        (void)snprintf(out->function, sizeof out->function, "%s", activation->name);
    else if (*activation->what == 'm')
        (void)snprintf(out->function, sizeof out->function, "main chunk");
    else if (is_loaded(L))
        (void)snprintf(out->function, sizeof out->function, "made.f");
    else
        (void)snprintf(out->function, sizeof out->function, "function <%s:%d>",
                       activation->short_src, activation->linedefined);
    (void)snprintf(out->file, sizeof out->file, "%s", activation->short_src);
    out->line = activation->currentline;
    lua_pop(L, 1);
    return true;
}

/* A name from package.loaded may come late: until then it is said where the function was defined.
 */
static bool is_name(const lua_Debug *activation, const char *got, const char *want)
{
    char defined[96];

    (void)snprintf(defined, sizeof defined, "function <%s:%d>", activation->short_src,
                   activation->linedefined);
    return strcmp(got, want) == 0 || (strcmp(want, "made.f") == 0 && strcmp(got, defined) == 0);
}

static int compare(lua_State *L)
{
    static places got;
    lua_Debug activation;
    uint32_t at = 0;

    captured_places(&got);
    for (int level = 0; lua_getstack(L, level, &activation); level++) {
        place want;

        if (!expected_place(L, &activation, &want))
            continue;
        compared++;
        if (at >= got.count || !is_name(&activation, got.items[at].function, want.function) ||
            strcmp(got.items[at].file, want.file) != 0 || got.items[at].line != want.line) {
            if (wrong++ < 5)
                print_error("expected %s:%d %s, got %s:%d %s\n", want.file, want.line,
                            want.function, got.items[at].file, got.items[at].line,
                            got.items[at].function);
        }
        at++;
    }
    return 0;
}

/* Counts how often a function has the address of one that was there before. */
static int look(lua_State *L)
{
    uintptr_t address = (uintptr_t)lua_topointer(L, 1);
    unsigned char *mark = &seen[(address >> 4) % ADDRESSES];

    reused += *mark != 0;
    *mark = 1;
    return 0;
}

/*
 * Code of one shape and different text: names, lines and the name of the file change.  A function
 * that C calls has no name but the one that package.loaded has, in some rounds.  "steady" lives on,
 * and has its name from code that does not.
 */
static const char script[] =
    "local names = {'alpha', 'beta', 'gamma', 'delta', 'omega'}\n"
    "local pcall, load = pcall, load\n"
    "local function steady() compare() return 1 end\n"
    "return function(round)\n"
    "  local name = names[round % 5 + 1]\n"
    "  local text = ('\\n'):rep(round % 7) .. 'local function ' .. name .. '() compare() return 1 "
    "'\n"
    "    .. 'end return function() local x = ' .. name .. '() return x end'\n"
    "  local f = load(text, '=made' .. round % 3)()\n"
    "  look(f)\n"
    "  package.loaded.made = round % 4 == 0 and {f = f} or nil\n"
    "  for i = 1, 2 do pcall(f) end\n"
    "  f()\n"
    "  load('local ' .. name .. ' = ... return function() local x = ' .. name .. '() return x "
    "end', "
    "'=calls')(steady)()\n"
    "end";

static void run_rounds(lua_State *L)
{
    compared = wrong = reused = 0;
    memset(seen, 0, sizeof seen);
    for (int round = 0; round < ROUNDS; round++) {
        lua_pushvalue(L, 1);
        lua_pushinteger(L, round);
        if (stacksplice_lua_pcall(L, 1, 0) != S_OK)
            fail_msg("round %d failed", round);
    }
    assert_int_equal(wrong, 0);
    assert_true(compared > 3UL * ROUNDS);
    assert_true(reused > ROUNDS / 4); /* else nothing was tested */
}

/*
 * Freed memory is used again at once, also where a checker of memory would keep it back: lists of
 * free blocks by their size.
 */
enum { STEP = 16, SMALL = 2048 };
static void *free_blocks[SMALL / STEP + 1];

static size_t class_of(size_t size)
{
    return (size + STEP - 1) / STEP;
}

static void *take_block(size_t size)
{
    void **list = &free_blocks[class_of(size)], *block = *list;

    if (!block)
        return malloc(class_of(size) * STEP);
    memcpy(list, block, sizeof *list);
    return block;
}

static void give_block(void *block, size_t size)
{
    if (size > SMALL) {
        free(block);
    } else if (block) {
        memcpy(block, &free_blocks[class_of(size)], sizeof(void *));
        free_blocks[class_of(size)] = block;
    }
}

static void *recycle(void *data, void *block, size_t old_size, size_t new_size)
{
    void *moved;

    if (new_size == 0) {
        give_block(block, old_size);
        return NULL;
    }
    moved = new_size > SMALL ? malloc(new_size) : take_block(new_size);
    if (moved && block) {
        memcpy(moved, block, old_size < new_size ? old_size : new_size);
        give_block(block, old_size);
    }
    return moved;
}

static int open_recycling(void **state)
{
    lua_State *L = fill_state(NEW_STATE(recycle, NULL));

    lua_register(L, "compare", compare);
    lua_register(L, "look", look);
    if (luaL_dostring(L, script) != LUA_OK)
        return -1;
    *state = L;
    return 0;
}

#define TOKEN_TEST(name) TEST_WITH(name, open_recycling, close_state)

TOKEN_TEST(test_code_made_again_incremental)
{
    run_rounds(*state);
}

/* Lua 5.3 has no such collector. */
static void make_generational(lua_State *L)
{
#if LUA_VERSION_NUM >= 504
    lua_gc(L, LUA_GCGEN, 0, 0);
#else
#endif
}

TOKEN_TEST(test_code_made_again_generational)
{
    make_generational(*state);
    run_rounds(*state);
}

/* Collections in the middle of everything, also right behind the planting of the GC canary. */
TOKEN_TEST(test_code_made_again_with_a_restless_collector)
{
    lua_State *L = *state;

#if LUA_VERSION_NUM == 504
    lua_gc(L, LUA_GCINC, 100, 400, 1);
#endif
    run_rounds(L);
}

static void *allocate(void *data, void *block, size_t old_size, size_t new_size)
{
    unsigned *count = data;

    /* Lua collects everything and tries again; to make a block smaller may not fail. */
    if (new_size > 0 && (!block || new_size > old_size) && ++*count % 37 == 0)
        return NULL;
    return recycle(NULL, block, old_size, new_size);
}

/* An allocator that fails now and then makes emergency collections, which may come while the
   GC canary is made. */
TOKEN_TEST(test_code_made_again_in_emergencies)
{
    lua_State *L = *state;
    static unsigned count;
    void *data;
    lua_Alloc former = lua_getallocf(L, &data);

    lua_setallocf(L, allocate, &count);
    run_rounds(L);
    make_generational(L);
    run_rounds(L);
    lua_setallocf(L, former, data);
}

/* More places than the core has room for, of no language in particular. */
static void flood_the_core(uint32_t round)
{
    for (uint32_t i = 0; i < 300000; i++) {
        stacksplice_token_info info = {SCRIPT_TOKEN, .language = "made", .line = i,
                                       .column = round + 1};
        uintptr_t token;

        assert_int_equal(stacksplice_intern(&info, &token), S_OK);
    }
}

/* No collection says that anything is out of date. */
TOKEN_TEST(test_what_the_core_dropped_is_asked_anew)
{
    lua_State *L = *state;

    lua_gc(L, LUA_GCSTOP, 0);
    compared = wrong = 0;
    assert_int_equal(luaL_dostring(L, "local function steady() compare() return 1 end\n"
                                      "return function() local x = steady() return x end"),
                     LUA_OK);
    for (uint32_t round = 0; round < 4; round++) {
        for (int call = 0; call < 3; call++) {
            lua_pushvalue(L, -1);
            assert_int_equal(stacksplice_lua_pcall(L, 0, 0), S_OK);
        }
        flood_the_core(round);
    }
    assert_int_equal(wrong, 0);
    assert_int_equal(compared, 4 * 3 * 2);
}
