/*
 * Frame layouts by version, and the check that a row is right.
 *
 * 3.11 and 3.12 get security fixes only, so their layout is frozen and stands here.  From 3.13 on
 * the interpreter describes itself in a table (_Py_DebugOffsets), and a row holds the order of that
 * table's words.  Public structures (code objects) come from the headers that we compile with, so
 * the versions must agree.
 */
#include "frames/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Atomic(const sspy_verdict *) sspy_layout_verdict;

/* _PyRuntime, as bytes: we read only its self-description.  A host may not export it. */
extern const char runtime_start[] __asm__("_PyRuntime") __attribute__((weak));

typedef struct layout_row {
    uint16_t version; /* 0x030B: 3.11 */
    sspy_layout fixed;
    /* Words of each group of the table before the frame group; 0: this version has no table. */
    uint8_t runtime_words, interpreter_words, thread_words, between_words;
    uint8_t lock_word; /* in the interpreter's group */
    uintptr_t code_mask;
} layout_row;

static const layout_row rows[] = {
    {0x030B, {true, 56, 8, 16, 32, 48, 56, 69, ~(uintptr_t)0, 0}, 0, 0, 0, 0, 0, 0},
    /* 3.12 has a lock for each interpreter and does not say where: the check searches for it. */
    {0x030C, {true, 56, 0, 8, 0, 8, 56, 70, ~(uintptr_t)0, 0}, 0, 0, 0, 0, 0, 0},
    {0x030D, {0}, 3, 13, 9, 0, 8, ~(uintptr_t)7},
    {0x030E, {0}, 3, 16, 9, 0, 9, ~(uintptr_t)7},
    {0x030F, {0}, 3, 16, 16, 1, 9, ~(uintptr_t)7},
};

const char *sspy_layout_reason(void)
{
    const sspy_verdict *verdict = atomic_load(&sspy_layout_verdict);

    if (!verdict)
        return "cannot read Python frames: interpreter not examined yet";
    return verdict->reason[0] ? verdict->reason : NULL;
}

/* The interpreter's self-description: "xdebugpy", version, free-threading, then the groups. */
static const char *read_offsets(const layout_row *row, sspy_layout *layout)
{
    const uint64_t *words = (const uint64_t *)(const void *)runtime_start;
    const uint64_t *interpreter, *thread, *frame;

    if (!runtime_start)
        return "_PyRuntime is not exported";
    if (memcmp(runtime_start, "xdebugpy", 8) != 0 || words[1] >> 16 != Py_Version >> 16)
        return "table of offsets is for another version";
    if (words[2])
        return "free-threaded build";
    interpreter = words + 3 + row->runtime_words;
    thread = interpreter + row->interpreter_words;
    frame = thread + row->thread_words + row->between_words;
    layout->cframe = false;
    layout->head = (uint32_t)thread[4];
    layout->frame_previous = (uint32_t)frame[1];
    layout->frame_code = (uint32_t)frame[2];
    layout->frame_instruction = (uint32_t)frame[3];
    layout->frame_owner = (uint32_t)frame[5];
    layout->code_mask = row->code_mask;
    layout->interpreter_lock = (uint32_t)interpreter[row->lock_word];
    /* Never follow impossible offsets. */
    if (interpreter[row->lock_word] >= interpreter[0] || thread[4] >= thread[0] ||
        frame[0] > 1024 || frame[1] >= frame[0] || frame[2] >= frame[0] || frame[3] >= frame[0] ||
        frame[5] >= frame[0])
        return "table of offsets is unreadable";
    return NULL;
}

static const char *choose_row(sspy_layout *layout)
{
    uint16_t version = (uint16_t)(Py_Version >> 16);
    size_t i = 0;

#ifdef Py_GIL_DISABLED
    return "free-threaded build";
#endif
    if (version != (uint16_t)(PY_VERSION_HEX >> 16))
        return "extension was built for another version";
    while (i < SSPY_COUNT_OF(rows) && rows[i].version != version)
        i++;
    if (i == SSPY_COUNT_OF(rows))
        return "unknown version";
    if (rows[i].runtime_words)
        return read_offsets(&rows[i], layout);
    *layout = rows[i].fixed;
    return NULL;
}

/* ---- Reading a frame --------------------------------------------------------------------------*/

PyCodeObject *sspy_frame_code(uintptr_t frame)
{
    PyCodeObject *code;
    unsigned owner = sspy_frame_owner(frame);
    uintptr_t start;

    if (owner >= SSPY_FRAME_OF_C)
        return NULL;
    code = (PyCodeObject *)(sspy_word(frame, sspy_layout_now()->frame_code) &
                            sspy_layout_now()->code_mask);
    if (!code || !PyCode_Check(code))
        return NULL;
    start = (uintptr_t)code + offsetof(PyCodeObject, co_code_adaptive);
    if (owner != SSPY_FRAME_GENERATOR &&
        sspy_word(frame, sspy_layout_now()->frame_instruction) <
            start + (uintptr_t)code->_co_firsttraceable * SSPY_CODE_UNIT)
        return NULL;
    return code;
}

int sspy_frame_lasti(uintptr_t frame, const PyCodeObject *code)
{
    return (int)(sspy_word(frame, sspy_layout_now()->frame_instruction) - (uintptr_t)code -
                 offsetof(PyCodeObject, co_code_adaptive));
}

uintptr_t sspy_frame_current(PyThreadState *thread_state)
{
    uintptr_t head = sspy_word((uintptr_t)thread_state, sspy_layout_now()->head);

    return head && sspy_layout_now()->cframe ? sspy_word(head, sspy_layout_now()->cframe_current)
                                             : head;
}

/* ---- The choice -------------------------------------------------------------------------------*/

/* The first verdict to be published wins; it lives as long as the process. */
static void publish(sspy_verdict *found)
{
    const sspy_verdict *none = NULL;

    if (!atomic_compare_exchange_strong(&sspy_layout_verdict, &none, found))
        free(found);
}

int sspy_layout_check(void)
{
    sspy_verdict *found;
    const char *why;

    if (atomic_load(&sspy_layout_verdict))
        return 0;
    found = calloc(1, sizeof *found);
    if (!found) {
        PyErr_NoMemory();
        return -1;
    }
    why = choose_row(&found->layout);
    if (!why && sspy_layout_examine(&found->layout, &why)) {
        free(found);
        return -1;
    }
    if (why)
        snprintf(found->reason, sizeof found->reason,
                 "cannot read Python frames: %s (CPython %lu.%lu.%lu)", why, Py_Version >> 24,
                 Py_Version >> 16 & 0xff, Py_Version >> 8 & 0xff);
    publish(found);
    return 0;
}
