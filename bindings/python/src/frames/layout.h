/*
 * Where this CPython keeps its frames: what is known of its version, checked against the running
 * interpreter before we trust it.
 */
#ifndef SSPY_LAYOUT_H
#define SSPY_LAYOUT_H

#include "frames/frames.h"

enum { SSPY_MAX_CHAIN = 1 << 20 /* frames: a longer chain is corrupt */ };

/* Whether each thread runs a copy of a code object's instructions, which the interpreter frees by itself.
   An instruction's address in the code object itself then stands for that in each copy. */
#define SSPY_HAS_COPIES (SSPY_IS_FREE_THREADED && PY_VERSION_HEX >= 0x030E0000)

/* The known layout of this process's CPython.  Interpreters with their own locks may examine it at
   the same time.  The first one publishes its whole result, for good. */
typedef struct sspy_verdict {
    sspy_layout layout; /* valid only where REASON is empty */
    char reason[160];
} sspy_verdict;

extern _Atomic(const sspy_verdict *) sspy_layout_verdict; /* (ATOMIC) NULL until published */

/* The layout, valid only while sspy_layout_reason() is NULL. */
static inline const sspy_layout *sspy_layout_now(void)
{
    return &atomic_load_explicit(&sspy_layout_verdict, memory_order_acquire)->layout;
}

/* Read interpreter memory by offset. */
static inline uintptr_t sspy_word(uintptr_t base, uint32_t offset)
{
    return *(const uintptr_t *)(base + offset);
}

static inline unsigned sspy_frame_owner(uintptr_t frame)
{
    return *(const unsigned char *)(frame + sspy_layout_now()->frame_owner);
}

static inline uintptr_t sspy_frame_previous(uintptr_t frame)
{
    return sspy_word(frame, sspy_layout_now()->frame_previous);
}

/* The entry frame that is FRAME or the first outside of it; 0 if there is none. */
static inline uintptr_t sspy_entry_frame(uintptr_t frame)
{
    for (int steps = 0; frame && sspy_frame_owner(frame) < SSPY_FRAME_OF_C; steps++)
        frame = steps < SSPY_MAX_CHAIN ? sspy_frame_previous(frame) : 0;
    return frame;
}

/* The code object of FRAME, borrowed, if Python shows FRAME.  NULL for entry frames, shims, and
   frames that have not begun (by the rule of _PyFrame_IsIncomplete). */
PyCodeObject *sspy_frame_code(uintptr_t frame);
/* Where the instructions begin that FRAME, which runs CODE, executes. */
static inline uintptr_t sspy_frame_start(uintptr_t frame, const PyCodeObject *code)
{
#if SSPY_HAS_COPIES
    const _PyCodeArray *copies = __atomic_load_n(&code->co_tlbc, __ATOMIC_ACQUIRE);
    int32_t number = *(const int32_t *)(frame + sspy_layout_now()->frame_copy);

    if (copies && number >= 0 && number < copies->size && copies->entries[number])
        return (uintptr_t)copies->entries[number];
#else
    (void)frame;
#endif
    return (uintptr_t)code + offsetof(PyCodeObject, co_code_adaptive);
}

/* The address of FRAME's instruction in its code object: by it tables know the place.  With copies 0 for
   frames of no code object. */
static inline uintptr_t sspy_frame_place(uintptr_t frame)
{
    uintptr_t instruction = sspy_word(frame, sspy_layout_now()->frame_instruction);
#if SSPY_HAS_COPIES
    PyObject *code =
        (PyObject *)(sspy_word(frame, sspy_layout_now()->frame_code) & ~(uintptr_t)SSPY_CODE_TAG);

    if (!code || !PyCode_Check(code))
        return 0;
    instruction += (uintptr_t)code + offsetof(PyCodeObject, co_code_adaptive) -
                   sspy_frame_start(frame, (const PyCodeObject *)code);
#endif
    return instruction;
}

/* The byte offset of FRAME's instruction in CODE. */
int sspy_frame_lasti(uintptr_t frame, const PyCodeObject *code);
/* The innermost frame of THREAD_STATE, or 0. */
uintptr_t sspy_frame_current(PyThreadState *thread_state);

/* struct _frame has begun with the object head, f_back and f_frame since 3.11. */

/* The caller that a frame object keeps of a frame that has ended, borrowed; NULL if it keeps none. */
static inline const PyFrameObject *sspy_frame_kept_back(PyFrameObject *frame)
{
    return (const PyFrameObject *)sspy_word((uintptr_t)frame, sizeof(PyObject));
}

/* The frame data of a frame object. */
static inline uintptr_t sspy_frame_data(PyFrameObject *frame)
{
    return sspy_word((uintptr_t)frame, sizeof(PyObject) + sizeof(void *));
}

/* Whether the data of a frame, where it ended, was copied into its frame object.  A live frame may own its
   data, too (sspy_chain_has_owned). */
static inline bool sspy_frame_has_ended(PyFrameObject *frame)
{
    return sspy_frame_owner(sspy_frame_data(frame)) == SSPY_FRAME_OBJECT;
}

#endif
