/*
 * What Python's part of a capture depends on, so that the core can repeat it (source.h), besides the
 * words of the chains that source.c reads.
 *
 * A token follows, if nobody watches its code, from the words of the code object and of its names,
 * where the place of the instruction is found, and what tokens.c compares.
 */
#include "frames/layout.h"
#include "frames/token_cache.h"
#include "frames/live.h"

#include <string.h>

enum { MOST_REPLACED = 16 /* a capture with more replaced frames is not repeated */ };

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
    for (uint32_t i = 0; now && i < now->count && i < MOST_REPLACED; i++) {
        const uintptr_t one[STACKSPLICE_CHECK_WORDS] = {i, (uintptr_t)now->frames[i].data,
                                                        now->frames[i].token};

        stacksplice_walk_check(walk, is_same_replaced, one);
    }
    return !now || now->count <= MOST_REPLACED;
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

void sspy_report_conditions(stacksplice_walk *walk)
{
    uintptr_t data[STACKSPLICE_CHECK_WORDS] = {
        [LOW] = walk->stack_low,
        [HIGH] = walk->stack_high,
        [DEATHS] = atomic_load_explicit(&sspy_cache_deaths, memory_order_acquire)};
    PyThreadState *state;

    if (sspy_layout_reason() || !walk->frame_count || !only_state(walk, &data[STATE]) ||
        !check_replacement(walk)) {
        stacksplice_walk_refuse(walk);
        return;
    }
    stacksplice_walk_check(walk, is_same_thread, data);
    state = (PyThreadState *)data[STATE];
    if (!state)
        return;
    sspy_report_word(walk, (uintptr_t)&state->interp);
    sspy_report_word(walk, (uintptr_t)state + sspy_layout_now()->thread_head);
}
