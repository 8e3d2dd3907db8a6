/* Making and unmaking errors and nodes.  Each is one block of memory. */
#include "base/alloc.h"
#include "base/thread.h"
#include "error/registry.h"
#include "error/related.h"
#include "error/stack.h"

#include <string.h>

/* ---- Errors ----------------------------------------------------------------------------------*/

static ss_error *allocate_error(const ss_origin *origin, const ss_stack *stack)
{
    size_t text = origin->message ? (origin->length + (size_t)1) * sizeof(WCHAR) : 0;
    ss_error *error = ss_alloc_dirty(sizeof *error + stack->count * sizeof(uintptr_t) + text);

    if (!error)
        return NULL;
    memset(error, 0, sizeof *error);
    ss_record_init(&error->record, error, origin->hr);
    ss_stack_store(stack, &error->record, error->storage);
    if (origin->message) {
        WCHAR *copy = (WCHAR *)(error->storage + stack->count);

        memcpy(copy, origin->message, origin->length * sizeof *copy);
        copy[origin->length] = 0;
        error->message = copy;
        error->message_length = origin->length;
    }
    return error;
}

ss_error *ss_error_new(const ss_origin *origin)
{
    ss_stack stack;
    ss_held language;
    ss_related related;
    ss_error *error;

    ss_held_begin(&language, origin->language_exception);
    ss_stack_take(&stack, &language, origin->above);
    ss_related_take(&related, origin);
    error = allocate_error(origin, &stack);
    ss_stack_done(&stack);
    if (!error) {
        ss_related_drop(&related);
        ss_held_sleep(&language);
        ss_held_end(&language);
        return NULL;
    }
    error->record.fixed.thread_id = ss_thread_id();
    error->record.language = language;
    error->previous = related.previous;
    error->relation = (uint8_t)related.relation;
    error->causes_left_out = related.causes_left_out;
    error->depth = related.depth;
    atomic_init(&error->outside, 1);
    atomic_init(&error->inside, 1);
    ss_registry_add(error);
    return error;
}

static void free_nodes(ss_node *node)
{
    while (node) {
        ss_node *previous = node->previous;

        node->record.fixed.signature = 0;
        ss_held_end(&node->record.language);
        ss_free(node);
        node = previous;
    }
}

void ss_error_free(ss_error *error)
{
    ss_registry_remove(error);
    error->record.fixed.signature = 0;
    free_nodes(atomic_load(&error->head));
    ss_notes_free(atomic_load(&error->notes));
    ss_held_end(&error->previous);
    ss_held_end(&error->record.language);
    ss_free(error);
}

/* ---- Nodes -----------------------------------------------------------------------------------*/

static const char *receiver_of(const ss_arrival *arrival, const ss_held *language)
{
    IScriptException *exception = language->exception;
    const char *receiver = arrival->receiver;

    if (!receiver && exception)
        receiver = exception->lpVtbl->GetLanguage(exception);
    return receiver ? receiver : "native";
}

/* The name of the receiver is copied: its code may be unloaded before the error dies. */
static ss_node *new_node(ss_error *error, const ss_held *language, const ss_arrival *arrival)
{
    const char *receiver = receiver_of(arrival, language);
    size_t name = strlen(receiver) + 1;
    ss_stack stack;
    ss_node *node;

    ss_stack_take(&stack, language, arrival->above);
    node = ss_alloc_dirty(sizeof *node + stack.count * sizeof(uintptr_t) + name);
    if (node) {
        memset(node, 0, sizeof *node);
        node->receiver = memcpy(node->storage + stack.count, receiver, name);
        ss_record_init(&node->record, error, error->record.fixed.hresult);
        ss_stack_store(&stack, &node->record, node->storage);
        node->record.fixed.thread_id = ss_thread_id();
        node->record.language = *language;
    }
    ss_stack_done(&stack);
    return node;
}

/* Link NODE as the newest; false if there is no place.  *AWAKE: the error has outside references.
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

static bool has_place(ss_error *error)
{
    bool place;

    ss_registry_lock();
    place = error->node_count < SS_MAX_NODES;
    ss_registry_unlock();
    return place;
}

HRESULT ss_error_add_node(ss_error *error, const ss_arrival *arrival)
{
    ss_held language;
    ss_node *node;
    bool awake;

    if (error->is_static || !has_place(error))
        return S_OK;
    ss_held_begin(&language, arrival->language_exception);
    node = new_node(error, &language, arrival);
    if (!node) {
        ss_held_sleep(&language);
        ss_held_end(&language);
        return E_OUTOFMEMORY;
    }
    if (!link_node(error, node, &awake)) {
        ss_held_sleep(&language);
        node->previous = NULL;
        free_nodes(node);
    } else if (!awake) {
        ss_held_sleep(&language);
    }
    return S_OK;
}
