/*
 * What a token follows from whose code nobody watches: the words of the code object and of its
 * names, where the place of the instruction is found, and what tokens.c compares.
 */
#include "frames/layout.h"
#include "frames/positions.h"
#include "frames/token_cache.h"
#include "frames/words.h"

#include <string.h>

enum { BYTES, LENGTH, VALUE };

static uintptr_t few_bytes(uintptr_t address, size_t length)
{
    uintptr_t value = 0;

    memcpy(&value, (const void *)address, length);
    return value;
}

static int are_same_bytes(const uintptr_t *data)
{
    return few_bytes(data[BYTES], data[LENGTH]) == data[VALUE];
}

/* Report LENGTH bytes from the aligned address DATA on, where an object has ROOM bytes.  Its end
   may be no word. */
static void report_bytes(stacksplice_walk *walk, const void *data, size_t length, size_t room)
{
    uintptr_t at = (uintptr_t)data, end = at + length, last = at + room - room % sizeof(uintptr_t);

    for (; at < end && at < last; at += sizeof(uintptr_t))
        sspy_report_word(walk, at);
    if (at < end)
        stacksplice_walk_check(
            walk, are_same_bytes,
            (uintptr_t[STACKSPLICE_CHECK_WORDS]){
                [BYTES] = at, [LENGTH] = end - at, [VALUE] = few_bytes(at, end - at)});
}

/* Report the text behind *PLACE.  Nearly all names have their hash, of 64 bits. */
static void report_text(stacksplice_walk *walk, PyObject *const *place)
{
    const PyASCIIObject *text = (const PyASCIIObject *)*place;
    size_t length;

    sspy_report_word(walk, (uintptr_t)place);
    if (!text || !PyUnicode_Check(*place) || !PyUnicode_IS_COMPACT(*place)) {
        stacksplice_walk_refuse(walk);
        return;
    }
    if (text->hash != -1) {
        sspy_report_word(walk, (uintptr_t)&text->hash);
        return;
    }
    sspy_report_word(walk, (uintptr_t)&text->length);
    sspy_report_word(walk, (uintptr_t)&text->state);
    length = (size_t)PyUnicode_GET_LENGTH(*place) * PyUnicode_KIND(*place);
    report_bytes(walk, PyUnicode_DATA(*place), length, length);
}

enum { INTERP, ID };

static int is_same_interpreter(const uintptr_t *data)
{
    return (uintptr_t)PyInterpreterState_GetID((PyInterpreterState *)data[INTERP]) == data[ID];
}

void sspy_report_code(stacksplice_walk *walk, uintptr_t frame, PyInterpreterState *interp)
{
    PyCodeObject *code = sspy_frame_code(frame);
    sspy_position position;
    const PyVarObject *table;

    if (!code) {
        stacksplice_walk_refuse(walk);
        return;
    }
    position = sspy_position_of(code, sspy_frame_lasti(frame, code));
    sspy_report_word(walk, frame + sspy_layout_now()->frame_code);
    report_text(walk, &code->co_filename);
    report_text(walk, &code->co_name);
    report_text(walk, &code->co_qualname);
    sspy_report_word(walk, (uintptr_t)&code->co_firstlineno);
    table = (const PyVarObject *)code->co_linetable;
    sspy_report_word(walk, (uintptr_t)&code->co_linetable);
    sspy_report_word(walk, (uintptr_t)&table->ob_size);
    report_bytes(walk, PyBytes_AS_STRING(code->co_linetable), position.prefix,
                 (size_t)table->ob_size);
    stacksplice_walk_check(
        walk, is_same_interpreter,
        (uintptr_t[STACKSPLICE_CHECK_WORDS]){
            [INTERP] = (uintptr_t)interp, [ID] = (uintptr_t)PyInterpreterState_GetID(interp)});
}

/* ---- Words -----------------------------------------------------------------------------------*/

/*
 * What Python's part of a capture depends on, so that the core can repeat it (source.h).  Reads
 * what the capture reads then; the interpreter does not run in between.
 */

/* ---- Conditions that are not in words of a chain ----------------------------------------------*/

enum { COUNT, INNERMOST, MARK };

/* Whether captures replace as many frames as then, if any, and put the same mark. */
static int is_same_replacement(const uintptr_t *data)
{
    const sspy_replacement *now = sspy_replacement_now();

    if (!now || !data[MARK])
        return !now && !data[MARK];
    return now->count == data[COUNT] && (uintptr_t)now->innermost == data[INNERMOST] &&
           now->mark == data[MARK];
}

enum { NUMBER, DATA, TOKEN };

/* Whether one of them is the same. */
static int is_same_replaced(const uintptr_t *data)
{
    const sspy_replacement *now = sspy_replacement_now();

    return now && data[NUMBER] < now->count &&
           (uintptr_t)now->frames[data[NUMBER]].data == data[DATA] &&
           now->frames[data[NUMBER]].token == data[TOKEN];
}

/* False when there are too many to check. */
static bool check_replacement(stacksplice_walk *walk)
{
    const sspy_replacement *now = sspy_replacement_now();
    uintptr_t data[STACKSPLICE_CHECK_WORDS] = {0};

    if (now) {
        data[COUNT] = now->count;
        data[INNERMOST] = (uintptr_t)now->innermost;
        data[MARK] = now->mark;
    }
    stacksplice_walk_check(walk, is_same_replacement, data);
    for (uint32_t i = 0; now && i < now->count && i < SSPY_MOST_REPLACED; i++) {
        const uintptr_t one[STACKSPLICE_CHECK_WORDS] = {i, (uintptr_t)now->frames[i].data,
                                                        now->frames[i].token};

        stacksplice_walk_check(walk, is_same_replaced, one);
    }
    return !now || now->count <= SSPY_MOST_REPLACED;
}

enum { STATE, LOW, HIGH, DEATHS };

/* The thread state with frames on the stack of WALK, or 0; false when there are several. */
static bool only_state(const stacksplice_walk *walk, uintptr_t *state)
{
    PyThreadState *states[SSPY_MAX_THREAD_STATES];
    uint32_t count = sspy_thread_states(walk, states);

    *state = count ? (uintptr_t)states[0] : 0;
    return count < 2;
}

/* Whether the chains begin where they began, and each known instruction is still the same code. */
static int is_same_thread(const uintptr_t *data)
{
    const stacksplice_walk walk = {.stack_low = data[LOW], .stack_high = data[HIGH]};
    uintptr_t state;

    return only_state(&walk, &state) && state == data[STATE] &&
           atomic_load_explicit(&sspy_cache_deaths, memory_order_acquire) == data[DEATHS];
}

/* ---- Frames -----------------------------------------------------------------------------------*/

/* The thread state whose frames are reported. */
typedef struct owner {
    PyInterpreterState *interp;
    bool watched; /* tokens may be in the table of token_cache.h */
} owner;

/* Whether FRAME is shown with a token that is checked. */
static bool is_replaced(uintptr_t frame)
{
    const sspy_replacement *now = sspy_replacement_now();
    const sspy_replaced_frame *replaced = now ? sspy_find_replaced(now, frame) : NULL;

    return replaced && replaced->token;
}

static void report_frame(stacksplice_walk *walk, uintptr_t frame, const owner *of)
{
    const sspy_layout *layout = sspy_layout_now();

    sspy_report_word(walk, frame + layout->frame_owner);
    sspy_report_word(walk, frame + layout->frame_previous);
    if (sspy_frame_owner(frame) >= SSPY_FRAME_OF_C)
        return;
    sspy_report_word(walk, frame + layout->frame_instruction);
    if (is_replaced(frame))
        return;
    if (!of->watched || !sspy_cache_find(sspy_word(frame, layout->frame_instruction), 0))
        sspy_report_code(walk, frame, of->interp);
}

/* Report FRAME and its callers up to END, or up to a frame of C. */
static void report_run(stacksplice_walk *walk, uintptr_t frame, uintptr_t end, const owner *of)
{
    for (int steps = 0; walk->recorded && frame && frame != end; steps++) {
        report_frame(walk, frame, of);
        if (sspy_frame_owner(frame) >= SSPY_FRAME_OF_C)
            return;
        if (steps == SSPY_MAX_REPORTED) {
            stacksplice_walk_refuse(walk);
            return;
        }
        frame = sspy_frame_previous(frame);
    }
}

/* 3.11, 3.12: the chain of _PyCFrames, and the frames of those on this stack. */
static void report_cframes(stacksplice_walk *walk, uintptr_t cframe, const owner *of)
{
    const sspy_layout *layout = sspy_layout_now();
    uintptr_t last = 0, end;

    while (walk->recorded && cframe && cframe > last && cframe < walk->stack_high &&
           cframe % sizeof(void *) == 0) {
        sspy_report_word(walk, cframe + layout->cframe_previous);
        sspy_report_word(walk, cframe + layout->cframe_current);
        last = cframe;
        cframe = sspy_word(cframe, layout->cframe_previous);
        end = 0;
        if (cframe) {
            sspy_report_word(walk, cframe + layout->cframe_current);
            end = sspy_word(cframe, layout->cframe_current);
        }
        if (last >= walk->stack_low)
            report_run(walk, sspy_word(last, layout->cframe_current), end, of);
    }
}

/* 3.13 on: one chain of frames, with entry frames among them. */
static void report_chain(stacksplice_walk *walk, uintptr_t frame, const owner *of)
{
    for (int steps = 0; walk->recorded && frame; steps++) {
        report_frame(walk, frame, of);
        if (steps == SSPY_MAX_REPORTED) {
            stacksplice_walk_refuse(walk);
            return;
        }
        frame = sspy_frame_previous(frame);
    }
}

void sspy_report_words(stacksplice_walk *walk)
{
    uintptr_t data[STACKSPLICE_CHECK_WORDS] = {
        [LOW] = walk->stack_low,
        [HIGH] = walk->stack_high,
        [DEATHS] = atomic_load_explicit(&sspy_cache_deaths, memory_order_acquire)};
    PyThreadState *state;
    uintptr_t head;
    owner of;

    if (sspy_layout_reason() || !walk->frame_count || !only_state(walk, &data[STATE]) ||
        !check_replacement(walk)) {
        stacksplice_walk_refuse(walk);
        return;
    }
    stacksplice_walk_check(walk, is_same_thread, data);
    state = (PyThreadState *)data[STATE];
    if (!state)
        return;
    of.interp = state->interp;
    of.watched = of.interp == atomic_load_explicit(&sspy_cache_home, memory_order_relaxed) &&
                 sspy_cache_is_true();
    sspy_report_word(walk, (uintptr_t)&state->interp);
    head = (uintptr_t)state + sspy_layout_now()->thread_head;
    sspy_report_word(walk, head);
    head = *(const uintptr_t *)head;
    if (sspy_layout_now()->cframe)
        report_cframes(walk, head, &of);
    else
        report_chain(walk, head, &of);
}
