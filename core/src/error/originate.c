/* The thread's slot, and the functions that put errors into it. */
#include "error/error.h"

#include "base/thread.h"
#include "base/utf.h"
#include "splice/splice.h"

#include <pthread.h>
#include <stacksplice/winrt/rtlsupportapi.h>
#include <string.h>

/* ---- The slot --------------------------------------------------------------------------------*/

enum { MOST_INTRUDERS = 8 };

typedef struct slot_state {
    stacksplice_anchor anchor; /* the part that debuggers read */
    IErrorInfo *info;          /* owned, or NULL */
    ss_record *record;         /* the same object if it is ours, else NULL */
    bool has_destructor;
    stacksplice_entry *entry; /* by which debuggers find the anchor */
} slot_state;

static _Thread_local slot_state slot = {
    .anchor = {STACKSPLICE_ANCHOR_SIGNATURE, STACKSPLICE_INSPECT_VERSION, 0}};

static pthread_key_t key;
static bool has_key; /* (RO) after load */

/* Put INFO (with its reference, or NULL) into the slot; returns the old content with its reference, or
   NULL. */
static IErrorInfo *exchange(IErrorInfo *info)
{
    /* Ask first: a foreign object may itself use the slot. */
    ss_record *record = info ? ss_record_from((IUnknown *)(void *)info) : NULL;
    IErrorInfo *old = slot.info;

    /* A foreign object that forwards QueryInterface to an error of ours is not that error. */
    if (record && &record->IErrorInfo_iface != info)
        record = NULL;
    atomic_signal_fence(memory_order_release); /* the error is complete for who stops us here */
    slot.record = record;
    slot.anchor.error = slot.record ? (uintptr_t)&slot.record->fixed : 0;
    slot.info = info;
    atomic_signal_fence(memory_order_acquire); /* OLD is not released before */
    return old;
}

/*
 * Without a key (the process has used all), an error still in the slot at thread exit leaks, and
 * debuggers do not find it: nothing would free the entry.
 */
static void ensure_destructor(void)
{
    if (slot.has_destructor || !has_key)
        return;
    slot.has_destructor = pthread_setspecific(key, &slot) == 0;
    if (slot.has_destructor && !slot.entry)
        slot.entry = ss_entry_add(STACKSPLICE_ENTRY_THREAD, &slot.anchor, ss_thread_id());
}

/*
 * Put INFO (with its reference, or NULL) into the slot and release the old content.  The release
 * runs foreign code, which may originate an error; that error is released, too.
 */
static void slot_put(IErrorInfo *info)
{
    IErrorInfo *old = exchange(NULL);

    for (int i = 0; old && i < MOST_INTRUDERS; i++) {
        old->lpVtbl->Release(old);
        old = exchange(NULL);
    }
    if (old)
        old->lpVtbl->Release(old);
    if (info)
        ensure_destructor();
    old = exchange(info);
    if (old)
        old->lpVtbl->Release(old);
}

/* Runs late in a thread's life, and again if a later destructor originated an error. */
static void at_thread_exit(void *unused)
{
    (void)unused;
    slot.has_destructor = false;
    slot_put(NULL);
    if (slot.has_destructor)
        return;
    ss_entry_free(slot.entry);
    slot.entry = NULL;
}

static void at_fork(void)
{
    ss_entries_free_others(STACKSPLICE_ENTRY_THREAD, slot.entry);
    if (slot.entry)
        slot.entry->detail = ss_thread_id();
}

static ss_fork_hook fork_hook = {at_fork, NULL};

static __attribute__((constructor)) void begin(void)
{
    has_key = pthread_key_create(&key, at_thread_exit) == 0;
    ss_fork_child(&fork_hook);
}

const stacksplice_anchor *stacksplice_thread_anchor(void)
{
    return &slot.anchor;
}

/* ---- The public functions --------------------------------------------------------------------*/

HRESULT GetErrorInfo(ULONG reserved, IErrorInfo **info)
{
    if (reserved || !info)
        return E_INVALIDARG;
    *info = exchange(NULL);
    return *info ? S_OK : S_FALSE;
}

HRESULT SetErrorInfo(ULONG reserved, IErrorInfo *info)
{
    if (reserved)
        return E_INVALIDARG;
    if (info)
        info->lpVtbl->AddRef(info);
    slot_put(info);
    return S_OK;
}

HRESULT GetRestrictedErrorInfo(IRestrictedErrorInfo **error)
{
    ss_record *record = slot.record;
    IErrorInfo *info;

    if (!error)
        return E_POINTER;
    info = exchange(NULL);
    *error = record ? &record->IRestrictedErrorInfo_iface : NULL;
    if (record)
        return S_OK;
    if (info)
        info->lpVtbl->Release(info);
    return S_FALSE;
}

HRESULT SetRestrictedErrorInfo(IRestrictedErrorInfo *error)
{
    ss_record *record = ss_record_from((IUnknown *)(void *)error);

    if (error && !record)
        return E_INVALIDARG;
    return SetErrorInfo(0, record ? &record->IErrorInfo_iface : NULL);
}

void RoClearError(void)
{
    slot_put(NULL);
}

HRESULT stacksplice_peek_error(IRestrictedErrorInfo **error)
{
    if (!error)
        return E_POINTER;
    *error = slot.record ? &slot.record->IRestrictedErrorInfo_iface : NULL;
    if (!*error)
        return S_FALSE;
    ss_error_add_ref(slot.record->error);
    return S_OK;
}

HRESULT stacksplice_save_error(stacksplice_saved_error *saved)
{
    if (!saved)
        return E_POINTER;
    saved->slot = exchange(NULL);
    saved->thread = &slot;
    return S_OK;
}

HRESULT stacksplice_restore_error(stacksplice_saved_error *saved)
{
    IErrorInfo *info;

    if (!saved)
        return E_POINTER;
    if (!saved->thread)
        return E_ILLEGAL_METHOD_CALL;
    if (saved->thread != &slot)
        return RPC_E_WRONG_THREAD;
    info = saved->slot;
    *saved = (stacksplice_saved_error){NULL, NULL};
    slot_put(info);
    return S_OK;
}

/* ---- Shared steps ----------------------------------------------------------------------------*/

/* Set the caller's message: up to the first NUL, at most LIMIT units. */
static void set_message(ss_origin *origin, const WCHAR *text, size_t limit)
{
    uint32_t length = 0;

    if (limit > SS_MAX_MESSAGE)
        limit = SS_MAX_MESSAGE;
    while (text && length < limit && text[length])
        length++;
    origin->message = length ? text : NULL;
    origin->length = length;
}

static void set_hstring(ss_origin *origin, HSTRING message)
{
    uint32_t length;
    const WCHAR *text = WindowsGetStringRawBuffer(message, &length);

    set_message(origin, text, length);
}

/* cchMax of the W functions: 0 means up to the NUL. */
static void set_counted(ss_origin *origin, UINT max_chars, PCWSTR message)
{
    set_message(origin, message, max_chars ? max_chars : SS_MAX_MESSAGE);
}

/*
 * Store a new error.  Returns S_OK, or E_OUTOFMEMORY with the slot empty.  An error for
 * E_OUTOFMEMORY always succeeds, with the static object if necessary.
 */
static HRESULT store_new(const ss_origin *origin)
{
    ss_error *error = ss_error_new(origin);

    if (!error && origin->hr == E_OUTOFMEMORY)
        error = ss_error_out_of_memory();
    slot_put(error ? &error->record.IErrorInfo_iface : NULL);
    return error ? S_OK : E_OUTOFMEMORY;
}

/* Whether errors are stored in the slot. */
static bool flags_store(void)
{
    return (ss_flags_get() &
            (RO_ERROR_REPORTING_USESETERRORINFO | RO_ERROR_REPORTING_SUPPRESSSETERRORINFO)) ==
           RO_ERROR_REPORTING_USESETERRORINFO;
}

/* Returns S_FALSE when the flags forbid storing; the slot then keeps its content. */
static HRESULT originate(const ss_origin *origin)
{
    return flags_store() ? store_new(origin) : S_FALSE;
}

/* The slot's error if it is for HR, else NULL. */
static ss_record *match(HRESULT hr)
{
    ss_record *record = slot.record;

    return record && record->fixed.hresult == hr ? record : NULL;
}

/* ---- Origination -----------------------------------------------------------------------------*/

BOOL RoOriginateError(HRESULT error, HSTRING message)
{
    ss_origin origin = {.hr = error, .above = SS_HERE()};

    if (SUCCEEDED(error))
        return FALSE;
    set_hstring(&origin, message);
    return SUCCEEDED(originate(&origin));
}

BOOL RoOriginateErrorW(HRESULT error, UINT max_chars, PCWSTR message)
{
    ss_origin origin = {.hr = error, .above = SS_HERE()};

    if (SUCCEEDED(error))
        return FALSE;
    set_counted(&origin, max_chars, message);
    return SUCCEEDED(originate(&origin));
}

BOOL RoOriginateLanguageException(HRESULT error, HSTRING message, IUnknown *language_exception)
{
    ss_origin origin = {.hr = error, .language_exception = language_exception, .above = SS_HERE()};

    if (SUCCEEDED(error))
        return FALSE;
    set_hstring(&origin, message);
    return SUCCEEDED(originate(&origin));
}

stacksplice_hresult stacksplice_originate(stacksplice_hresult hr, const char *message,
                                          size_t length, IUnknown *language_exception,
                                          IRestrictedErrorInfo **error)
{
    WCHAR text[SS_MAX_MESSAGE];
    ss_origin origin = {.hr = hr, .language_exception = language_exception, .above = SS_HERE()};
    HRESULT result;

    if (SUCCEEDED(hr))
        return E_INVALIDARG;
    if (message)
        set_message(&origin, text, ss_utf16_from_utf8(message, length, text, SS_MAX_MESSAGE));
    result = originate(&origin);
    if (error && SUCCEEDED(result))
        *error = NULL;
    if (error && result == S_OK)
        (void)stacksplice_peek_error(error);
    return FAILED(result) ? result : S_OK;
}

/* ---- Transformation --------------------------------------------------------------------------*/

static BOOL transform(ss_origin *origin, HRESULT old)
{
    ss_record *record;
    ss_error *previous;
    HRESULT hr;

    if (SUCCEEDED(origin->hr)) {
        RoClearError(); /* the caller has handled it */
        return TRUE;
    }
    if (!flags_store())
        return TRUE;
    record = FAILED(old) ? match(old) : NULL;
    previous = origin->previous = record ? record->error : NULL;
    /* The host's allocator may empty the slot. */
    if (previous)
        ss_error_add_ref(previous);
    hr = store_new(origin);
    if (previous)
        ss_error_release(previous);
    return SUCCEEDED(hr);
}

static bool nothing_to_transform(HRESULT old, HRESULT new)
{
    return old == new || (SUCCEEDED(old) && SUCCEEDED(new));
}

BOOL RoTransformError(HRESULT old_error, HRESULT new_error, HSTRING message)
{
    ss_origin origin = {.hr = new_error, .above = SS_HERE()};

    if (nothing_to_transform(old_error, new_error))
        return FALSE;
    set_hstring(&origin, message);
    return transform(&origin, old_error);
}

BOOL RoTransformErrorW(HRESULT old_error, HRESULT new_error, UINT max_chars, PCWSTR message)
{
    ss_origin origin = {.hr = new_error, .above = SS_HERE()};

    if (nothing_to_transform(old_error, new_error))
        return FALSE;
    set_counted(&origin, max_chars, message);
    return transform(&origin, old_error);
}

/* ---- Matching, context, propagation ----------------------------------------------------------*/

HRESULT RoGetMatchingRestrictedErrorInfo(HRESULT hr, IRestrictedErrorInfo **error)
{
    ss_origin origin = {.hr = hr, .above = SS_HERE()};
    HRESULT result;

    if (!error)
        return E_POINTER;
    *error = NULL;
    if (SUCCEEDED(hr))
        return E_UNEXPECTED;
    if (!match(hr)) {
        result = originate(&origin);
        if (result != S_OK) {
            RoClearError();
            return FAILED(result) ? result : E_UNEXPECTED;
        }
    }
    return GetRestrictedErrorInfo(error);
}

/* Add a node to the slot's error for CODE; make an error if there is none. */
static HRESULT propagate(HRESULT code, const ss_arrival *arrival)
{
    ss_record *record = match(code);
    ss_error *error;
    HRESULT hr = S_OK;

    if (SUCCEEDED(code))
        return E_INVALIDARG;
    if (ss_flags_get() & RO_ERROR_REPORTING_SUPPRESSSETERRORINFO)
        return S_OK;
    if (!record) {
        hr = originate(&(ss_origin){.hr = code, .above = arrival->above});
        record = hr == S_OK ? match(code) : NULL;
    }
    if (!record)
        return FAILED(hr) ? hr : S_OK;
    /* The exception's methods may empty the slot. */
    error = record->error;
    ss_error_add_ref(error);
    hr = ss_error_add_node(error, arrival);
    ss_error_release(error);
    return hr;
}

HRESULT RoCaptureErrorContext(HRESULT hr)
{
    ss_origin origin = {.hr = hr, .above = SS_HERE()};
    HRESULT result;

    if (SUCCEEDED(hr))
        return S_OK;
    if (match(hr))
        return propagate(hr, &(ss_arrival){.above = origin.above});
    result = originate(&origin);
    return FAILED(result) ? result : S_OK;
}

stacksplice_hresult stacksplice_propagate(stacksplice_hresult hr, IUnknown *language_exception)
{
    return propagate(hr,
                     &(ss_arrival){.language_exception = language_exception, .above = SS_HERE()});
}

stacksplice_hresult stacksplice_propagate_above(const void *frame_address, stacksplice_hresult hr,
                                                const char *language)
{
    return propagate(hr, &(ss_arrival){.receiver = language, .above = frame_address});
}

/* ---- Native stacks under their Windows names --------------------------------------------------*/

USHORT RtlCaptureStackBackTrace(ULONG frames_to_skip, ULONG frames_to_capture, PVOID *back_trace,
                                PULONG hash)
{
    uint32_t most = frames_to_capture < UINT16_MAX ? frames_to_capture : UINT16_MAX;

    if (hash)
        *hash = 0;
    if (!back_trace || !most)
        return 0;
    return (USHORT)ss_capture_native(SS_HERE(), frames_to_skip, most, (uintptr_t *)back_trace,
                                     hash);
}

ULONG RtlWalkFrameChain(PVOID *callers, ULONG count, ULONG flags)
{
    if (!callers || !count || flags)
        return 0;
    return ss_capture_native(SS_HERE(), 0, count, (uintptr_t *)callers, NULL);
}
