/* The record of an interpreter: creation, counting, queries. */
#include "script/owner.h"

#include "base/alloc.h"
#include "error/entries.h"

stacksplice_owner *stacksplice_owner_new(const stacksplice_language *language, void *data)
{
    ss_owner *self;

    if (!language || language->size < sizeof *language || !language->name || !language->drop)
        return NULL;
    self = ss_alloc(1, sizeof *self);
    if (!self)
        return NULL;
    self->language = language;
    atomic_init(&self->data, data);
    atomic_init(&self->refs, 1);
    return &self->public;
}

void stacksplice_owner_show(stacksplice_owner *owner, const void *state, const char *version)
{
    ss_owner *self = ss_owner_of(owner);

    self->version = version;
    self->entry = ss_entry_add(STACKSPLICE_ENTRY_INTERPRETER, state, (uintptr_t)self);
}

void stacksplice_owner_ref(stacksplice_owner *self)
{
    atomic_fetch_add(&ss_owner_of(self)->refs, 1);
}

void stacksplice_owner_unref(stacksplice_owner *self)
{
    if (self && atomic_fetch_sub(&ss_owner_of(self)->refs, 1) == 1)
        ss_free(self);
}

void *stacksplice_owner_data(const stacksplice_owner *self)
{
    return atomic_load(&ss_owner_of(self)->data);
}

const stacksplice_language *stacksplice_owner_language(const stacksplice_owner *self)
{
    return ss_owner_of(self)->language;
}
