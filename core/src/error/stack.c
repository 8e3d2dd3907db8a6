#include "error/stack.h"

#include "base/alloc.h"
#include "base/platform.h"
#include "error/registry.h"
#include "splice/splice.h"
#include "splice/unloaded.h"

#include <stacksplice/source.h>
#include <stacksplice/winrt/rtlsupportapi.h>
#include <string.h>
#include <time.h>

enum { MOST_FRAMES = 65535 };

static _Atomic uint32_t max_frames = SS_DEFAULT_MAX_FRAMES; /* (ATOMIC) */

uint32_t stacksplice_max_frames(void)
{
    return atomic_load_explicit(&max_frames, memory_order_relaxed);
}

stacksplice_hresult stacksplice_set_max_frames(uint32_t limit)
{
    if (limit == 0 || limit > MOST_FRAMES)
        return E_INVALIDARG;
    atomic_store(&max_frames, limit);
    return S_OK;
}

/* Ask PROVIDER for frames; distrust one that claims more than there was room for. */
static uint32_t ask(ILanguageExceptionStackBackTrace *provider, uint32_t room, uintptr_t *frames)
{
    ULONG captured = 0;
    HRESULT hr = provider->lpVtbl->GetStackBackTrace(provider, room, frames, &captured);

    return FAILED(hr) || captured > room ? 0 : captured;
}

/*
 * PROVIDER filled the room for LIMIT frames and may have more.  Ask again for as many as possible,
 * and keep both ends.  The interface cannot report that there are still more.
 */
static void ask_for_both_ends(ILanguageExceptionStackBackTrace *provider, uint32_t limit,
                              uintptr_t *frames)
{
    uintptr_t *all = limit < MOST_FRAMES ? ss_alloc_dirty(MOST_FRAMES * sizeof *all) : NULL;
    uint32_t count = all ? ask(provider, MOST_FRAMES, all) : 0;

    if (count == MOST_FRAMES)
        all[count - 1] = stacksplice_left_out(0);
    if (count >= limit)
        (void)stacksplice_copy_ends(all, count, limit, frames);
    else
        frames[limit - 1] = stacksplice_left_out(0);
    ss_free(all);
}

/* The frames that LANGUAGE's object provides; 0 if it provides none. */
static uint32_t ask_provider(const ss_held *language, uint32_t limit, uintptr_t *frames)
{
    ILanguageExceptionStackBackTrace *provider = NULL;
    IUnknown *object = language->object;
    void *out = NULL;
    uint32_t count;

    if (!object)
        return 0;
    /* The contract asks for agility, but nothing here depends on the answer. */
    if (SUCCEEDED(object->lpVtbl->QueryInterface(object, &IID_IAgileObject, &out)) && out)
        ((IUnknown *)out)->lpVtbl->Release(out);
    out = NULL;
    if (FAILED(
            object->lpVtbl->QueryInterface(object, &IID_ILanguageExceptionStackBackTrace, &out)) ||
        !out)
        return 0;
    provider = out;
    count = ask(provider, limit, frames);
    if (count == limit && !language->exception) /* a binding already returns both ends */
        ask_for_both_ends(provider, limit, frames);
    provider->lpVtbl->Release(provider);
    return count;
}

/* The frames that LANGUAGE's object, held inside, keeps; NULL if there are none, or over LIMIT. */
static const uintptr_t *kept_frames(const ss_held *language, uint32_t limit, uint32_t *count)
{
    IScriptExceptionFrames *keeper;
    const uintptr_t *frames;
    void *out = NULL;

    if (!language->exception ||
        FAILED(language->object->lpVtbl->QueryInterface(
            language->object, &stacksplice_IID_IScriptExceptionFrames, &out)) ||
        !out)
        return NULL;
    keeper = out;
    *count = 0;
    frames = keeper->lpVtbl->GetFrames(keeper, count);
    keeper->lpVtbl->Release(keeper);
    return *count > 0 && *count <= limit ? frames : NULL;
}

/* Copy the provider's frames, or capture. */
static void take_new(ss_stack *stack, uint32_t limit, const ss_held *language, const void *above)
{
    uintptr_t *frames = stack->room;

    if (limit > SS_DEFAULT_MAX_FRAMES) {
        stack->heap = ss_alloc_dirty(limit * sizeof *stack->heap);
        if (stack->heap)
            frames = stack->heap;
        else
            limit = SS_DEFAULT_MAX_FRAMES;
    }
    stack->frames = frames;
    stack->count = ask_provider(language, limit, frames);
    if (!stack->count)
        (void)ss_capture_ends(above, 0, limit, frames, &stack->count);
    stack->to_store = stack->count;
}

/* No file that was written before has a later date. */
static int64_t now(void)
{
    struct timespec time = {0, 0};

    (void)clock_gettime(CLOCK_REALTIME, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

void ss_stack_take(ss_stack *stack, const ss_held *language, const void *above)
{
    uint32_t limit = stacksplice_max_frames();

    stack->heap = NULL;
    stack->to_store = 0;
    stack->frames = kept_frames(language, limit, &stack->count);
    if (!stack->frames)
        take_new(stack, limit, language, above);
    stack->epoch = ss_code_epoch();
    stack->taken_at = now();
}

void ss_stack_done(ss_stack *stack)
{
    ss_free(stack->heap);
}

void ss_stack_store(const ss_stack *stack, ss_record *record, uintptr_t *storage)
{
    if (stack->to_store)
        memcpy(storage, stack->frames, stack->to_store * sizeof *storage);
    record->fixed.frames = (uintptr_t)(stack->to_store ? storage : stack->frames);
    record->fixed.frame_count = stack->count;
    atomic_init(&record->epoch, stack->epoch);
    record->taken_at = stack->taken_at;
}

/* ---- A longer one later ----------------------------------------------------------------------*/

/* Whether STACK, of COUNT elements, is now ERROR's: only if it is longer, so that a reader who has
   the number of the shorter one reads no further than this one's end. */
static bool put_longer(ss_error *error, ss_longer_stack *stack, uint32_t count)
{
    stacksplice_record *fixed = &error->record.fixed;
    bool put;

    ss_registry_lock();
    put = error->longer_count < SS_MAX_LONGER && count >= fixed->frame_count;
    if (put) {
        error->longer_count++;
        stack->previous = error->longer;
        error->longer = stack;
        __atomic_store_n(&fixed->frames, (uintptr_t)stack->frames, __ATOMIC_RELEASE);
        __atomic_store_n(&fixed->frame_count, count, __ATOMIC_RELEASE);
    }
    ss_registry_unlock();
    return put;
}

stacksplice_hresult stacksplice_error_lengthen(IUnknown *object, const uintptr_t *frames,
                                               uint32_t count)
{
    ss_record *record;
    HRESULT hr = ss_record_asked(object, frames, &record);
    ss_longer_stack *stack;

    if (FAILED(hr))
        return hr;
    if (ss_record_is_node(record))
        return E_INVALIDARG;
    if (record->error->is_static || count > MOST_FRAMES)
        return S_FALSE;
    stack = ss_alloc_dirty(sizeof *stack + count * sizeof *frames);
    if (!stack)
        return E_OUTOFMEMORY;
    memcpy(stack->frames, frames, count * sizeof *frames);
    stack->count = count;
    atomic_init(&stack->epoch, ss_code_epoch());
    if (put_longer(record->error, stack, count))
        return S_OK;
    ss_free(stack);
    return S_FALSE;
}

/* ---- Backtrace -------------------------------------------------------------------------------*/

/* Native stacks under their Windows names. */

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
