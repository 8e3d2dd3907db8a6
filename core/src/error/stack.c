#include "error/stack.h"

#include "base/alloc.h"
#include "splice/splice.h"

#include <string.h>

enum { MOST_FRAMES = 65535 };

static _Atomic uint32_t max_frames = SS_DEFAULT_MAX_FRAMES; /* (ATOMIC) */

stacksplice_hresult stacksplice_set_max_frames(uint32_t limit)
{
    if (limit == 0 || limit > MOST_FRAMES)
        return E_INVALIDARG;
    atomic_store(&max_frames, limit);
    return S_OK;
}

/*
 * The frames that LANGUAGE's object gives itself; 0 if it does not.  A provider that claims more
 * than there was room for is not believed at all.
 */
static uint32_t ask_provider(const ss_held *language, uint32_t limit, uintptr_t *frames)
{
    ILanguageExceptionStackBackTrace *provider = NULL;
    IUnknown *object = language->object;
    void *out = NULL;
    ULONG captured = 0;
    HRESULT hr;

    if (!object)
        return 0;
    /* Agility is required of it but nothing here depends on the answer. */
    if (SUCCEEDED(object->lpVtbl->QueryInterface(object, &IID_IAgileObject, &out)) && out)
        ((IUnknown *)out)->lpVtbl->Release(out);
    out = NULL;
    hr = object->lpVtbl->QueryInterface(object, &IID_ILanguageExceptionStackBackTrace, &out);
    if (FAILED(hr) || !out)
        return 0;
    provider = out;
    hr = provider->lpVtbl->GetStackBackTrace(provider, limit, frames, &captured);
    provider->lpVtbl->Release(provider);
    return FAILED(hr) || captured > limit ? 0 : captured;
}

/* What the core sees, beside frames of a provider that knows nothing of us. */
static void take_native_too(ss_stack *stack, uint32_t limit, const void *above)
{
    stack->native = ss_alloc_dirty(limit * sizeof *stack->native);
    if (stack->native &&
        FAILED(ss_capture(above, 0, limit, stack->native, &stack->native_count, NULL)))
        stack->native_count = 0;
}

void ss_stack_take(ss_stack *stack, const ss_held *language, const void *above)
{
    uint32_t limit = atomic_load(&max_frames);
    HRESULT hr;

    stack->native = NULL;
    stack->count = stack->native_count = stack->left_out = 0;
    stack->heap = NULL;
    stack->frames = stack->room;
    if (limit > SS_DEFAULT_MAX_FRAMES) {
        stack->heap = ss_alloc_dirty(limit * sizeof *stack->heap);
        if (stack->heap)
            stack->frames = stack->heap;
        else
            limit = SS_DEFAULT_MAX_FRAMES;
    }
    stack->count = ask_provider(language, limit, stack->frames);
    if (stack->count) {
        if (!language->exception)
            take_native_too(stack, limit, above);
        return;
    }
    hr = ss_capture(above, 0, limit, stack->frames, &stack->count, NULL);
    if (FAILED(hr))
        stack->count = 0;
    stack->left_out = hr == S_FALSE;
}

void ss_stack_done(ss_stack *stack)
{
    ss_free(stack->heap);
    ss_free(stack->native);
}

size_t ss_stack_units(const ss_stack *stack)
{
    return (size_t)stack->count + stack->native_count;
}

void ss_stack_store(const ss_stack *stack, ss_record *record, uintptr_t *storage)
{
    memcpy(storage, stack->frames, stack->count * sizeof *storage);
    if (stack->native_count)
        memcpy(storage + stack->count, stack->native, stack->native_count * sizeof *storage);
    record->fixed.frames = (uintptr_t)storage;
    record->fixed.frame_count = stack->count;
    record->native_count = stack->native_count;
    record->left_out = stack->left_out;
}
