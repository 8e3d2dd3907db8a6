/*
 * What captures ask of Lua is counted: where activations are, and the names that only
 * package.loaded has, for which they go through its tables.  They ask once, not for each frame, and
 * a collection makes them ask nothing again.
 */
#include "lua_state.h"

enum { MAX_FRAMES = 256, LEVELS = 10, CAPTURES = 100 };

static unsigned long steps, questions; /* through tables, and for activations, by captures */
static int counting;

int __real_lua_next(lua_State *L, int index);
int __wrap_lua_next(lua_State *L, int index);

int __wrap_lua_next(lua_State *L, int index)
{
    steps += (unsigned long)counting;
    return __real_lua_next(L, index);
}

int __real_lua_getinfo(lua_State *L, const char *what, lua_Debug *activation);
int __wrap_lua_getinfo(lua_State *L, const char *what, lua_Debug *activation);

int __wrap_lua_getinfo(lua_State *L, const char *what, lua_Debug *activation)
{
    questions += (unsigned long)(counting && strchr(what, 'l'));
    return __real_lua_getinfo(L, what, activation);
}

static int count_named(const stacksplice_frame *frame, void *data)
{
    if (frame->function && strcmp(frame->function, "descend") == 0)
        ++*(unsigned *)data;
    return 0;
}

/* A capture, in which each level has its name; the steps that it took. */
static unsigned long capture(void)
{
    uintptr_t frames[MAX_FRAMES];
    uint32_t count = 0;
    unsigned named = 0;

    steps = questions = 0;
    counting = 1;
    assert_int_equal(stacksplice_capture(0, MAX_FRAMES, frames, &count, NULL), S_OK);
    counting = 0;
    for (uint32_t i = 0; i < count; i++)
        (void)stacksplice_resolve(frames[i], count_named, &named);
    assert_int_equal(named, LEVELS + 1);
    return steps;
}

/* Lua calls it with the level; each function is called from C, so that no call names it. */
static int go_on(lua_State *L)
{
    lua_CFunction innermost = lua_tocfunction(L, lua_upvalueindex(1));
    lua_Integer level = luaL_checkinteger(L, 1);

    if (level == 0)
        return innermost(L);
    lua_getglobal(L, "descend");
    lua_pushinteger(L, level - 1);
    return stacksplice_lua_pcall(L, 1, 0) == S_OK ? 0 : luaL_error(L, "failed");
}

static void run(lua_State *L, lua_CFunction innermost)
{
    lua_pushcfunction(L, innermost);
    lua_pushcclosure(L, go_on, 1);
    lua_setglobal(L, "go_on");
    lua_getglobal(L, "descend");
    lua_pushinteger(L, LEVELS);
    assert_int_equal(stacksplice_lua_pcall(L, 1, 0), S_OK);
}

static int open_with_descend(void **state)
{
    lua_State *L = fill_state(luaL_newstate());
    uint32_t none;

    *state = L;
    /* Learning, which goes through tables of its own, is not counted. */
    (void)stacksplice_capture(0, 0, NULL, &none, NULL);
    return luaL_dostring(L, "function descend(level) go_on(level) return 1 end") != LUA_OK;
}

/* How many steps one search of all tables takes at most. */
static unsigned long size_of_tables(lua_State *L)
{
    unsigned long size = 1;

    lua_getfield(L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1), size++)
        if (lua_istable(L, -1))
            for (lua_pushnil(L), size++; lua_next(L, -2); lua_pop(L, 1))
                size++;
    lua_pop(L, 1);
    return size;
}

static void collect(lua_State *L)
{
    lua_gc(L, LUA_GCCOLLECT, 0);
    lua_gc(L, LUA_GCCOLLECT, 0);
}

/* Nothing of ours runs in Lua that could plant a sentinel. */
static int capture_after_collections(lua_State *L)
{
    collect(L);
    /* One for "descend"; another for this function, which has no name. */
    assert_in_range(capture(), 1, 2 * size_of_tables(L));
    for (int i = 0; i < 3; i++) {
        collect(L);
        assert_int_equal(capture(), 0);
        /* The first collection after the first capture makes the room for what outlives others. */
        assert_true(i == 0 || questions == 0);
    }
    return 0;
}

TEST_WITH(test_one_search_for_all_levels_and_all_collections, open_with_descend, close_state)
{
    run(*state, capture_after_collections);
}

static int captures_in_finalizer;

/* Runs before the finalizer that plants a sentinel, since its object is younger. */
static int capture_in_finalizer(lua_State *L)
{
    unsigned long searched = capture();

    /* At first this function's own name is looked up. */
    if (captures_in_finalizer++ > 0) {
        assert_int_equal(searched, 0);
        assert_int_equal(questions, 0);
    }
    return 0;
}

static void push_finalized(lua_State *L)
{
    lua_newtable(L);
    lua_newtable(L);
    lua_pushcfunction(L, capture_in_finalizer);
    lua_setfield(L, -2, "__gc");
    lua_setmetatable(L, -2);
}

static int capture_without_sentinel(lua_State *L)
{
    for (int i = 0; i < 2; i++) { /* from the second capture on, room is made for what lives on */
        (void)capture();
        collect(L);
    }
    (void)capture();
    captures_in_finalizer = 0;
    for (int i = 1; i <= 3; i++) {
        push_finalized(L);
        lua_pop(L, 1);
        collect(L);
        assert_int_equal(captures_in_finalizer, i);
    }
    return 0;
}

TEST_WITH(test_no_question_before_the_next_sentinel, open_with_descend, close_state)
{
    run(*state, capture_without_sentinel);
}

static int capture_once(lua_State *L)
{
    (void)capture();
    return 0;
}

static int capture_often(lua_State *L)
{
    unsigned long sum = capture();

    for (int i = 1; i < CAPTURES; i++)
        sum += capture();
    /* Here the tables may have been asked once, never at each capture. */
    assert_in_range(sum, 0, size_of_tables(L));
    return 0;
}

/* A collection that ends between two captures costs the second one nothing. */
TEST_WITH(test_no_search_once_a_collection_is_over, open_with_descend, close_state)
{
    run(*state, capture_once);
    collect(*state);
    run(*state, capture_often);
}
