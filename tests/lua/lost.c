/*
 * Error objects and ties whose finalizers Lua loses: all goes with the next call, or with the
 * state.  And what is left half made where Lua has no memory.
 */
#include "error_double.h"
#include "host.h"

#include <stdlib.h>

/* ---- Counted errors --------------------------------------------------------------------------*/

/* The language exception of every error here: what refers to it is alive, but for one reference. */
static error_double errors;

/* new_error(): an error of another language. */
static int new_error(lua_State *L)
{
    (void)RoOriginateLanguageException(E_FAIL, NULL, error_double_unknown(&errors));
    luaL_checkstack(L, 4, NULL);
    lua_getglobal(L, "stacksplice");
    lua_getfield(L, -1, "take_error");
    lua_call(L, 0, 1);
    return 1;
}

/* Each way in which Lua holds an error: the object, and ties of values with and without identity.
 */
static const char garbage[] = "local function garbage()\n"
                              "local a = new_error()\n"
                              "local _, _, b = stacksplice.pcall(error, {cause = new_error()})\n"
                              "local _, c = pcall(stacksplice.error, 'text', new_error())\n"
                              "pcall(error, a) assert(a.hresult and b.cause and c)\n"
                              "control.made = control.made + 1\n"
                              "setmetatable({}, control) end\n";

static void run(lua_State *L, const char *script)
{
    lua_pushstring(L, garbage);
    lua_pushstring(L, script);
    lua_concat(L, 2);
    if (luaL_dostring(L, lua_tostring(L, -1)) != LUA_OK)
        fail_msg("%s", lua_tostring(L, -1));
    lua_settop(L, 0);
}

static lua_State *set_up(lua_State *L)
{
    error_double_init(&errors, 0);
    fill_state(L);
    lua_register(L, "new_error", new_error);
    run(L, "control = {made = 0, finalized = 0}\n"
           "control.__gc = function() control.finalized = control.finalized + 1 end\n");
    RoClearError();
    assert_int_equal(errors.outside, 1);
    return L;
}

static lua_Integer of_control(lua_State *L, const char *field)
{
    lua_Integer number;

    lua_getglobal(L, "control");
    lua_getfield(L, -1, field);
    number = lua_tointeger(L, -1);
    lua_pop(L, 2);
    return number;
}

/* Of Lua 5.3, and of 5.4 up to 5.4.4, it is known that they lose finalizers; 5.4.9 and 5.5 put off
   one that has no room. */
static void assert_lost_some(lua_State *L)
{
#ifdef LUA_VERSION_RELEASE_NUM
    bool loses = LUA_VERSION_RELEASE_NUM <= 50404;
#else
    bool loses = LUA_VERSION_NUM == 503;
#endif

    if (loses)
        assert_true(of_control(L, "finalized") < of_control(L, "made"));
}

/* With the next call nothing is left of what Lua freed, but the last text without identity; and
   what could not be taken from the slot, because the C stack ended there. */
static void assert_swept(lua_State *L)
{
    RoClearError();
    run(L, "stacksplice.pcall(error, 'another')\n"
           "collectgarbage() collectgarbage() stacksplice.peek_error()");
    assert_int_equal(errors.outside, 1);
}

/* ---- Below many coroutines -------------------------------------------------------------------*/

/* The collector runs where the C stack has room for it, but not for a finalizer. */
static const char below_coroutines[] =
    "local function nest(n) if n > 0 then return coroutine.wrap(nest)(n - 1) end\n"
    "pcall(collectgarbage) end\n"
    "collectgarbage('stop')\n"
    "for depth = 150, 198 do garbage() pcall(nest, depth) end collectgarbage('restart')";

TEST(test_below_coroutines)
{
    lua_State *L = set_up(luaL_newstate());

    run(L, below_coroutines);
    assert_swept(L);
    assert_lost_some(L);
    lua_close(L);
}

TEST(test_closed_without_another_call)
{
    lua_State *L = set_up(luaL_newstate());

    run(L, below_coroutines);
    RoClearError();
    lua_close(L);
    assert_int_equal(errors.outside, 1);
}

/* ---- Without memory --------------------------------------------------------------------------*/

static long allowed = -1; /* allocations until the allocator fails; negative: it never does */

static void *allocate(void *data, void *block, size_t old_size, size_t new_size)
{
    if (new_size == 0) {
        free(block);
        return NULL;
    }
    if (allowed >= 0 && (!block || new_size > old_size)) {
        if (allowed == 0)
            return NULL;
        allowed--;
    }
    return realloc(block, new_size);
}

/* Lua's stack has no room for a call of a finalizer, and cannot grow. */
static int collect_on_a_full_stack(lua_State *L)
{
    allowed = 0;
    while (lua_checkstack(L, 1))
        lua_pushnil(L);
    lua_gc(L, LUA_GCCOLLECT, 0);
    return 0;
}

static int relent(lua_State *L)
{
    allowed = -1;
    return 0;
}

TEST(test_without_memory)
{
    lua_State *L = set_up(NEW_STATE(allocate, NULL));

    lua_register(L, "collect", collect_on_a_full_stack);
    lua_register(L, "relent", relent);
    run(L, "collectgarbage('stop') garbage()\n"
           "pcall(coroutine.wrap(function() collect() end)) relent() collectgarbage('restart')");
    assert_swept(L);
    assert_lost_some(L);
    lua_close(L);
}

static int fail_next_allocations(lua_State *L)
{
    allowed = 20;
    return 0;
}

static int open_and_fail(lua_State *L)
{
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 1);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_call(L, 0, 0);
    return 0;
}

/* Allocation 0, 1, 2, ... fails until everything succeeds: what could not be completed is not left
   behind half made. */
TEST(test_everything_works_once_there_is_memory_again)
{
    bool failed = true;

    for (long i = 0; failed && i < 500; i++) {
        lua_State *L = NEW_STATE(allocate, NULL);

        luaL_openlibs(L);
        lua_gc(L, LUA_GCSTOP, 0);
        load(L, "stacksplice.peek_error() stacksplice.pcall(error, {})");
        lua_pushcclosure(L, open_and_fail, 1);
        allowed = i;
        (void)lua_pcall(L, 0, 0, 0);
        failed = allowed == 0;
        allowed = -1;
        lua_settop(L, 0);
        luaL_requiref(L, "stacksplice", luaopen_stacksplice, 1);
        load(L, "shop = {price = function() error({}) end} package.loaded.shop = shop\n"
                "local _, value, err = stacksplice.pcall(shop.price)\n"
                "assert(rawequal(err.value, value) and err == stacksplice.error_info(value))\n"
                "assert(tostring(err) == '(error object is a table value)')\n"
                "for _, frame in ipairs(err.stack) do\n"
                "if frame.name == 'shop.price' then return end end error(err:text())");
        if (lua_pcall(L, 0, 0, 0) != LUA_OK)
            fail_msg("allocation %ld: %s", i, lua_tostring(L, -1));
        lua_close(L);
    }
    assert_false(failed);
    RoClearError();
}

TEST(test_out_of_memory_has_its_hresult)
{
    lua_State *L = NEW_STATE(allocate, NULL);

    luaL_openlibs(L);
    load(L, "fail() local t = {} for i = 1, 1000 do t[i] = {} end");
    lua_register(L, "fail", fail_next_allocations);
    lua_pushcfunction(L, stacksplice_lua_handler); /* the state's record is made beforehand */
    lua_pushnil(L);
    lua_call(L, 1, 0);
    assert_int_equal(stacksplice_lua_pcall(L, 0, 0), E_OUTOFMEMORY);
    allowed = -1;
    assert_int_equal(lua_gettop(L), 0);
    (void)peek();
    lua_close(L);
}

/* ---- What still looks at them ----------------------------------------------------------------*/

/* An object without its metatable stands for one whose finalizer was lost. */
TEST(test_an_error_that_lost_its_finalizer_lives_on)
{
    lua_State *L = set_up(luaL_newstate());

    run(L, "kept = new_error() local metatable = debug.getmetatable(kept)\n"
           "for _ = 1, 3 do debug.setmetatable(kept, nil) collectgarbage() collectgarbage()\n"
           "stacksplice.peek_error() debug.setmetatable(kept, metatable)\n"
           "assert(kept.hresult == 0x80004005) end kept = nil");
    assert_int_equal(errors.outside, 2);
    assert_swept(L);
    lua_close(L);
}

TEST(test_a_finalizer_after_ours_finds_nothing)
{
    lua_State *L = luaL_newstate();
    int looked = 0;

    luaL_openlibs(L);
    lua_pushlightuserdata(L, &looked);
    lua_setglobal(L, "looked");
    (void)luaL_dostring(L, "first = setmetatable({}, {__gc = function()\n"
                           "debug.setmetatable(kept, metatable)\n"
                           "assert(not pcall(function() return kept.hresult end)) note() end})");
    set_up(L);
    run(L, "kept = new_error() metatable = debug.getmetatable(kept) debug.setmetatable(kept, nil)\n"
           "function note() looked = true end");
    lua_close(L);
    assert_int_equal(errors.outside, 1);
}

/* ---- A state that is closed without a word ---------------------------------------------------*/

/* Every state begins in the same place. */
static char arena[16 << 20] __attribute__((aligned(16)));
static size_t arena_used;

static void *allocate_in_arena(void *data, void *block, size_t old_size, size_t new_size)
{
    void *place = arena + arena_used;

    if (new_size == 0)
        return NULL;
    if (block && new_size <= old_size)
        return block;
    if (new_size > sizeof arena - arena_used - 16)
        return NULL;
    arena_used += (new_size + 15) / 16 * 16;
    return block ? memcpy(place, block, old_size) : place;
}

static jmp_buf closed;

/* As os.exit(true, true) does it, at the end of the C stack: no finalizer can be called. */
static int close_at_the_end(lua_State *L)
{
    lua_pushcfunction(L, close_at_the_end);
    if (lua_pcall(L, 0, 0, 0) == LUA_OK)
        return 0;
    lua_close(L);
    longjmp(closed, 1);
}

TEST(test_a_state_that_is_closed_without_a_word)
{
    lua_State *L = set_up(NEW_STATE(allocate_in_arena, NULL));

    run(L, "kept = new_error()");
    if (setjmp(closed) == 0) {
        lua_pushcfunction(L, close_at_the_end);
        lua_call(L, 0, 0);
    }
    /* In 5.1 finalizers begin with a C stack of their own. */
    assert_int_equal(errors.outside, LUA_VERSION_NUM == 501 ? 1 : 2);
    arena_used = 0;
    L = NEW_STATE(allocate_in_arena, NULL);
    luaL_requiref(L, "stacksplice", luaopen_stacksplice, 1);
    assert_int_equal(errors.outside, 1);
    lua_close(L);
}
