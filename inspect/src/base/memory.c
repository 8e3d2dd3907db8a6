#include "base/base.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- The target's memory -----------------------------------------------------------------------*/

/* Some seconds: a read takes some nanoseconds, and longer ones cost more. */
enum { ALL = 1 << 27, BYTES = 256 };

static size_t left = ALL;
static bool spent;
static ssi_reader reader;
static void *reader_data;

void ssi_read_by(ssi_reader read, void *data)
{
    reader = read;
    reader_data = data;
}

void ssi_budget_renew(void)
{
    left = ALL;
    spent = false;
}

bool ssi_read(uint64_t address, void *out, size_t size)
{
    size_t cost = 1 + size / BYTES;

    if (address + size < address)
        return false;
    if (cost > left) {
        spent = true;
        return false;
    }
    left -= cost;
    return reader(reader_data, address, out, size);
}

bool ssi_budget_is_spent(void)
{
    return spent;
}

/* ---- Lists ------------------------------------------------------------------------------------*/

bool ssi_grow(void *items, size_t count, size_t *capacity, size_t size)
{
    size_t wanted = *capacity ? *capacity * 2 : 16;
    void *now, *larger;

    if (count < *capacity)
        return true;
    if (wanted > SIZE_MAX / size)
        return false;
    memcpy(&now, items, sizeof now); /* the pointer is of any type */
    larger = realloc(now, wanted * size);
    if (!larger)
        return false;
    memcpy(items, &larger, sizeof larger);
    *capacity = wanted;
    return true;
}

bool ssi_append(void *items, size_t *count, size_t *capacity, const void *item, size_t size)
{
    char *all;

    if (!ssi_grow(items, *count, capacity, size))
        return false;
    memcpy(&all, items, sizeof all);
    memcpy(all + (*count)++ * size, item, size);
    return true;
}

/* ---- Values by keys ---------------------------------------------------------------------------*/

/* That of KEY, or the free one where it belongs. */
static ssi_entry *entry_of(const ssi_map *map, uint64_t key)
{
    size_t at = (size_t)(key * 0x9E3779B97F4A7C15u >> 32) & (map->room - 1);

    while (map->entries[at].key && map->entries[at].key != key)
        at = (at + 1) & (map->room - 1);
    return &map->entries[at];
}

static bool enlarge(ssi_map *map)
{
    ssi_map larger = {.count = map->count, .room = map->room ? map->room * 2 : 1024};

    larger.entries = calloc(larger.room, sizeof *larger.entries);
    if (!larger.entries)
        return false;
    for (size_t i = 0; i < map->room; i++)
        if (map->entries[i].key)
            *entry_of(&larger, map->entries[i].key) = map->entries[i];
    free(map->entries);
    *map = larger;
    return true;
}

const uint64_t *ssi_map_find(const ssi_map *map, uint64_t key)
{
    const ssi_entry *entry = map->room ? entry_of(map, key) : NULL;

    return entry && entry->key ? &entry->value : NULL;
}

bool ssi_map_put(ssi_map *map, uint64_t key, uint64_t value)
{
    ssi_entry *entry;

    if (map->count * 2 >= map->room && !enlarge(map))
        return false;
    entry = entry_of(map, key);
    map->count += !entry->key;
    *entry = (ssi_entry){key, value};
    return true;
}
