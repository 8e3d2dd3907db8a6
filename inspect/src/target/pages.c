/*
 * A cache of whole pages: a hash table from page numbers to copies.  A process that is stopped must
 * not wait for the reader, so each page is asked for once, and neighbours together.
 */
#include "target/target.h"

#include <stdlib.h>
#include <string.h>

enum {
    PAGE = 4096,
    MAX_PAGES = 1 << 17,  /* half a gigabyte of copies; later reads fail */
    BLOCK = 64,           /* pages read by one call */
    MAX_STACK = 64 << 20, /* bytes copied of one stack */
    RED_ZONE = 128
};

typedef struct slot {
    uint64_t page; /* its number plus one; 0: free */
    char *bytes;   /* NULL: it cannot be read */
} slot;

struct ssi_pages {
    ssi_pages_fetch fetch;
    void *data;
    bool frozen;
    size_t count, room; /* of slots; ROOM is a power of two */
    slot *slots;
    char **blocks; /* of BLOCK pages each */
    size_t block_count, pages_used;
};

ssi_pages *ssi_pages_new(ssi_pages_fetch fetch, void *data)
{
    ssi_pages *pages = calloc(1, sizeof *pages);

    if (!pages)
        return NULL;
    pages->fetch = fetch;
    pages->data = data;
    pages->room = 1024;
    pages->slots = calloc(pages->room, sizeof *pages->slots);
    pages->blocks = calloc(MAX_PAGES / BLOCK, sizeof *pages->blocks);
    if (!pages->slots || !pages->blocks) {
        ssi_pages_free(pages);
        return NULL;
    }
    return pages;
}

void ssi_pages_free(ssi_pages *pages)
{
    if (!pages)
        return;
    for (size_t i = 0; i < pages->block_count; i++)
        free(pages->blocks[i]);
    free(pages->blocks);
    free(pages->slots);
    free(pages);
}

void ssi_pages_forget(ssi_pages *pages)
{
    memset(pages->slots, 0, pages->room * sizeof *pages->slots);
    pages->count = pages->pages_used = 0;
}

void ssi_pages_freeze(ssi_pages *pages)
{
    pages->frozen = true;
}

/* ---- The table --------------------------------------------------------------------------------*/

static slot *slot_of(slot *slots, size_t room, uint64_t page)
{
    size_t at = (size_t)(page * 0x9E3779B97F4A7C15u >> 32) & (room - 1);

    while (slots[at].page && slots[at].page != page + 1)
        at = (at + 1) & (room - 1);
    return &slots[at];
}

static bool grow_table(ssi_pages *pages)
{
    size_t room = pages->room * 2;
    slot *larger;

    if (pages->count * 2 < pages->room)
        return true;
    larger = calloc(room, sizeof *larger);
    if (!larger)
        return false;
    for (size_t i = 0; i < pages->room; i++)
        if (pages->slots[i].page)
            *slot_of(larger, room, pages->slots[i].page - 1) = pages->slots[i];
    free(pages->slots);
    pages->slots = larger;
    pages->room = room;
    return true;
}

static bool put(ssi_pages *pages, uint64_t page, char *bytes)
{
    slot *s;

    if (!grow_table(pages))
        return false;
    s = slot_of(pages->slots, pages->room, page);
    if (!s->page)
        pages->count++;
    *s = (slot){page + 1, bytes};
    return true;
}

/* ---- Reading ----------------------------------------------------------------------------------*/

/* Room for COUNT pages in a row, at most BLOCK; NULL when all is used. */
static char *room_for(ssi_pages *pages, size_t count)
{
    size_t block = pages->pages_used / BLOCK, within = pages->pages_used % BLOCK;

    if (within + count > BLOCK) {
        block++;
        within = 0;
    }
    if (block >= MAX_PAGES / BLOCK)
        return NULL;
    if (block >= pages->block_count) {
        pages->blocks[block] = malloc(BLOCK * PAGE);
        if (!pages->blocks[block])
            return NULL;
        pages->block_count = block + 1;
    }
    pages->pages_used = block * BLOCK + within + count;
    return pages->blocks[block] + within * PAGE;
}

/* Ask for COUNT pages from PAGE on. */
static void fetch(ssi_pages *pages, uint64_t page, size_t count)
{
    char *bytes = room_for(pages, count);
    size_t whole = bytes ? pages->fetch(pages->data, page * PAGE, bytes, count * PAGE) / PAGE : 0;

    for (size_t i = 0; i < count; i++)
        if (!put(pages, page + i, i < whole ? bytes + i * PAGE : NULL))
            return;
}

void ssi_pages_take(ssi_pages *pages, uint64_t start, uint64_t end)
{
    for (uint64_t page = start / PAGE, last = (end + PAGE - 1) / PAGE; page < last; page += BLOCK)
        fetch(pages, page, last - page < BLOCK ? (size_t)(last - page) : BLOCK);
}

static const char *page_at(ssi_pages *pages, uint64_t page)
{
    const slot *s = slot_of(pages->slots, pages->room, page);

    if (!s->page && !pages->frozen) {
        fetch(pages, page, 1);
        s = slot_of(pages->slots, pages->room, page);
    }
    return s->page ? s->bytes : NULL;
}

static bool read_pages(void *data, uint64_t address, void *out, size_t size)
{
    ssi_pages *pages = data;
    char *to = out;

    while (size) {
        const char *bytes = page_at(pages, address / PAGE);
        size_t within = (size_t)(address % PAGE);
        size_t now = PAGE - within < size ? PAGE - within : size;

        if (!bytes)
            return false;
        memcpy(to, bytes + within, now);
        to += now;
        address += now;
        size -= now;
    }
    return true;
}

/* Take the pages of code that the target generated, as far as words of [START, END) point to them:
   the walk looks at the instructions there. */
static void take_generated(ssi_pages *pages, const ssi_target *target, uint64_t start, uint64_t end)
{
    uint64_t low = UINT64_MAX, high = 0, word;

    for (size_t i = 0; i < target->mapping_count; i++) {
        const ssi_mapping *m = &target->mappings[i];

        if (m->executable && !m->path) {
            low = m->start < low ? m->start : low;
            high = m->end > high ? m->end : high;
        }
    }
    for (uint64_t at = start; at < end && low < high; at += sizeof word) {
        const ssi_mapping *m;

        if (!read_pages(pages, at, &word, sizeof word) || word < low || word >= high)
            continue;
        m = ssi_target_mapping(target, word);
        if (m && m->executable && !m->path)
            (void)page_at(pages, word / PAGE);
    }
}

static void take_stack(ssi_pages *pages, const ssi_target *target, uint64_t sp, uint64_t end)
{
    if (end > sp + MAX_STACK)
        end = sp + MAX_STACK;
    ssi_pages_take(pages, sp > RED_ZONE ? sp - RED_ZONE : sp, end);
    take_generated(pages, target, sp & ~(uint64_t)7, end);
}

void ssi_pages_take_stacks(ssi_pages *pages, const ssi_target *target)
{
    for (size_t i = 0; i < target->thread_count; i++) {
        const ssi_thread *thread = &target->threads[i];
        const ssi_mapping *other;
        uint64_t sp;

        if (!thread->stack_end)
            continue;
        take_stack(pages, target, thread->registers[target->machine->sp], thread->stack_end);
        sp = ssi_target_interrupted(target, thread);
        other = sp ? ssi_target_stack(target, sp) : NULL;
        if (other)
            take_stack(pages, target, sp, other->end);
    }
}

ssi_memory ssi_pages_memory(ssi_pages *pages)
{
    return (ssi_memory){read_pages, pages};
}
