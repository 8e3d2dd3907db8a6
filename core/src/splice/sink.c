#include "splice/sink.h"

#include <string.h>

/* ---- Gaps that carry their number -------------------------------------------------------------*/

uintptr_t stacksplice_left_out(uint32_t count)
{
    return (SS_TOKEN_BASE | SS_LEFT_OUT_BIT) + (uintptr_t)STACKSPLICE_TOKEN_STRIDE * count +
           STACKSPLICE_TOKEN_OFFSET;
}

/* The number that the token carries. */
static uint32_t number_of(uintptr_t token)
{
    return (uint32_t)((token & (SS_LEFT_OUT_BIT - 1)) / STACKSPLICE_TOKEN_STRIDE);
}

uint64_t ss_left_out_count(uintptr_t element)
{
    uint32_t number = ss_left_out_is(element) ? number_of(element) : 1;

    return number ? number : 1;
}

static uintptr_t gap_of(uint64_t count)
{
    return stacksplice_left_out(count < UINT32_MAX ? (uint32_t)count : UINT32_MAX);
}

const char *ss_left_out_reason(uintptr_t token, char text[SS_LEFT_OUT_TEXT])
{
    static const char many[] = " frames omitted here: stack longer than the limit";
    static const char one[] = "1 frame omitted here: stack longer than the limit";
    uint32_t number = number_of(token);
    char *at = text + SS_LEFT_OUT_TEXT - sizeof many;

    if (!number)
        return "outer frames missing: the exception did not provide them";
    if (number == 1)
        return one;
    memcpy(at, many, sizeof many);
    for (; number; number /= 10)
        *--at = (char)('0' + number % 10);
    return at;
}

uint32_t stacksplice_frames_left_out(const uintptr_t *frames, uint32_t count)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; frames && i < count; i++)
        if (ss_left_out_is(frames[i]))
            sum += ss_left_out_count(frames[i]);
    return sum < UINT32_MAX ? (uint32_t)sum : UINT32_MAX;
}

/* ---- Both ends --------------------------------------------------------------------------------*/

/* The ring of outer elements, which follows the inner ones. */
static uintptr_t *ring_of(const ss_sink *sink, uint32_t *size)
{
    *size = sink->max - sink->max / 2;
    return sink->frames + sink->max / 2;
}

static void put_beyond(ss_sink *sink, uintptr_t element)
{
    uint32_t size;
    uintptr_t *ring = ring_of(sink, &size);

    sink->more = true;
    if (!sink->ends || !size)
        return;
    sink->left_out += ss_left_out_count(ring[sink->oldest]);
    ring[sink->oldest++] = element;
    if (sink->oldest == size)
        sink->oldest = 0;
}

void ss_sink_put(ss_sink *sink, uintptr_t element)
{
    if (sink->skip)
        sink->skip--;
    else if (sink->stored < sink->max)
        sink->frames[sink->stored++] = element;
    else
        put_beyond(sink, element);
}

/* If TOKENS has `behind`, drop it, all tokens before it and all elements so far. */
static void forget(ss_sink *sink, const uintptr_t **tokens, uint32_t *count)
{
    for (uint32_t i = 0; i < *count; i++)
        if ((*tokens)[i] == sink->behind) {
            sink->behind = 0;
            sink->stored = sink->oldest = 0;
            sink->left_out = 0;
            sink->more = false;
            *tokens += i + 1;
            *count -= i + 1;
            return;
        }
}

void ss_sink_put_tokens(ss_sink *sink, const uintptr_t *tokens, uint32_t count)
{
    if (SS_UNLIKELY(sink->behind))
        forget(sink, &tokens, &count);
    for (uint32_t i = 0; i < count; i++)
        ss_sink_put(sink, tokens[i]);
}

static void reverse(uintptr_t *frames, uint32_t count)
{
    for (uint32_t i = 0; i < count / 2; i++) {
        uintptr_t swapped = frames[i];

        frames[i] = frames[count - 1 - i];
        frames[count - 1 - i] = swapped;
    }
}

void ss_sink_finish(ss_sink *sink)
{
    uint32_t size;
    uintptr_t *ring = ring_of(sink, &size);

    if (SS_LIKELY(!sink->more) || !sink->ends || !size)
        return;
    /* Rotate the ring: the oldest element comes first, and the gap goes there. */
    reverse(ring, sink->oldest);
    reverse(ring + sink->oldest, size - sink->oldest);
    reverse(ring, size);
    sink->left_out += ss_left_out_count(ring[0]);
    ring[0] = gap_of(sink->left_out);
}

uint32_t stacksplice_copy_ends(const uintptr_t *frames, uint32_t count, uint32_t max_frames,
                               uintptr_t *out)
{
    ss_sink sink = {.frames = out, .max = max_frames, .ends = true};

    if (count <= max_frames && count)
        memmove(out, frames, count * sizeof *out);
    if (count <= max_frames)
        return count;
    ss_sink_put_tokens(&sink, frames, count);
    ss_sink_finish(&sink);
    return sink.stored;
}
