/* Errors by value, for reports; and the accessors of the public header. */
#include "error/view.h"

#include "error/registry.h"
#include "splice/unloaded.h"

#include <stddef.h>
#include <string.h>

static void settle(_Atomic uint64_t *epoch, uintptr_t *frames, uint32_t count)
{
    atomic_store(epoch, ss_settle(frames, count, atomic_load(epoch)));
}

/* The stack of a node, or with which an error was made. */
static const uintptr_t *captured_of(ss_record *record, uint32_t *count)
{
    bool is_node = ss_record_is_node(record);
    const uintptr_t *frames = is_node ? ss_record_frames(record, count) : record->error->captured;

    if (!is_node)
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
    bool is_node = record != &error->record;
    uint32_t length, count, captured_count;
    const uintptr_t *frames = frames_of(record, &count);
    const uintptr_t *captured = captured_of(record, &captured_count);

    *view = (ss_error_view){
        .identity = record,
        .is_node = is_node,
        .hresult = record->fixed.hresult,
        .description = ss_error_description(error, &length),
        .message = ss_error_message(error, &length),
        .taken_at = record->taken_at,
        .thread_id = record->fixed.thread_id,
        .frames = frames,
        .frame_count = count,
        .frames_left_out = stacksplice_frames_left_out(frames, count),
        .captured = captured,
        .captured_count = captured_count,
        .language_exception = record->language.object,
    };
    if (is_node) {
        view->receiver = ((const ss_node *)(const void *)record)->receiver;
        return;
    }
    ss_registry_reference(error, view->reference);
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
