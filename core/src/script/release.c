/* The values that an owner's exceptions keep, and those released: the owner's thread drops them. */
#include "script/release.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "error/entries.h"
#include "script/exception.h"

/* Guards values of languages that allow any thread to drop them. */
SS_LOCK(value_lock);

/* ---- Owner -----------------------------------------------------------------------------------*/

/* The record of an interpreter: creation, counting, queries. */

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

/* ---- Release ---------------------------------------------------------------------------------*/

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

/*
 * Add X to the list that OWNER drops values from at its end; owner's thread.  False when OWNER is
 * closed.
 */
static bool ss_release_can_keep(stacksplice_owner *self, stacksplice_exception *x)
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

/* Call VISIT for each cause and member of X. */
static void ss_exception_each_related(const stacksplice_exception *x,
                                      void (*visit)(IScriptErrorInfo *error))
{
    for (uint32_t i = 0; i <= x->member_count; i++) {
        IScriptErrorInfo *error = stacksplice_exception_related(x, i);

        if (error)
            visit(error);
    }
}

static void ss_related_sleep(IScriptErrorInfo *error)
{
    error->lpVtbl->Release(error);
}

static void release_inside(IScriptErrorInfo *error)
{
    error->lpVtbl->ReleaseInside(error);
}

static void free_exception(stacksplice_exception *x)
{
    if (!ss_exception_sleeps(x))
        ss_exception_each_related(x, ss_related_sleep);
    ss_exception_each_related(x, release_inside);
    stacksplice_owner_unref(x->owner);
    ss_free(x);
}

/*
 * memory.c: release an inside reference of an exception whose value, if any, is dropped elsewhere.
 */
static void ss_exception_unref(stacksplice_exception *x)
{
    if (atomic_fetch_sub(&x->inside, 1) == 1)
        free_exception(x);
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

/* Lock changes of the value, where other threads may change it. */
static bool ss_exception_lock_value(const stacksplice_exception *x)
{
    return ss_owner_any_thread(x->owner) && ss_lock_take(&value_lock);
}

static void ss_exception_unlock_value(bool locked)
{
    if (locked)
        ss_lock_drop(&value_lock);
}

/* Take the value if it must be dropped now, because nothing outside holds X; else NULL. */
static void *ss_exception_take_value(stacksplice_exception *x)
{
    bool locked = ss_exception_lock_value(x);
    void *value = NULL;

    if (atomic_load(&x->outside) == 0)
        value = atomic_exchange(&x->value, NULL);
    ss_exception_unlock_value(locked);
    return value;
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

/*
 * Call when X's outside count fell to 0: has its value dropped.  Takes over an inside reference.
 * Any thread.
 */
static void ss_release(stacksplice_owner *public, stacksplice_exception *x)
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

/* ---- Counts ----------------------------------------------------------------------------------*/

/* The outside count of a language exception, and what the exception holds while it is above 0. */

ULONG ss_exception_add_ref(stacksplice_exception *x)
{
    ULONG count = atomic_fetch_add(&x->outside, 1) + 1;

    if (count == 1) {
        stacksplice_exception_ref(x);
        if (ss_exception_sleeps(x))
            ss_exception_each_related(x, ss_related_wake);
    }
    return count;
}

ULONG ss_exception_release(stacksplice_exception *x)
{
    ULONG count = atomic_fetch_sub(&x->outside, 1) - 1;

    if (count)
        return count;
    /*
     * Enter the owner's list first: a thread that finds a related exception there must find this
     * one, too.
     */
    stacksplice_exception_ref(x);
    ss_release(x->owner, x);
    if (ss_exception_sleeps(x))
        ss_exception_each_related(x, ss_related_sleep);
    ss_exception_unref(x);
    return 0;
}

/* If it keeps a value and was never held from outside, drop that value first. */
void stacksplice_exception_unref(stacksplice_exception *x)
{
    if (!x)
        return;
    if (stacksplice_exception_value(x) && !atomic_load(&x->outside))
        ss_release(x->owner, x);
    else
        ss_exception_unref(x);
}

void stacksplice_exception_set_cause(stacksplice_exception *x, IScriptErrorInfo *cause,
                                     stacksplice_relation relation, uint32_t left_out)
{
    x->relation = relation;
    x->causes_left_out = left_out;
    if (!cause)
        return;
    ss_related_hold(cause);
    /*
     * Our own outside reference keeps other threads from adding the first or dropping the last one.
     */
    if (ss_exception_sleeps(x))
        ss_exception_add_ref(x);
    ss_related_wake(cause);
    atomic_store(&x->cause, cause);
    if (ss_exception_sleeps(x))
        ss_exception_release(x);
}

int stacksplice_exception_keep(stacksplice_exception *x, void *value)
{
    bool locked = ss_exception_lock_value(x), kept = false;

    if (!atomic_load(&x->value) && ss_release_can_keep(x->owner, x)) {
        atomic_store(&x->value, value);
        kept = true;
    }
    ss_exception_unlock_value(locked);
    return kept;
}

int stacksplice_exception_is_held(const stacksplice_exception *x)
{
    return atomic_load(&x->value) && atomic_load(&x->outside);
}

/* ---- Memory ----------------------------------------------------------------------------------*/

/* The memory of a language exception, its lifelong references, and the value it keeps. */

IScriptErrorInfo *stacksplice_exception_related(const stacksplice_exception *x, uint32_t index)
{
    if (index == 0)
        return atomic_load(&x->cause);
    return index <= x->member_count ? x->members[index - 1] : NULL;
}

void ss_related_wake(IScriptErrorInfo *error)
{
    error->lpVtbl->AddRef(error);
}

void ss_related_hold(IScriptErrorInfo *error)
{
    error->lpVtbl->AddInside(error);
}

bool ss_exception_sleeps(const stacksplice_exception *x)
{
    return !ss_owner_any_thread(x->owner);
}

void stacksplice_exception_ref(stacksplice_exception *x)
{
    atomic_fetch_add(&x->inside, 1);
}

void *stacksplice_exception_value(const stacksplice_exception *x)
{
    return atomic_load(&x->value);
}
