/* Captures of the live stack, and the buffer in which we assemble a stack. */
#include "stack/stack.h"

#include <stdlib.h>

int sspy_room_begin(sspy_room *room, uint32_t limit)
{
    room->limit = limit;
    room->frames = limit <= SSPY_NEAR_FRAMES
                       ? room->near
                       : malloc(SSPY_ROOM((size_t)limit) * sizeof *room->frames);
    if (!room->frames)
        PyErr_NoMemory();
    return room->frames ? 0 : -1;
}

void sspy_room_end(sspy_room *room)
{
    if (room->frames != room->near)
        free(room->frames);
}

static uint32_t capture_live(const void *above, uintptr_t behind, uint32_t max, uintptr_t *frames)
{
    sspy_interp *interp = sspy_interp_current();
    stacksplice_section section = sspy_enter(interp);
    uint32_t count = 0;

    (void)stacksplice_capture_ends(above, behind, max, frames, &count);
    sspy_leave(section);
    return count;
}

uint32_t sspy_capture_from(const void *above, sspy_replacement *wanted, uint32_t max,
                           uintptr_t *frames)
{
    uint32_t count;

    wanted->mark = sspy_mark();
    sspy_replace(wanted);
    count = capture_live(above, wanted->mark, max, frames);
    sspy_replace(NULL);
    return count;
}

uint32_t sspy_capture(const void *above, uint32_t max, uintptr_t *frames)
{
    sspy_replaced_frame top = {sspy_frame_top(), 0};
    sspy_replacement wanted = {.frames = &top, .count = 1};

    return above ? capture_live(above, 0, max, frames)
                 : sspy_capture_from(__builtin_frame_address(0), &wanted, max, frames);
}
