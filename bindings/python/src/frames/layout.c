/*
 * The choice of a layout for the running interpreter, and how frames are read by it.
 *
 * Public structures (code objects) come from the headers that we compile with, so the versions must
 * agree.
 */
#include "frames/layout.h"

#include <stdio.h>
#include <stdlib.h>

_Atomic(const sspy_verdict *) sspy_layout_verdict;

/* _PyRuntime, of which we read only its self-description.  A host may not export it. */
extern const uint64_t runtime_words[] __asm__("_PyRuntime") __attribute__((weak));

const char *sspy_layout_reason(void)
{
    const sspy_verdict *verdict = atomic_load(&sspy_layout_verdict);

    if (!verdict)
        return "cannot read Python frames: interpreter not examined yet";
    return verdict->reason[0] ? verdict->reason : NULL;
}

static const char *choose_layout(sspy_layout *layout)
{
#ifdef Py_GIL_DISABLED
    return "it is a free-threaded build";
#endif
    if (Py_Version >> 16 != PY_VERSION_HEX >> 16)
        return "extension was built for another version";
    return sspy_layout_of(Py_Version, runtime_words, layout);
}

/* ---- Reading a frame --------------------------------------------------------------------------*/

uintptr_t sspy_entry_frame(uintptr_t frame)
{
    for (int steps = 0; frame && sspy_frame_owner(frame) < SSPY_FRAME_OF_C; steps++)
        frame = steps < SSPY_MAX_CHAIN ? sspy_frame_previous(frame) : 0;
    return frame;
}

PyCodeObject *sspy_frame_code(uintptr_t frame)
{
    PyCodeObject *code;
    unsigned owner = sspy_frame_owner(frame);

    if (owner >= SSPY_FRAME_OF_C)
        return NULL;
    code = (PyCodeObject *)(sspy_word(frame, sspy_layout_now()->frame_code) &
                            ~(uintptr_t)SSPY_CODE_TAG);
    if (!code || !PyCode_Check(code))
        return NULL;
    return sspy_has_begun(sspy_layout_now(), owner, (uintptr_t)code,
                          sspy_word(frame, sspy_layout_now()->frame_instruction),
                          code->_co_firsttraceable)
               ? code
               : NULL;
}

int sspy_frame_lasti(uintptr_t frame, const PyCodeObject *code)
{
    return (int)(sspy_word(frame, sspy_layout_now()->frame_instruction) - (uintptr_t)code -
                 offsetof(PyCodeObject, co_code_adaptive));
}

uintptr_t sspy_frame_current(PyThreadState *thread_state)
{
    uintptr_t head = sspy_word((uintptr_t)thread_state, sspy_layout_now()->thread_head);

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
    why = choose_layout(&found->layout);
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
