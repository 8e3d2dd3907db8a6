/* The functions of lua.h where Lua has no memory, or its handlers fail. */
#include "host.h"

#include <stdlib.h>

/* ---- Without memory --------------------------------------------------------------------------*/

static long allowed; /* allocations until the allocator fails; negative: it never does */

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

static lua_State *new_failing_state(void)
{
    lua_State *L;

    allowed = -1;
    L = NEW_STATE(allocate, NULL);
    luaL_openlibs(L);
    lua_gc(L, LUA_GCSTOP, 0);
    return L;
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
STATE_TEST(test_everything_works_once_there_is_memory_again)
{
    bool failed = true;

    for (long i = 0; failed && i < 500; i++) {
        lua_State *L = new_failing_state();

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

STATE_TEST(test_out_of_memory_has_its_hresult)
{
    lua_State *L = new_failing_state();

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
