/*
 * The two counts of an error (see stacksplice/source.h).
 *
 * The outside count holds one inside reference while it is above 0; the memory goes when the inside
 * count is 0.  Going from 0 to 1 wakes what the error holds, going to 0 lets it sleep.  Both steps
 * take the registry's lock, so that a node that is added meanwhile is woken exactly once; what they
 * hold is called after it, so the calls of two threads may cross, but they always balance.
 */
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
        ss_error_free(error);
}
