#include "resolve/unread.h"

#include "resolve/glue.h"
#include "splice/source.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/*
 * Whether a frame source of LANGUAGE reads this copy of the interpreter, which has code at
 * ADDRESS.  Then the source's identity is in the same binary.
 */
static bool is_read(const char *language, uintptr_t address)
{
    Dl_info code, interpreter;

    if (!dladdr((void *)(address - 1), &code))
        return true; /* unloaded since, so we cannot tell */
    for (uint32_t i = 0; i < ss_source_count(); i++) {
        const stacksplice_source *source = ss_source_at(i);

        if (!strcmp(source->language, language) && dladdr(source->identity, &interpreter) &&
            interpreter.dli_fbase == code.dli_fbase)
            return true;
    }
    return false;
}

/* The glue of the interpreter that one of FRAMES enters, or NULL. */
static const stacksplice_glue *entered(const ss_frame *frames, uint32_t count,
                                       _Atomic uint32_t *searched)
{
    const stacksplice_glue *glue;
    uint32_t g = atomic_load_explicit(searched, memory_order_relaxed);

    for (; (glue = ss_glue_at(g)) != NULL; g++) {
        for (uint32_t i = 0; glue->unread && i < count; i++) {
            if (!frames[i].script_named && frames[i].frame.function &&
                ss_glue_matches(frames[i].frame.function, glue->entries))
                return glue;
        }
    }
    atomic_store_explicit(searched, g, memory_order_relaxed);
    return NULL;
}

/* Write FORMAT, with NAME replacing its "%s". */
static void put_name_into(char *out, size_t capacity, const char *format, const char *name)
{
    const char *place = strstr(format, "%s");
    int before = place ? (int)(place - format) : (int)strlen(format);

    (void)snprintf(out, capacity, "%.*s%s%s", before, format, place ? name : "",
                   place ? place + 2 : "");
}

bool ss_unread_find(const ss_frame *frames, uint32_t count, _Atomic uint32_t *searched,
                    ss_unread *gap)
{
    const stacksplice_frame *last = &frames[count - 1].frame;
    const stacksplice_glue *glue = entered(frames, count, searched);

    if (!glue || !last->module || is_read(glue->language, last->address))
        return false;
    memset(gap, 0, sizeof *gap);
    put_name_into(gap->reason, sizeof gap->reason, glue->unread, ss_base_name(last->module));
    gap->frame.frame = (stacksplice_frame){.size = sizeof gap->frame.frame,
                                           .kind = STACKSPLICE_FRAME_GAP,
                                           .trust = STACKSPLICE_TRUST_EXACT,
                                           .language = glue->language,
                                           .reason = gap->reason,
                                           .address = last->address};
    return true;
}
