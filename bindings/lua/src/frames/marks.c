/* The kinds of frames for the interpreter, as the core keeps them. */
#include "frames/collection.h"

/* The core was asked to classify again: captures that begin now find the marks of the layout. */
static atomic_bool reclassified;

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
 * The frames of this walk are marked if it began after reclassification.  The first capture of a
 * thread that finds the flag set may have begun earlier; the next one did not.
 */
bool ss_lua_has_marks(void)
{
    static _Thread_local bool seen_before;
    bool before = seen_before;

    if (before)
        return true;
    if (!atomic_load(&reclassified)) {
        stacksplice_reclassify();
        atomic_store(&reclassified, true);
    }
    seen_before = true;
    return false;
}
