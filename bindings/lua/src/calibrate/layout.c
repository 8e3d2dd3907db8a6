/* Questions about a layout. */
#include "calibrate/calibrate.h"

const ss_lua_site *ss_lua_site_find(const ss_lua_layout *layout, uintptr_t ip)
{
    uint32_t low = 0, high = layout->site_count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (layout->sites[middle].ip == ip)
            return &layout->sites[middle];
        if (layout->sites[middle].ip < ip)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

static bool contains(const uintptr_t *table, uint32_t count, uintptr_t value)
{
    uint32_t low = 0, high = count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (table[middle] == value)
            return true;
        if (table[middle] < value)
            low = middle + 1;
        else
            high = middle;
    }
    return false;
}

bool ss_lua_is_api(const ss_lua_layout *layout, uintptr_t function)
{
    return contains(layout->apis, layout->api_count, function);
}

bool ss_lua_is_internal(const ss_lua_layout *layout, uintptr_t function)
{
    return contains(layout->internals, layout->internal_count, function) &&
           !ss_lua_is_api(layout, function);
}

bool ss_lua_is_near(const ss_lua_layout *layout, uintptr_t function)
{
    return layout->internal_count > 0 && function >= layout->internals[0] &&
           function <= layout->internals[layout->internal_count - 1];
}

bool ss_lua_is_callback(const ss_lua_layout *layout, uintptr_t ip)
{
    for (uint32_t i = 0; i < layout->callback_count; i++)
        if (layout->callbacks[i] == ip)
            return true;
    return layout->callback_count == SS_LUA_CALLBACKS; /* full: some are unknown */
}
