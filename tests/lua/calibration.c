/*
 * What it takes to learn the layout, which the first capture waits for, and whether what is learnt
 * of this Lua is what the inspection of other processes knows of its version.  Linked with --wrap for the
 * unwinder and for reads through the kernel: these took most of the time.
 */
#include <stdio.h>
#include <sys/uio.h>
#include <unwind.h>

#include "calibrate/calibrate.h"
#include "shared/lua.h"
#include "support.h"

static unsigned unwound, reads;

_Unwind_Reason_Code __real__Unwind_Backtrace(_Unwind_Trace_Fn trace, void *data);
_Unwind_Reason_Code __wrap__Unwind_Backtrace(_Unwind_Trace_Fn trace, void *data);
ssize_t __real_process_vm_readv(pid_t process, const struct iovec *local, unsigned long locals,
                                const struct iovec *remote, unsigned long remotes,
                                unsigned long flags);
ssize_t __wrap_process_vm_readv(pid_t process, const struct iovec *local, unsigned long locals,
                                const struct iovec *remote, unsigned long remotes,
                                unsigned long flags);

_Unwind_Reason_Code __wrap__Unwind_Backtrace(_Unwind_Trace_Fn trace, void *data)
{
    unwound++;
    return __real__Unwind_Backtrace(trace, data);
}

ssize_t __wrap_process_vm_readv(pid_t process, const struct iovec *local, unsigned long locals,
                                const struct iovec *remote, unsigned long remotes,
                                unsigned long flags)
{
    reads++;
    return __real_process_vm_readv(process, local, locals, remote, remotes, flags);
}

static bool all_in_registers(const ss_lua_layout *layout)
{
    for (uint32_t i = 0; i < layout->site_count; i++)
        if (layout->sites[i].state.kind != SS_LUA_REGISTER ||
            layout->sites[i].ci.kind != SS_LUA_REGISTER)
            return false;
    return true;
}

TEST(test_learning_unwinds_only_from_places_that_are_new)
{
    const ss_lua_layout *layout = ss_lua_layout_get();

    assert_null(layout->failure);
#if defined(__x86_64__) /* elsewhere each visit is unwound */
    assert_in_range(unwound, 1, 10 * layout->internal_count);
#endif
}

TEST(test_learning_reads_frames_only_where_a_site_keeps_nothing_in_registers)
{
    const ss_lua_layout *layout = ss_lua_layout_get();

    assert_null(layout->failure);
    if (all_in_registers(layout))
        assert_int_equal(reads, 0);
}

/* Without these, a script's message handler runs on where an interrupt is raised. */
TEST(test_learning_finds_the_message_handler_and_whether_hooks_may_run)
{
    const ss_lua_layout *layout = ss_lua_layout_get();

    assert_null(layout->failure);
    assert_int_not_equal(layout->handler, SS_LUA_UNKNOWN);
    assert_int_not_equal(layout->hooks, SS_LUA_UNKNOWN);
    assert_int_not_equal(layout->handler, layout->hooks - layout->hooks % sizeof(uintptr_t));
}

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
