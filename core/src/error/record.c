#include "error/record.h"

#include "base/alloc.h"
#include "com/messages.h"
#include "error/registry.h"

/*
 * The interface by which an object tells that it is a record of this library, or of another copy of
 * it in the process.  QueryInterface returns the record, without a reference.  The last byte
 * changes with the layout of ss_record and ss_error.
 */
const IID ss_record_iid = {
    0x3ad6a0b8, 0x5ad1, 0x4be9, {0x97, 0x0e, 0x6c, 0x1d, 0x1f, 0x5e, 0x52, 0x05}};

ss_record *ss_record_from(IUnknown *object)
{
    void *out = NULL;

    if (!object || FAILED(object->lpVtbl->QueryInterface(object, &ss_record_iid, &out)))
        return NULL;
    return out;
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

const WCHAR *ss_error_message(const ss_error *error, uint32_t *length)
{
    *length = error->message_length;
    return error->message ? error->message : ss_error_description(error, length);
}

/* ---- Held ------------------------------------------------------------------------------------*/

/* The interface IID of OBJECT without a new reference: the caller holds OBJECT. */
static void *borrow_interface(IUnknown *object, REFIID iid)
{
    void *out = NULL;

    if (FAILED(object->lpVtbl->QueryInterface(object, iid, &out)) || !out)
        return NULL;
    ((IUnknown *)out)->lpVtbl->Release(out);
    return out;
}

void ss_held_begin(ss_held *held, IUnknown *object)
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

static void ss_held_wake(const ss_held *held)
{
    if (held->exception || held->error)
        held->object->lpVtbl->AddRef(held->object);
}

void ss_held_sleep(const ss_held *held)
{
    if (held->exception || held->error)
        held->object->lpVtbl->Release(held->object);
}

void ss_held_end(ss_held *held)
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

static void wake(ss_error *error, ss_node *head)
{
    ss_held_wake(&error->record.language);
    ss_held_wake(&error->previous);
    for (ss_node *node = head; node; node = node->previous)
        ss_held_wake(&node->record.language);
}

static void put_to_sleep(ss_error *error, ss_node *head)
{
    for (ss_node *node = head; node; node = node->previous)
        ss_held_sleep(&node->record.language);
    ss_held_sleep(&error->previous);
    ss_held_sleep(&error->record.language);
}

void ss_nodes_free(ss_node *node)
{
    while (node) {
        ss_node *previous = node->previous;

        node->record.fixed.signature = 0;
        ss_held_end(&node->record.language);
        ss_free(node);
        node = previous;
    }
}

static void free_error(ss_error *error)
{
    ss_registry_remove(error);
    error->record.fixed.signature = 0;
    ss_nodes_free(atomic_load(&error->head));
    for (ss_note *note = atomic_load(&error->notes), *previous; note; note = previous) {
        previous = note->previous;
        ss_free(note);
    }
    for (ss_longer_stack *stack = error->longer, *previous; stack; stack = previous) {
        previous = stack->previous;
        ss_free(stack);
    }
    ss_held_end(&error->previous);
    ss_held_end(&error->record.language);
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
        wake(error, head);
    return before + 1;
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
        put_to_sleep(error, head);
        ss_error_release_inside(error);
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

void ss_error_add_inside(ss_error *error)
{
    if (!error->is_static)
        atomic_fetch_add(&error->inside, 1);
}

void ss_error_release_inside(ss_error *error)
{
    if (!error->is_static && atomic_fetch_sub(&error->inside, 1) == 1)
        free_error(error);
}
