/* The values that an owner's exceptions keep, and those released: the owner's thread drops them. */
#include "script/release.h"

#include "base/thread.h"
#include "error/entries.h"
#include "script/exception.h"
#include "script/owner.h"

/* Guards "not closed, so the language may be called". */
SS_LOCK(wake_lock);

static _Thread_local stacksplice_owner *current;

/* ---- What is kept ----------------------------------------------------------------------------*/

static void unlink_kept(stacksplice_exception *x)
{
    if (!x->link)
        return;
    *x->link = x->kept;
    if (x->kept)
        x->kept->link = x->link;
    x->link = NULL;
}

bool ss_release_can_keep(stacksplice_owner *self, stacksplice_exception *x)
{
    stacksplice_exception **list = &ss_owner_of(self)->keeping;

    if (atomic_load(&ss_owner_of(self)->closed))
        return false;
    if (ss_owner_any_thread(self))
        return true;
    x->kept = *list;
    x->link = list;
    if (*list)
        (*list)->link = &x->kept;
    *list = x;
    return true;
}

void stacksplice_owner_drop_all(stacksplice_owner *self, void *context)
{
    ss_owner *own = ss_owner_of(self);
    stacksplice_exception *list = own->keeping;
    stacksplice_saved_error saved;

    if (!list)
        return;
    own->keeping = NULL;
    list->link = &list;
    (void)stacksplice_save_error(&saved);
    while (list) {
        void *value = atomic_exchange(&list->value, NULL);

        unlink_kept(list);
        own->language->drop(context, atomic_load(&own->data), value);
    }
    (void)stacksplice_restore_error(&saved);
}

/* ---- What was released -----------------------------------------------------------------------*/

static stacksplice_exception *take_waiting(ss_owner *self)
{
    return (stacksplice_exception *)(uintptr_t)__atomic_exchange_n(&self->public.waiting, NULL,
                                                                   __ATOMIC_SEQ_CST);
}

/* Discard the list: the interpreter is gone. */
static void abandon(ss_owner *self)
{
    stacksplice_exception *x = take_waiting(self);

    while (x) {
        stacksplice_exception *next = x->waiting;

        atomic_store(&x->queued, false);
        ss_exception_unref(x);
        x = next;
    }
}

/* Dropping a value may run code of the language that crosses borders itself. */
static void drop_saving_slot(ss_owner *self, void *context, void *value)
{
    stacksplice_saved_error saved;

    if (!value)
        return;
    (void)stacksplice_save_error(&saved);
    self->language->drop(context, atomic_load(&self->data), value);
    (void)stacksplice_restore_error(&saved);
}

void stacksplice_owner_drain(stacksplice_owner *public, void *context)
{
    ss_owner *self = ss_owner_of(public);
    stacksplice_exception *x;

    atomic_store(&self->waking, false);
    x = take_waiting(self);
    while (x) {
        stacksplice_exception *next = x->waiting;
        void *value;

        /* Clear it before reading the count, so that a later release queues X again. */
        atomic_store(&x->queued, false);
        value = ss_exception_take_value(x);
        if (value)
            unlink_kept(x);
        drop_saving_slot(self, context, value);
        ss_exception_unref(x);
        x = next;
    }
}

static void wake(ss_owner *self)
{
    bool asked = false;

    if (!self->language->wake || atomic_exchange(&self->waking, true))
        return;
    if (ss_lock_take(&wake_lock)) {
        if (!atomic_load(&self->closed))
            asked = self->language->wake(&self->public);
        ss_lock_drop(&wake_lock);
    }
    if (!asked)
        atomic_store(&self->waking, false);
}

static void push_waiting(ss_owner *self, stacksplice_exception *x)
{
    const void *head = __atomic_load_n(&self->public.waiting, __ATOMIC_RELAXED);

    do
        x->waiting = (stacksplice_exception *)(uintptr_t)head;
    while (!__atomic_compare_exchange_n(&self->public.waiting, &head, x, true, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED));
}

void ss_release(stacksplice_owner *public, stacksplice_exception *x)
{
    ss_owner *self = ss_owner_of(public);

    if (ss_owner_any_thread(public)) {
        drop_saving_slot(self, NULL, ss_exception_take_value(x));
        ss_exception_unref(x);
        return;
    }
    /* Nothing to drop, no interpreter, or already on the list. */
    if (!stacksplice_exception_value(x) || atomic_load(&self->closed) ||
        atomic_exchange(&x->queued, true)) {
        ss_exception_unref(x);
        return;
    }
    /* Once X is on the list, another thread may drain it, and close and free this owner. */
    stacksplice_owner_ref(public);
    push_waiting(self, x);
    if (atomic_load(&self->closed))
        abandon(self);
    else if (current != public)
        wake(self);
    stacksplice_owner_unref(public);
}

void stacksplice_owner_close(stacksplice_owner *public)
{
    ss_owner *self = ss_owner_of(public);
    bool locked = ss_lock_take(&wake_lock);

    atomic_store(&self->closed, true);
    if (locked)
        ss_lock_drop(&wake_lock);
    ss_entry_free(self->entry);
    atomic_store(&self->data, NULL);
    while (self->keeping) {
        atomic_store(&self->keeping->value, NULL);
        unlink_kept(self->keeping);
    }
    abandon(self);
    stacksplice_owner_unref(public);
}

/* ---- Sections --------------------------------------------------------------------------------*/

stacksplice_section stacksplice_section_enter(stacksplice_owner *self)
{
    stacksplice_section section = {current};

    current = self;
    return section;
}

void stacksplice_section_leave(stacksplice_section section, void *context)
{
    stacksplice_owner *self = current;

    current = section.outer;
    if (!self || !stacksplice_owner_waits(self))
        return;
    if (!current)
        stacksplice_owner_drain(self, context);
    else if (current != self) /* in a section of another language, which runs none of our scripts */
        wake(ss_owner_of(self));
}
