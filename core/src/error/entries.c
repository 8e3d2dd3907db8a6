#include "error/entries.h"

#include <sys/mman.h>

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
