/*
 * The base of a greenlet.
 *
 * A greenlet runs on the thread's own stack; the extension copies the parts of other greenlets away
 * and back.  Outside of the frame that began the running greenlet the stack holds old contents, so
 * the native frames found there are not its callers.  Python's own chain ends at the base.  The
 * first frame of the greenlet extension outside of that chain's outermost loop is the one that
 * began it.  Without greenlets no frame outside of that loop is the extension's.
 */
#include "frames/greenlet.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

enum { KNOWN_FRAMES = 24 /* outside of the outermost loop, remembered to contain no base */ };

/* The last frames of this thread that had no base: the next capture mostly sees the same ones. */
static _Thread_local struct {
    uintptr_t outermost;
    uint32_t count;
    uintptr_t ips[KNOWN_FRAMES];
} without_base;

static bool is_known(const stacksplice_walk *walk, uint32_t first, uintptr_t outermost)
{
    uint32_t count = walk->frame_count - first;

    if (without_base.outermost != outermost || without_base.count != count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (without_base.ips[i] != walk->frames[first + i].ip)
            return false;
    return true;
}

static void remember(const stacksplice_walk *walk, uint32_t first, uintptr_t outermost)
{
    uint32_t count = walk->frame_count - first;

    if (count > KNOWN_FRAMES)
        return;
    for (uint32_t i = 0; i < count; i++)
        without_base.ips[i] = walk->frames[first + i].ip;
    without_base.count = count;
    without_base.outermost = outermost;
}

/* The file that the code at IP came from, or NULL. */
static const char *file_of(uintptr_t ip)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE
    struct dl_find_object found;

    if (_dl_find_object((void *)ip, &found) || !found.dlfo_link_map)
        return NULL;
    return found.dlfo_link_map->l_name;
#else
    Dl_info found;

    return dladdr((const void *)ip, &found) ? found.dli_fname : NULL;
#endif
}

static bool is_greenlet_code(uintptr_t ip)
{
    static const char module[] = "_greenlet.";
    const char *file = file_of(ip);
    const char *slash = file ? strrchr(file, '/') : NULL;

    return file && strncmp(slash ? slash + 1 : file, module, sizeof module - 1) == 0;
}

uint32_t sspy_greenlet_base(const stacksplice_walk *walk, uint32_t first, uintptr_t outermost)
{
    while (first < walk->frame_count && walk->frames[first].sp <= outermost)
        first++;
    if (first == walk->frame_count || is_known(walk, first, outermost))
        return walk->frame_count;
    for (uint32_t i = first; i < walk->frame_count; i++)
        if (is_greenlet_code(walk->frames[i].ip - 1))
            return i;
    remember(walk, first, outermost);
    return walk->frame_count;
}
