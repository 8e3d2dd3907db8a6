#include "base/hash.h"
#include "base/thread.h"
#include "splice/pool.h"
#include "splice/unloaded.h"

#include <assert.h>
#include <errno.h>
#include <stacksplice/debugger.h>
#include <stacksplice/script.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* ---- Content ---------------------------------------------------------------------------------*/

/*
 * A token's description as a row of words: equal infos give equal rows.  Each string starts at a
 * new word.  Strings are cut to the limits in docs/inside/contracts.md, so a row has a bounded size.  Readers
 * see "..." at the end of a cut string.
 */
enum {
    STRINGS = STACKSPLICE_TOKEN_STRINGS,
    HEAD_WORDS = sizeof(stacksplice_token_row) / sizeof(uint64_t)
};

#define CUT_MARK "..."

/* The first words of a row. */
typedef union head {
    stacksplice_token_row of;
    uint64_t words[HEAD_WORDS];
} head;

static_assert(sizeof(head) == sizeof(stacksplice_token_row), "whole words");

static const struct {
    size_t member;
    uint32_t most;
} strings[STRINGS] = {
    [STACKSPLICE_TOKEN_LANGUAGE] = {offsetof(stacksplice_token_info, language), SS_LANGUAGE_BYTES},
    [STACKSPLICE_TOKEN_FUNCTION] = {offsetof(stacksplice_token_info, function), SS_NAME_BYTES},
    [STACKSPLICE_TOKEN_FILE] = {offsetof(stacksplice_token_info, file), SS_FILE_BYTES},
    [STACKSPLICE_TOKEN_REASON] = {offsetof(stacksplice_token_info, reason), SS_NAME_BYTES},
    [STACKSPLICE_TOKEN_INTERPRETER] = {offsetof(stacksplice_token_info, interpreter),
                                       SS_NAME_BYTES},
    [STACKSPLICE_TOKEN_CALLS] = {offsetof(stacksplice_token_info, calls), SS_NAME_BYTES},
    [STACKSPLICE_TOKEN_SOURCE] = {offsetof(stacksplice_token_info, source), SS_NAME_BYTES},
};

/* The member of INFO that holds string I; the language is the first. */
static const char **member_of(stacksplice_token_info *info, uint32_t i)
{
    return (const char **)(void *)((char *)info + strings[i].member);
}

static uint16_t *size_of(head *h, uint32_t i)
{
    uint32_t first = SS_COUNT_OF(h->of.first_sizes);

    return i < first ? &h->of.first_sizes[i] : &h->of.later_sizes[i - first];
}

/* What a row is made of: its head, then its strings. */
typedef struct part {
    const char *bytes; /* borrowed */
    uint32_t size;
} part;

typedef struct description {
    head head;
    part parts[1 + STRINGS];
    uint32_t words, hash;
} description;

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

/* Encode INFO as a row; its strings must outlive CONTENT, which stays where it is. */
static void content_of(const stacksplice_token_info *info, description *content)
{
    head *h = &content->head;
    uint64_t hash = SS_HASH_START;

    h->of =
        (stacksplice_token_row){.kind = (uint8_t)info->kind,
                                .trust = (uint8_t)info->trust,
                                .flags = (info->chunk ? STACKSPLICE_TOKEN_CHUNK : 0) |
                                         (info->asynchronous ? STACKSPLICE_TOKEN_ASYNCHRONOUS : 0),
                                .line = info->line,
                                .end_line = info->end_line,
                                .column = info->column,
                                .end_column = info->end_column};
    content->parts[0] = (part){(const char *)h, sizeof *h};
    content->words = HEAD_WORDS;
    for (uint32_t i = 0; i < STRINGS; i++) {
        const char *text = *member_of((stacksplice_token_info *)info, i);
        bool cut = false;
        uint32_t kept = text ? kept_of(text, strings[i].most, &cut) : 0;

        content->parts[1 + i] = (part){text, kept};
        content->words += (kept + 7) / 8;
        *size_of(h, i) = (uint16_t)(text ? kept + 1 : 0);
        h->of.cut |= (uint8_t)(cut << i);
        if (cut && i == STACKSPLICE_TOKEN_FILE)
            h->of.flags |= STACKSPLICE_TOKEN_CHUNK; /* the cut text names no file, or another one */
    }
    for (uint32_t i = 0; i <= STRINGS; i++)
        if (content->parts[i].size)
            hash = ss_hash_bytes(hash, content->parts[i].bytes, content->parts[i].size);
    content->hash = (uint32_t)hash;
}

/* Iterates over the words of a content; there are content->words. */
typedef struct content_cursor {
    const part *part;
    uint32_t at;
} content_cursor;

static uint64_t next_of_content(content_cursor *c)
{
    uint64_t word = 0;
    uint32_t left;

    for (; c->at >= c->part->size; c->at = 0)
        c->part++;
    left = c->part->size - c->at;
    memcpy(&word, c->part->bytes + c->at, left < sizeof word ? left : sizeof word);
    c->at += sizeof word;
    return word;
}

/* ---- Row -------------------------------------------------------------------------------------*/

_Atomic(ss_cell *) ss_row_chunks[SS_POOL_CELLS / SS_CHUNK_CELLS];

/* The cell INDEX; NULL when it is not mapped. */
static ss_cell *ss_row_cell(uint32_t index)
{
    ss_cell *chunk = NULL;

    if (index && index < SS_POOL_CELLS)
        chunk = atomic_load_explicit(&ss_row_chunks[index / SS_CHUNK_CELLS], memory_order_acquire);
    return chunk ? &chunk[index % SS_CHUNK_CELLS] : NULL;
}

/* The same for a cell that was used before.  (LOCK) */
static ss_cell *used_cell(uint32_t index)
{
    return &atomic_load(&ss_row_chunks[index / SS_CHUNK_CELLS])[index % SS_CHUNK_CELLS];
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
static bool row_equals(const ss_cell *first, const description *content)
{
    row_cursor row = {first, 0};
    content_cursor wanted = {content->parts, 0};

    for (uint32_t i = 0; i < content->words; i++)
        if (!row.cell || next_word(&row) != next_of_content(&wanted))
            return false;
    return true;
}

typedef struct text_sink {
    char *buffer;
    size_t left, needed;
} text_sink;

/* Append the next string of ROW, of LENGTH bytes and maybe CUT; NULL when there is no room. */
static const char *put_string(row_cursor *row, uint32_t length, bool cut, text_sink *sink)
{
    size_t mark = cut ? sizeof CUT_MARK - 1 : 0, keep = length;
    bool fits = keep + mark + 1 <= sink->left;
    char *out = sink->buffer;

    sink->needed += keep + mark + 1;
    if (!fits) {
        mark = sizeof CUT_MARK - 1;
        keep = sink->left > mark ? sink->left - mark - 1 : 0;
    }
    for (uint32_t at = 0; at < length; at += sizeof(uint64_t)) {
        uint64_t word = next_word(row);

        for (uint32_t i = at; i < at + sizeof word && i < length; i++, word >>= 8)
            if (i < sink->left)
                out[i] = (char)word;
    }
    if (sink->left <= mark)
        return NULL;
    while (!fits && keep && (out[keep] & 0xC0) == 0x80)
        keep--; /* never cut inside a character */
    memcpy(out + keep, CUT_MARK, mark);
    out[keep + mark] = '\0';
    sink->buffer += keep + mark + 1;
    sink->left -= keep + mark + 1;
    return out;
}

/*
 * Decode the row that starts in FIRST.  BUFFER receives its strings; one that does not fit is cut and
 * marked, and one with no room left is NULL.  Returns the room for all of them.
 */
static size_t read_row(const ss_cell *first, stacksplice_token_info *info, char *buffer,
                       size_t capacity)
{
    row_cursor row = {first, 0};
    text_sink sink = {buffer, capacity, 0};
    head h;

    for (uint32_t i = 0; i < HEAD_WORDS; i++)
        h.words[i] = next_word(&row);
    *info = (stacksplice_token_info){.size = sizeof *info,
                                     .kind = (stacksplice_frame_kind)h.of.kind,
                                     .trust = (stacksplice_trust)h.of.trust,
                                     .line = h.of.line,
                                     .end_line = h.of.end_line,
                                     .column = h.of.column,
                                     .end_column = h.of.end_column,
                                     .chunk = (h.of.flags & STACKSPLICE_TOKEN_CHUNK) != 0,
                                     .asynchronous =
                                         (h.of.flags & STACKSPLICE_TOKEN_ASYNCHRONOUS) != 0};
    for (uint32_t i = 0; i < STRINGS; i++)
        if (*size_of(&h, i))
            *member_of(info, i) = put_string(&row, *size_of(&h, i) - 1u, h.of.cut >> i & 1, &sink);
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
static _Atomic uint32_t epoch = 1; /* how often it has changed, and one */

static uint32_t now(void)
{
    return atomic_load_explicit(&epoch, memory_order_relaxed);
}

/* ---- Reading ---------------------------------------------------------------------------------*/

static void see(ss_cell *cell, uint32_t now_is)
{
    uint32_t seen = atomic_load_explicit(&cell->seen, memory_order_relaxed);

    if (seen < now_is)
        atomic_store_explicit(&cell->seen, now_is, memory_order_relaxed);
}

/* The id of the row that starts at INDEX if it equals CONTENT, else 0. */
static uint64_t match(uint32_t index, const description *content)
{
    ss_cell *cell = ss_row_cell(index);
    uint64_t state = cell ? atomic_load_explicit(&cell->state, memory_order_acquire) : 0;

    if (!(state & LIVE) || !row_equals(cell, content) ||
        atomic_load_explicit(&cell->state, memory_order_relaxed) != state)
        return 0;
    see(cell, now());
    return (state >> 1) * SS_POOL_CELLS + index;
}

/* The id of a row that equals CONTENT, or 0.  Marks that row as seen in this epoch. */
static uint64_t find_row(const description *content)
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

/* What is known of an id. */
typedef enum verdict { UNKNOWN, DROPPED, KNOWN } verdict;

/* The cell of ID, as long as its row is there. */
static ss_cell *cell_of(uint64_t id, verdict *is)
{
    ss_cell *cell = ss_row_cell(id % SS_POOL_CELLS);
    uint64_t generation = id / SS_POOL_CELLS, state;

    *is = UNKNOWN;
    if (!cell || !generation)
        return NULL;
    state = atomic_load_explicit(&cell->state, memory_order_acquire);
    if (state == (generation << 1 | LIVE))
        *is = KNOWN;
    else if (state >> 1 >= generation)
        *is = DROPPED;
    return *is == KNOWN ? cell : NULL;
}

/* ---- Times -----------------------------------------------------------------------------------*/

/* When code with the content of a row was met for the first time, or was loaded anew. */
static _Atomic int64_t
    met_at[SS_POOL_CELLS];           /* nanoseconds since 1970, of the first cells of rows */
static _Atomic int64_t first_met_at; /* of any row; 0: none */

static void meet(uint32_t index)
{
    struct timespec t; /* no call of the kernel; a coarse clock is behind that of files */
    int64_t now_is = 0, none = 0;

    if (!clock_gettime(CLOCK_REALTIME, &t))
        now_is = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
    atomic_store_explicit(&met_at[index], now_is, memory_order_relaxed);
    (void)atomic_compare_exchange_strong(&first_met_at, &none, now_is);
}

/* ---- Adding, under our lock ----------------------------------------------------------------------------------*/

static void enter(uint32_t index)
{
    ss_cell *cell = used_cell(index);
    _Atomic uint32_t *first =
        &first_of[atomic_load_explicit(&cell->hash, memory_order_relaxed) % HASHES];

    atomic_store_explicit(&cell->same_hash, atomic_load_explicit(first, memory_order_relaxed),
                          memory_order_release);
    atomic_store_explicit(first, index, memory_order_release);
}

static uint32_t cells_for(const description *content)
{
    return (content->words + SS_CELL_WORDS - 1) / SS_CELL_WORDS;
}

/* Whether there is room for CONTENT; where the pool is full, a sweep makes some. */
typedef enum room { READY, NO_MEMORY, FULL } room;

static room prepare(const description *content)
{
    int before = errno;
    ss_cell *chunk;

    if (free_count + (mapped ? mapped - fresh : 0) >= cells_for(content))
        return READY;
    if (mapped >= ss_pool_limit)
        return FULL;
    chunk = mmap(NULL, SS_CHUNK_CELLS * sizeof *chunk, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    errno = before;
    if (chunk == MAP_FAILED)
        return NO_MEMORY;
    atomic_store_explicit(&ss_row_chunks[mapped / SS_CHUNK_CELLS], chunk, memory_order_release);
    mapped += SS_CHUNK_CELLS;
    return READY;
}

static uint32_t take_cell(void)
{
    uint32_t index = free_cells;

    if (!index)
        return fresh++;
    free_cells = atomic_load_explicit(&used_cell(index)->next, memory_order_relaxed);
    free_count--;
    return index;
}

/* Void the caches that bindings keep for an epoch. */
static void begin_epoch(void)
{
    added = 0;
    atomic_store_explicit(&epoch, now() + 1, memory_order_release);
}

/* Every store releases the ones before, so readers notice that the cell has been reused. */
static void write_row(ss_cell *cell, const description *content)
{
    content_cursor words = {content->parts, 0};

    for (uint32_t i = 0, at = 0; i < content->words; i++, at++) {
        if (at == SS_CELL_WORDS) {
            uint32_t next = take_cell();

            atomic_store_explicit(&cell->next, next, memory_order_release);
            cell = used_cell(next);
            at = 0;
        }
        atomic_store_explicit(&cell->row[at], next_of_content(&words), memory_order_release);
    }
    atomic_store_explicit(&cell->next, 0, memory_order_release);
}

/* Add CONTENT, for which there is room; returns its id. */
static uint64_t add_row(const description *content)
{
    uint32_t index = take_cell();
    ss_cell *cell = used_cell(index);
    uint64_t generation = (atomic_load_explicit(&cell->state, memory_order_relaxed) >> 1) + 1;

    atomic_store_explicit(&cell->hash, content->hash, memory_order_relaxed);
    atomic_store_explicit(&cell->seen, now(), memory_order_relaxed);
    write_row(cell, content);
    meet(index);
    atomic_store_explicit(&cell->state, generation << 1 | LIVE, memory_order_release);
    enter(index);
    added += cells_for(content);
    /* While half of the cells are free, the time a row was last seen does not matter. */
    if (fresh - 1 - free_count >= ss_pool_limit / 2 && added >= ss_pool_limit / 8)
        begin_epoch();
    return generation * SS_POOL_CELLS + index;
}

/* ---- Dropping --------------------------------------------------------------------------------*/

static void free_cell(uint32_t index)
{
    atomic_store_explicit(&used_cell(index)->next, free_cells, memory_order_release);
    free_cells = index;
    free_count++;
}

static void drop_row(uint32_t index)
{
    ss_cell *cell = used_cell(index);
    uint64_t state = atomic_load_explicit(&cell->state, memory_order_relaxed);
    uint32_t next = atomic_load_explicit(&cell->next, memory_order_relaxed);

    atomic_store_explicit(&cell->state, state & ~LIVE, memory_order_relaxed);
    if (state >> 1 < LAST_GENERATION) /* otherwise it has no id left and is lost */
        free_cell(index);
    while (next) {
        index = next;
        next = atomic_load_explicit(&used_cell(index)->next, memory_order_relaxed);
        free_cell(index);
    }
}

static void drop_seen_before(uint32_t bound)
{
    for (uint32_t index = 1; index < fresh; index++) {
        const ss_cell *cell = used_cell(index);

        if (atomic_load_explicit(&cell->state, memory_order_relaxed) & LIVE &&
            atomic_load_explicit(&cell->seen, memory_order_relaxed) < bound)
            drop_row(index);
    }
}

/*
 * Drop rows until a quarter of the cells is free, and change the epoch.  First drop rows that are
 * not held and were not seen in this epoch or the one before.  If that frees too little, drop all
 * not seen in this epoch; then all.
 */
static void sweep(void)
{
    for (uint32_t bound = now() - 1; bound <= now() + 1 && free_count < ss_pool_limit / 4; bound++)
        drop_seen_before(bound);
    for (size_t i = 0; i < HASHES; i++)
        atomic_store_explicit(&first_of[i], 0, memory_order_relaxed);
    for (uint32_t index = 1; index < fresh; index++)
        if (atomic_load_explicit(&used_cell(index)->state, memory_order_relaxed) & LIVE)
            enter(index);
    begin_epoch();
}

/* ---- Tokens ----------------------------------------------------------------------------------*/

#define TOKEN_SPAN (UINTPTR_MAX >> 16) /* the upper 16 bits make an address a token */
#define PATIENCE_MS 50                 /* for a writer that this thread may have interrupted */

SS_LOCK(tokens_lock);
static void (*hold_all)(void);                           /* (RO) after load */
static _Thread_local const stacksplice_walk *looking_at; /* (THREAD) */

#define GAP_OF(of_trust, text)                                                        \
    {                                                                                 \
        .size = sizeof(stacksplice_token_info), .kind = STACKSPLICE_FRAME_GAP,        \
        .trust = STACKSPLICE_TRUST_##of_trust, .language = "native", .reason = (text) \
    }
#define FIXED_GAP(name, trust, text) [SS_TOKEN_##name] = GAP_OF(trust, text),
#define FIXED_END(name, text) [SS_TOKEN_END_##name] = GAP_OF(EXACT, text),

const stacksplice_token_info ss_token_fixed[SS_TOKEN_FIXED_COUNT] = {
    SS_OWN_GAPS(FIXED_GAP) SS_UNWIND_REASONS(FIXED_END)};
static const stacksplice_token_info dropped = GAP_OF(EXACT, SS_TOKEN_DROPPED_REASON);
static const stacksplice_token_info unloaded = GAP_OF(EXACT, SS_UNLOADED_REASON);
static const stacksplice_token_info unknown =
    GAP_OF(EXACT, "frame does not belong to this process");

uintptr_t ss_token_of(uint64_t id)
{
    return SS_TOKEN_BASE + (uintptr_t)(STACKSPLICE_TOKEN_STRIDE * id) + STACKSPLICE_TOKEN_OFFSET;
}

static uint64_t id_of(uintptr_t token)
{
    return (token - SS_TOKEN_BASE) / STACKSPLICE_TOKEN_STRIDE;
}

bool ss_token_is(uintptr_t address)
{
    return (address ^ SS_TOKEN_BASE) < TOKEN_SPAN &&
           address % STACKSPLICE_TOKEN_STRIDE == STACKSPLICE_TOKEN_OFFSET;
}

size_t ss_token_read(uintptr_t token, stacksplice_token_info *info, char *buffer, size_t capacity)
{
    verdict is = UNKNOWN;
    size_t needed = 0;
    const ss_cell *cell;

    if (ss_token_is(token) && id_of(token) < SS_TOKEN_FIXED_COUNT) {
        *info = ss_token_fixed[id_of(token)];
        return 0;
    }
    if (ss_unloaded_is(token)) {
        *info = unloaded;
        return 0;
    }
    cell = ss_token_is(token) ? cell_of(id_of(token), &is) : NULL;
    if (cell) {
        needed = read_row(cell, info, buffer, capacity);
        (void)cell_of(id_of(token), &is); /* whether the words read were its row's */
    }
    if (is == KNOWN)
        return needed;
    *info = is == DROPPED ? dropped : unknown;
    return 0;
}

bool ss_token_is_script(uintptr_t element)
{
    stacksplice_token_info info;

    if (!ss_token_is(element))
        return false;
    (void)ss_token_read(element, &info, NULL, 0);
    return info.kind == STACKSPLICE_FRAME_SCRIPT;
}

void ss_token_set_holder(void (*holder)(void))
{
    hold_all = holder;
}

void ss_token_hold(uintptr_t element)
{
    verdict is;
    ss_cell *cell = ss_token_is(element) ? cell_of(id_of(element), &is) : NULL;

    if (cell) /* if a new row just took the cell, that row is kept, which does no harm */
        see(cell, now() - 1);
}

uint32_t stacksplice_token_epoch(void)
{
    return atomic_load_explicit(&epoch, memory_order_acquire);
}

/* ---- Interning ----------------------------------------------------------------------------------*/

void ss_token_looks_at(const stacksplice_walk *walk)
{
    looking_at = walk;
}

/*
 * Whether a signal interrupted a frame of the stack under capture.  It may have interrupted malloc,
 * for which the holder of our lock may wait while it forks.
 */
static bool in_signal_handler(void)
{
    for (uint32_t i = 0; looking_at && looking_at->frames && i < looking_at->frame_count; i++)
        if (looking_at->frames[i].flags & STACKSPLICE_NATIVE_SIGNAL)
            return true;
    return false;
}

/*
 * Find or store CONTENT under our lock.  *IS_FULL: only a sweep would make room, for which the pool
 * is not PREPARED.
 */
static uint64_t add_locked(const description *content, bool prepared, bool *is_full)
{
    uint64_t id = find_row(content);
    room has;

    if (id)
        return id;
    has = prepare(content);
    *is_full = has == FULL && !prepared;
    if (has == FULL && prepared) {
        sweep();
        has = prepare(content);
    }
    return has == READY ? add_row(content) : SS_TOKEN_NO_MEMORY;
}

/*
 * Add CONTENT on first sight.  A thread that may have interrupted the holder of a lock must not
 * wait for it.
 */
static uint64_t add(const description *content)
{
    bool may_wait = !in_signal_handler(), prepared = false, is_full = false;
    uint64_t id;

    for (;;) {
        if (!(may_wait ? ss_lock_take(&tokens_lock)
                       : ss_lock_take_within(&tokens_lock, PATIENCE_MS)))
            return SS_TOKEN_NO_WAIT;
        id = add_locked(content, prepared, &is_full);
        ss_lock_drop(&tokens_lock);
        if (!is_full || !may_wait)
            return id;
        if (hold_all)
            hold_all();
        prepared = true;
        is_full = false;
    }
}

static stacksplice_hresult intern(const stacksplice_token_info *info, uintptr_t *token)
{
    description content;
    uint64_t id;

    content_of(info, &content);
    id = find_row(&content);
    if (!id)
        id = add(&content);
    *token = ss_token_of(id);
    return id < SS_TOKEN_FIXED_COUNT ? E_OUTOFMEMORY : S_OK;
}

void stacksplice_renew(uintptr_t token)
{
    verdict is;

    if (ss_token_is(token) && cell_of(id_of(token), &is))
        meet((uint32_t)(id_of(token) % SS_POOL_CELLS));
}

int64_t ss_token_met_at(uintptr_t token)
{
    verdict is;

    return ss_token_is(token) && cell_of(id_of(token), &is)
               ? atomic_load_explicit(&met_at[id_of(token) % SS_POOL_CELLS], memory_order_relaxed)
               : 0;
}

int64_t ss_token_first_met_at(void)
{
    return atomic_load_explicit(&first_met_at, memory_order_relaxed);
}

void ss_token_prepare(void)
{
    uintptr_t token;

    (void)intern(&dropped, &token); /* any one */
}

stacksplice_hresult stacksplice_intern(const stacksplice_token_info *info, uintptr_t *token)
{
    if (!info || !token || !info->language)
        return E_POINTER;
    if (info->size != sizeof *info ||
        (info->kind != STACKSPLICE_FRAME_SCRIPT && info->kind != STACKSPLICE_FRAME_GAP) ||
        info->trust < STACKSPLICE_TRUST_EXACT || info->trust > STACKSPLICE_TRUST_TRACEBACK ||
        (info->kind == STACKSPLICE_FRAME_GAP && !info->reason))
        return E_INVALIDARG;
    return intern(info, token);
}

uintptr_t stacksplice_gap(const char *language, const char *reason, uint32_t flags)
{
    const stacksplice_token_info info = {.size = sizeof info,
                                         .kind = STACKSPLICE_FRAME_GAP,
                                         .trust = STACKSPLICE_TRUST_EXACT,
                                         .language = language,
                                         .reason = reason,
                                         .asynchronous = flags & STACKSPLICE_GAP_ASYNCHRONOUS};
    uintptr_t token = 0;

    for (uint32_t id = 0; id < SS_TOKEN_FIXED_COUNT; id++)
        if (!strcmp(ss_token_fixed[id].reason, reason) &&
            !strcmp(ss_token_fixed[id].language, language))
            return ss_token_of(id);
    (void)intern(&info, &token); /* on failure, too, the token gives the reason */
    return token;
}
