/*
 * A cache of whole pages.  A process that is stopped must not wait for the reader, so each page is
 * asked for once, and neighbours together.
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

struct ssi_pages {
    ssi_pages_fetch fetch;
    void *data;
    bool frozen;
    ssi_map copies; /* by the number of the page plus one; 0: it cannot be read */
    char **blocks;  /* of copies */
    size_t block_count, block_room, page_count;
};

void ssi_pages_forget(ssi_pages *pages)
{
    for (size_t i = 0; i < pages->block_count; i++)
        free(pages->blocks[i]);
    free(pages->copies.entries);
    pages->copies = (ssi_map){.count = 0};
    pages->block_count = pages->page_count = 0;
}

void ssi_pages_free(ssi_pages *pages)
{
    if (!pages)
        return;
    ssi_pages_forget(pages);
    free(pages->blocks);
    free(pages);
}

void ssi_pages_freeze(ssi_pages *pages)
{
    pages->frozen = true;
}

/* ---- Reading ----------------------------------------------------------------------------------*/

/* Room for COUNT pages in a row; NULL when all is used. */
static char *room_for(ssi_pages *pages, size_t count)
{
    char *block = pages->page_count + count <= MAX_PAGES ? malloc(count * PAGE) : NULL;

    if (block && !ssi_append(&pages->blocks, &pages->block_count, &pages->block_room, &block,
                             sizeof block)) {
        free(block);
        return NULL;
    }
    pages->page_count += block ? count : 0;
    return block;
}

/* Ask for COUNT pages from PAGE on. */
static void fetch(ssi_pages *pages, uint64_t page, size_t count)
{
    char *bytes = room_for(pages, count);
    size_t whole = bytes ? pages->fetch(pages->data, page * PAGE, bytes, count * PAGE) / PAGE : 0;

    for (size_t i = 0; i < count; i++)
        if (!ssi_map_put(&pages->copies, page + i + 1,
                         i < whole ? (uintptr_t)(bytes + i * PAGE) : 0))
            return;
}

void ssi_pages_take(ssi_pages *pages, uint64_t start, uint64_t end)
{
    for (uint64_t page = start / PAGE, last = (end + PAGE - 1) / PAGE; page < last; page += BLOCK)
        fetch(pages, page, last - page < BLOCK ? (size_t)(last - page) : BLOCK);
}

static const char *page_at(ssi_pages *pages, uint64_t page)
{
    const uint64_t *copy = ssi_map_find(&pages->copies, page + 1);

    if (!copy && !pages->frozen) {
        fetch(pages, page, 1);
        copy = ssi_map_find(&pages->copies, page + 1);
    }
    return copy ? (const char *)(uintptr_t)*copy : NULL;
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

ssi_pages *ssi_pages_new(ssi_pages_fetch read, void *data)
{
    ssi_pages *pages = calloc(1, sizeof *pages);

    if (pages) {
        pages->fetch = read;
        pages->data = data;
        ssi_read_by(read_pages, pages);
    }
    return pages;
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
