/* The functions that put errors into the slot. */
#include "com/messages.h"
#include "com/utf.h"
#include "error/error.h"
#include "error/flags.h"
#include "error/record.h"
#include "error/registry.h"
#include "error/slot.h"

#include <string.h>

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

/* Convert cchMax of the W functions: 0 means up to the NUL. */
static void set_counted(ss_origin *origin, UINT max_chars, PCWSTR message)
{
    set_message(origin, message, max_chars ? max_chars : SS_MAX_MESSAGE);
}

/* Raise the event with the new error's text. */
static void raise_event(const ss_origin *origin, bool transformed, HRESULT old)
{
    WCHAR ended[SS_MAX_MESSAGE + 1];
    const WCHAR *text = ended;
    uint32_t length = origin->length;

    if (origin->message) {
        memcpy(ended, origin->message, length * sizeof *ended);
        ended[length] = 0;
    } else {
        text = ss_message_text(origin->hr, &length);
    }
    ss_event_raise(transformed, old, origin->hr, text, length);
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
    ss_slot_put(error ? &error->record.IErrorInfo_iface : NULL);
    return error ? S_OK : E_OUTOFMEMORY;
}

/* Returns S_FALSE when the flags forbid storing; the slot then keeps its content. */
static HRESULT originate(const ss_origin *origin)
{
    raise_event(origin, false, S_OK);
    return ss_flags_store() ? store_new(origin) : S_FALSE;
}

/* The slot's error if it is for HR, else NULL. */
static ss_record *match(HRESULT hr)
{
    ss_record *record = ss_slot_peek();

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

    raise_event(origin, true, old);
    if (SUCCEEDED(origin->hr)) {
        RoClearError(); /* the caller has handled it */
        return TRUE;
    }
    if (!ss_flags_store())
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
    ss_arrival arrival = {.language_exception = language_exception, .above = SS_HERE()};

    if (SUCCEEDED(hr))
        return E_INVALIDARG;
    return propagate(hr, &arrival);
}

stacksplice_hresult stacksplice_propagate_above(const void *frame_address, stacksplice_hresult hr,
                                                const char *language)
{
    ss_arrival arrival = {.receiver = language, .above = frame_address};

    if (SUCCEEDED(hr))
        return E_INVALIDARG;
    return propagate(hr, &arrival);
}

HRESULT RoResolveRestrictedErrorInfoReference(PCWSTR reference, IRestrictedErrorInfo **error)
{
    ss_error *found;

    if (!error)
        return E_POINTER;
    *error = NULL;
    found = reference ? ss_registry_find(reference, ss_error_out_of_memory()) : NULL;
    if (!found)
        return E_INVALIDARG;
    *error = &found->record.IRestrictedErrorInfo_iface;
    return S_OK;
}
