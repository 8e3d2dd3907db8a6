/*
 * The native frames between two places of one stack.
 *
 * An interpreter asks each time that an exception leaves its loop, mostly from few places.  So a
 * thread keeps the last answers, each with the words of the stack that it followed from.  Where
 * those words are the same again, at the same distance from INNER, so are the frames: INNER is one
 * local variable of one function, whose return address is the first of the words.
 */
#include "splice/scratch.h"
#include "unwind/unloads.h"

#include <string.h>

/* Our own frames and the caller's, up to INNER; an interpreter puts some in between. */
enum { FRAMES_INSIDE = 16 };

typedef struct question {
    uintptr_t inner, outer;
    ss_sink *sink;
} question;

/* ---- By a walk --------------------------------------------------------------------------------*/

/* Whether the frames up to the first beyond OUTER were found by unwind data alone. */
static bool is_exact(const ss_unwind *unwind, uintptr_t outer)
{
    const stacksplice_native_frame *frame = unwind->frames;

    while (!(frame->flags & STACKSPLICE_NATIVE_INFERRED) && frame->sp <= outer)
        frame++; /* ends, as the last frame is beyond OUTER */
    return !(frame->flags & STACKSPLICE_NATIVE_INFERRED);
}

/* Walk LIMIT frames.  Whether they get beyond OUTER, on one stack and as far by unwind data alone. */
static bool walk_beyond(ss_unwind *unwind, const void *above, uint32_t limit, uintptr_t outer)
{
    return ss_unwind_walk(unwind, above, limit) && unwind->stack_count == 1 && unwind->count &&
           unwind->frames[unwind->count - 1].sp > outer && is_exact(unwind, outer);
}

/* Store the frames between; *FIRST is the number of the innermost. */
static bool store_between(const ss_unwind *unwind, const question *q, uint32_t *first)
{
    const stacksplice_native_frame *frame = unwind->frames;

    while (frame->sp <= q->inner) /* ends, as the last frame is beyond OUTER */
        frame++;
    *first = (uint32_t)(frame - unwind->frames);
    for (; frame[0].sp <= q->outer && frame[1].sp <= q->outer; frame++) {
        if (q->sink->stored == q->sink->max)
            return false;
        q->sink->frames[q->sink->stored++] = frame->ip;
    }
    return true;
}

/* Mostly few frames lie between, and each one that is walked beyond OUTER is walked in vain. */
static bool answer_by_walk(ss_unwind *unwind, const void *above, const question *q, uint32_t *first)
{
    uint64_t most = (uint64_t)2 * FRAMES_INSIDE + q->sink->max;

    return (walk_beyond(unwind, above, FRAMES_INSIDE, q->outer) ||
            walk_beyond(unwind, above,
                        most < SS_UNWIND_MAX_FRAMES ? (uint32_t)most : SS_UNWIND_MAX_FRAMES,
                        q->outer)) &&
           store_between(unwind, q, first);
}

/* ---- Kept answers -----------------------------------------------------------------------------*/

typedef struct keeper {
    ss_answer *kept;
    const question *q;
    bool refused;
} keeper;

static void keep_word(void *data, uintptr_t address, uintptr_t value)
{
    keeper *k = data;

    /* Where the frame that holds OUTER ends is of no interest. */
    if (address >= k->q->outer)
        return;
    if (address <= k->q->inner || k->kept->word_count == SS_ANSWER_WORDS)
        k->refused = true;
    else
        k->kept->words[k->kept->word_count++] = (ss_answer_word){address - k->q->inner, value};
}

/* Keep what the walk found; its frame FIRST is the innermost of SINK. */
static void keep_answer(ss_scratch *scratch, const question *q, uint32_t first)
{
    ss_answers *answers = &scratch->answers;
    ss_answer *kept = &answers->of[answers->next];
    keeper k = {kept, q, false};

    if (q->sink->stored > SS_ANSWER_FRAMES)
        return;
    answers->next = (answers->next + 1) % SS_ANSWERS;
    kept->span = 0; /* until it is whole */
    kept->word_count = 0;
    /* The frame that holds OUTER begins where the last one between ends. */
    if (!ss_unwind_words(&scratch->unwind, first, q->sink->stored + 1, keep_word, &k) || k.refused)
        return;
    kept->frame_count = q->sink->stored;
    memcpy(kept->frames, q->sink->frames, kept->frame_count * sizeof *kept->frames);
    kept->span = q->outer - q->inner;
}

static bool is_answer(const ss_answer *kept, const question *q)
{
    if (kept->span != q->outer - q->inner || kept->frame_count > q->sink->max)
        return false;
    for (uint32_t i = 0; i < kept->word_count; i++)
        if (*(const uintptr_t *)(q->inner + kept->words[i].distance) != kept->words[i].value)
            return false;
    return true;
}

static inline bool answer_again(ss_answers *answers, const question *q)
{
    uint64_t modules = ss_modules_generation(false);

    if (answers->modules != modules) {
        memset(answers, 0, sizeof *answers);
        answers->modules = modules;
    }
    for (uint32_t i = 0; i < SS_ANSWERS; i++) {
        const ss_answer *kept = &answers->of[i];

        if (!is_answer(kept, q))
            continue;
        q->sink->stored = kept->frame_count;
        memcpy(q->sink->frames, kept->frames, kept->frame_count * sizeof *kept->frames);
        return true;
    }
    return false;
}

/* ---- Both -------------------------------------------------------------------------------------*/

static SS_COLD void verify(ss_scratch *scratch, const void *above, const question *q)
{
    uintptr_t frames[SS_ANSWER_FRAMES];
    ss_sink full = {.frames = frames, .max = SS_ANSWER_FRAMES};
    question again = {q->inner, q->outer, &full};
    uint32_t first;

    if (answer_by_walk(&scratch->unwind, above, &again, &first))
        ss_repeat_verify(q->sink, &full);
}

static SS_NOINLINE bool find_answer(ss_scratch *scratch, const void *above, const question *q)
{
    uint32_t first;

    q->sink->stored = 0;
    if (!answer_by_walk(&scratch->unwind, above, q, &first))
        return false;
    keep_answer(scratch, q, first);
    return true;
}

static inline bool answer_question(ss_scratch *scratch, const void *above, const question *q)
{
    if (SS_UNLIKELY(!answer_again(&scratch->answers, q)))
        return find_answer(scratch, above, q);
    if (SS_UNLIKELY(ss_repeat_verifies))
        verify(scratch, above, q);
    return true;
}

SS_NOINLINE stacksplice_hresult stacksplice_native_between(const void *inner, const void *outer,
                                                           uint32_t max_frames, uintptr_t *frames,
                                                           uint32_t *captured)
{
    ss_sink sink = {.frames = frames, .max = max_frames};
    question q = {(uintptr_t)inner, (uintptr_t)outer, &sink};
    stacksplice_hresult hr = S_FALSE;
    ss_scratch *scratch;

    if (!captured || (!frames && max_frames))
        return E_POINTER;
    *captured = 0;
    if (q.inner >= q.outer || !ss_scratch_enter())
        return S_FALSE;
    scratch = ss_scratch_mine();
    if (scratch && answer_question(scratch, SS_HERE(), &q))
        hr = S_OK;
    ss_scratch_leave();
    *captured = sink.stored;
    return hr;
}
