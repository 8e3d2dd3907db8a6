#include "splice/pool.h"

#include "splice/hash.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

/* ---- Content ---------------------------------------------------------------------------------*/

/*
 * The head holds kind, trust, flags and a bit for each cut string (a byte each).  Then follow, for
 * each string, its length plus one, or 0 for an absent string (two bytes each); then line and
 * column.
 */
enum { CHUNK = 1, ASYNCHRONOUS = 2 };

static const struct {
    size_t member;
    uint32_t most;
    uint8_t word, shift; /* where the head stores its length */
} strings[SS_CONTENT_STRINGS] = {
    {offsetof(stacksplice_token_info, language), SS_LANGUAGE_BYTES, 0, 32},
    {offsetof(stacksplice_token_info, function), SS_NAME_BYTES, 0, 48},
    {offsetof(stacksplice_token_info, file), SS_FILE_BYTES, 3, 0},
    {offsetof(stacksplice_token_info, reason), SS_NAME_BYTES, 3, 16},
    {offsetof(stacksplice_token_info, interpreter), SS_NAME_BYTES, 3, 32},
    {offsetof(stacksplice_token_info, calls), SS_NAME_BYTES, 3, 48},
};

enum { THE_FILE = 2 };

/* The member of INFO that holds string I; the language is the first. */
static const char **ss_content_member(stacksplice_token_info *info, uint32_t i)
{
    return (const char **)(void *)((char *)info + strings[i].member);
}

static ss_content_string ss_content_string_at(const uint64_t head[SS_CONTENT_HEAD], uint32_t i)
{
    uint32_t stored = (uint16_t)(head[strings[i].word] >> strings[i].shift);

    return (ss_content_string){stored != 0, head[0] >> (24 + i) & 1, stored ? stored - 1 : 0};
}

/* How many bytes of TEXT to keep, at most MOST; never cuts inside a character. */
static uint32_t kept_of(const char *text, uint32_t most, bool *cut)
{
    uint32_t length = (uint32_t)strnlen(text, most + 1);

    *cut = length > most;
    if (!*cut)
        return length;
    for (length = most; length && (text[length] & 0xC0) == 0x80;)
        length--;
    return length;
}

static uint32_t hash_of(const ss_content *content)
{
    uint64_t hash = SS_HASH_START;

    for (uint32_t i = 0; i < SS_CONTENT_HEAD; i++)
        hash = ss_hash_word(hash, content->head[i]);
    for (uint32_t i = 0; i < SS_CONTENT_STRINGS; i++)
        if (content->lengths[i])
            hash = ss_hash_bytes(hash, content->strings[i], content->lengths[i]);
    return (uint32_t)hash;
}

void ss_content_of(const stacksplice_token_info *info, ss_content *content)
{
    uint64_t *head = content->head;
    uint32_t flags = (info->chunk ? CHUNK : 0) | (info->asynchronous ? ASYNCHRONOUS : 0);

    head[1] = (uint64_t)info->line << 32 | info->end_line;
    head[2] = (uint64_t)info->column << 32 | info->end_column;
    head[0] = (uint64_t)info->kind | (uint64_t)info->trust << 8;
    head[3] = 0;
    content->words = SS_CONTENT_HEAD;
    for (uint32_t i = 0; i < SS_CONTENT_STRINGS; i++) {
        const char *text = *ss_content_member((stacksplice_token_info *)info, i);
        uint32_t kept;
        bool cut;

        content->strings[i] = text;
        content->lengths[i] = 0;
        if (!text)
            continue;
        content->lengths[i] = kept = kept_of(text, strings[i].most, &cut);
        if (cut && i == THE_FILE)
            flags |= CHUNK; /* the cut text names no file, or another one */
        head[0] |= (uint64_t)cut << (24 + i);
        head[strings[i].word] |= (uint64_t)(kept + 1) << strings[i].shift;
        content->words += (kept + 7) / 8;
    }
    head[0] |= (uint64_t)flags << 16;
    content->hash = hash_of(content);
}

/* Decode INFO, without its strings, from the head of a row. */
static void ss_content_info(const uint64_t head[SS_CONTENT_HEAD], stacksplice_token_info *info)
{
    uint32_t flags = head[0] >> 16 & 0xFF;

    memset(info, 0, sizeof *info);
    info->size = sizeof *info;
    info->kind = (stacksplice_frame_kind)(head[0] & 0xFF);
    info->trust = (stacksplice_trust)(head[0] >> 8 & 0xFF);
    info->line = (uint32_t)(head[1] >> 32);
    info->end_line = (uint32_t)head[1];
    info->column = (uint32_t)(head[2] >> 32);
    info->end_column = (uint32_t)head[2];
    info->chunk = (flags & CHUNK) != 0;
    info->asynchronous = (flags & ASYNCHRONOUS) != 0;
}

/* ---- Row -------------------------------------------------------------------------------------*/

_Atomic(ss_cell *) ss_row_chunks[SS_POOL_CELLS / SS_CHUNK_CELLS];

ss_cell *ss_row_cell(uint32_t index)
{
    ss_cell *chunk = NULL;

    if (index && index < SS_POOL_CELLS)
        chunk = atomic_load_explicit(&ss_row_chunks[index / SS_CHUNK_CELLS], memory_order_acquire);
    return chunk ? &chunk[index % SS_CHUNK_CELLS] : NULL;
}

/* The same for a cell that was used before.  (LOCK) */
static ss_cell *ss_row_used_cell(uint32_t index)
{
    ss_cell *chunk =
        atomic_load_explicit(&ss_row_chunks[index / SS_CHUNK_CELLS], memory_order_relaxed);

    return &chunk[index % SS_CHUNK_CELLS];
}

/* Iterates over the words of a row. */
typedef struct row_cursor {
    const ss_cell *cell;
    uint32_t at;
} row_cursor;

static inline uint64_t next_word(row_cursor *c)
{
    if (c->at == SS_CELL_WORDS) {
        c->cell = ss_row_cell(atomic_load_explicit(&c->cell->next, memory_order_acquire));
        c->at = 0;
    }
    if (!c->cell) { /* the row cannot end here: a writer is reusing the cell */
        c->at = SS_CELL_WORDS - 1;
        return 0;
    }
    return atomic_load_explicit(&c->cell->row[c->at++], memory_order_acquire);
}

/*
 * Compare the row that starts in FIRST.  A later load of its state tells whether the words read
 * were the row's.
 */
static bool ss_row_equals(const ss_cell *first, const ss_content *content)
{
    row_cursor row = {first, 0};
    ss_content_cursor wanted;

    ss_content_begin(&wanted, content);
    for (uint32_t i = 0; i < content->words; i++)
        if (!row.cell || next_word(&row) != ss_content_next(&wanted))
            return false;
    return true;
}

typedef struct text_sink {
    char *buffer;
    size_t left, needed;
} text_sink;

/* Append the next string of ROW, which STRING describes; NULL when there is no room. */
static const char *put_string(row_cursor *row, ss_content_string string, text_sink *sink)
{
    size_t mark = string.cut ? sizeof SS_CUT_MARK - 1 : 0, keep = string.length;
    char *out = sink->buffer;
    bool fits;

    sink->needed += keep + mark + 1;
    fits = keep + mark + 1 <= sink->left;
    if (!fits) {
        mark = sizeof SS_CUT_MARK - 1;
        keep = sink->left > mark ? sink->left - mark - 1 : 0;
    }
    for (uint32_t at = 0; at < string.length; at += sizeof(uint64_t)) {
        uint64_t word = next_word(row);

        for (uint32_t i = at; i < at + sizeof word && i < string.length; i++, word >>= 8)
            if (i < sink->left)
                out[i] = (char)word;
    }
    if (sink->left <= mark)
        return NULL;
    while (!fits && keep && (out[keep] & 0xC0) == 0x80)
        keep--; /* never cut inside a character */
    memcpy(out + keep, SS_CUT_MARK, mark);
    out[keep + mark] = '\0';
    sink->buffer += keep + mark + 1;
    sink->left -= keep + mark + 1;
    return out;
}

/* See ss_pool_read; returns the room for all strings. */
static size_t ss_row_read(const ss_cell *first, stacksplice_token_info *info, char *buffer,
                          size_t capacity)
{
    uint64_t head[SS_CONTENT_HEAD];
    row_cursor row = {first, 0};
    text_sink sink = {buffer, capacity, 0};

    for (uint32_t i = 0; i < SS_CONTENT_HEAD; i++)
        head[i] = next_word(&row);
    ss_content_info(head, info);
    for (uint32_t i = 0; i < SS_CONTENT_STRINGS; i++) {
        ss_content_string string = ss_content_string_at(head, i);

        if (string.present)
            *ss_content_member(info, i) = put_string(&row, string, &sink);
    }
    return sink.needed;
}

/* ---- Pool ------------------------------------------------------------------------------------*/

#define LAST_GENERATION ((UINT64_C(1) << 25) - 1) /* ids have 43 bits: sink.h uses the next one */
#define LIVE UINT64_C(1)

static_assert(sizeof(ss_cell) == 128, "two lines of a cache");

enum { HASHES = 1 << 14 };

static _Atomic uint32_t first_of[HASHES]; /* the first cell of each chain of rows; 0: none */
static uint32_t mapped;                   /* (LOCK) cells of mapped chunks */
static uint32_t fresh = 1;                /* (LOCK) the first cell never used; cell 0 is reserved */
static uint32_t free_cells;               /* (LOCK) the first free one */
static uint32_t free_count;               /* (LOCK) */
static uint32_t added;                    /* (LOCK) cells added in this epoch */

uint32_t ss_pool_limit = SS_POOL_CELLS;
_Atomic uint32_t ss_pool_epoch = 1;

static uint32_t now(void)
{
    return atomic_load_explicit(&ss_pool_epoch, memory_order_relaxed);
}

/* ---- Reading ---------------------------------------------------------------------------------*/

static void see(ss_cell *cell, uint32_t epoch)
{
    uint32_t seen = atomic_load_explicit(&cell->seen, memory_order_relaxed);

    if (seen < epoch)
        atomic_store_explicit(&cell->seen, epoch, memory_order_relaxed);
}

/* The id of the row that starts at INDEX if it equals CONTENT, else 0. */
static uint64_t match(uint32_t index, const ss_content *content)
{
    ss_cell *cell = ss_row_cell(index);
    uint64_t state = cell ? atomic_load_explicit(&cell->state, memory_order_acquire) : 0;

    if (!(state & LIVE) || !ss_row_equals(cell, content) ||
        atomic_load_explicit(&cell->state, memory_order_relaxed) != state)
        return 0;
    see(cell, now());
    return (state >> 1) * SS_POOL_CELLS + index;
}

uint64_t ss_pool_find(const ss_content *content)
{
    uint32_t at = atomic_load_explicit(&first_of[content->hash % HASHES], memory_order_acquire);

    /*
     * A concurrent sweep may lead from one chain into another.  A search that finds nothing is
     * repeated under the lock, and this loop is bounded.
     */
    for (uint32_t left = SS_POOL_CELLS; at && left; left--) {
        const ss_cell *cell = ss_row_cell(at);
        uint64_t id = 0;

        if (atomic_load_explicit(&cell->hash, memory_order_relaxed) == content->hash)
            id = match(at, content);
        if (id)
            return id;
        at = atomic_load_explicit(&cell->same_hash, memory_order_acquire);
    }
    return 0;
}

/* The cell of ID, as long as its row is there. */
static ss_cell *cell_of(uint64_t id, ss_pool_verdict *verdict)
{
    ss_cell *cell = ss_row_cell(id % SS_POOL_CELLS);
    uint64_t generation = id / SS_POOL_CELLS, state;

    *verdict = SS_POOL_UNKNOWN;
    if (!cell || !generation)
        return NULL;
    state = atomic_load_explicit(&cell->state, memory_order_acquire);
    if (state == (generation << 1 | LIVE))
        *verdict = SS_POOL_KNOWN;
    else if (state >> 1 >= generation)
        *verdict = SS_POOL_DROPPED;
    return *verdict == SS_POOL_KNOWN ? cell : NULL;
}

ss_pool_verdict ss_pool_read(uint64_t id, stacksplice_token_info *info, char *buffer,
                             size_t capacity, size_t *needed)
{
    ss_pool_verdict verdict;
    const ss_cell *cell = cell_of(id, &verdict);

    if (!cell)
        return verdict;
    *needed = ss_row_read(cell, info, buffer, capacity);
    (void)cell_of(id, &verdict); /* sets whether the words read were its row's */
    return verdict;
}

void ss_pool_hold(uint64_t id)
{
    ss_pool_verdict verdict;
    ss_cell *cell = cell_of(id, &verdict);

    if (cell) /* if a new row just took the cell, that row is kept, which does no harm */
        see(cell, now() - 1);
}

/* ---- Adding ----------------------------------------------------------------------------------*/

static void enter(uint32_t index)
{
    ss_cell *cell = ss_row_used_cell(index);
    _Atomic uint32_t *first =
        &first_of[atomic_load_explicit(&cell->hash, memory_order_relaxed) % HASHES];

    atomic_store_explicit(&cell->same_hash, atomic_load_explicit(first, memory_order_relaxed),
                          memory_order_release);
    atomic_store_explicit(first, index, memory_order_release);
}

static uint32_t cells_for(const ss_content *content)
{
    return (content->words + SS_CELL_WORDS - 1) / SS_CELL_WORDS;
}

ss_pool_state ss_pool_prepare(const ss_content *content)
{
    int before = errno;
    ss_cell *chunk;

    if (free_count + (mapped ? mapped - fresh : 0) >= cells_for(content))
        return SS_POOL_READY;
    if (mapped >= ss_pool_limit)
        return SS_POOL_IS_FULL;
    chunk = mmap(NULL, SS_CHUNK_CELLS * sizeof *chunk, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = before;
    if (chunk == MAP_FAILED)
        return SS_POOL_HAS_NO_MEMORY;
    atomic_store_explicit(&ss_row_chunks[mapped / SS_CHUNK_CELLS], chunk, memory_order_release);
    mapped += SS_CHUNK_CELLS;
    return SS_POOL_READY;
}

static uint32_t take_cell(void)
{
    uint32_t index = free_cells;

    if (!index)
        return fresh++;
    free_cells = atomic_load_explicit(&ss_row_used_cell(index)->next, memory_order_relaxed);
    free_count--;
    return index;
}

/* Void the caches that bindings keep for an epoch. */
static void begin_epoch(void)
{
    added = 0;
    atomic_store_explicit(&ss_pool_epoch, now() + 1, memory_order_release);
}

/* While half of the cells are free, the time a row was last seen does not matter. */
static void count_added(uint32_t cells)
{
    uint32_t used = fresh - 1 - free_count;

    added += cells;
    if (used >= ss_pool_limit / 2 && added >= ss_pool_limit / 8)
        begin_epoch();
}

/* Every store releases the ones before, so readers notice that the cell has been reused. */
static void write_row(ss_cell *cell, const ss_content *content)
{
    ss_content_cursor words;

    ss_content_begin(&words, content);
    for (uint32_t i = 0, at = 0; i < content->words; i++, at++) {
        if (at == SS_CELL_WORDS) {
            uint32_t next = take_cell();

            atomic_store_explicit(&cell->next, next, memory_order_release);
            cell = ss_row_used_cell(next);
            at = 0;
        }
        atomic_store_explicit(&cell->row[at], ss_content_next(&words), memory_order_release);
    }
    atomic_store_explicit(&cell->next, 0, memory_order_release);
}

uint64_t ss_pool_add(const ss_content *content)
{
    uint32_t index = take_cell();
    ss_cell *cell = ss_row_used_cell(index);
    uint64_t generation = (atomic_load_explicit(&cell->state, memory_order_relaxed) >> 1) + 1;

    atomic_store_explicit(&cell->hash, content->hash, memory_order_relaxed);
    atomic_store_explicit(&cell->seen, now(), memory_order_relaxed);
    write_row(cell, content);
    atomic_store_explicit(&cell->state, generation << 1 | LIVE, memory_order_release);
    enter(index);
    count_added(cells_for(content));
    return generation * SS_POOL_CELLS + index;
}

/* ---- Dropping --------------------------------------------------------------------------------*/

static void free_cell(uint32_t index)
{
    atomic_store_explicit(&ss_row_used_cell(index)->next, free_cells, memory_order_release);
    free_cells = index;
    free_count++;
}

static void drop_row(uint32_t index)
{
    ss_cell *cell = ss_row_used_cell(index);
    uint64_t state = atomic_load_explicit(&cell->state, memory_order_relaxed);
    uint32_t next = atomic_load_explicit(&cell->next, memory_order_relaxed);

    atomic_store_explicit(&cell->state, state & ~LIVE, memory_order_relaxed);
    if (state >> 1 < LAST_GENERATION) /* otherwise it has no id left and is lost */
        free_cell(index);
    while (next) {
        index = next;
        next = atomic_load_explicit(&ss_row_used_cell(index)->next, memory_order_relaxed);
        free_cell(index);
    }
}

static void drop_seen_before(uint32_t epoch)
{
    for (uint32_t index = 1; index < fresh; index++) {
        const ss_cell *cell = ss_row_used_cell(index);

        if (atomic_load_explicit(&cell->state, memory_order_relaxed) & LIVE &&
            atomic_load_explicit(&cell->seen, memory_order_relaxed) < epoch)
            drop_row(index);
    }
}

void ss_pool_sweep(void)
{
    for (uint32_t bound = now() - 1; bound <= now() + 1 && free_count < ss_pool_limit / 4; bound++)
        drop_seen_before(bound);
    for (size_t i = 0; i < HASHES; i++)
        atomic_store_explicit(&first_of[i], 0, memory_order_relaxed);
    for (uint32_t index = 1; index < fresh; index++)
        if (atomic_load_explicit(&ss_row_used_cell(index)->state, memory_order_relaxed) & LIVE)
            enter(index);
    begin_epoch();
}
