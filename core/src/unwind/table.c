#include "unwind/table.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FIRST_KNOWN 256 /* entries: a first walk pays for each page */
#define NO_CODE 16u /* takes the entry of 0, which ends a stack; never found: belongs elsewhere */

/* ---- Memory -----------------------------------------------------------------------------------*/

static size_t align(size_t size)
{
    return (size + 63) & ~(size_t)63;
}

static void *carve(ss_table *table, size_t *used, size_t count, size_t size)
{
    void *part = (void *)((uintptr_t)table + *used);

    *used += align(count * size);
    return part;
}

/* Each part is used from its start on, so that a first walk touches few pages. */
static size_t lay_out(ss_table *table, const ss_table_room *room)
{
    size_t used = align(sizeof *table);
    ss_table t;

    t.rules = carve(table, &used, room->known / 4 * 3 + SS_FORWARDERS, sizeof *t.rules);
    /* Each table is four times as wide as the one before: all together, a third more. */
    t.first = carve(table, &used, room->known + room->known / 3, sizeof *t.first);
    t.to_facts =
        (uintptr_t)carve(table, &used, room->known + room->known / 3, sizeof(ss_frame_facts)) -
        (uintptr_t)t.first;
    t.files = carve(table, &used, room->files, sizeof *t.files);
    t.marked = carve(table, &used, room->frames + 1, sizeof *t.marked);
    t.frames = carve(table, &used, room->frames, sizeof *t.frames);
    if (table) {
        table->rules = t.rules;
        table->known = table->first = t.first;
        table->to_facts = t.to_facts;
        table->files = t.files;
        table->marked = t.marked;
        table->frames = t.frames;
    }
    return used;
}

static ss_table_room room_of(ss_table_size size)
{
    ss_table_room room = {.known = 4096, .files = 32, .frames = 2048};

    if (size & SS_TABLE_WIDE) {
        room.known = 16384;
        room.files = 1024;
    }
    if (size & SS_TABLE_DEEP)
        room.frames = SS_UNWIND_MAX_FRAMES + SS_UNWIND_OWN_FRAMES;
    return room;
}

ss_table *ss_table_new(ss_table_size size)
{
    ss_table_room room = room_of(size);
    size_t bytes = lay_out(NULL, &room);
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ss_table *table = map;

    if (map == MAP_FAILED)
        return NULL;
    /* The kernel would clear a whole huge page at the first touch. */
    (void)madvise(map, bytes, MADV_NOHUGEPAGE);
    (void)lay_out(table, &room);
    table->room = room;
    table->size = size;
    table->bytes = bytes;
    ss_table_forget(table);
    return table;
}

void ss_table_free(ss_table *table)
{
    if (table)
        munmap(table, table->bytes);
}

static void drop_pages(void *from, void *to)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t low = ((uintptr_t)from + page - 1) / page * page, high = (uintptr_t)to / page * page;

    if (low < high)
        (void)madvise((void *)low, high - low, MADV_DONTNEED);
}

void ss_table_trim(ss_table *table, uint32_t frames)
{
    drop_pages(table->frames + frames, table->frames + table->room.frames);
    drop_pages(table->marked + frames, table->marked + table->room.frames);
}

/* ---- What is known ----------------------------------------------------------------------------*/

static uint32_t entries_of(const ss_table *table)
{
    return table->mask / (uint32_t)sizeof(ss_known) + 1;
}

static void begin_known(ss_table *table, ss_known *known, uint32_t entries)
{
    known[0] = (ss_known){.ip = NO_CODE};
    table->known = known;
    table->mask = (entries - 1) * (uint32_t)sizeof *known;
}

void ss_table_forget(ss_table *table)
{
    if (table->rule_count)
        memset(table->known, 0, entries_of(table) * sizeof *table->known);
    begin_known(table, table->first, FIRST_KNOWN);
    table->has_record = false;
    table->rules[0] = ss_rule_frame_pointer();
    for (int i = 1; i < SS_FORWARDERS; i++)
        table->rules[i] = ss_rule_forwarder((ss_forwarder)i);
    table->rule_count = SS_FORWARDERS;
}

static void put(ss_table *table, const ss_known *known, const ss_frame_facts *facts)
{
    uintptr_t at = ss_table_first_place(table->mask, known->ip);
    ss_known *to = ss_table_at(table->known, at);

    while (to->ip) {
        at = (at + sizeof *known) & table->mask;
        to = ss_table_at(table->known, at);
    }
    *to = *known;
    *ss_table_facts(table, to) = *facts;
}

static void widen(ss_table *table)
{
    ss_known *was = table->known;
    uint32_t entries = entries_of(table);

    begin_known(table, was + entries, entries * 4);
    for (uint32_t i = 1; i < entries; i++)
        if (was[i].ip)
            put(table, &was[i], ss_table_facts(table, &was[i]));
    memset(was, 0, entries * sizeof *was);
}

/*
 * How far below the CFA of RULE the caller's frame pointer is, if it is certain to lie in the frame
 * or in the word below.  The walk then loads it without a check.
 */
static uint16_t frame_pointer_below(const ss_rule *rule)
{
    unsigned slot = ss_rule_slot(rule->slots, SS_SAVED_FP);
    ss_rule_kind kind = ss_rule_kind_of(rule->cfa);
    uintptr_t most = kind == SS_RULE_SP ? ss_rule_offset(rule->cfa) / sizeof(uintptr_t) : 2;

    if (kind > SS_RULE_SAVED) /* counts from another base than the CFA, or has none */
        return SS_BELOW_LOST;
    if (slot == SS_SLOT_UNCHANGED)
        return SS_BELOW_UNCHANGED;
    return slot <= most ? (uint16_t)(slot * sizeof(uintptr_t)) : (uint16_t)SS_BELOW_LOST;
}

bool ss_table_add(ss_table *table, uintptr_t ip, const ss_rule *rule, uint32_t flags)
{
    ss_known known = {.ip = ip,
                      .cfa = rule->cfa,
                      .fp_below = frame_pointer_below(rule),
                      .slot = (uint16_t)ss_rule_return_slot(rule->slots)};
    ss_frame_facts facts = {.flags = flags, .rule = table->rule_count};

    if (ss_table_is_full(table))
        return false;
    if (ss_table_count(table) >= entries_of(table) / 4 && entries_of(table) < table->room.known)
        widen(table);
    if (rule->start != UINT32_MAX)
        facts.function = ip - 1 - rule->start;
    table->rules[table->rule_count++] = *rule;
    put(table, &known, &facts);
    return true;
}
