/* Errors and their propagation nodes: how they are made, what they hold, and their interfaces. */
#include "error/error.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "com/messages.h"
#include "splice/unloaded.h"

#include <stacksplice/source.h>
#include <stddef.h>
#include <string.h>

/* ---- Records ---------------------------------------------------------------------------------*/

/*
 * The interface by which an object tells that it is a record of this library, or of another copy of
 * it in the process.  QueryInterface returns the record, without a reference.  The last byte
 * changes with the layout of ss_record and ss_error.
 */
static const IID record_iid = {
    0x3ad6a0b8, 0x5ad1, 0x4be9, {0x97, 0x0e, 0x6c, 0x1d, 0x1f, 0x5e, 0x52, 0x05}};

void *ss_query(void *object, REFIID iid)
{
    IUnknown *unknown = object;
    void *out = NULL;

    if (!unknown || FAILED(unknown->lpVtbl->QueryInterface(unknown, iid, &out)))
        return NULL;
    return out;
}

ss_record *ss_record_from(IUnknown *object)
{
    return ss_query(object, &record_iid);
}

HRESULT ss_record_asked(IUnknown *object, const void *out, ss_record **record)
{
    *record = NULL;
    if (!object || !out)
        return E_POINTER;
    *record = ss_record_from(object);
    return *record ? S_OK : E_INVALIDARG;
}

const WCHAR *ss_error_description(const ss_error *error, uint32_t *length)
{
    return ss_message_text(error->record.fixed.hresult, length);
}

const WCHAR *ss_error_text(const ss_error *error, uint32_t *length)
{
    *length = error->message_length;
    return error->message ? error->message : ss_error_description(error, length);
}

/* ---- Flags -----------------------------------------------------------------------------------*/

enum { ALL_FLAGS = 0xF };

static _Atomic uint32_t flags = RO_ERROR_REPORTING_USESETERRORINFO; /* (ATOMIC) */

uint32_t ss_flags_get(void)
{
    return atomic_load_explicit(&flags, memory_order_relaxed);
}

HRESULT RoGetErrorReportingFlags(UINT32 *out)
{
    if (!out)
        return E_POINTER;
    *out = ss_flags_get();
    return S_OK;
}

HRESULT RoSetErrorReportingFlags(UINT32 value)
{
    if (value & ~(UINT32)ALL_FLAGS)
        return E_INVALIDARG;
    atomic_store(&flags, value);
    return S_OK;
}

BOOL IsErrorPropagationEnabled(void)
{
    return TRUE;
}

/* ---- The stack that a record stores ----------------------------------------------------------*/

enum { DEFAULT_MAX_FRAMES = 512, MOST_FRAMES = 65535 };

typedef struct captured_stack {
    const uintptr_t *frames;
    uint32_t count;
    uint64_t epoch;    /* see ss_code_epoch */
    int64_t taken_at;  /* nanoseconds since 1970 of the clock by which files are dated */
    uint32_t to_store; /* elements that a record has to store: 0 where the exception keeps them */
    uintptr_t *heap;   /* the memory of frames when the limit is above the default */
    uintptr_t space[DEFAULT_MAX_FRAMES];
} captured_stack;

static _Atomic uint32_t most_frames = DEFAULT_MAX_FRAMES; /* (ATOMIC) */

uint32_t stacksplice_max_frames(void)
{
    return atomic_load_explicit(&most_frames, memory_order_relaxed);
}

stacksplice_hresult stacksplice_set_max_frames(uint32_t limit)
{
    if (limit == 0 || limit > MOST_FRAMES)
        return E_INVALIDARG;
    atomic_store(&most_frames, limit);
    return S_OK;
}

/* Ask PROVIDER for frames; distrust one that claims more than MOST. */
static uint32_t ask(ILanguageExceptionStackBackTrace *provider, uint32_t most, uintptr_t *frames)
{
    ULONG captured = 0;
    HRESULT hr = provider->lpVtbl->GetStackBackTrace(provider, most, frames, &captured);

    return FAILED(hr) || captured > most ? 0 : captured;
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
    /* The contract asks for agility, but nothing here depends on the answer. */
    IUnknown *agile = ss_query(language->object, &IID_IAgileObject);
    ILanguageExceptionStackBackTrace *provider =
        ss_query(language->object, &IID_ILanguageExceptionStackBackTrace);
    uint32_t count;

    if (agile)
        agile->lpVtbl->Release(agile);
    if (!provider)
        return 0;
    count = ask(provider, limit, frames);
    if (count == limit && !language->exception) /* a binding already returns both ends */
        ask_for_both_ends(provider, limit, frames);
    provider->lpVtbl->Release(provider);
    return count;
}

/* The frames that LANGUAGE's object, held inside, keeps; NULL if there are none, or over LIMIT. */
static const uintptr_t *kept_frames(const ss_held *language, uint32_t limit, uint32_t *count)
{
    IScriptException *x = language->exception;
    const uintptr_t *frames = x ? x->lpVtbl->GetFrames(x, count) : NULL;

    return frames && *count > 0 && *count <= limit ? frames : NULL;
}

/* Copy the provider's frames, or capture. */
static void take_new(captured_stack *stack, uint32_t limit, const ss_held *language,
                     const void *above)
{
    uintptr_t *frames = stack->space;

    if (limit > DEFAULT_MAX_FRAMES) {
        stack->heap = ss_alloc_dirty(limit * sizeof *stack->heap);
        if (stack->heap)
            frames = stack->heap;
        else
            limit = DEFAULT_MAX_FRAMES;
    }
    stack->frames = frames;
    stack->count = ask_provider(language, limit, frames);
    if (!stack->count)
        (void)stacksplice_capture_ends(above, 0, limit, frames, &stack->count);
    stack->to_store = stack->count;
}

/*
 * Take the stack outside of ABOVE into STACK: that of LANGUAGE's object (may be NULL), or the
 * thread's.  The stack is optional: without memory it is empty.
 */
static void stack_take(captured_stack *stack, const ss_held *language, const void *above)
{
    uint32_t limit = stacksplice_max_frames();

    stack->heap = NULL;
    stack->to_store = 0;
    stack->frames = kept_frames(language, limit, &stack->count);
    if (!stack->frames)
        take_new(stack, limit, language, above);
    stack->epoch = ss_code_epoch();
    stack->taken_at = ss_wall_time();
}

/*
 * Point RECORD, which holds the language exception for life, to the frames.  Those that it has to
 * store are copied to STORAGE.
 */
static void stack_store(const captured_stack *stack, ss_record *record, uintptr_t *storage)
{
    if (stack->to_store)
        memcpy(storage, stack->frames, stack->to_store * sizeof *storage);
    record->fixed.frames = (uintptr_t)(stack->to_store ? storage : stack->frames);
    record->fixed.frame_count = stack->count;
    atomic_init(&record->epoch, stack->epoch);
    record->taken_at = stack->taken_at;
}

/* ---- Held ------------------------------------------------------------------------------------*/

/* The interface IID of OBJECT without a new reference: the caller holds OBJECT. */
static void *borrow_interface(IUnknown *object, REFIID iid)
{
    IUnknown *found = ss_query(object, iid);

    if (found)
        found->lpVtbl->Release(found);
    return found;
}

/* Start to hold OBJECT (may be NULL), awake.  Calls its AddRef and QueryInterface. */
static void held_begin(ss_held *held, IUnknown *object)
{
    *held = (ss_held){.object = object};
    if (!object)
        return;
    object->lpVtbl->AddRef(object);
    held->exception = borrow_interface(object, &stacksplice_IID_IScriptException);
    if (held->exception) {
        held->exception->lpVtbl->AddInside(held->exception);
        return;
    }
    held->error = borrow_interface(object, &stacksplice_IID_IScriptErrorInfo);
    if (held->error)
        held->error->lpVtbl->AddInside(held->error);
}

static void held_wake(const ss_held *held)
{
    if (held->exception || held->error)
        held->object->lpVtbl->AddRef(held->object);
}

static void held_sleep(const ss_held *held)
{
    if (held->exception || held->error)
        held->object->lpVtbl->Release(held->object);
}

/* Stop holding, while the holder sleeps. */
static void held_end(ss_held *held)
{
    if (held->exception)
        held->exception->lpVtbl->ReleaseInside(held->exception);
    else if (held->error)
        held->error->lpVtbl->ReleaseInside(held->error);
    else if (held->object)
        held->object->lpVtbl->Release(held->object);
    held->object = NULL;
}

/* ---- Lifetime --------------------------------------------------------------------------------*/

/*
 * The two counts of an error (see stacksplice/script.h).
 *
 * While the outside count is above 0, it holds one inside reference.  The memory is freed when the
 * inside count reaches 0.  The step from 0 to 1 wakes what the error holds; the step to 0 puts it
 * to sleep.  Both steps take the registry's lock, so a node added at that moment is woken exactly
 * once.  The held objects are called after the lock is released.  So the calls of two threads may
 * cross, but they always balance.
 */

/* Wake what ERROR holds, or put it to sleep. */
static void each_held(ss_error *error, ss_node *head, void (*act)(const ss_held *held))
{
    act(&error->record.language);
    act(&error->previous);
    for (ss_node *node = head; node; node = node->previous)
        act(&node->record.language);
}

/* Free NODE, which sleeps, and all older nodes. */
static void nodes_free(ss_node *node)
{
    while (node) {
        ss_node *previous = node->previous;

        node->record.fixed.signature = 0;
        held_end(&node->record.language);
        ss_free(node);
        node = previous;
    }
}

static void free_error(ss_error *error)
{
    ss_registry_remove(error);
    error->record.fixed.signature = 0;
    nodes_free(atomic_load(&error->head));
    for (ss_note *note = atomic_load(&error->notes), *previous; note; note = previous) {
        previous = note->previous;
        ss_free(note);
    }
    for (ss_longer_stack *stack = error->longer, *previous; stack; stack = previous) {
        previous = stack->previous;
        ss_free(stack);
    }
    held_end(&error->previous);
    held_end(&error->record.language);
    ss_free(error);
}

static ULONG add_first_ref(ss_error *error)
{
    ss_node *head;
    uint32_t before;

    ss_registry_lock();
    before = atomic_fetch_add(&error->outside, 1);
    if (before == 0)
        atomic_fetch_add(&error->inside, 1);
    head = atomic_load(&error->head);
    ss_registry_unlock();
    if (before == 0)
        each_held(error, head, held_wake);
    return before + 1;
}

static void release_inside(ss_error *error)
{
    if (!error->is_static && atomic_fetch_sub(&error->inside, 1) == 1)
        free_error(error);
}

static ULONG release_last_ref(ss_error *error)
{
    ss_node *head;
    uint32_t before;

    ss_registry_lock();
    before = atomic_fetch_sub(&error->outside, 1);
    head = atomic_load(&error->head);
    ss_registry_unlock();
    if (before == 1) {
        each_held(error, head, held_sleep);
        release_inside(error);
    }
    return before - 1;
}

ULONG ss_error_add_ref(ss_error *error)
{
    uint32_t refs = atomic_load_explicit(&error->outside, memory_order_relaxed);

    if (error->is_static)
        return 1;
    while (refs) {
        if (atomic_compare_exchange_weak(&error->outside, &refs, refs + 1))
            return refs + 1;
    }
    return add_first_ref(error);
}

ULONG ss_error_release(ss_error *error)
{
    uint32_t refs = atomic_load_explicit(&error->outside, memory_order_relaxed);

    if (error->is_static)
        return 1;
    while (refs > 1) {
        if (atomic_compare_exchange_weak(&error->outside, &refs, refs - 1))
            return refs - 1;
    }
    return release_last_ref(error);
}

#define RECORD_OF(iface, type) SS_CONTAINER(iface, ss_record, type##_iface)

/* ---- IUnknown --------------------------------------------------------------------------------*/

/* Those that crossings ask for come first. */
static void *find_interface(ss_record *record, REFIID iid)
{
    if (IsEqualIID(iid, &IID_IRestrictedErrorInfo))
        return &record->IRestrictedErrorInfo_iface;
    if (IsEqualIID(iid, &IID_ILanguageExceptionErrorInfo2) ||
        IsEqualIID(iid, &IID_ILanguageExceptionErrorInfo))
        return &record->ILanguageExceptionErrorInfo2_iface;
    if (IsEqualIID(iid, &stacksplice_IID_IScriptErrorInfo) && !ss_record_is_node(record))
        return &record->error->IScriptErrorInfo_iface;
    if (IsEqualIID(iid, &IID_IErrorInfo))
        return &record->IErrorInfo_iface;
    if (IsEqualIID(iid, &IID_IUnknown) || IsEqualIID(iid, &IID_IAgileObject))
        return &record->IRestrictedErrorInfo_iface;
    return NULL;
}

static HRESULT query(ss_record *record, REFIID iid, void **out)
{
    if (!out)
        return E_POINTER;
    *out = NULL;
    if (!iid)
        return E_INVALIDARG;
    if (IsEqualIID(iid, &record_iid)) {
        *out = record;
        return S_OK;
    }
    *out = find_interface(record, iid);
    if (!*out)
        return E_NOINTERFACE;
    ss_error_add_ref(record->error);
    return S_OK;
}

#define ADD_REF(record) ss_error_add_ref((record)->error)
#define RELEASE(record) ss_error_release((record)->error)
#define FORWARD_UNKNOWN(type, prefix, record) \
    SS_FORWARD_UNKNOWN(type, prefix, record, query, ADD_REF, RELEASE)

FORWARD_UNKNOWN(IRestrictedErrorInfo, restricted, RECORD_OF(iface, IRestrictedErrorInfo))
FORWARD_UNKNOWN(IErrorInfo, info, RECORD_OF(iface, IErrorInfo))
FORWARD_UNKNOWN(ILanguageExceptionErrorInfo2, language,
                RECORD_OF(iface, ILanguageExceptionErrorInfo2))
FORWARD_UNKNOWN(IScriptErrorInfo, script,
                (&SS_CONTAINER(iface, ss_error, IScriptErrorInfo_iface)->record))

/* ---- IRestrictedErrorInfo --------------------------------------------------------------------*/

static HRESULT STDMETHODCALLTYPE restricted_GetErrorDetails(IRestrictedErrorInfo *iface,
                                                            BSTR *description, HRESULT *hr,
                                                            BSTR *message, BSTR *capability_sid)
{
    ss_error *error = RECORD_OF(iface, IRestrictedErrorInfo)->error;
    const WCHAR *text;
    uint32_t length;
    BSTR first, second;

    if (!description || !hr || !message || !capability_sid)
        return E_POINTER;
    text = ss_error_description(error, &length);
    first = SysAllocStringLen(text, length);
    text = ss_error_text(error, &length);
    second = SysAllocStringLen(text, length);
    if (!first || !second) {
        SysFreeString(first);
        SysFreeString(second);
        return E_OUTOFMEMORY;
    }
    *description = first;
    *hr = error->record.fixed.hresult;
    *message = second;
    *capability_sid = NULL;
    return S_OK;
}

/* Set *OUT to a copy of TEXT, unless there is no memory for it. */
static HRESULT give_copy(const WCHAR *text, uint32_t length, BSTR *out)
{
    BSTR copy = SysAllocStringLen(text, length);

    if (!copy)
        return E_OUTOFMEMORY;
    *out = copy;
    return S_OK;
}

static HRESULT STDMETHODCALLTYPE restricted_GetReference(IRestrictedErrorInfo *iface,
                                                         BSTR *reference)
{
    WCHAR units[SS_REFERENCE_UNITS];

    if (!reference)
        return E_POINTER;
    return give_copy(units,
                     ss_error_put_reference(RECORD_OF(iface, IRestrictedErrorInfo)->error, units),
                     reference);
}

static const IRestrictedErrorInfoVtbl restricted_vtbl = {
    restricted_QueryInterface,  restricted_AddRef,       restricted_Release,
    restricted_GetErrorDetails, restricted_GetReference,
};

/* ---- IErrorInfo ------------------------------------------------------------------------------*/

static HRESULT STDMETHODCALLTYPE info_GetGUID(IErrorInfo *iface, GUID *guid)
{
    (void)iface;
    if (!guid)
        return E_POINTER;
    *guid = GUID_NULL;
    return S_OK;
}

/* GetSource and GetHelpFile: an error has neither. */
static HRESULT STDMETHODCALLTYPE info_GetNothing(IErrorInfo *iface, BSTR *text)
{
    (void)iface;
    if (!text)
        return E_POINTER;
    *text = NULL;
    return S_OK;
}

static HRESULT STDMETHODCALLTYPE info_GetDescription(IErrorInfo *iface, BSTR *description)
{
    const WCHAR *text;
    uint32_t length;

    if (!description)
        return E_POINTER;
    text = ss_error_description(RECORD_OF(iface, IErrorInfo)->error, &length);
    return give_copy(text, length, description);
}

static HRESULT STDMETHODCALLTYPE info_GetHelpContext(IErrorInfo *iface, DWORD *context)
{
    (void)iface;
    if (!context)
        return E_POINTER;
    *context = 0;
    return S_OK;
}

static const IErrorInfoVtbl info_vtbl = {
    info_QueryInterface, info_AddRef,         info_Release,    info_GetGUID,
    info_GetNothing,     info_GetDescription, info_GetNothing, info_GetHelpContext,
};

/* ---- ILanguageExceptionErrorInfo2 ------------------------------------------------------------*/

static HRESULT STDMETHODCALLTYPE language_GetLanguageException(ILanguageExceptionErrorInfo2 *iface,
                                                               IUnknown **out)
{
    IUnknown *object = RECORD_OF(iface, ILanguageExceptionErrorInfo2)->language.object;

    if (!out)
        return E_POINTER;
    if (object)
        object->lpVtbl->AddRef(object);
    *out = object;
    return S_OK;
}

/* NODE as an interface with a new reference; NULL stays NULL. */
static ILanguageExceptionErrorInfo2 *ref_node(ss_node *node)
{
    if (!node)
        return NULL;
    ss_error_add_ref(node->record.error);
    return &node->record.ILanguageExceptionErrorInfo2_iface;
}

static HRESULT STDMETHODCALLTYPE language_GetPrevious(ILanguageExceptionErrorInfo2 *iface,
                                                      ILanguageExceptionErrorInfo2 **out)
{
    ss_record *record = RECORD_OF(iface, ILanguageExceptionErrorInfo2);
    IUnknown *previous;

    if (!out)
        return E_POINTER;
    if (ss_record_is_node(record)) {
        *out = ref_node(((ss_node *)(void *)record)->previous);
        return S_OK;
    }
    previous = record->error->previous.object;
    if (previous)
        previous->lpVtbl->AddRef(previous);
    *out = (ILanguageExceptionErrorInfo2 *)(void *)previous;
    return S_OK;
}

static HRESULT STDMETHODCALLTYPE language_CapturePropagationContext(
    ILanguageExceptionErrorInfo2 *iface, IUnknown *language_exception)
{
    if (ss_flags_get() & RO_ERROR_REPORTING_SUPPRESSSETERRORINFO)
        return S_OK;
    return ss_error_add_node(
        RECORD_OF(iface, ILanguageExceptionErrorInfo2)->error,
        &(ss_arrival){.language_exception = language_exception, .above = SS_HERE()});
}

static HRESULT STDMETHODCALLTYPE language_GetPropagationContextHead(
    ILanguageExceptionErrorInfo2 *iface, ILanguageExceptionErrorInfo2 **out)
{
    if (!out)
        return E_POINTER;
    *out = ref_node(atomic_load(&RECORD_OF(iface, ILanguageExceptionErrorInfo2)->error->head));
    return S_OK;
}

static const ILanguageExceptionErrorInfo2Vtbl language_vtbl = {
    language_QueryInterface,
    language_AddRef,
    language_Release,
    language_GetLanguageException,
    language_GetPrevious,
    language_CapturePropagationContext,
    language_GetPropagationContextHead,
};

/* ---- IScriptErrorInfo ------------------------------------------------------------------------*/

static void STDMETHODCALLTYPE script_AddInside(IScriptErrorInfo *iface)
{
    ss_error *error = SS_CONTAINER(iface, ss_error, IScriptErrorInfo_iface);

    if (!error->is_static)
        atomic_fetch_add(&error->inside, 1);
}

static void STDMETHODCALLTYPE script_ReleaseInside(IScriptErrorInfo *iface)
{
    release_inside(SS_CONTAINER(iface, ss_error, IScriptErrorInfo_iface));
}

const IScriptErrorInfoVtbl ss_error_script_methods = {
    script_QueryInterface, script_AddRef, script_Release, script_AddInside, script_ReleaseInside,
};

/* ---- Beginning -------------------------------------------------------------------------------*/

#define FIXED_PART(code)                                                                   \
    {                                                                                      \
        .signature = STACKSPLICE_RECORD_SIGNATURE, .version = STACKSPLICE_INSPECT_VERSION, \
        .frame_size = sizeof(uintptr_t), .hresult = (code)                                 \
    }

static void record_init(ss_record *record, ss_error *error, HRESULT hr)
{
    record->IRestrictedErrorInfo_iface.lpVtbl = &restricted_vtbl;
    record->IErrorInfo_iface.lpVtbl = &info_vtbl;
    record->ILanguageExceptionErrorInfo2_iface.lpVtbl = &language_vtbl;
    record->fixed = (stacksplice_record)FIXED_PART(hr);
    record->error = error;
}

static void error_init(ss_error *error, HRESULT hr)
{
    record_init(&error->record, error, hr);
    error->IScriptErrorInfo_iface.lpVtbl = &ss_error_script_methods;
}

ss_error *ss_error_out_of_memory(void)
{
    static ss_error error = {
        .record = {.IRestrictedErrorInfo_iface = {&restricted_vtbl},
                   .IErrorInfo_iface = {&info_vtbl},
                   .ILanguageExceptionErrorInfo2_iface = {&language_vtbl},
                   .fixed = FIXED_PART(E_OUTOFMEMORY),
                   .error = &error},
        .IScriptErrorInfo_iface = {&ss_error_script_methods},
        .outside = 1,
        .inside = 1,
        .is_static = true,
    };

    return &error;
}

/* ---- Causes and notes of a new error ---------------------------------------------------------*/

static uint32_t depth_with(IUnknown *object)
{
    ss_record *record = ss_record_from(object);

    return record ? record->error->depth + 1u : object != NULL;
}

/* The cause that LANGUAGE_EXCEPTION reports, with a reference, or NULL. */
static IUnknown *ask_for_cause(IUnknown *language_exception)
{
    ILanguageExceptionTransform *transform =
        ss_query(language_exception, &IID_ILanguageExceptionTransform);
    IRestrictedErrorInfo *cause = NULL;
    IUnknown *found;
    HRESULT hr;

    if (!transform)
        return NULL;
    hr = transform->lpVtbl->GetTransformedRestrictedErrorInfo(transform, &cause);
    transform->lpVtbl->Release(transform);
    if (FAILED(hr) || !cause)
        return NULL;
    found = ss_query(cause, &IID_ILanguageExceptionErrorInfo2);
    cause->lpVtbl->Release(cause);
    return found;
}

/* One more than the depth of the deepest member; 0 without members. */
static uint32_t depth_of_members(IScriptException *x)
{
    uint32_t members = 0, left_out = 0, deepest = 0;

    if (!x->lpVtbl->GetGroup(x, &members, &left_out))
        return 0;
    for (uint32_t i = 0; i < members; i++) {
        IRestrictedErrorInfo *member = NULL;
        uint32_t depth;

        if (x->lpVtbl->GetMember(x, i, &member) != S_OK || !member)
            break;
        depth = depth_with((IUnknown *)(void *)member);
        if (depth > deepest)
            deepest = depth;
        member->lpVtbl->Release(member);
    }
    return deepest;
}

static void ask_details(ss_error *error, uint32_t *depth, IScriptException *x)
{
    stacksplice_relation relation = x->lpVtbl->GetRelation(x, &error->causes_left_out);
    uint32_t members = depth_of_members(x);

    if (error->previous.object && relation == STACKSPLICE_RELATION_CONTEXT)
        error->relation = (uint8_t)relation;
    if (members > *depth)
        *depth = members;
}

/* Take what ERROR was made from, and its depth, from its language exception. */
static void relate(ss_error *error, const ss_origin *origin)
{
    IUnknown *cause = NULL;
    uint32_t depth;

    if (origin->previous) {
        ss_record *record = &origin->previous->record;

        held_begin(&error->previous,
                   (IUnknown *)(void *)&record->ILanguageExceptionErrorInfo2_iface);
    } else {
        cause = ask_for_cause(origin->language_exception);
        held_begin(&error->previous, cause);
        if (cause)
            cause->lpVtbl->Release(cause);
    }
    depth = depth_with(error->previous.object);
    /* Cut longer chains, so that a retry loop does not grow one without limit. */
    if (depth > SS_MAX_PREVIOUS) {
        held_sleep(&error->previous);
        held_end(&error->previous);
        error->previous = (ss_held){.object = NULL};
        depth = 0;
        error->causes_left_out = 1;
    }
    if (error->previous.object)
        error->relation = STACKSPLICE_RELATION_CAUSE;
    if (!origin->previous && error->record.language.exception)
        ask_details(error, &depth, error->record.language.exception);
    error->depth = (uint8_t)(depth < UINT8_MAX ? depth : UINT8_MAX);
}

/* ---- A new error, in one block of memory -----------------------------------------------------*/

static ss_error *allocate_error(const ss_origin *origin, const captured_stack *stack)
{
    size_t text = origin->message ? (origin->length + (size_t)1) * sizeof(WCHAR) : 0;
    ss_error *error = ss_alloc_dirty(sizeof *error + stack->to_store * sizeof(uintptr_t) + text);

    if (!error)
        return NULL;
    memset(error, 0, sizeof *error);
    error_init(error, origin->hr);
    stack_store(stack, &error->record, error->storage);
    error->captured = ss_record_frames(&error->record, &error->captured_count);
    if (origin->message) {
        WCHAR *copy = (WCHAR *)(error->storage + stack->to_store);

        memcpy(copy, origin->message, origin->length * sizeof *copy);
        copy[origin->length] = 0;
        error->message = copy;
        error->message_length = origin->length;
    }
    return error;
}

ss_error *ss_error_new(const ss_origin *origin)
{
    captured_stack stack;
    ss_held language;
    ss_error *error;

    held_begin(&language, origin->language_exception);
    stack_take(&stack, &language, origin->above);
    error = allocate_error(origin, &stack);
    ss_free(stack.heap);
    if (!error) {
        held_sleep(&language);
        held_end(&language);
        return NULL;
    }
    error->record.fixed.thread_id = ss_thread_id();
    error->record.language = language;
    relate(error, origin);
    atomic_init(&error->outside, 1);
    atomic_init(&error->inside, 1);
    ss_registry_add(error);
    return error;
}

/* ---- Nodes, each in one block of memory ------------------------------------------------------*/

static const char *receiver_of(const ss_arrival *arrival, const ss_held *language)
{
    IScriptException *exception = language->exception;
    const char *receiver = arrival->receiver;

    if (!receiver && exception)
        receiver = exception->lpVtbl->GetLanguage(exception);
    return receiver ? receiver : "native";
}

/* Copies the receiver's name: its code may be unloaded before the error dies. */
static ss_node *new_node(ss_error *error, const ss_held *language, const ss_arrival *arrival)
{
    const char *receiver = receiver_of(arrival, language);
    size_t name = strlen(receiver) + 1;
    captured_stack stack;
    ss_node *node;

    stack_take(&stack, language, arrival->above);
    node = ss_alloc_dirty(sizeof *node + stack.to_store * sizeof(uintptr_t) + name);
    if (node) {
        memset(node, 0, sizeof *node);
        node->receiver = memcpy(node->storage + stack.to_store, receiver, name);
        record_init(&node->record, error, error->record.fixed.hresult);
        stack_store(&stack, &node->record, node->storage);
        node->record.fixed.thread_id = ss_thread_id();
        node->record.language = *language;
    }
    ss_free(stack.heap);
    return node;
}

/*
 * Link NODE as the newest; false if the error is full.  *AWAKE: the error has outside references.
 */
static bool link_node(ss_error *error, ss_node *node, bool *awake)
{
    bool linked = false;

    ss_registry_lock();
    *awake = atomic_load(&error->outside) > 0;
    if (error->node_count < SS_MAX_NODES) {
        error->node_count++;
        node->previous = atomic_load(&error->head);
        atomic_store(&error->head, node);
        linked = true;
    }
    ss_registry_unlock();
    return linked;
}

HRESULT ss_error_add_node(ss_error *error, const ss_arrival *arrival)
{
    ss_held language;
    ss_node *node;
    bool awake;

    if (error->is_static)
        return S_OK;
    held_begin(&language, arrival->language_exception);
    node = new_node(error, &language, arrival);
    if (!node) {
        held_sleep(&language);
        held_end(&language);
        return E_OUTOFMEMORY;
    }
    if (!link_node(error, node, &awake)) {
        held_sleep(&language);
        node->previous = NULL;
        nodes_free(node);
    } else if (!awake) {
        held_sleep(&language);
    }
    return S_OK;
}

/* ---- A longer one later ----------------------------------------------------------------------*/

/* Whether STACK, of COUNT elements, is now ERROR's: only if it is longer, so that a reader who has
   the number of the shorter one reads no further than this one's end.  The last one for which there is
   room ends in a gap, so COUNT is one more. */
static bool put_longer(ss_error *error, ss_longer_stack *stack, uint32_t count, bool is_last)
{
    stacksplice_record *fixed = &error->record.fixed;
    bool put;

    ss_registry_lock();
    put = error->longer_count < SS_MAX_LONGER - !is_last && count >= fixed->frame_count;
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

static bool is_last_longer(ss_error *error)
{
    bool is_last;

    ss_registry_lock();
    is_last = error->longer_count == SS_MAX_LONGER - 1;
    ss_registry_unlock();
    return is_last;
}

stacksplice_hresult stacksplice_error_lengthen(IUnknown *object, const uintptr_t *frames,
                                               uint32_t count)
{
    ss_record *record;
    HRESULT hr = ss_record_asked(object, frames, &record);
    ss_longer_stack *stack;
    bool is_last;

    if (FAILED(hr))
        return hr;
    if (ss_record_is_node(record))
        return E_INVALIDARG;
    if (record->error->is_static || count > MOST_FRAMES)
        return S_FALSE;
    stack = ss_alloc_dirty(sizeof *stack + (count + (size_t)1) * sizeof *frames);
    if (!stack)
        return E_OUTOFMEMORY;
    memcpy(stack->frames, frames, count * sizeof *frames);
    is_last = is_last_longer(record->error);
    if (is_last)
        stack->frames[count++] = stacksplice_gap("native", SS_GREW_TOO_OFTEN, 0);
    stack->count = count;
    atomic_init(&stack->epoch, ss_code_epoch());
    if (put_longer(record->error, stack, count, is_last))
        return S_OK;
    ss_free(stack);
    return S_FALSE;
}
