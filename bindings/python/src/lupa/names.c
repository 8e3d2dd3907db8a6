/*
 * The names of Lua's functions.  At the raise Lua could not be asked for them; where the exception
 * leaves for Lua it can.  So the frames that live since then are exchanged for those of now.
 */
#include "lupa/lupa.h"

#include <string.h>

/* Compares the element OTHER with the frame FIRST, whose strings live as long as the callback. */
typedef struct pair {
    const stacksplice_frame *first;
    uintptr_t other;
    bool same;
} pair;

static int compare(const stacksplice_frame *frame, void *data)
{
    pair *p = data;

    p->same = frame->kind == STACKSPLICE_FRAME_SCRIPT && p->first->kind == frame->kind &&
              frame->line == p->first->line && !strcmp(frame->language, p->first->language) &&
              frame->file && p->first->file && !strcmp(frame->file, p->first->file);
    return 0;
}

static int compare_others(const stacksplice_frame *frame, void *data)
{
    pair *p = data;

    p->first = frame;
    (void)stacksplice_resolve(p->other, compare, p);
    return 0;
}

/* Whether A and B are script frames at the same line of one file. */
static bool is_same_place(uintptr_t a, uintptr_t b)
{
    pair p = {.other = b};

    if (stacksplice_is_token(a) && stacksplice_is_token(b))
        (void)stacksplice_resolve(a, compare_others, &p);
    return p.same;
}

void sspy_lupa_take_names(sspy_ties *ties, const void *above)
{
    sspy_room room;
    uint32_t count;

    if (sspy_room_begin(&room, SSPY_NEAR_FRAMES)) {
        PyErr_Clear();
        return;
    }
    count = sspy_capture(above, room.limit, room.frames);
    for (uint32_t i = 1; i <= count && i <= ties->raised_count; i++) {
        uintptr_t *then = &ties->raised[ties->raised_count - i], now = room.frames[count - i];

        if (*then != now && !is_same_place(*then, now))
            break;
        *then = now;
    }
    sspy_room_end(&room);
}
