/* What readers ask of errors: their values for reports, and the public functions that tell one. */
#include "error/error.h"

#include "base/alloc.h"
#include "splice/unloaded.h"

#include <stacksplice/source.h>
#include <stddef.h>
#include <string.h>

/* ---- Errors by value, for reports ------------------------------------------------------------*/

static void settle(_Atomic uint64_t *epoch, uintptr_t *frames, uint32_t count)
{
    atomic_store(epoch, ss_settle(frames, count, atomic_load(epoch)));
}

/* The stack of a node, or with which an error was made. */
static const uintptr_t *captured_of(ss_record *record, uint32_t *count)
{
    bool of_node = ss_record_is_node(record);
    const uintptr_t *frames = of_node ? ss_record_frames(record, count) : record->error->captured;

    if (!of_node)
        *count = record->error->captured_count;
    settle(&record->epoch, (uintptr_t *)(uintptr_t)frames, *count);
    return frames;
}

static const uintptr_t *frames_of(ss_record *record, uint32_t *count)
{
    const uintptr_t *frames = ss_record_frames(record, count);
    ss_longer_stack *longer;

    if (ss_record_is_node(record) || frames == record->error->captured)
        return captured_of(record, count);
    longer = (ss_longer_stack *)((uintptr_t)frames - offsetof(ss_longer_stack, frames));
    settle(&longer->epoch, longer->frames, longer->count);
    return frames;
}

static void fill(ss_record *record, ss_error_view *view)
{
    const ss_error *error = record->error;
    bool of_node = ss_record_is_node(record);
    uint32_t length, count, captured_count;
    const uintptr_t *frames = frames_of(record, &count);
    const uintptr_t *captured = captured_of(record, &captured_count);

    *view = (ss_error_view){
        .identity = record,
        .is_node = of_node,
        .hresult = record->fixed.hresult,
        .description = ss_error_description(error, &length),
        .message = ss_error_text(error, &length),
        .taken_at = record->taken_at,
        .thread_id = record->fixed.thread_id,
        .frames = frames,
        .frame_count = count,
        .captured = captured,
        .captured_count = captured_count,
        .language_exception = record->language.object,
        .exception = record->language.exception,
    };
    if (of_node) {
        view->receiver = ((const ss_node *)(const void *)record)->receiver;
        return;
    }
    view->relation = (stacksplice_relation)error->relation;
    view->causes_left_out = error->causes_left_out;
}

bool ss_error_view_get(IUnknown *error, ss_error_view *view)
{
    ss_record *record = ss_record_from(error);

    if (record)
        fill(record, view);
    return record != NULL;
}

uint32_t ss_error_reference(IUnknown *error, WCHAR out[SS_REFERENCE_UNITS])
{
    const ss_record *record = ss_record_from(error);

    out[0] = 0;
    return record && !ss_record_is_node(record) ? ss_error_put_reference(record->error, out) : 0;
}

void ss_error_each_node(IUnknown *error, bool (*back)(const ss_error_view *node, void *data),
                        void *data)
{
    ss_node *nodes[SS_MAX_NODES];
    ss_record *record = ss_record_from(error);
    size_t count = 0;
    ss_error_view view;

    if (!record || ss_record_is_node(record))
        return;
    for (ss_node *node = atomic_load(&record->error->head); node; node = node->previous)
        nodes[count++] = node;
    while (count > 0) {
        fill(&nodes[--count]->record, &view);
        if (!back(&view, data))
            return;
    }
}

IUnknown *ss_error_previous(IUnknown *error)
{
    ss_record *record = ss_record_from(error);

    return record && !ss_record_is_node(record) ? record->error->previous.object : NULL;
}

/* ---- The public accessors --------------------------------------------------------------------*/

/* Copy the stack that STACK_OF tells of OBJECT. */
static HRESULT copy_stack(IUnknown *object,
                          const uintptr_t *(*stack_of)(ss_record *record, uint32_t *count),
                          uint32_t max_frames, uintptr_t *frames, uint32_t *captured)
{
    ss_record *record;
    HRESULT hr = ss_record_asked(object, captured, &record);
    const uintptr_t *from;
    uint32_t count, stored;

    if (!frames && max_frames)
        return E_POINTER;
    if (FAILED(hr))
        return hr;
    (void)ss_code_epoch();
    from = stack_of(record, &count);
    stored = count < max_frames ? count : max_frames;
    if (stored)
        memcpy(frames, from, stored * sizeof *frames);
    *captured = max_frames ? stored : count;
    return count > max_frames ? S_FALSE : S_OK;
}

stacksplice_hresult stacksplice_error_stack(IUnknown *error, uint32_t max_frames, uintptr_t *frames,
                                            uint32_t *captured)
{
    return copy_stack(error, frames_of, max_frames, frames, captured);
}

stacksplice_hresult stacksplice_error_captured(IUnknown *error, uint32_t max_frames,
                                               uintptr_t *frames, uint32_t *captured)
{
    return copy_stack(error, captured_of, max_frames, frames, captured);
}

stacksplice_hresult stacksplice_error_thread(IUnknown *error, uint64_t *thread_id)
{
    ss_record *record;
    HRESULT hr = ss_record_asked(error, thread_id, &record);

    if (record)
        *thread_id = record->fixed.thread_id;
    return hr;
}

stacksplice_hresult stacksplice_node_language(IUnknown *node, const char **language)
{
    ss_record *record;
    HRESULT hr = ss_record_asked(node, language, &record);

    if (FAILED(hr) || !ss_record_is_node(record))
        return FAILED(hr) ? hr : E_INVALIDARG;
    *language = ((ss_node *)(void *)record)->receiver;
    return S_OK;
}

stacksplice_hresult stacksplice_error_hresult(IUnknown *error, stacksplice_hresult *hr)
{
    ss_record *record;
    HRESULT result = ss_record_asked(error, hr, &record);

    if (record)
        *hr = record->fixed.hresult;
    return result;
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

    if (FAILED(hr))
        return hr;
    origin = origin_of(record);
    *cause = origin ? ss_query(origin->previous.object, &IID_IRestrictedErrorInfo) : NULL;
    if (relation)
        *relation = *cause ? (stacksplice_relation)origin->relation : STACKSPLICE_RELATION_NONE;
    return *cause ? S_OK : S_FALSE;
}

stacksplice_hresult stacksplice_error_depth(IUnknown *error, uint32_t *depth)
{
    ss_record *record;
    HRESULT hr = ss_record_asked(error, depth, &record);

    if (record)
        *depth = origin_of(record) ? record->error->depth : 0;
    return hr;
}

/* That of an error, not of a node; or NULL. */
static IScriptException *exception_of(const ss_record *record)
{
    return origin_of(record) ? record->language.exception : NULL;
}

stacksplice_hresult stacksplice_error_group(IUnknown *error, uint32_t *members, uint32_t *left_out)
{
    uint32_t counts[2] = {0, 0};
    ss_record *record;
    HRESULT hr = ss_record_asked(error, counts, &record);
    IScriptException *x;
    int is_group;

    if (FAILED(hr))
        return hr;
    x = exception_of(record);
    is_group = x && x->lpVtbl->GetGroup(x, &counts[0], &counts[1]);
    if (members)
        *members = is_group ? counts[0] : 0;
    if (left_out)
        *left_out = is_group ? counts[1] : 0;
    return is_group ? S_OK : S_FALSE;
}

stacksplice_hresult stacksplice_error_member(IUnknown *error, uint32_t index,
                                             IRestrictedErrorInfo **member)
{
    ss_record *record;
    HRESULT hr = ss_record_asked(error, member, &record);
    IScriptException *x;

    if (FAILED(hr))
        return hr;
    *member = NULL;
    x = exception_of(record);
    if (x)
        (void)x->lpVtbl->GetMember(x, index, member);
    return *member ? S_OK : S_FALSE;
}

/* ---- Notes -----------------------------------------------------------------------------------*/

/* False when CALLBACK stopped it. */
static bool tell_notes_of_exception(IScriptException *x, stacksplice_note_callback callback,
                                    void *data)
{
    const char *text;
    size_t length = 0;

    for (uint32_t i = 0; x && (text = x->lpVtbl->GetNote(x, i, &length)) != NULL; i++)
        if (callback(text, length, data))
            return false;
    return true;
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
    if (!tell_notes_of_exception(record->error->record.language.exception, callback, data))
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

/* ---- Found by its reference -------------------------------------------------------------------*/

static bool equal(const WCHAR *a, const WCHAR *b)
{
    for (; *a == *b; a++, b++) {
        if (!*a)
            return true;
    }
    return false;
}

/* With a new reference, or NULL. */
static ss_error *find_by_reference(const WCHAR *reference)
{
    WCHAR of_static[SS_REFERENCE_UNITS];

    (void)ss_error_put_reference(ss_error_out_of_memory(), of_static);
    return equal(of_static, reference) ? ss_error_out_of_memory() : ss_registry_find(reference);
}

HRESULT RoResolveRestrictedErrorInfoReference(PCWSTR reference, IRestrictedErrorInfo **error)
{
    ss_error *found;

    if (!error)
        return E_POINTER;
    *error = NULL;
    found = reference ? find_by_reference(reference) : NULL;
    if (!found)
        return E_INVALIDARG;
    *error = &found->record.IRestrictedErrorInfo_iface;
    return S_OK;
}
