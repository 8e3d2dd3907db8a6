/*
 * Python -> HRESULT: the stack of an exception, its language exception, its error object.
 *
 * An exception that was unwound to the border has frames in its traceback, which are trusted as
 * they are; then one gap frame, "unwound"; then the live stack from the catching frame outward,
 * in which a frame of the traceback has the line where the exception passed.
 */
#include "binding.h"
#include "token_cache.h"

#include <stdlib.h>
#include <string.h>

/* ---- Stacks -----------------------------------------------------------------------------------*/

static uint32_t capture_live(const void *above, uintptr_t *frames)
{
    sspy_interp *interp = sspy_interp_current();
    sspy_section section = sspy_enter(interp);
    uint32_t count = 0;

    (void)stacksplice_capture_above(above, SSPY_MAX_FRAMES, frames, &count, NULL);
    sspy_leave(section);
    return count;
}

/* Capture as WANTED says, and cut off what is inside of the innermost of its frames (our own call).
 */
static uint32_t capture_from(const void *above, sspy_placement *wanted, uintptr_t *frames)
{
    uintptr_t mark = sspy_mark();
    uint32_t count, start = 0;

    sspy_place(wanted);
    count = capture_live(above, frames);
    sspy_place(NULL);
    while (start < count && frames[start] != mark)
        start++;
    if (start == count)
        return count; /* no such frame among those taken: all of them, rather than none */
    start++;
    memmove(frames, frames + start, (count - start) * sizeof *frames);
    return count - start;
}

uint32_t sspy_capture(const void *above, uintptr_t *frames)
{
    sspy_placed_frame top = {sspy_frame_top(), 0};
    sspy_placement wanted = {.frames = &top, .count = 1};

    return above ? capture_live(above, frames)
                 : capture_from(__builtin_frame_address(0), &wanted, frames);
}

/* 0: the entry stands for no element of its own. */
static uintptr_t entry_token(PyTracebackObject *entry)
{
    PyCodeObject *code;
    uintptr_t token;

    if (sspy_foreign_frame(entry->tb_frame, &token))
        return token;
    code = PyFrame_GetCode(entry->tb_frame);
    token = sspy_token_known(code, entry->tb_lasti, entry->tb_lineno, STACKSPLICE_TRUST_TRACEBACK);
    Py_DECREF(code);
    return token;
}

static void reverse(uintptr_t *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count / 2; i++) {
        uintptr_t swapped = tokens[i];

        tokens[i] = tokens[count - 1 - i];
        tokens[count - 1 - i] = swapped;
    }
}

/* A traceback, split into frames that have ended and frames that are live. */
typedef struct passed_frames {
    uintptr_t *ended;        /* tokens, innermost first; borrowed room for SSPY_MAX_FRAMES - 1
                                frames and SSPY_MAX_SEAMS */
    sspy_placed_frame *live; /* malloc; each once */
    uint32_t ended_count, live_count, seams;
    bool after_seam; /* the last of ENDED is a seam */
} passed_frames;

/* An exception that is raised again where it was caught has two entries of one frame.  The inner
   one tells where it came from, and a stack has a frame once. */
static bool is_repeated(const PyTracebackObject *entry)
{
    return entry->tb_next && entry->tb_next->tb_frame == entry->tb_frame;
}

/* Of several entries of one frame the last, which is the innermost, is the one that counts.  There
   are at most ENTRIES in all.  -1 with a MemoryError. */
static int add_live(passed_frames *passed, const void *data, PyTracebackObject *entry,
                    size_t entries)
{
    uint32_t i = 0;

    if (!passed->live)
        passed->live = malloc(entries * sizeof *passed->live);
    if (!passed->live) {
        PyErr_NoMemory();
        return -1;
    }
    while (i < passed->live_count && passed->live[i].data != data)
        i++;
    passed->live[i] = (sspy_placed_frame){data, entry_token(entry)};
    passed->live_count += i == passed->live_count;
    return 0;
}

static void add_ended(passed_frames *passed, PyTracebackObject *entry)
{
    uintptr_t token = entry_token(entry);

    if (!token)
        return;
    passed->ended[passed->ended_count++] = token;
    passed->after_seam = false;
}

/* A seam stands between frames: one of several in a row is enough. */
static void add_seam(passed_frames *passed, const PyTracebackObject *entry)
{
    uintptr_t seam;

    if (passed->after_seam || passed->seams == SSPY_MAX_SEAMS)
        return;
    seam = sspy_seam_inside(entry);
    if (!seam)
        return;
    passed->ended[passed->ended_count++] = seam;
    passed->seams++;
    passed->after_seam = true;
}

/* How many frames of the traceback that begins with FIRST have ended; all are counted as such while
   there is room for them.  ENTRIES: how many there are. */
static size_t count_ended(PyTracebackObject *first, bool owned, size_t *entries)
{
    size_t ended = 0;

    *entries = 0;
    for (PyTracebackObject *entry = first; entry; entry = entry->tb_next)
        *entries += 1;
    if (*entries < SSPY_MAX_FRAMES)
        return *entries;
    for (PyTracebackObject *entry = first; entry; entry = entry->tb_next)
        ended += !is_repeated(entry) && !sspy_frame_live(entry->tb_frame, owned);
    return ended;
}

/* Reads the traceback that begins with FIRST.  More frames than there is room for: the innermost
   ones.  -1 with a MemoryError. */
static int read_traceback(PyTracebackObject *first, passed_frames *passed)
{
    bool owned = sspy_chain_has_owned();
    size_t entries, ended = count_ended(first, owned, &entries);

    for (PyTracebackObject *entry = first; entry; entry = entry->tb_next) {
        const void *data;

        if (is_repeated(entry))
            continue;
        data = sspy_frame_live(entry->tb_frame, owned);
        if (data && add_live(passed, data, entry, entries))
            return -1;
        if (!data && ended-- < SSPY_MAX_FRAMES)
            add_ended(passed, entry);
        add_seam(passed, entry);
    }
    passed->ended_count -= passed->after_seam; /* nothing that ended is inside of it */
    reverse(passed->ended, passed->ended_count);
    return 0;
}

/*
 * EXC's stack into FRAMES, room for twice SSPY_MAX_FRAMES and SSPY_MAX_SEAMS; -1 with a
 * MemoryError.  A frame that is both in the traceback and live stands where it lives, with the line
 * where the exception passed.  Behind it all are those who await the running task.
 */
static int fill_stack(sspy_state *state, PyObject *exc, const void *above, uintptr_t *frames,
                      uint32_t *count)
{
    PyObject *traceback = PyException_GetTraceback(exc);
    passed_frames passed = {.ended = frames};
    int failed = read_traceback((PyTracebackObject *)traceback, &passed);

    if (!failed) {
        sspy_placement wanted = {.frames = passed.live, .count = passed.live_count};

        *count = passed.ended_count;
        if (*count)
            frames[(*count)++] = sspy_mark();
        *count += wanted.count ? capture_from(__builtin_frame_address(0), &wanted, frames + *count)
                               : sspy_capture(above, frames + *count);
        sspy_append_awaiting(state, frames, count);
    }
    free(passed.live);
    Py_XDECREF(traceback);
    return failed;
}

/* ---- Error objects ----------------------------------------------------------------------------*/

/* A new language exception with the stack that was kept when EXC was raised, or the one it has now.
 */
static sspy_exception *wrap_new(sspy_state *state, sspy_anchor *anchor, PyObject *exc,
                                const void *above, IScriptErrorInfo *cause)
{
    uintptr_t room[2 * SSPY_MAX_FRAMES + SSPY_MAX_SEAMS], *raised = NULL;
    sspy_exception *wrapped;
    uint32_t count = 0;

    if (anchor)
        raised = sspy_anchor_take_raised(anchor, &count);
    if (!raised && fill_stack(state, exc, above, room, &count))
        return NULL;
    wrapped = sspy_exception_new(state->interp, exc, raised ? raised : room, count, cause);
    free(raised);
    return wrapped;
}

/* EXC's language exception, anchored, with an outside reference. */
static sspy_exception *wrap_one(sspy_state *state, PyObject *exc, const void *above,
                                IScriptErrorInfo *cause)
{
    sspy_anchor *anchor = sspy_anchor_of(state->interp, exc);
    sspy_exception *wrapped;

    if (anchor && anchor->exception) {
        sspy_exception_hold(anchor->exception, exc);
        return anchor->exception;
    }
    wrapped = wrap_new(state, anchor, exc, above, cause);
    if (!wrapped)
        return NULL;
    /* An exception that can carry no anchor is wrapped all the same: only its return is anonymous.
     */
    anchor = sspy_anchor_make(state->interp, exc);
    if (anchor)
        sspy_anchor_set_exception(anchor, wrapped);
    else
        PyErr_Clear();
    return wrapped;
}

/* Originate WRAPPED with HR; *ERROR has an outside reference, or is NULL when that is switched off.
 */
static HRESULT originate_wrapped(sspy_state *state, sspy_exception *wrapped, HRESULT hr,
                                 bool in_slot, IScriptErrorInfo **error)
{
    sspy_section section = sspy_enter(state->interp);
    stacksplice_saved_error saved = {NULL, NULL};
    IRestrictedErrorInfo *restricted = NULL;
    HRESULT result;

    if (!in_slot)
        (void)stacksplice_save_error(&saved);
    result = stacksplice_originate(hr, wrapped->message, wrapped->message_length,
                                   (IUnknown *)&wrapped->backtrace, &restricted);
    if (!in_slot)
        (void)stacksplice_restore_error(&saved);
    *error = sspy_query(restricted, &stacksplice_IID_IScriptErrorInfo);
    sspy_unknown_release(restricted);
    sspy_leave(section);
    return result;
}

/* A new error, with an outside reference in *ERROR; its HRESULT is *HR. */
static int error_for_one(sspy_state *state, PyObject *exc, const void *above, bool in_slot,
                         IScriptErrorInfo *cause, IScriptErrorInfo **error, HRESULT *hr)
{
    sspy_exception *wrapped;
    sspy_anchor *anchor;
    HRESULT result;

    *hr = sspy_hresult_of(state, exc);
    wrapped = wrap_one(state, exc, above, cause);
    if (!wrapped)
        return -1;
    result = originate_wrapped(state, wrapped, *hr, in_slot, error);
    anchor = *error ? sspy_anchor_of(state->interp, exc) : NULL;
    if (anchor)
        sspy_anchor_set_error(anchor, *error, false);
    sspy_exception_release(wrapped);
    if (result == E_OUTOFMEMORY)
        PyErr_NoMemory();
    return result == E_OUTOFMEMORY ? -1 : 0;
}

/* What a traceback would print as the reason of EXC, new reference; or NULL. */
static PyObject *cause_of(PyObject *exc)
{
    PyObject *cause = PyException_GetCause(exc);

    if (cause)
        return cause;
    return ((PyBaseExceptionObject *)exc)->suppress_context ? NULL : PyException_GetContext(exc);
}

/* EXC and its causes, newest first, up to one that already has an error object or a repetition. */
static int collect_chain(sspy_state *state, PyObject *exc, PyObject **chain)
{
    int count = 0;

    for (PyObject *next = Py_NewRef(exc); next;) {
        sspy_anchor *anchor;

        for (int i = 0; i < count; i++)
            if (chain[i] == next) {
                Py_DECREF(next);
                return count;
            }
        chain[count++] = next;
        anchor = count > 1 ? sspy_anchor_of(state->interp, next) : NULL;
        if (count == SSPY_MAX_CAUSES || (anchor && anchor->error))
            break;
        next = cause_of(next);
    }
    return count;
}

static void release_error(sspy_state *state, IScriptErrorInfo *error)
{
    sspy_section section = sspy_enter(state->interp);

    sspy_unknown_release(error);
    sspy_leave(section);
}

/* *HR is set when the first of CHAIN got a new error. */
static int error_for_chain(sspy_state *state, PyObject **chain, int count, const void *above,
                           bool in_slot, IScriptErrorInfo **error, HRESULT *hr)
{
    IScriptErrorInfo *cause = NULL;
    int failed = 0;

    for (int i = count - 1; i >= 0 && !failed; i--) {
        sspy_anchor *anchor = i > 0 ? sspy_anchor_of(state->interp, chain[i]) : NULL;
        IScriptErrorInfo *made = NULL;

        if (anchor && anchor->error)
            made = sspy_anchor_hold(anchor, chain[i]);
        else
            failed = error_for_one(state, chain[i], above, in_slot && i == 0, cause, &made, hr);
        if (cause)
            release_error(state, cause);
        cause = made;
    }
    *error = cause;
    return failed;
}

/* sspy_error_for; *HR is that of a new error, S_OK when EXC had one. */
static int error_for(sspy_state *state, PyObject *exc, const void *above, bool in_slot,
                     IScriptErrorInfo **error, HRESULT *hr)
{
    sspy_anchor *anchor = sspy_anchor_of(state->interp, exc);
    PyObject *chain[SSPY_MAX_CAUSES];
    int count, failed;

    *error = NULL;
    *hr = S_OK;
    if (anchor && anchor->error) {
        *error = sspy_anchor_hold(anchor, exc);
        return 0;
    }
    count = collect_chain(state, exc, chain);
    failed = error_for_chain(state, chain, count, above, in_slot, error, hr);
    for (int i = 0; i < count; i++)
        Py_DECREF(chain[i]);
    return failed;
}

int sspy_error_for(sspy_state *state, PyObject *exc, const void *above, bool in_slot,
                   IScriptErrorInfo **error)
{
    HRESULT hr;

    return error_for(state, exc, above, in_slot, error, &hr);
}

sspy_exception *sspy_wrap(sspy_state *state, PyObject *exc, const void *above)
{
    PyObject *chain[SSPY_MAX_CAUSES];
    IScriptErrorInfo *cause = NULL;
    sspy_exception *wrapped = NULL;
    int count = collect_chain(state, exc, chain);
    HRESULT hr;

    if (!error_for_chain(state, chain + 1, count - 1, above, false, &cause, &hr))
        wrapped = wrap_one(state, exc, above, cause);
    if (cause)
        release_error(state, cause);
    for (int i = 0; i < count; i++)
        Py_DECREF(chain[i]);
    return wrapped;
}

/* ---- Into the slot ----------------------------------------------------------------------------*/

static HRESULT put_into_slot(sspy_state *state, IScriptErrorInfo *error)
{
    sspy_section section = sspy_enter(state->interp);
    IRestrictedErrorInfo *restricted = sspy_query(error, &IID_IRestrictedErrorInfo);
    HRESULT hr = E_FAIL;

    (void)stacksplice_error_hresult((IUnknown *)restricted, &hr);
    (void)SetRestrictedErrorInfo(restricted);
    sspy_unknown_release(restricted);
    sspy_leave(section);
    return hr;
}

HRESULT sspy_originate(sspy_state *state, PyObject *exc, const void *above)
{
    IScriptErrorInfo *error = NULL;
    HRESULT hr;

    if (error_for(state, exc, above, true, &error, &hr)) {
        PyErr_Clear();
        RoOriginateError(E_OUTOFMEMORY, NULL);
        return E_OUTOFMEMORY;
    }
    if (!error)
        return hr; /* origination is switched off */
    if (SUCCEEDED(hr))
        hr = put_into_slot(state, error); /* an old one; a new one is there */
    release_error(state, error);
    sspy_slot_note(state);
    return hr;
}
