/* Causes, members and notes: taken when an error is made, and reported to readers. */
#include "error/related.h"

#include "base/alloc.h"
#include "error/registry.h"

#include <string.h>

/* ---- Taking ----------------------------------------------------------------------------------*/

static uint32_t depth_with(IUnknown *object)
{
    ss_record *record = ss_record_from(object);

    return record ? record->error->depth + 1u : object != NULL;
}

/* The cause that LANGUAGE_EXCEPTION reports, with a reference, or NULL. */
static IUnknown *ask_for_cause(IUnknown *language_exception)
{
    ILanguageExceptionTransform *transform;
    IRestrictedErrorInfo *cause = NULL;
    void *out = NULL;
    HRESULT hr;

    if (!language_exception ||
        FAILED(language_exception->lpVtbl->QueryInterface(
            language_exception, &IID_ILanguageExceptionTransform, &out)) ||
        !out)
        return NULL;
    transform = out;
    hr = transform->lpVtbl->GetTransformedRestrictedErrorInfo(transform, &cause);
    transform->lpVtbl->Release(transform);
    if (FAILED(hr) || !cause)
        return NULL;
    out = NULL;
    hr = cause->lpVtbl->QueryInterface(cause, &IID_ILanguageExceptionErrorInfo2, &out);
    cause->lpVtbl->Release(cause);
    return FAILED(hr) ? NULL : out;
}

/* The interface with a reference, or NULL. */
static IScriptExceptionDetails *details_of(IUnknown *exception)
{
    void *out = NULL;

    if (!exception || FAILED(exception->lpVtbl->QueryInterface(
                          exception, &stacksplice_IID_IScriptExceptionDetails, &out)))
        return NULL;
    return out;
}

/* One more than the depth of the deepest member; 0 without members. */
static uint32_t depth_of_members(IScriptExceptionDetails *details)
{
    uint32_t members = 0, left_out = 0, deepest = 0;

    if (!details->lpVtbl->GetGroup(details, &members, &left_out))
        return 0;
    for (uint32_t i = 0; i < members; i++) {
        IRestrictedErrorInfo *member = NULL;
        uint32_t depth;

        if (details->lpVtbl->GetMember(details, i, &member) != S_OK || !member)
            break;
        depth = depth_with((IUnknown *)(void *)member);
        if (depth > deepest)
            deepest = depth;
        member->lpVtbl->Release(member);
    }
    return deepest;
}

static void ask_details(ss_related *related, uint32_t *depth, IUnknown *exception)
{
    IScriptExceptionDetails *details = details_of(exception);
    stacksplice_relation relation;
    uint32_t members;

    if (!details)
        return;
    relation = details->lpVtbl->GetRelation(details, &related->causes_left_out);
    if (related->previous.object && relation == STACKSPLICE_RELATION_CONTEXT)
        related->relation = relation;
    members = depth_of_members(details);
    if (members > *depth)
        *depth = members;
    details->lpVtbl->Release(details);
}

void ss_related_take(ss_related *related, const ss_origin *origin)
{
    IUnknown *cause = NULL;
    uint32_t depth;

    memset(related, 0, sizeof *related);
    if (origin->previous) {
        ss_record *record = &origin->previous->record;

        ss_held_begin(&related->previous,
                      (IUnknown *)(void *)&record->ILanguageExceptionErrorInfo2_iface);
    } else {
        cause = ask_for_cause(origin->language_exception);
        ss_held_begin(&related->previous, cause);
        if (cause)
            cause->lpVtbl->Release(cause);
    }
    depth = depth_with(related->previous.object);
    /* Cut longer chains, so that a retry loop does not grow one without limit. */
    if (depth > SS_MAX_PREVIOUS) {
        ss_related_drop(related);
        depth = 0;
        related->causes_left_out = 1;
    }
    if (related->previous.object)
        related->relation = STACKSPLICE_RELATION_CAUSE;
    if (!origin->previous)
        ask_details(related, &depth, origin->language_exception);
    related->depth = (uint8_t)(depth < UINT8_MAX ? depth : UINT8_MAX);
}

void ss_related_drop(ss_related *related)
{
    ss_held_sleep(&related->previous);
    ss_held_end(&related->previous);
    memset(related, 0, sizeof *related);
}

/* ---- Causes and members ----------------------------------------------------------------------*/

/* ERROR's record unless it is a node. */
static const ss_error *origin_of(const ss_record *record)
{
    return ss_record_is_node(record) ? NULL : record->error;
}

stacksplice_hresult stacksplice_error_cause(IUnknown *error, IRestrictedErrorInfo **cause,
                                            stacksplice_relation *relation)
{
    ss_record *record;
    HRESULT hr = ss_record_asked(error, cause, &record);
    const ss_error *origin;
    void *out = NULL;

    if (FAILED(hr))
        return hr;
    origin = origin_of(record);
    if (origin && origin->previous.object)
        (void)origin->previous.object->lpVtbl->QueryInterface(origin->previous.object,
                                                              &IID_IRestrictedErrorInfo, &out);
    *cause = out;
    if (relation)
        *relation = out ? (stacksplice_relation)origin->relation : STACKSPLICE_RELATION_NONE;
    return out ? S_OK : S_FALSE;
}

stacksplice_hresult stacksplice_error_depth(IUnknown *error, uint32_t *depth)
{
    ss_record *record;
    HRESULT hr = ss_record_asked(error, depth, &record);

    if (record)
        *depth = origin_of(record) ? record->error->depth : 0;
    return hr;
}

stacksplice_hresult stacksplice_error_group(IUnknown *error, uint32_t *members, uint32_t *left_out)
{
    IScriptExceptionDetails *details = NULL;
    uint32_t counts[2] = {0, 0};
    ss_record *record;
    HRESULT hr = ss_record_asked(error, counts, &record);
    int is_group = 0;

    if (FAILED(hr))
        return hr;
    if (origin_of(record))
        details = details_of(record->language.object);
    if (details) {
        is_group = details->lpVtbl->GetGroup(details, &counts[0], &counts[1]);
        details->lpVtbl->Release(details);
    }
    if (members)
        *members = is_group ? counts[0] : 0;
    if (left_out)
        *left_out = is_group ? counts[1] : 0;
    return is_group ? S_OK : S_FALSE;
}

stacksplice_hresult stacksplice_error_member(IUnknown *error, uint32_t index,
                                             IRestrictedErrorInfo **member)
{
    IScriptExceptionDetails *details = NULL;
    IRestrictedErrorInfo *found = NULL;
    ss_record *record;
    HRESULT hr = ss_record_asked(error, member, &record);

    if (FAILED(hr))
        return hr;
    if (origin_of(record))
        details = details_of(record->language.object);
    if (details) {
        (void)details->lpVtbl->GetMember(details, index, &found);
        details->lpVtbl->Release(details);
    }
    *member = found;
    return found ? S_OK : S_FALSE;
}

/* ---- Notes -----------------------------------------------------------------------------------*/

/* False when CALLBACK stopped it. */
static bool tell_notes_of_exception(IUnknown *exception, stacksplice_note_callback callback,
                                    void *data)
{
    IScriptExceptionDetails *details = details_of(exception);
    const char *text;
    size_t length = 0;
    bool go_on = true;

    for (uint32_t i = 0; details && go_on; i++) {
        text = details->lpVtbl->GetNote(details, i, &length);
        if (!text)
            break;
        go_on = !callback(text, length, data);
    }
    if (details)
        details->lpVtbl->Release(details);
    return go_on;
}

stacksplice_hresult stacksplice_error_notes(IUnknown *error, stacksplice_note_callback callback,
                                            void *data)
{
    const ss_note *notes[SS_MAX_NOTES];
    ss_record *record;
    HRESULT hr = ss_record_asked(error, (const void *)(uintptr_t)callback, &record);
    size_t count = 0;

    if (FAILED(hr))
        return hr;
    if (!tell_notes_of_exception(record->error->record.language.object, callback, data))
        return S_FALSE;
    for (const ss_note *note = atomic_load(&record->error->notes); note; note = note->previous)
        notes[count++] = note;
    while (count > 0) {
        const ss_note *note = notes[--count];

        if (callback(note->text, note->length, data))
            return S_FALSE;
    }
    return S_OK;
}

static bool link_note(ss_error *error, ss_note *note)
{
    bool linked = false;

    ss_registry_lock();
    if (error->note_count < SS_MAX_NOTES) {
        error->note_count++;
        note->previous = atomic_load(&error->notes);
        atomic_store(&error->notes, note);
        linked = true;
    }
    ss_registry_unlock();
    return linked;
}

stacksplice_hresult stacksplice_add_note(IUnknown *error, const char *text, size_t length)
{
    ss_record *record;
    HRESULT hr = ss_record_asked(error, length ? text : "", &record);
    ss_note *note;

    if (FAILED(hr))
        return hr;
    if (record->error->is_static)
        return S_FALSE;
    if (length >= SIZE_MAX - sizeof *note)
        return E_OUTOFMEMORY;
    note = ss_alloc_dirty(sizeof *note + length + 1);
    if (!note)
        return E_OUTOFMEMORY;
    note->previous = NULL;
    note->length = length;
    if (length)
        memcpy(note->text, text, length);
    note->text[length] = 0;
    if (link_note(record->error, note))
        return S_OK;
    ss_free(note);
    return S_FALSE;
}
