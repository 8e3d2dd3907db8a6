/* Questions about a layout. */
#include "calibrate/layout.h"

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

/* The core keeps the answers for each address, so the tables are searched from their start. */

const ss_lua_site *ss_lua_site_find(const ss_lua_layout *layout, uintptr_t ip)
{
    for (uint32_t i = 0; i < layout->site_count; i++)
        if (layout->sites[i].ip == ip)
            return &layout->sites[i];
    return NULL;
}

static bool contains(const uintptr_t *table, uint32_t count, uintptr_t value)
{
    for (uint32_t i = 0; i < count; i++)
        if (table[i] == value)
            return true;
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
    bool above = false, below = false;

    for (uint32_t i = 0; i < layout->internal_count; i++) {
        above |= function >= layout->internals[i];
        below |= function <= layout->internals[i];
    }
    return above && below;
}

bool ss_lua_is_callback(const ss_lua_layout *layout, uintptr_t ip)
{
    return contains(layout->callbacks, layout->callback_count, ip) ||
           layout->callback_count == SS_LUA_CALLBACKS; /* full: some are unknown */
}

bool ss_lua_read_words(uintptr_t address, uintptr_t *words, size_t count)
{
    struct iovec to = {words, count * sizeof *words}, from = {(void *)address, to.iov_len};
    int saved_errno = errno;
    ssize_t got = process_vm_readv(getpid(), &to, 1, &from, 1, 0);
    bool may_not = got < 0 && errno != EFAULT;

    errno = saved_errno;
    for (size_t i = 0; may_not && i < count; i++)
        words[i] = ((const uintptr_t *)address)[i];
    return may_not || got == (ssize_t)to.iov_len;
}
