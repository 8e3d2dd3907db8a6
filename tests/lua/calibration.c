/* What the binding knows of this version of Lua is right, and what the inspection knows of it. */
#include "calibrate/calibrate.h"
#include "shared/lua.h"
#include "support.h"

TEST(test_what_is_known_of_this_version_is_right)
{
    const ss_lua_layout *layout = ss_lua_layout_get();
    const ssi_lua_layout *known = ssi_lua_layout_of(LUA_VERSION_NUM % 100);

    assert_null(layout->failure);
    assert_true(layout->knows_state);
    assert_non_null(known);
    assert_int_equal(SS_LUA_AT_PC, known->call_pc);
    assert_int_equal(SS_LUA_AT_FUNCTION, known->call_function);
    assert_int_equal(SS_LUA_AT_TOP, known->call_top);
    assert_int_equal(SS_LUA_AT_CALL, known->state_call);
#if LUA_VERSION_NUM == 501
    assert_int_equal(SS_LUA_AT_STATUS, known->call_status);
    assert_true(known->status_is_tail);
    assert_int_equal(SS_LUA_CALL_SIZE, known->call_size);
    assert_int_equal(SS_LUA_AT_CALLS, known->state_base_call);
    assert_int_equal(SS_LUA_IS_C, SSI_LUA_CLOSURE_IS_C);
#else
    assert_int_equal(SS_LUA_TAIL_CALLED, 1 << (known->status_tail + 8 * (known->call_status % 4)));
    assert_int_equal(SS_LUA_AT_STATUS, known->call_status / 4 * 4);
#endif
    assert_int_equal(SS_LUA_AT_REGISTERS, known->call_base == SSI_LUA_NOTHING
                                              ? SSI_LUA_CALL_FUNCTION
                                              : known->call_base);
}
