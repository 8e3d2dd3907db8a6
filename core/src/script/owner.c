/*
 * A release may come from any thread, at any time, also after the interpreter's end, and a value
 * may be dropped by its interpreter's thread only.  So a release asks the interpreter nothing: the
 * exception goes onto its owner's list, and the owner is woken unless this thread is in one of its
 * sections.
 */
#include "script/owner.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "script/exception.h"

typedef struct owner {
    stacksplice_owner public; /* waiting: (ATOMIC) the released exceptions, newest first */
    const stacksplice_language *language; /* (RO) */
    _Atomic(void *) data;                 /* (ATOMIC) NULL when closed */
    atomic_uint refs;                     /* (ATOMIC) the interpreter, and every exception */
    atomic_bool closed;                   /* (ATOMIC) set once, under wake_lock */
    atomic_bool waking;                   /* (ATOMIC) the language was asked */
    stacksplice_exception *keeping;       /* owner's thread */
} owner;

/* Guards "not closed, so the language may be asked". */
static ss_lock wake_lock = SS_LOCK_INIT;

static _Thread_local stacksplice_owner *current;

static owner *private_of(const stacksplice_owner *self)
{
    return (owner *)(uintptr_t)self; /* its first member */
}

stacksplice_owner *stacksplice_owner_new(const stacksplice_language *language, void *data)
{
    owner *self;

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

void stacksplice_owner_ref(stacksplice_owner *self)
{
    atomic_fetch_add(&private_of(self)->refs, 1);
}

void stacksplice_owner_unref(stacksplice_owner *self)
{
    if (self && atomic_fetch_sub(&private_of(self)->refs, 1) == 1)
        ss_free(self);
}

void *stacksplice_owner_data(const stacksplice_owner *self)
{
    return atomic_load(&private_of(self)->data);
}

const stacksplice_language *stacksplice_owner_language(const stacksplice_owner *self)
{
    return private_of(self)->language;
}

bool ss_owner_is_closed(const stacksplice_owner *self)
{
    return atomic_load(&private_of(self)->closed);
}

bool ss_owner_any_thread(const stacksplice_owner *self)
{
    return private_of(self)->language->flags & STACKSPLICE_LANGUAGE_ANY_THREAD;
}

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

bool ss_owner_keep(stacksplice_owner *self, stacksplice_exception *x)
{
    stacksplice_exception **list = &private_of(self)->keeping;

    if (ss_owner_is_closed(self))
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
    owner *own = private_of(self);
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

static stacksplice_exception *take_waiting(owner *self)
{
    return (stacksplice_exception *)(uintptr_t)__atomic_exchange_n(&self->public.waiting, NULL,
                                                                   __ATOMIC_SEQ_CST);
}

/* Give the list up: there is no interpreter any more. */
static void abandon(owner *self)
{
    stacksplice_exception *x = take_waiting(self);

    while (x) {
        stacksplice_exception *next = x->waiting;

        atomic_store(&x->queued, false);
        stacksplice_exception_unref(x);
        x = next;
    }
}

/* What is dropped may run code of the language that crosses borders itself. */
static void drop_saving_slot(owner *self, void *context, void *value)
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
    owner *self = private_of(public);
    stacksplice_exception *x;

    atomic_store(&self->waking, false);
    x = take_waiting(self);
    while (x) {
        stacksplice_exception *next = x->waiting;
        void *value;

        /* Cleared before the count is read: a release after this puts it on the list anew. */
        atomic_store(&x->queued, false);
        value = ss_exception_take_value(x);
        if (value)
            unlink_kept(x);
        drop_saving_slot(self, context, value);
        stacksplice_exception_unref(x);
        x = next;
    }
}

static void wake(owner *self)
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

static void push_waiting(owner *self, stacksplice_exception *x)
{
    const void *head = __atomic_load_n(&self->public.waiting, __ATOMIC_RELAXED);

    do
        x->waiting = (stacksplice_exception *)(uintptr_t)head;
    while (!__atomic_compare_exchange_n(&self->public.waiting, &head, x, true, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED));
}

void ss_owner_released(stacksplice_owner *public, stacksplice_exception *x)
{
    owner *self = private_of(public);

    if (ss_owner_any_thread(public)) {
        drop_saving_slot(self, NULL, ss_exception_take_value(x));
        stacksplice_exception_unref(x);
        return;
    }
    /* Nothing to drop, no interpreter, or on the list already. */
    if (!stacksplice_exception_value(x) || atomic_load(&self->closed) ||
        atomic_exchange(&x->queued, true)) {
        stacksplice_exception_unref(x);
        return;
    }
    /* X may be drained, and this owner closed and freed, as soon as it is on the list. */
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
    owner *self = private_of(public);
    bool locked = ss_lock_take(&wake_lock);

    atomic_store(&self->closed, true);
    if (locked)
        ss_lock_drop(&wake_lock);
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
    if (!section.outer && self && stacksplice_owner_waits(self))
        stacksplice_owner_drain(self, context);
}

stacksplice_owner *stacksplice_section_owner(void)
{
    return current;
}
