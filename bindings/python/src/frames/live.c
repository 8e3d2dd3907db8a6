/*
 * The live frames of the current thread state: which frames of a traceback still run, what captures
 * show in their place, and what the table of tokens learns.
 */
#include "frames/live.h"
#include "frames/token_cache.h"

enum {
    MAX_LEARNED = 256 /* places put into the table of tokens at once */
};

/* Set by sspy_replace. */
static _Thread_local const sspy_replacement *replacement;
static _Thread_local bool missed;

static _Atomic(bool) is_asked;         /* the interpreter will call learn_between */
static _Atomic(unsigned long) learner; /* the thread that it did so in; 0: not yet */

static uintptr_t next_shown(uintptr_t frame)
{
    for (int steps = 0; frame && steps < SSPY_MAX_CHAIN; steps++) {
        if (sspy_frame_code(frame))
            return frame;
        frame = sspy_frame_previous(frame);
    }
    return 0;
}

const void *sspy_frame_top(void)
{
    if (sspy_layout_reason())
        return NULL;
    return (const void *)next_shown(sspy_frame_current(PyThreadState_Get()));
}

sspy_call sspy_call_now(PyThreadState *thread)
{
    sspy_call call = {NULL, 0};
    uintptr_t frame;

    if (!thread || sspy_layout_reason())
        return call;
    frame = next_shown(sspy_frame_current(thread));
    if (frame)
        call = (sspy_call){(const void *)frame,
                           sspy_word(frame, sspy_layout_now()->frame_instruction)};
    return call;
}

bool sspy_chain_has_owned(void)
{
    uintptr_t live;

    if (sspy_layout_reason())
        return false;
    live = sspy_frame_current(PyThreadState_Get());
    for (int steps = 0; live && steps < SSPY_MAX_CHAIN; steps++) {
        if (sspy_frame_owner(live) == SSPY_FRAME_OBJECT)
            return true;
        live = sspy_frame_previous(live);
    }
    return false;
}

const void *sspy_loop_marker(void)
{
    uintptr_t at;

    if (sspy_layout_reason())
        return NULL;
    at = sspy_word((uintptr_t)PyThreadState_Get(), sspy_layout_now()->thread_head);
    return (const void *)(sspy_layout_now()->cframe ? at : sspy_entry_frame(at));
}

const void *sspy_frame_live(PyFrameObject *frame, bool owned)
{
    uintptr_t data, live;

    if (sspy_layout_reason())
        return NULL;
    data = sspy_frame_data(frame);
    /* The data of an ended frame was copied into its frame object. */
    if (!owned && sspy_frame_owner(data) == SSPY_FRAME_OBJECT)
        return NULL;
    live = sspy_frame_current(PyThreadState_Get());
    for (int steps = 0; live && steps < SSPY_MAX_CHAIN; steps++) {
        if (live == data)
            return (const void *)data;
        live = sspy_frame_previous(live);
    }
    return NULL;
}

const sspy_replacement *sspy_replacement_now(void)
{
    return replacement;
}

const sspy_replaced_frame *sspy_find_replaced(const sspy_replacement *wanted, uintptr_t frame)
{
    for (uint32_t i = 0; i < wanted->count; i++)
        if (wanted->frames[i].data == (const void *)frame)
            return &wanted->frames[i];
    return NULL;
}

void sspy_replace(sspy_replacement *wanted)
{
    uintptr_t live;

    replacement = wanted;
    if (!wanted)
        return;
    wanted->innermost = NULL;
    if (!wanted->count || sspy_layout_reason())
        return;
    live = sspy_frame_current(PyThreadState_Get());
    for (int steps = 0; live && !wanted->innermost && steps < SSPY_MAX_CHAIN; steps++) {
        if (sspy_find_replaced(wanted, live))
            wanted->innermost = (const void *)live;
        live = sspy_frame_previous(live);
    }
}

/* ---- Learning ---------------------------------------------------------------------------------*/

/* Look for what a capture missed on the current chain: only frames that are live now are known to
   be alive. */
static void learn(PyThreadState *state)
{
    uintptr_t frame = sspy_frame_current(state);
    int learned = 0;

    (void)sspy_cache_renew();
    for (int steps = 0; frame && learned < MAX_LEARNED && steps < SSPY_MAX_CHAIN; steps++) {
        PyCodeObject *code = sspy_frame_code(frame);

        if (code && !sspy_cache_find(sspy_word(frame, sspy_layout_now()->frame_instruction), 0)) {
            (void)sspy_token_known(code, sspy_frame_lasti(frame, code), 0, STACKSPLICE_TRUST_EXACT);
            learned++;
        }
        frame = sspy_frame_previous(frame);
    }
}

/* Called by the interpreter in its main thread, between two instructions. */
static int learn_between(void *data)
{
    (void)data;
    atomic_store(&is_asked, false);
    atomic_store(&learner, PyThread_get_thread_ident());
    sspy_learn();
    return 0;
}

/* Py_AddPendingCall takes a lock, which the code that a signal interrupted may hold. */
static bool is_in_handler(const stacksplice_walk *walk)
{
    for (uint32_t i = 0; i < walk->frame_count; i++)
        if (walk->frames[i].flags & STACKSPLICE_NATIVE_SIGNAL)
            return true;
    return !walk->frame_count || walk->truncated;
}

void sspy_learn_later(const stacksplice_walk *walk)
{
    unsigned long wanted = atomic_load(&learner);

    if (missed)
        return;
    missed = true;
    /* Only the main thread has its frames still on its stack then; the first call finds out which
       thread that is. */
    if ((!wanted || wanted == PyThread_get_thread_ident()) && !is_in_handler(walk) &&
        !atomic_exchange(&is_asked, true) && Py_AddPendingCall(learn_between, NULL))
        atomic_store(&is_asked, false);
}

void sspy_learn(void)
{
    PyThreadState *state;

    if (!missed)
        return;
    missed = false;
    state = PyThreadState_Get();
    if (state->interp == atomic_load(&sspy_cache_interp))
        learn(state);
}
