/* What is learnt of this Lua is what the inspection of other processes knows of its version. */
#include "calibrate/calibrate.h"
#include "shared/lua.h"
#include "support.h"

TEST(test_learning_finds_what_is_known_of_this_version)
{
    const ss_lua_layout *layout = ss_lua_layout_get();
    const ssi_lua_layout *known = ssi_lua_layout_of(LUA_VERSION_NUM % 100);

    assert_null(layout->failure);
    assert_non_null(known);
    assert_int_equal(layout->function, SSI_LUA_CALL_FUNCTION);
    assert_int_equal(layout->previous, SSI_LUA_CALL_PREVIOUS);
    assert_int_equal(layout->saved_pc, known->call_pc);
    assert_int_equal(layout->lua_tag, SSI_LUA_TAG_LUA);
    assert_int_equal(layout->light_tag, SSI_LUA_TAG_LIGHT);
    assert_int_equal(layout->closure_tag, SSI_LUA_TAG_CLOSURE);
    assert_int_equal(layout->tail << 8 * (layout->status % 4),
                     1u << (known->status_tail + 8 * (known->call_status % 4)));
    assert_int_equal(layout->status / 4, known->call_status / 4);
}
