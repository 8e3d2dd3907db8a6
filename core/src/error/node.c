/* Each node is one block of memory. */
#include "error/error.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "error/registry.h"
#include "error/stack.h"

#include <string.h>

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
    ss_stack stack;
    ss_node *node;

    ss_stack_take(&stack, language, arrival->above);
    node = ss_alloc_dirty(sizeof *node + stack.to_store * sizeof(uintptr_t) + name);
    if (node) {
        memset(node, 0, sizeof *node);
        node->receiver = memcpy(node->storage + stack.to_store, receiver, name);
        node->record = error->record; /* the interfaces and the constant fields */
        ss_stack_store(&stack, &node->record, node->storage);
        node->record.fixed.thread_id = ss_thread_id();
        node->record.language = *language;
    }
    ss_stack_done(&stack);
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
        ss_nodes_free(node);
    } else if (!awake) {
        ss_held_sleep(&language);
    }
    return S_OK;
}
