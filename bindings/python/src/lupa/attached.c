/* The list of attached runtimes.  It keeps no runtime alive: a closed state says so itself. */
#include "lupa/lupa.h"

void sspy_attached_closed(void *data)
{
    sspy_attached *attached = data;

    atomic_store(&attached->closed, true);
}

static void sweep(sspy_lupa *lupa)
{
    sspy_attached **place = &lupa->attached;

    while (*place) {
        sspy_attached *attached = *place;

        if (!atomic_load(&attached->closed)) {
            place = &attached->next;
            continue;
        }
        *place = attached->next;
        sspy_lua_forget(attached->lua);
        sspy_attached_free(attached);
    }
}

sspy_attached *sspy_attached_first(sspy_state *state)
{
    sspy_lupa *lupa = sspy_lupa_of(state);

    if (!lupa)
        return NULL;
    sweep(lupa);
    return lupa->attached;
}

sspy_attached *sspy_attached_after(sspy_attached *attached)
{
    do
        attached = attached->next;
    while (attached && atomic_load(&attached->closed));
    return attached;
}

void sspy_lupa_end(sspy_state *state)
{
    sspy_lupa *lupa = sspy_lupa_of(state);
    sspy_attached *attached = lupa ? lupa->attached : NULL, *next;

    if (!lupa)
        return;
    Py_CLEAR(lupa->created);
    /* The states may still call our hooks, so the records of open ones stay. */
    for (lupa->attached = NULL; attached; attached = next) {
        next = attached->next;
        if (!atomic_load(&attached->closed))
            continue;
        sspy_lua_forget(attached->lua);
        sspy_attached_free(attached);
    }
}

sspy_attached *sspy_attached_find(sspy_state *state, uintptr_t key)
{
    sspy_attached *attached = sspy_attached_first(state);

    while (attached && attached->key != key)
        attached = sspy_attached_after(attached);
    return attached;
}

void sspy_attached_remove(sspy_state *state, sspy_attached *attached)
{
    sspy_attached **place = &sspy_lupa_of(state)->attached;

    while (*place != attached)
        place = &(*place)->next;
    *place = attached->next;
}
