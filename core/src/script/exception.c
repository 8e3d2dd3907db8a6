/* Making language exceptions, their two counts, and the values that they keep. */
#include "script/exception.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "script/owner.h"

#include <string.h>

/* Guards the values of languages whose values any thread drops. */
static ss_lock value_lock = SS_LOCK_INIT;

/* ---- What is related -------------------------------------------------------------------------*/

IScriptErrorInfo *stacksplice_exception_related(const stacksplice_exception *x, uint32_t index)
{
    if (index == 0)
        return atomic_load(&x->cause);
    return index <= x->member_count ? x->members[index - 1] : NULL;
}

/* Call VISIT for each error that X is made from or has as a member. */
static void each_related(const stacksplice_exception *x, void (*visit)(IScriptErrorInfo *error))
{
    for (uint32_t i = 0; i <= x->member_count; i++) {
        IScriptErrorInfo *error = stacksplice_exception_related(x, i);

        if (error)
            visit(error);
    }
}

static void wake(IScriptErrorInfo *error)
{
    error->lpVtbl->AddRef(error);
}

static void put_to_sleep(IScriptErrorInfo *error)
{
    error->lpVtbl->Release(error);
}

static void add_inside(IScriptErrorInfo *error)
{
    error->lpVtbl->AddInside(error);
}

static void release_inside(IScriptErrorInfo *error)
{
    error->lpVtbl->ReleaseInside(error);
}

/*
 * Where no interpreter can keep a related value again, the related errors stay awake for life.
 */
static bool sleeps(const stacksplice_exception *x)
{
    return !ss_owner_any_thread(x->owner);
}

void stacksplice_exception_set_cause(stacksplice_exception *x, IScriptErrorInfo *cause,
                                     stacksplice_relation relation, uint32_t left_out)
{
    x->relation = relation;
    x->causes_left_out = left_out;
    if (!cause)
        return;
    add_inside(cause);
    /* An outside reference of our own keeps others from being the first or the last meanwhile. */
    if (sleeps(x))
        ss_exception_add_ref(x);
    wake(cause);
    atomic_store(&x->cause, cause);
    if (sleeps(x))
        ss_exception_release(x);
}

/* ---- Counts ----------------------------------------------------------------------------------*/

static void free_exception(stacksplice_exception *x)
{
    if (!sleeps(x))
        each_related(x, put_to_sleep);
    each_related(x, release_inside);
    stacksplice_owner_unref(x->owner);
    ss_free(x);
}

void stacksplice_exception_ref(stacksplice_exception *x)
{
    atomic_fetch_add(&x->inside, 1);
}

void stacksplice_exception_unref(stacksplice_exception *x)
{
    if (x && atomic_fetch_sub(&x->inside, 1) == 1)
        free_exception(x);
}

ULONG ss_exception_add_ref(stacksplice_exception *x)
{
    ULONG count = atomic_fetch_add(&x->outside, 1) + 1;

    if (count == 1) {
        stacksplice_exception_ref(x);
        if (sleeps(x))
            each_related(x, wake);
    }
    return count;
}

ULONG ss_exception_release(stacksplice_exception *x)
{
    ULONG count = atomic_fetch_sub(&x->outside, 1) - 1;

    if (count)
        return count;
    /* The owner's list first: who finds a related exception there finds this one, too. */
    stacksplice_exception_ref(x);
    ss_owner_released(x->owner, x);
    if (sleeps(x))
        each_related(x, put_to_sleep);
    stacksplice_exception_unref(x);
    return 0;
}

/* ---- Values ----------------------------------------------------------------------------------*/

int stacksplice_exception_keep(stacksplice_exception *x, void *value)
{
    bool kept = false, locked = false;

    if (ss_owner_any_thread(x->owner))
        locked = ss_lock_take(&value_lock);
    if (!atomic_load(&x->value) && ss_owner_keep(x->owner, x)) {
        atomic_store(&x->value, value);
        kept = true;
    }
    if (locked)
        ss_lock_drop(&value_lock);
    return kept;
}

void *ss_exception_take_value(stacksplice_exception *x)
{
    bool locked = ss_owner_any_thread(x->owner) && ss_lock_take(&value_lock);
    void *value = NULL;

    if (atomic_load(&x->outside) == 0)
        value = atomic_exchange(&x->value, NULL);
    if (locked)
        ss_lock_drop(&value_lock);
    return value;
}

void *stacksplice_exception_value(const stacksplice_exception *x)
{
    return atomic_load(&x->value);
}

int stacksplice_exception_is_held(const stacksplice_exception *x)
{
    return atomic_load(&x->value) && atomic_load(&x->outside);
}

const stacksplice_owner *stacksplice_exception_owner(const stacksplice_exception *x)
{
    return x->owner;
}

stacksplice_hresult stacksplice_exception_hresult(const stacksplice_exception *x)
{
    return x->hresult;
}

IUnknown *stacksplice_exception_unknown(stacksplice_exception *x)
{
    return (IUnknown *)(void *)&x->backtrace;
}

/* ---- Making one ------------------------------------------------------------------------------*/

/* The bytes of PARTS' texts, each with a NUL. */
static size_t text_bytes(const stacksplice_exception_parts *parts)
{
    size_t bytes = parts->message_length + 1;

    for (uint32_t i = 0; i < parts->type_count; i++)
        bytes += strlen(parts->types[i]) + 1;
    for (uint32_t i = 0; i < parts->note_count; i++)
        bytes += parts->notes[i].length + 1;
    return bytes;
}

/* Copy LENGTH bytes of TEXT and a NUL to *AT, which moves behind them. */
static const char *put_text(char **at, const char *text, size_t length)
{
    char *copy = *at;

    if (length)
        memcpy(copy, text, length);
    copy[length] = 0;
    *at = copy + length + 1;
    return copy;
}

static void put_texts(stacksplice_exception *x, const stacksplice_exception_parts *parts, char *at)
{
    x->types = at;
    x->type_count = parts->type_count;
    for (uint32_t i = 0; i < parts->type_count; i++)
        (void)put_text(&at, parts->types[i], strlen(parts->types[i]));
    x->message_length = parts->message_length;
    x->message = put_text(&at, parts->message, parts->message_length);
    x->note_count = parts->note_count;
    for (uint32_t i = 0; i < parts->note_count; i++) {
        x->notes[i].length = parts->notes[i].length;
        x->notes[i].text = put_text(&at, parts->notes[i].text, parts->notes[i].length);
    }
}

static void put_members(stacksplice_exception *x, const stacksplice_exception_parts *parts)
{
    x->group = parts->group;
    x->member_count = parts->member_count;
    x->members_left_out = parts->members_left_out;
    for (uint32_t i = 0; i < parts->member_count; i++) {
        x->members[i] = parts->members[i];
        add_inside(x->members[i]);
        if (!sleeps(x))
            wake(x->members[i]);
    }
}

stacksplice_exception *stacksplice_exception_new(stacksplice_owner *owner,
                                                 const stacksplice_exception_parts *parts)
{
    size_t frames = parts->frame_count * sizeof *parts->frames;
    size_t members = parts->member_count * sizeof *parts->members;
    size_t notes = parts->note_count * sizeof *parts->notes;
    stacksplice_exception *x =
        ss_alloc_dirty(sizeof *x + frames + members + notes + text_bytes(parts));
    char *at;

    if (!x)
        return NULL;
    memset(x, 0, sizeof *x);
    ss_exception_set_interfaces(x);
    atomic_init(&x->inside, 1);
    stacksplice_owner_ref(owner);
    x->owner = owner;
    x->hresult = parts->hresult;
    x->interrupt = parts->interrupt;
    x->frame_count = parts->frame_count;
    if (frames)
        memcpy(x->storage, parts->frames, frames);
    at = (char *)x->storage + frames;
    x->members = (IScriptErrorInfo **)(void *)at;
    x->notes = (stacksplice_told_text *)(void *)(at + members);
    put_members(x, parts);
    put_texts(x, parts, at + members + notes);
    return x;
}
