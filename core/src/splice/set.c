#include "splice/set.h"

#include "base/alloc.h"

#define FIRST_CAPACITY 512

ss_set_table *ss_set_new_table(size_t capacity)
{
    ss_set_table *table = ss_alloc(1, sizeof *table + capacity * sizeof table->slots[0]);

    if (table)
        table->capacity = capacity;
    return table;
}

size_t ss_set_wants(const ss_set *set)
{
    const ss_set_table *table = atomic_load_explicit(&set->table, memory_order_relaxed);

    if (!table)
        return FIRST_CAPACITY;
    return set->count * 2 >= table->capacity ? table->capacity * 2 : 0;
}

static void put(ss_set_table *table, const uint32_t *entry)
{
    size_t i = *entry & (table->capacity - 1);

    while (atomic_load_explicit(&table->slots[i], memory_order_relaxed))
        i = (i + 1) & (table->capacity - 1);
    atomic_store_explicit(&table->slots[i], entry, memory_order_release);
}

void ss_set_use(ss_set *set, ss_set_table *table)
{
    ss_set_table *old = atomic_load_explicit(&set->table, memory_order_relaxed);

    table->previous = old;
    for (size_t i = 0; old && i < old->capacity; i++) {
        const uint32_t *entry = atomic_load_explicit(&old->slots[i], memory_order_relaxed);

        if (entry)
            put(table, entry);
    }
    atomic_store_explicit(&set->table, table, memory_order_release);
}

void ss_set_add(ss_set *set, const uint32_t *entry)
{
    put(atomic_load_explicit(&set->table, memory_order_relaxed), entry);
    set->count++;
}

const void *ss_set_find(const ss_set *set, uint32_t hash,
                        bool (*same)(const void *entry, const void *key), const void *key)
{
    const ss_set_table *table = atomic_load_explicit(&set->table, memory_order_acquire);

    if (!table)
        return NULL;
    /* At most half full, so that an empty slot ends every search. */
    for (size_t i = hash & (table->capacity - 1);; i = (i + 1) & (table->capacity - 1)) {
        const uint32_t *entry = atomic_load_explicit(&table->slots[i], memory_order_acquire);

        if (!entry)
            return NULL;
        if (*entry == hash && same(entry, key))
            return entry;
    }
}
