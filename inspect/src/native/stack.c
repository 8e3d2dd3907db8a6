/* The native frames of one thread: all, or both ends of a long stack. */
#include "native/stack.h"

#include "base/list.h"

enum {
    MAX_FRAMES = 1 << 15,
    END = MAX_FRAMES / 2 /* frames of a longer stack that are kept at each end */
};

const ssi_native_frame *ssi_native_last(const ssi_native_stack *stack)
{
    if (stack->left_out)
        return &stack->frames[END + (stack->left_out - 1) % END];
    return stack->count ? &stack->frames[stack->count - 1] : NULL;
}

/* The outermost frames of a long stack are a ring until it ends. */
bool ssi_native_put(ssi_native_stack *stack, const ssi_native_frame *frame)
{
    if (stack->count == MAX_FRAMES) {
        if (!stack->left_out) {
            stack->cut = END;
            stack->cut_sp = stack->frames[END].sp;
        }
        stack->frames[END + stack->left_out++ % END] = *frame;
        return true;
    }
    if (!ssi_grow(&stack->frames, stack->count, &stack->room, sizeof *frame))
        return false;
    stack->frames[stack->count++] = *frame;
    return true;
}

static void reverse(ssi_native_frame *first, ssi_native_frame *end)
{
    while (first < end && first < --end) {
        ssi_native_frame frame = *first;

        *first++ = *end;
        *end = frame;
    }
}

/* The ring begins with its oldest frame from here on. */
void ssi_native_complete(ssi_native_stack *stack)
{
    ssi_native_frame *ring = stack->frames + END;
    size_t oldest = stack->left_out % END;

    if (!stack->left_out)
        return;
    reverse(ring, ring + oldest);
    reverse(ring + oldest, ring + END);
    reverse(ring, ring + END);
}

uint64_t ssi_native_end(const ssi_native_stack *stack, size_t at)
{
    if (stack->left_out && at + 1 == stack->cut)
        return stack->cut_sp;
    return at + 1 < stack->count ? stack->frames[at + 1].sp : 0;
}
