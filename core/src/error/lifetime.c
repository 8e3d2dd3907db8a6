#include "error/lifetime.h"

#include "base/alloc.h"
#include "error/registry.h"

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
