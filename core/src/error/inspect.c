/* What this process tells those who stop it, and what it reads of another in its place. */
#include "error/error.h"

#include <sys/mman.h>

/* ---- Entries ---------------------------------------------------------------------------------*/

_Static_assert(sizeof(stacksplice_entries) <= 4096, "a page");

static stacksplice_entries *next_of(const stacksplice_entries *list)
{
    return (stacksplice_entries *)(uintptr_t)__atomic_load_n(&list->next, __ATOMIC_ACQUIRE);
}

/* Another thread may do the same: the first one's memory is used. */
static stacksplice_entries *append(stacksplice_entries *list)
{
    void *added =
        mmap(NULL, sizeof *list, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint64_t none = 0;

    if (added == MAP_FAILED)
        return NULL;
    if (!__atomic_compare_exchange_n(&list->next, &none, (uint64_t)(uintptr_t)added, false,
                                     __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        (void)munmap(added, sizeof *list);
    return next_of(list);
}

static bool claim(stacksplice_entry *entry)
{
    uint32_t none = STACKSPLICE_ENTRY_FREE;

    return __atomic_load_n(&entry->kind, __ATOMIC_RELAXED) == none &&
           __atomic_compare_exchange_n(&entry->kind, &none, STACKSPLICE_ENTRY_TAKEN, false,
                                       __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
}

static stacksplice_entry *take(void)
{
    for (stacksplice_entries *list = &ss_entries_first; list;) {
        stacksplice_entries *next;

        for (size_t i = 0; i < STACKSPLICE_ENTRIES; i++)
            if (claim(&list->entries[i]))
                return &list->entries[i];
        next = next_of(list);
        list = next ? next : append(list);
    }
    return NULL;
}

stacksplice_entry *ss_entry_add(uint32_t kind, const void *object, uint64_t detail)
{
    stacksplice_entry *entry = take();

    if (!entry)
        return NULL;
    entry->object = (uintptr_t)object;
    entry->detail = detail;
    __atomic_store_n(&entry->kind, kind, __ATOMIC_RELEASE);
    return entry;
}

void ss_entry_free(stacksplice_entry *entry)
{
    if (entry)
        __atomic_store_n(&entry->kind, STACKSPLICE_ENTRY_FREE, __ATOMIC_RELEASE);
}

void ss_entries_free_others(uint32_t kind, const stacksplice_entry *kept)
{
    for (stacksplice_entries *list = &ss_entries_first; list; list = next_of(list))
        for (size_t i = 0; i < STACKSPLICE_ENTRIES; i++)
            if (&list->entries[i] != kept &&
                __atomic_load_n(&list->entries[i].kind, __ATOMIC_RELAXED) == kind)
                ss_entry_free(&list->entries[i]);
}

/* ---- Errors of another process or a core dump ------------------------------------------------*/

/* Every byte comes through the callback; records of an unknown version are refused. */

static HRESULT check_arguments(USHORT machine, PINSPECT_MEMORY_CALLBACK read, const void *out)
{
    if (!read || !out)
        return E_POINTER;
    return machine == IMAGE_FILE_MACHINE_AMD64 || machine == IMAGE_FILE_MACHINE_ARM64 ||
                   machine == IMAGE_FILE_MACHINE_I386
               ? S_OK
               : E_INVALIDARG;
}

HRESULT RoInspectThreadErrorInfo(UINT_PTR anchor_address, USHORT machine,
                                 PINSPECT_MEMORY_CALLBACK read, PVOID context,
                                 UINT_PTR *error_address)
{
    stacksplice_anchor anchor;
    HRESULT hr = check_arguments(machine, read, error_address);

    if (FAILED(hr))
        return hr;
    hr = read(context, anchor_address, sizeof anchor, (BYTE *)&anchor);
    if (FAILED(hr))
        return hr;
    if (anchor.signature != STACKSPLICE_ANCHOR_SIGNATURE ||
        anchor.version != STACKSPLICE_INSPECT_VERSION || anchor.error > UINTPTR_MAX)
        return __HRESULT_FROM_WIN32(ERROR_INVALID_DATA);
    *error_address = (UINT_PTR)anchor.error;
    return anchor.error ? S_OK : S_FALSE;
}

HRESULT RoInspectCapturedStackBackTrace(UINT_PTR error_address, USHORT machine,
                                        PINSPECT_MEMORY_CALLBACK read, PVOID context,
                                        UINT32 *frame_count, UINT_PTR *back_trace_address)
{
    stacksplice_record record;
    HRESULT hr = check_arguments(machine, read, back_trace_address);

    if (FAILED(hr) || !frame_count)
        return FAILED(hr) ? hr : E_POINTER;
    hr = read(context, error_address, sizeof record, (BYTE *)&record);
    if (FAILED(hr))
        return hr;
    if (record.signature != STACKSPLICE_RECORD_SIGNATURE ||
        record.version != STACKSPLICE_INSPECT_VERSION || record.frames > UINTPTR_MAX)
        return __HRESULT_FROM_WIN32(ERROR_INVALID_DATA);
    *frame_count = record.frame_count;
    *back_trace_address = (UINT_PTR)record.frames;
    return S_OK;
}
