/*
 * What a token follows from whose code nobody watches: the words of the code object and of its
 * names, where the place of the instruction is found, and what seen.c compares.
 */
#include "frames/layout.h"
#include "frames/positions.h"
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
