/* Language exceptions: their making, their release, and their way over the borders. */
#include "script/exception.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "error/error.h"

#include <string.h>

/* Guards the values, and the lists of those that keep one, of languages of which several threads change
   them. */
SS_LOCK(value_lock);

/* ---- Owner -----------------------------------------------------------------------------------*/

static ss_owner *inner(const stacksplice_owner *owner)
{
    return (ss_owner *)(uintptr_t)owner; /* its first member */
}

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
    ss_owner *self = inner(owner);

    self->version = version;
    self->entry = ss_entry_add(STACKSPLICE_ENTRY_INTERPRETER, state, (uintptr_t)self);
}

void stacksplice_owner_ref(stacksplice_owner *self)
{
    atomic_fetch_add(&inner(self)->refs, 1);
}

void stacksplice_owner_unref(stacksplice_owner *self)
{
    if (self && atomic_fetch_sub(&inner(self)->refs, 1) == 1)
        ss_free(self);
}

void *stacksplice_owner_data(const stacksplice_owner *self)
{
    return atomic_load(&inner(self)->data);
}

/* Whether the releasing thread may drop OWNER's values itself. */
static bool any_thread(const stacksplice_owner *owner)
{
    return inner(owner)->language->flags & STACKSPLICE_LANGUAGE_ANY_THREAD;
}

/* ---- Memory ----------------------------------------------------------------------------------*/

IScriptErrorInfo *stacksplice_exception_related(const stacksplice_exception *x, uint32_t index)
{
    if (index == 0)
        return atomic_load(&x->cause);
    return index <= x->member_count ? x->members[index - 1] : NULL;
}

static void related_wake(IScriptErrorInfo *error)
{
    error->lpVtbl->AddRef(error);
}

/* False where no interpreter can keep a related value again: related errors stay awake. */
static bool sleeps(const stacksplice_exception *x)
{
    return !any_thread(x->owner);
}

void stacksplice_exception_ref(stacksplice_exception *x)
{
    atomic_fetch_add(&x->inside, 1);
}

void *stacksplice_exception_value(const stacksplice_exception *x)
{
    return atomic_load(&x->value);
}

/* ---- Release ---------------------------------------------------------------------------------*/

/* Guards "not closed, so the language may be called". */
SS_LOCK(wake_lock);

static _Thread_local stacksplice_owner *current;

/* ---- What is kept ----------------------------------------------------------------------------*/

/* Lock OWNER's values where several threads may change them. */
static bool lock_values(const stacksplice_owner *owner)
{
    return inner(owner)->language->flags && ss_lock_take(&value_lock);
}

static void unlock_values(bool locked)
{
    if (locked)
        ss_lock_drop(&value_lock);
}

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
 * Add X to the list that OWNER drops values from at its end; owner's thread, with its values locked.
 * False when OWNER is closed.
 */
static bool can_keep(stacksplice_owner *self, stacksplice_exception *x)
{
    stacksplice_exception **list = &inner(self)->keeping;

    if (atomic_load(&inner(self)->closed))
        return false;
    if (any_thread(self))
        return true;
    x->kept = *list;
    x->link = list;
    if (*list)
        (*list)->link = &x->kept;
    *list = x;
    return true;
}

/* Move OWNER's list to *LIST. */
static void take_list(stacksplice_owner *owner, stacksplice_exception **list)
{
    bool locked = lock_values(owner);

    *list = inner(owner)->keeping;
    inner(owner)->keeping = NULL;
    if (*list)
        (*list)->link = list;
    unlock_values(locked);
}

/* The value of the first of LIST, which leaves the list; NULL at its end. */
static void *take_first(const stacksplice_owner *owner, stacksplice_exception **list)
{
    bool locked = lock_values(owner);
    stacksplice_exception *first = *list;
    void *value = NULL;

    if (first) {
        value = atomic_exchange(&first->value, NULL);
        unlink_kept(first);
    }
    unlock_values(locked);
    return value;
}

void stacksplice_owner_drop_all(stacksplice_owner *self, void *context)
{
    ss_owner *own = inner(self);
    stacksplice_exception *list;
    stacksplice_saved_error saved;
    void *value;

    take_list(self, &list);
    if (!list)
        return;
    (void)stacksplice_save_error(&saved);
    while ((value = take_first(self, &list)) != NULL)
        own->language->drop(context, atomic_load(&own->data), value);
    (void)stacksplice_restore_error(&saved);
}

/* ---- What was released -----------------------------------------------------------------------*/

static stacksplice_exception *take_waiting(ss_owner *self)
{
    return (stacksplice_exception *)(uintptr_t)__atomic_exchange_n(&self->public.waiting, NULL,
                                                                   __ATOMIC_SEQ_CST);
}

/* Call VISIT for each cause and member of X. */
static void each_related(const stacksplice_exception *x, void (*visit)(IScriptErrorInfo *error))
{
    for (uint32_t i = 0; i <= x->member_count; i++) {
        IScriptErrorInfo *error = stacksplice_exception_related(x, i);

        if (error)
            visit(error);
    }
}

static void related_sleep(IScriptErrorInfo *error)
{
    error->lpVtbl->Release(error);
}

static void release_inside(IScriptErrorInfo *error)
{
    error->lpVtbl->ReleaseInside(error);
}

/* Release an inside reference of an exception whose value, if any, is dropped elsewhere. */
static void release_memory(stacksplice_exception *x)
{
    if (atomic_fetch_sub(&x->inside, 1) != 1)
        return;
    if (!sleeps(x))
        each_related(x, related_sleep);
    each_related(x, release_inside);
    stacksplice_owner_unref(x->owner);
    ss_free(x);
}

/* Discard the list: the interpreter is gone. */
static void abandon(ss_owner *self)
{
    stacksplice_exception *x = take_waiting(self);

    while (x) {
        stacksplice_exception *next = x->waiting;

        atomic_store(&x->queued, false);
        release_memory(x);
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

/* Take the value if it must be dropped now, because nothing outside holds X; else NULL. */
static void *take_value(stacksplice_exception *x)
{
    bool locked = lock_values(x->owner);
    void *value = NULL;

    if (atomic_load(&x->outside) == 0)
        value = atomic_exchange(&x->value, NULL);
    if (value)
        unlink_kept(x);
    unlock_values(locked);
    return value;
}

void stacksplice_owner_drain(stacksplice_owner *public, void *context)
{
    ss_owner *self = inner(public);
    stacksplice_exception *x;

    atomic_store(&self->waking, false);
    x = take_waiting(self);
    while (x) {
        stacksplice_exception *next = x->waiting;
        void *value;

        /* Clear it before reading the count, so that a later release queues X again. */
        atomic_store(&x->queued, false);
        value = take_value(x);
        drop_saving_slot(self, context, value);
        release_memory(x);
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
static void release(stacksplice_owner *public, stacksplice_exception *x)
{
    ss_owner *self = inner(public);

    if (any_thread(public)) {
        drop_saving_slot(self, NULL, take_value(x));
        release_memory(x);
        return;
    }
    /* Nothing to drop, no interpreter, or already on the list. */
    if (!stacksplice_exception_value(x) || atomic_load(&self->closed) ||
        atomic_exchange(&x->queued, true)) {
        release_memory(x);
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
    ss_owner *self = inner(public);
    bool locked = ss_lock_take(&wake_lock);

    atomic_store(&self->closed, true);
    if (locked)
        ss_lock_drop(&wake_lock);
    ss_entry_free(self->entry);
    atomic_store(&self->data, NULL);
    while (take_first(public, &self->keeping))
        ;
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
        wake(inner(self));
}

/* ---- Counts ----------------------------------------------------------------------------------*/

/* The outside count of a language exception, and what the exception holds while it is above 0. */

static ULONG add_outside(stacksplice_exception *x)
{
    ULONG count = atomic_fetch_add(&x->outside, 1) + 1;

    if (count == 1) {
        stacksplice_exception_ref(x);
        if (sleeps(x))
            each_related(x, related_wake);
    }
    return count;
}

static ULONG release_outside(stacksplice_exception *x)
{
    ULONG count = atomic_fetch_sub(&x->outside, 1) - 1;

    if (count)
        return count;
    /*
     * Enter the owner's list first: a thread that finds a related exception there must find this
     * one, too.
     */
    stacksplice_exception_ref(x);
    release(x->owner, x);
    if (sleeps(x))
        each_related(x, related_sleep);
    release_memory(x);
    return 0;
}

/* If it keeps a value and was never held from outside, drop that value first. */
void stacksplice_exception_unref(stacksplice_exception *x)
{
    if (!x)
        return;
    if (stacksplice_exception_value(x) && !atomic_load(&x->outside))
        release(x->owner, x);
    else
        release_memory(x);
}

void stacksplice_exception_set_cause(stacksplice_exception *x, IScriptErrorInfo *cause,
                                     stacksplice_relation relation, uint32_t left_out)
{
    x->relation = relation;
    x->causes_left_out = left_out;
    if (!cause)
        return;
    cause->lpVtbl->AddInside(cause);
    /*
     * Our own outside reference keeps other threads from adding the first or dropping the last one.
     */
    if (sleeps(x))
        add_outside(x);
    related_wake(cause);
    atomic_store(&x->cause, cause);
    if (sleeps(x))
        release_outside(x);
}

int stacksplice_exception_keep(stacksplice_exception *x, void *value)
{
    bool locked = lock_values(x->owner), kept = false;

    if (!atomic_load(&x->value) && can_keep(x->owner, x)) {
        atomic_store(&x->value, value);
        kept = true;
    }
    unlock_values(locked);
    return kept;
}

int stacksplice_exception_is_held(const stacksplice_exception *x)
{
    return atomic_load(&x->value) && atomic_load(&x->outside);
}

/* ---- As COM sees it: three interfaces that forward to the object -----------------------------*/

#define OBJECT_OF(pointer, member) SS_CONTAINER(pointer, stacksplice_exception, member)

static void *find_interface(stacksplice_exception *x, REFIID iid)
{
    if (IsEqualIID(iid, &IID_IUnknown) || IsEqualIID(iid, &IID_IAgileObject) ||
        IsEqualIID(iid, &IID_ILanguageExceptionStackBackTrace))
        return &x->backtrace;
    if (IsEqualIID(iid, &stacksplice_IID_IScriptException))
        return &x->script;
    if (IsEqualIID(iid, &IID_ILanguageExceptionTransform) && atomic_load(&x->cause))
        return &x->transform;
    return NULL;
}

static HRESULT query(stacksplice_exception *x, REFIID iid, void **out)
{
    if (!out)
        return E_POINTER;
    *out = find_interface(x, iid);
    if (!*out)
        return E_NOINTERFACE;
    add_outside(x);
    return S_OK;
}

#define FORWARD_UNKNOWN(type, member) \
    SS_FORWARD_UNKNOWN(type, member, OBJECT_OF(iface, member), query, add_outside, release_outside)

FORWARD_UNKNOWN(ILanguageExceptionStackBackTrace, backtrace)
FORWARD_UNKNOWN(ILanguageExceptionTransform, transform)
FORWARD_UNKNOWN(IScriptException, script)

/* ---- The interfaces' own methods -------------------------------------------------------------*/

static HRESULT give(IScriptErrorInfo *error, IRestrictedErrorInfo **out)
{
    return error->lpVtbl->QueryInterface(error, &IID_IRestrictedErrorInfo, (void **)out);
}

static const uintptr_t *settled_frames(stacksplice_exception *x)
{
    atomic_store(&x->epoch, stacksplice_settle(x->storage, x->frame_count, atomic_load(&x->epoch)));
    return x->storage;
}

static HRESULT STDMETHODCALLTYPE backtrace_GetStackBackTrace(ILanguageExceptionStackBackTrace *self,
                                                             ULONG max_frames, UINT_PTR *frames,
                                                             ULONG *captured)
{
    stacksplice_exception *x = OBJECT_OF(self, backtrace);

    if (!captured || (!frames && max_frames))
        return E_POINTER;
    *captured = stacksplice_copy_ends(settled_frames(x), x->frame_count, max_frames, frames);
    return S_OK;
}

static HRESULT STDMETHODCALLTYPE transform_GetTransformedRestrictedErrorInfo(
    ILanguageExceptionTransform *self, IRestrictedErrorInfo **out)
{
    return out ? give(atomic_load(&OBJECT_OF(self, transform)->cause), out) : E_POINTER;
}

static const char *STDMETHODCALLTYPE script_GetLanguage(IScriptException *self)
{
    return inner(OBJECT_OF(self, script)->owner)->language->name;
}

static const char *STDMETHODCALLTYPE script_GetTypeName(IScriptException *self, uint32_t index)
{
    const stacksplice_exception *x = OBJECT_OF(self, script);
    const char *name = x->types;

    if (index >= x->type_count)
        return NULL;
    while (index--)
        name += strlen(name) + 1;
    return name;
}

static const char *STDMETHODCALLTYPE script_GetMessage(IScriptException *self, size_t *length)
{
    const stacksplice_exception *x = OBJECT_OF(self, script);

    if (length)
        *length = x->message_length;
    return x->message;
}

static void STDMETHODCALLTYPE script_AddInside(IScriptException *self)
{
    stacksplice_exception_ref(OBJECT_OF(self, script));
}

static void STDMETHODCALLTYPE script_ReleaseInside(IScriptException *self)
{
    stacksplice_exception_unref(OBJECT_OF(self, script));
}

static const uintptr_t *STDMETHODCALLTYPE script_GetFrames(IScriptException *self, uint32_t *count)
{
    stacksplice_exception *x = OBJECT_OF(self, script);

    *count = x->frame_count;
    return settled_frames(x);
}

static stacksplice_relation STDMETHODCALLTYPE script_GetRelation(IScriptException *self,
                                                                 uint32_t *left_out)
{
    *left_out = OBJECT_OF(self, script)->causes_left_out;
    return OBJECT_OF(self, script)->relation;
}

static int STDMETHODCALLTYPE script_GetGroup(IScriptException *self, uint32_t *members,
                                             uint32_t *left_out)
{
    const stacksplice_exception *x = OBJECT_OF(self, script);

    *members = x->member_count;
    *left_out = x->members_left_out;
    return x->group;
}

static HRESULT STDMETHODCALLTYPE script_GetMember(IScriptException *self, uint32_t index,
                                                  IRestrictedErrorInfo **member)
{
    const stacksplice_exception *x = OBJECT_OF(self, script);

    if (!member)
        return E_POINTER;
    *member = NULL;
    return index < x->member_count ? give(x->members[index], member) : S_FALSE;
}

static const char *STDMETHODCALLTYPE script_GetNote(IScriptException *self, uint32_t index,
                                                    size_t *length)
{
    const stacksplice_exception *x = OBJECT_OF(self, script);

    if (index >= x->note_count)
        return NULL;
    *length = x->notes[index].length;
    return x->notes[index].text;
}

static int STDMETHODCALLTYPE script_IsInterrupt(IScriptException *self)
{
    return OBJECT_OF(self, script)->interrupt;
}

static const ILanguageExceptionStackBackTraceVtbl backtrace_vtbl = {
    backtrace_QueryInterface, backtrace_AddRef, backtrace_Release, backtrace_GetStackBackTrace};
static const ILanguageExceptionTransformVtbl transform_vtbl = {
    transform_QueryInterface, transform_AddRef, transform_Release,
    transform_GetTransformedRestrictedErrorInfo};
const IScriptExceptionVtbl ss_exception_script_methods = {
    script_QueryInterface, script_AddRef,      script_Release,     script_AddInside,
    script_ReleaseInside,  script_GetLanguage, script_GetTypeName, script_GetMessage,
    script_GetFrames,      script_GetRelation, script_GetGroup,    script_GetMember,
    script_GetNote,        script_IsInterrupt};

stacksplice_exception *stacksplice_exception_from(IUnknown *object, const stacksplice_owner *owner)
{
    ILanguageExceptionStackBackTrace *unknown = (void *)object;
    /* What is asked about most is one of ours, by its first interface. */
    bool is_ours = object && unknown->lpVtbl == &backtrace_vtbl;
    IScriptException *script = is_ours ? NULL : ss_query(object, &stacksplice_IID_IScriptException);
    stacksplice_exception *x = is_ours ? OBJECT_OF(unknown, backtrace) : NULL;

    if (script && script->lpVtbl == &ss_exception_script_methods)
        x = OBJECT_OF(script, script);
    if (script)
        script->lpVtbl->Release(script); /* the caller's reference keeps it alive */
    return x && (!owner || x->owner == owner) ? x : NULL;
}

/* ---- Making one: by value, in one block of memory --------------------------------------------*/

stacksplice_hresult stacksplice_exception_hresult(const stacksplice_exception *x)
{
    return x->hresult;
}

IUnknown *stacksplice_exception_unknown(stacksplice_exception *x)
{
    return (IUnknown *)(void *)&x->backtrace;
}

/* The size of PARTS' texts, each with a NUL. */
static size_t text_bytes(const stacksplice_exception_parts *parts)
{
    size_t bytes = parts->message_length + 1;

    for (uint32_t i = 0; i < parts->type_count; i++)
        bytes += strlen(parts->types[i]) + 1;
    for (uint32_t i = 0; i < parts->note_count; i++)
        bytes += parts->notes[i].length + 1;
    for (uint32_t i = 0; i < parts->local_count; i++)
        bytes += strlen(parts->locals[i].local.name) + parts->locals[i].local.value.length + 2;
    return bytes;
}

const stacksplice_kept_local *stacksplice_exception_locals(const stacksplice_exception *x,
                                                           uint32_t *count)
{
    *count = x->local_count;
    return *count ? x->locals : NULL;
}

/* Copy LENGTH bytes of TEXT and a NUL to *AT, and advance *AT past them. */
static const char *put_text(char **at, const char *text, size_t length)
{
    char *copy = *at;

    if (length)
        memcpy(copy, text, length);
    copy[length] = 0;
    *at = copy + length + 1;
    return copy;
}

static void put_locals(stacksplice_exception *x, const stacksplice_exception_parts *parts, char *at)
{
    x->local_count = parts->local_count;
    for (uint32_t i = 0; i < parts->local_count; i++) {
        const stacksplice_kept_local *from = &parts->locals[i];
        stacksplice_kept_local *to = &x->locals[i];

        *to = *from;
        to->local.name = put_text(&at, from->local.name, strlen(from->local.name));
        to->local.value.text = put_text(&at, from->local.value.text, from->local.value.length);
    }
}

/* Returns what is behind them. */
static char *put_texts(stacksplice_exception *x, const stacksplice_exception_parts *parts, char *at)
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
    return at;
}

static void put_members(stacksplice_exception *x, const stacksplice_exception_parts *parts)
{
    x->group = parts->group;
    x->member_count = parts->member_count;
    x->members_left_out = parts->members_left_out;
    for (uint32_t i = 0; i < parts->member_count; i++) {
        x->members[i] = parts->members[i];
        x->members[i]->lpVtbl->AddInside(x->members[i]);
        if (!sleeps(x))
            related_wake(x->members[i]);
    }
}

stacksplice_exception *stacksplice_exception_new(stacksplice_owner *owner,
                                                 const stacksplice_exception_parts *parts)
{
    size_t frames = parts->frame_count * sizeof *parts->frames;
    size_t members = parts->member_count * sizeof *parts->members;
    size_t notes = parts->note_count * sizeof *parts->notes;
    size_t locals = parts->local_count * sizeof *parts->locals;
    stacksplice_exception *x =
        ss_alloc_dirty(sizeof *x + frames + members + notes + locals + text_bytes(parts));
    char *at;

    if (!x)
        return NULL;
    memset(x, 0, sizeof *x);
    x->backtrace.lpVtbl = &backtrace_vtbl;
    x->transform.lpVtbl = &transform_vtbl;
    x->script.lpVtbl = &ss_exception_script_methods;
    atomic_init(&x->inside, 1);
    stacksplice_owner_ref(owner);
    x->owner = owner;
    x->hresult = parts->hresult;
    x->interrupt = parts->interrupt;
    x->frame_count = parts->frame_count;
    atomic_init(&x->epoch, stacksplice_code_epoch());
    if (frames)
        memcpy(x->storage, parts->frames, frames);
    at = (char *)x->storage + frames;
    x->members = (IScriptErrorInfo **)(void *)at;
    x->notes = (stacksplice_document_text *)(void *)(at + members);
    put_members(x, parts);
    x->locals = (stacksplice_kept_local *)(void *)(at + members + notes);
    at = put_texts(x, parts, at + members + notes + locals);
    put_locals(x, parts, at);
    return x;
}

/* ---- Ties ------------------------------------------------------------------------------------*/

/* Threads of a language without a lock may ask what ties hold while another one changes that. */
#define PUT(place, value) __atomic_store_n(&(place), value, __ATOMIC_RELEASE)

void stacksplice_ties_set_exception(stacksplice_ties *ties, stacksplice_exception *x)
{
    stacksplice_exception *former = ties->exception;

    PUT(ties->exception, x);
    stacksplice_exception_unref(former);
}

/* Tie ERROR before the former one is released: the release may run code that reads the ties. */
static void exchange_error(stacksplice_ties *ties, IScriptErrorInfo *error, int foreign)
{
    IScriptErrorInfo *former = ties->error;
    int was_foreign = ties->foreign;

    PUT(ties->error, error);
    PUT(ties->foreign, foreign);
    if (former && was_foreign)
        former->lpVtbl->Release(former);
    else if (former)
        former->lpVtbl->ReleaseInside(former);
}

void stacksplice_ties_set_error(stacksplice_ties *ties, IScriptErrorInfo *error, int foreign)
{
    if (foreign)
        error->lpVtbl->AddRef(error);
    else
        error->lpVtbl->AddInside(error);
    exchange_error(ties, error, foreign);
}

void stacksplice_ties_drop(stacksplice_ties *ties)
{
    stacksplice_exception *x = ties->exception;

    PUT(ties->exception, NULL);
    exchange_error(ties, NULL, 0);
    stacksplice_exception_unref(x);
}

/* ---- Leaving ---------------------------------------------------------------------------------*/

/*
 * Store a new error in the slot and tie it.  *ERROR gets an outside reference, or NULL with
 * S_FALSE.
 */
static HRESULT originate(stacksplice_ties *ties, IScriptErrorInfo **error)
{
    stacksplice_exception *x = ties->exception;
    IUnknown *unknown = stacksplice_exception_unknown(x);
    IRestrictedErrorInfo *info = NULL;
    HRESULT hr;

    /* Makes X drop its value again even if no error comes to hold X. */
    unknown->lpVtbl->AddRef(unknown);
    hr = stacksplice_originate(x->hresult, x->message, x->message_length, unknown, &info);
    *error = ss_query(info, &stacksplice_IID_IScriptErrorInfo);
    if (info)
        info->lpVtbl->Release(info);
    if (*error)
        stacksplice_ties_set_error(ties, *error, 0);
    unknown->lpVtbl->Release(unknown);
    if (FAILED(hr))
        return hr;
    return *error ? S_OK : S_FALSE;
}

stacksplice_hresult stacksplice_leave(stacksplice_ties *ties, stacksplice_hresult *hr)
{
    IScriptErrorInfo *error = NULL;
    HRESULT result;

    if (ties->error) {
        /* It asks for the interfaces that it needs, so any one of the object will do. */
        (void)SetRestrictedErrorInfo((IRestrictedErrorInfo *)(void *)ties->error);
        return stacksplice_error_hresult((IUnknown *)(void *)ties->error, hr);
    }
    *hr = ties->exception->hresult;
    result = originate(ties, &error);
    if (error)
        error->lpVtbl->Release(error);
    return result;
}

stacksplice_hresult stacksplice_make_error(stacksplice_ties *ties, IScriptErrorInfo **error)
{
    stacksplice_saved_error saved;
    HRESULT result;

    if (ties->error) {
        *error = ties->error;
        (*error)->lpVtbl->AddRef(*error);
        return S_OK;
    }
    (void)stacksplice_save_error(&saved);
    result = originate(ties, error);
    (void)stacksplice_restore_error(&saved);
    return result;
}

/* ---- Arriving --------------------------------------------------------------------------------*/

stacksplice_hresult stacksplice_arrive(stacksplice_owner *owner, const void *above,
                                       stacksplice_hresult hr, IRestrictedErrorInfo **error)
{
    HRESULT result;

    if (!error)
        return E_POINTER;
    *error = NULL;
    if (SUCCEEDED(hr))
        return E_INVALIDARG;
    /* Makes an error where the slot has none for HR, so that the node has one to belong to. */
    (void)stacksplice_propagate_above(above, hr, inner(owner)->language->name);
    result = RoGetMatchingRestrictedErrorInfo(hr, error);
    if (SUCCEEDED(result) && *error)
        return S_OK;
    return result == E_OUTOFMEMORY ? result : S_FALSE;
}

/* The exception of RECORD. */
static stacksplice_exception *carried(const stacksplice_owner *owner, const ss_record *record)
{
    stacksplice_exception *x = stacksplice_exception_from(record->language.object, owner);

    return x && stacksplice_exception_value(x) ? x : NULL;
}

stacksplice_exception *stacksplice_own_exception(const stacksplice_owner *owner, IUnknown *error)
{
    const ss_record *record = ss_record_from(error);
    stacksplice_exception *x = record ? carried(owner, record) : NULL;
    const ss_node *node = record ? atomic_load(&record->error->head) : NULL;

    for (; node && !x; node = node->previous)
        x = carried(owner, &node->record);
    return x;
}
