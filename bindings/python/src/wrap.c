/*
 * Python -> HRESULT: the stack of an exception, its language exception, its error object.
 *
 * An exception that was unwound to the border has frames in its traceback, which are trusted as
 * they are; then one gap frame, "unwound"; then the live stack from the catching frame outward.
 */
#include "binding.h"

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

/* Capture and cut off what is inside of the frame at DATA (our own call); keep_mark leaves the gap
   element in front of it. */
static uint32_t capture_from(const void *above, const void *data, bool keep_mark, uintptr_t *frames)
{
    uint32_t count, start = 0;

    sspy_frame_mark(data);
    count = capture_live(above, frames);
    sspy_frame_mark(NULL);
    while (start < count && frames[start] != sspy_mark())
        start++;
    if (start == count)
        return count; /* no such frame among those taken: all of them, rather than none */
    start += !keep_mark;
    memmove(frames, frames + start, (count - start) * sizeof *frames);
    return count - start;
}

uint32_t sspy_capture(const void *above, uintptr_t *frames)
{
    if (above)
        return capture_live(above, frames);
    return capture_from(__builtin_frame_address(0), sspy_frame_top(), false, frames);
}

static uintptr_t entry_token(PyTracebackObject *entry)
{
    PyCodeObject *code = PyFrame_GetCode(entry->tb_frame);
    uintptr_t token = sspy_token(code, entry->tb_lasti, entry->tb_lineno > 0 ? entry->tb_lineno : 0,
                                 STACKSPLICE_TRUST_TRACEBACK, PyInterpreterState_Get());

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

/* The frames of EXC's traceback that are no longer live, innermost first, at most ROOM: the
   innermost ones.  *CATCHING becomes the frame that caught it, if that is live. */
static uint32_t traceback_tokens(PyObject *exc, uintptr_t *tokens, uint32_t room,
                                 const void **catching)
{
    PyObject *traceback = PyException_GetTraceback(exc);
    PyTracebackObject *first = (PyTracebackObject *)traceback;
    bool owned = sspy_chain_has_owned();
    uint32_t ended = 0, used = 0;

    if (first)
        *catching = sspy_frame_live(first->tb_frame, owned);
    for (PyTracebackObject *entry = first; entry; entry = entry->tb_next)
        ended += !sspy_frame_live(entry->tb_frame, owned);
    for (PyTracebackObject *entry = first; entry; entry = entry->tb_next) {
        if (sspy_frame_live(entry->tb_frame, owned))
            continue;
        if (ended-- <= room)
            tokens[used++] = entry_token(entry);
    }
    reverse(tokens, used);
    Py_XDECREF(traceback);
    return used;
}

/* EXC's whole stack, allocated with malloc; NULL with a MemoryError. */
static uintptr_t *stack_of(PyObject *exc, const void *above, uint32_t *count)
{
    uintptr_t *frames = malloc(2 * SSPY_MAX_FRAMES * sizeof *frames);
    const void *catching = NULL;
    uint32_t unwound, live;

    if (!frames) {
        PyErr_NoMemory();
        return NULL;
    }
    unwound = traceback_tokens(exc, frames, SSPY_MAX_FRAMES - 1, &catching);
    if (catching) {
        live = capture_from(__builtin_frame_address(0), catching, unwound > 0, frames + unwound);
    } else {
        if (unwound)
            frames[unwound++] = sspy_mark();
        live = sspy_capture(above, frames + unwound);
    }
    *count = unwound + live;
    return frames;
}

/* ---- Error objects ----------------------------------------------------------------------------*/

/* EXC's language exception, anchored, with an outside reference. */
static sspy_exception *wrap_one(sspy_state *state, PyObject *exc, const void *above,
                                IScriptErrorInfo *cause)
{
    sspy_anchor *anchor = sspy_anchor_of(state->interp, exc);
    sspy_exception *wrapped;
    uintptr_t *frames;
    uint32_t count = 0;

    if (anchor && anchor->exception) {
        sspy_exception_hold(anchor->exception, exc);
        return anchor->exception;
    }
    frames = stack_of(exc, above, &count);
    wrapped = frames ? sspy_exception_new(state->interp, exc, frames, count, cause) : NULL;
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
    stacksplice_saved_error saved = {NULL};
    IRestrictedErrorInfo *restricted = NULL;
    HRESULT result;

    if (!in_slot)
        (void)stacksplice_save_error(&saved);
    result = stacksplice_originate(hr, wrapped->message, wrapped->message_length,
                                   (IUnknown *)&wrapped->backtrace, &restricted);
    if (!in_slot)
        stacksplice_restore_error(&saved);
    *error = sspy_query(restricted, &stacksplice_IID_IScriptErrorInfo);
    sspy_unknown_release(restricted);
    sspy_leave(section);
    return result;
}

static int error_for_one(sspy_state *state, PyObject *exc, const void *above, bool in_slot,
                         IScriptErrorInfo *cause, IScriptErrorInfo **error)
{
    HRESULT hr = sspy_hresult_of(state, exc);
    sspy_exception *wrapped = wrap_one(state, exc, above, cause);
    sspy_anchor *anchor;
    HRESULT result;

    if (!wrapped)
        return -1;
    result = originate_wrapped(state, wrapped, hr, in_slot, error);
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

static int error_for_chain(sspy_state *state, PyObject **chain, int count, const void *above,
                           bool in_slot, IScriptErrorInfo **error)
{
    IScriptErrorInfo *cause = NULL;
    int failed = 0;

    for (int i = count - 1; i >= 0 && !failed; i--) {
        sspy_anchor *anchor = sspy_anchor_of(state->interp, chain[i]);
        IScriptErrorInfo *made = NULL;

        if (i > 0 && anchor && anchor->error)
            made = sspy_anchor_hold(anchor, chain[i]);
        else
            failed = error_for_one(state, chain[i], above, in_slot && i == 0, cause, &made);
        if (cause)
            release_error(state, cause);
        cause = made;
    }
    *error = cause;
    return failed;
}

int sspy_error_for(sspy_state *state, PyObject *exc, const void *above, bool in_slot,
                   IScriptErrorInfo **error)
{
    sspy_anchor *anchor = sspy_anchor_of(state->interp, exc);
    PyObject *chain[SSPY_MAX_CAUSES];
    int count, failed;

    *error = NULL;
    if (anchor && anchor->error) {
        *error = sspy_anchor_hold(anchor, exc);
        return 0;
    }
    count = collect_chain(state, exc, chain);
    failed = error_for_chain(state, chain, count, above, in_slot, error);
    for (int i = 0; i < count; i++)
        Py_DECREF(chain[i]);
    return failed;
}

sspy_exception *sspy_wrap(sspy_state *state, PyObject *exc, const void *above)
{
    PyObject *chain[SSPY_MAX_CAUSES];
    IScriptErrorInfo *cause = NULL;
    sspy_exception *wrapped = NULL;
    int count = collect_chain(state, exc, chain);

    if (!error_for_chain(state, chain + 1, count - 1, above, false, &cause))
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
    BSTR description = NULL, message = NULL, sid = NULL;
    HRESULT hr = E_FAIL;

    (void)restricted->lpVtbl->GetErrorDetails(restricted, &description, &hr, &message, &sid);
    SysFreeString(description);
    SysFreeString(message);
    SysFreeString(sid);
    (void)SetRestrictedErrorInfo(restricted);
    sspy_unknown_release(restricted);
    sspy_leave(section);
    return hr;
}

HRESULT sspy_originate(sspy_state *state, PyObject *exc, const void *above)
{
    IScriptErrorInfo *error = NULL;
    HRESULT hr;

    if (sspy_error_for(state, exc, above, true, &error)) {
        PyErr_Clear();
        RoOriginateError(E_OUTOFMEMORY, NULL);
        return E_OUTOFMEMORY;
    }
    if (!error)
        return sspy_hresult_of(state, exc); /* origination is switched off */
    hr = put_into_slot(state, error);
    release_error(state, error);
    return hr;
}
