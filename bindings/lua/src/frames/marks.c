/* What a frame is to the interpreter, as the core keeps it. */
#include "frames/collection.h"

/* Whether captures that begin now find the marks of the layout; read after learning only. */
static atomic_bool marks_told;

uint8_t ss_lua_classify(uintptr_t ip, uintptr_t function, void *data)
{
    const ss_lua_layout *layout = ss_lua_layout_peek();
    const ss_lua_site *site;

    (void)data;
    if (!layout || layout->failure)
        return 0;
    site = ss_lua_site_find(layout, ip);
    if (site)
        return (uint8_t)(site - layout->sites + 1);
    if (ss_lua_is_api(layout, function))
        return SS_LUA_MARK_API;
    if (ss_lua_is_internal(layout, function))
        return SS_LUA_MARK_INTERNAL;
    return ss_lua_is_near(layout, function) ? SS_LUA_MARK_NEAR : 0;
}

/*
 * Whether the frames of this walk are marked: it began after the layout was learnt and that was
 * told.  A thread's first capture that finds it told may have begun before; the next one did not.
 */
bool ss_lua_has_marks(void)
{
    static _Thread_local bool told_before;
    bool before = told_before;

    if (before)
        return true;
    if (!atomic_load(&marks_told)) {
        stacksplice_reclassify();
        atomic_store(&marks_told, true);
    }
    told_before = true;
    return false;
}
