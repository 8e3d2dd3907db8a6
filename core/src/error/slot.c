#include "error/slot.h"

#include "base/thread.h"
#include "error/entries.h"
#include "error/record.h"

#include <pthread.h>

enum { MOST_INTRUDERS = 8 };

typedef struct slot_state {
    stacksplice_anchor anchor; /* the part that debuggers read */
    IErrorInfo *info;          /* owned, or NULL */
    ss_record *record;         /* the same object if it is ours, else NULL */
    bool has_destructor;
    stacksplice_entry *entry; /* by which debuggers find the anchor */
} slot_state;

static _Thread_local slot_state slot = {
    .anchor = {STACKSPLICE_ANCHOR_SIGNATURE, STACKSPLICE_INSPECT_VERSION, 0}};

static pthread_key_t key;
static bool has_key; /* (RO) after load */

static IErrorInfo *exchange(IErrorInfo *info)
{
    /* Ask first: a foreign object may itself use the slot. */
    ss_record *record = info ? ss_record_from((IUnknown *)(void *)info) : NULL;
    IErrorInfo *old = slot.info;

    /* A foreign object that forwards QueryInterface to an error of ours is not that error. */
    if (record && &record->IErrorInfo_iface != info)
        record = NULL;
    atomic_signal_fence(memory_order_release); /* the error is complete for who stops us here */
    slot.record = record;
    slot.anchor.error = slot.record ? (uintptr_t)&slot.record->fixed : 0;
    slot.info = info;
    atomic_signal_fence(memory_order_acquire); /* OLD is not released before */
    return old;
}

/* Runs late in a thread's life, and again if a later destructor originated an error. */
static void at_thread_exit(void *unused)
{
    (void)unused;
    slot.has_destructor = false;
    ss_slot_put(NULL);
    if (slot.has_destructor)
        return;
    ss_entry_free(slot.entry);
    slot.entry = NULL;
}

static void at_fork(void)
{
    ss_entries_free_others(STACKSPLICE_ENTRY_THREAD, slot.entry);
    if (slot.entry)
        slot.entry->detail = ss_thread_id();
}

static ss_fork_hook fork_hook = {at_fork, NULL};

static __attribute__((constructor)) void begin(void)
{
    has_key = pthread_key_create(&key, at_thread_exit) == 0;
    ss_fork_child(&fork_hook);
}

/*
 * Without a key (the process has used all), an error still in the slot at thread exit leaks, and
 * debuggers do not find it: nothing would free the entry.
 */
static void ensure_destructor(void)
{
    if (slot.has_destructor || !has_key)
        return;
    slot.has_destructor = pthread_setspecific(key, &slot) == 0;
    if (slot.has_destructor && !slot.entry)
        slot.entry = ss_entry_add(STACKSPLICE_ENTRY_THREAD, &slot.anchor, ss_thread_id());
}

IErrorInfo *ss_slot_take(void)
{
    return exchange(NULL);
}

void ss_slot_put(IErrorInfo *info)
{
    IErrorInfo *old = exchange(NULL);

    for (int i = 0; old && i < MOST_INTRUDERS; i++) {
        old->lpVtbl->Release(old);
        old = exchange(NULL);
    }
    if (old)
        old->lpVtbl->Release(old);
    if (info)
        ensure_destructor();
    old = exchange(info);
    if (old)
        old->lpVtbl->Release(old);
}

ss_record *ss_slot_peek(void)
{
    return slot.record;
}

const stacksplice_anchor *stacksplice_thread_anchor(void)
{
    return &slot.anchor;
}

/* ---- The public functions --------------------------------------------------------------------*/

HRESULT GetErrorInfo(ULONG reserved, IErrorInfo **info)
{
    if (reserved || !info)
        return E_INVALIDARG;
    *info = ss_slot_take();
    return *info ? S_OK : S_FALSE;
}

HRESULT SetErrorInfo(ULONG reserved, IErrorInfo *info)
{
    if (reserved)
        return E_INVALIDARG;
    if (info)
        info->lpVtbl->AddRef(info);
    ss_slot_put(info);
    return S_OK;
}

HRESULT GetRestrictedErrorInfo(IRestrictedErrorInfo **error)
{
    ss_record *record = slot.record;
    IErrorInfo *info;

    if (!error)
        return E_POINTER;
    info = ss_slot_take();
    *error = record ? &record->IRestrictedErrorInfo_iface : NULL;
    if (record)
        return S_OK;
    if (info)
        info->lpVtbl->Release(info);
    return S_FALSE;
}

HRESULT SetRestrictedErrorInfo(IRestrictedErrorInfo *error)
{
    ss_record *record = ss_record_from((IUnknown *)(void *)error);

    if (error && !record)
        return E_INVALIDARG;
    return SetErrorInfo(0, record ? &record->IErrorInfo_iface : NULL);
}

void RoClearError(void)
{
    ss_slot_put(NULL);
}

HRESULT stacksplice_peek_error(IRestrictedErrorInfo **error)
{
    if (!error)
        return E_POINTER;
    *error = slot.record ? &slot.record->IRestrictedErrorInfo_iface : NULL;
    if (!*error)
        return S_FALSE;
    ss_error_add_ref(slot.record->error);
    return S_OK;
}

HRESULT stacksplice_save_error(stacksplice_saved_error *saved)
{
    if (!saved)
        return E_POINTER;
    saved->slot = ss_slot_take();
    saved->thread = &slot;
    return S_OK;
}

HRESULT stacksplice_restore_error(stacksplice_saved_error *saved)
{
    IErrorInfo *info;

    if (!saved)
        return E_POINTER;
    if (!saved->thread)
        return E_ILLEGAL_METHOD_CALL;
    if (saved->thread != &slot)
        return RPC_E_WRONG_THREAD;
    info = saved->slot;
    *saved = (stacksplice_saved_error){NULL, NULL};
    ss_slot_put(info);
    return S_OK;
}
