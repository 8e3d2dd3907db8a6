#include "splice/token.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "splice/set.h"
#include "splice/token_private.h"

#include <stdatomic.h>
#include <string.h>

#define STRIDE 16
#define TOKEN_SPAN (UINTPTR_MAX >> 16) /* the upper 16 bits make an address a token */
#define OFFSET                                                                         \
    8 /* so that address - 1, as readers of stacks look it up, is still the same token \
       */

#define CHUNK 1024
#define LANGUAGES 64 /* that can have an overflow token of their own */
#define MAX_TOKENS (SS_TOKEN_FIXED_COUNT + SS_TOKEN_LIMIT + LANGUAGES)
#define CHUNKS ((MAX_TOKENS + CHUNK - 1) / CHUNK)

typedef struct record {
    uint32_t hash; /* first: see set.h */
    uint32_t id;   /* (LOCK) until it is in the set */
    stacksplice_token_info info;
    char text[]; /* its strings */
} record;

typedef struct chunk {
    _Atomic(const record *) records[CHUNK];
} chunk;

static _Atomic(chunk *) chunks[CHUNKS];
static ss_set records;
static ss_lock tokens_lock = SS_LOCK_INIT;
static uint32_t used = SS_TOKEN_FIXED_COUNT; /* (LOCK) */
static uint32_t overflows;                   /* (LOCK) languages with an overflow token */

uint32_t ss_token_limit = SS_TOKEN_LIMIT;

/* What must exist when nothing can be allocated, in the order of the ids. */
static const record fixed[SS_TOKEN_FIXED_COUNT] = {
    [SS_TOKEN_NO_MEMORY] = {.info = {.size = sizeof(stacksplice_token_info),
                                     .kind = STACKSPLICE_FRAME_GAP,
                                     .trust = STACKSPLICE_TRUST_EXACT,
                                     .language = "native",
                                     .reason = "out of memory"}},
    [SS_TOKEN_TABLE_FULL] = {.info = {.size = sizeof(stacksplice_token_info),
                                      .kind = STACKSPLICE_FRAME_GAP,
                                      .trust = STACKSPLICE_TRUST_EXACT,
                                      .language = "native",
                                      .reason = SS_TOKEN_FULL_REASON}},
    [SS_TOKEN_REENTERED] = {.info = {.size = sizeof(stacksplice_token_info),
                                     .kind = STACKSPLICE_FRAME_GAP,
                                     .trust = STACKSPLICE_TRUST_EXACT,
                                     .language = "native",
                                     .reason = "captured from inside a capture"}},
};

uintptr_t ss_token_of(uint32_t id)
{
    return SS_TOKEN_BASE + (uintptr_t)STRIDE * id + OFFSET;
}

bool ss_token_is(uintptr_t address)
{
    return (address ^ SS_TOKEN_BASE) < TOKEN_SPAN && address % STRIDE == OFFSET;
}

static const record *record_of(uint32_t id)
{
    chunk *c;

    if (id < SS_TOKEN_FIXED_COUNT)
        return &fixed[id];
    c = atomic_load_explicit(&chunks[id / CHUNK], memory_order_acquire);
    return c ? atomic_load_explicit(&c->records[id % CHUNK], memory_order_acquire) : NULL;
}

const stacksplice_token_info *ss_token_info(uintptr_t token)
{
    uintptr_t id = (token - SS_TOKEN_BASE) / STRIDE;
    const record *r;

    if (!ss_token_is(token) || id >= MAX_TOKENS)
        return NULL;
    r = record_of((uint32_t)id);
    return r ? &r->info : NULL;
}

/* ---- Contents ---------------------------------------------------------------------------------*/

/* The strings of an info, in one order for hashing, comparing and copying. */
#define STRINGS 5
static const size_t string_offsets[STRINGS] = {
    offsetof(stacksplice_token_info, function), offsetof(stacksplice_token_info, file),
    offsetof(stacksplice_token_info, language), offsetof(stacksplice_token_info, reason),
    offsetof(stacksplice_token_info, interpreter)};

static const char *string_of(const stacksplice_token_info *info, size_t i)
{
    const char *string;

    memcpy(&string, (const char *)info + string_offsets[i], sizeof string);
    return string;
}

static void set_string(stacksplice_token_info *info, size_t i, const char *string)
{
    memcpy((char *)info + string_offsets[i], &string, sizeof string);
}

static uint32_t hash_of(const stacksplice_token_info *info)
{
    uint64_t hash = ss_hash_word(SS_HASH_START, (uint64_t)info->kind << 32 | (uint32_t)info->trust);

    hash = ss_hash_word(hash, (uint64_t)info->line << 32 | info->end_line);
    hash = ss_hash_word(hash, (uint64_t)info->column << 32 | info->end_column);
    hash = ss_hash_word(hash, info->chunk != 0);
    hash = ss_hash_word(hash, info->asynchronous != 0);
    for (size_t i = 0; i < STRINGS; i++) {
        const char *string = string_of(info, i);

        /* An absent string is not an empty one. */
        hash = string ? ss_hash_bytes(hash, string, strlen(string)) : ss_hash_word(hash, 1);
    }
    return (uint32_t)hash;
}

static bool same_string(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

static bool same_info(const void *entry, const void *key)
{
    const stacksplice_token_info *a = &((const record *)entry)->info, *b = key;

    if (a->kind != b->kind || a->trust != b->trust || a->line != b->line ||
        a->end_line != b->end_line || a->column != b->column || a->end_column != b->end_column ||
        !a->chunk != !b->chunk || !a->asynchronous != !b->asynchronous)
        return false;
    for (size_t i = 0; i < STRINGS; i++)
        if (!same_string(string_of(a, i), string_of(b, i)))
            return false;
    return true;
}

static record *new_record(const stacksplice_token_info *info, uint32_t hash)
{
    size_t size[STRINGS], total = 0;
    record *r;
    char *text;

    for (size_t i = 0; i < STRINGS; i++) {
        const char *string = string_of(info, i);

        size[i] = string ? strlen(string) + 1 : 0;
        total += size[i];
    }
    r = ss_alloc(1, sizeof *r + total);
    if (!r)
        return NULL;
    r->hash = hash;
    r->info = *info;
    text = r->text;
    for (size_t i = 0; i < STRINGS; i++) {
        if (!size[i])
            continue;
        memcpy(text, string_of(info, i), size[i]);
        set_string(&r->info, i, text);
        text += size[i];
    }
    return r;
}

/* ---- Adding -----------------------------------------------------------------------------------*/

/* Memory for one addition, taken before the lock: the host's allocator never runs under it. */
typedef struct supplies {
    record *record;
    ss_set_table *table;
    chunk *chunk;
    size_t wants_table; /* what the last try under the lock found missing */
    bool wants_chunk;
} supplies;

static bool supply(supplies *s)
{
    if (s->wants_table && (!s->table || s->table->capacity != s->wants_table)) {
        ss_free(s->table);
        s->table = ss_set_new_table(s->wants_table);
        if (!s->table)
            return false;
    }
    if (s->wants_chunk && !s->chunk)
        s->chunk = ss_alloc(1, sizeof *s->chunk);
    return !s->wants_chunk || s->chunk;
}

typedef enum outcome { ADDED, FOUND, WANTS_SUPPLIES, FULL } outcome;

/* Under the lock.  OVERFLOW tokens have places of their own behind the limit. */
static outcome add_locked(supplies *s, bool overflow, uint32_t *id)
{
    const record *old = ss_set_find(&records, s->record->hash, same_info, &s->record->info);
    chunk *c;

    if (old) {
        *id = old->id;
        return FOUND;
    }
    *id = overflow ? SS_TOKEN_FIXED_COUNT + SS_TOKEN_LIMIT + overflows : used;
    if (overflow ? overflows == LANGUAGES : used - SS_TOKEN_FIXED_COUNT >= ss_token_limit)
        return FULL;
    c = atomic_load_explicit(&chunks[*id / CHUNK], memory_order_relaxed);
    s->wants_table = ss_set_wants(&records);
    s->wants_chunk = !c;
    if ((s->wants_table && (!s->table || s->table->capacity != s->wants_table)) ||
        (s->wants_chunk && !s->chunk))
        return WANTS_SUPPLIES;
    if (s->wants_table) {
        ss_set_use(&records, s->table);
        s->table = NULL;
    }
    if (s->wants_chunk) {
        c = s->chunk;
        s->chunk = NULL;
        atomic_store_explicit(&chunks[*id / CHUNK], c, memory_order_release);
    }
    s->record->id = *id;
    atomic_store_explicit(&c->records[*id % CHUNK], s->record, memory_order_release);
    ss_set_add(&records, &s->record->hash);
    s->record = NULL;
    if (overflow)
        overflows++;
    else
        used++;
    return ADDED;
}

static stacksplice_hresult intern(const stacksplice_token_info *info, bool overflow,
                                  uintptr_t *token);

static stacksplice_hresult intern_overflow(const stacksplice_token_info *info, uintptr_t *token)
{
    stacksplice_token_info full = {.size = sizeof full,
                                   .kind = STACKSPLICE_FRAME_GAP,
                                   .trust = STACKSPLICE_TRUST_EXACT,
                                   .language = info->language,
                                   .reason = SS_TOKEN_FULL_REASON};

    if (FAILED(intern(&full, true, token)))
        *token = ss_token_of(SS_TOKEN_TABLE_FULL);
    return S_FALSE;
}

/* First sight of INFO. */
static stacksplice_hresult add(const stacksplice_token_info *info, uint32_t hash, bool overflow,
                               uintptr_t *token)
{
    supplies s = {.record = new_record(info, hash)};
    outcome result = WANTS_SUPPLIES;
    uint32_t id = SS_TOKEN_NO_MEMORY;

    while (result == WANTS_SUPPLIES && s.record && supply(&s)) {
        if (!ss_lock_take(&tokens_lock)) {
            id = SS_TOKEN_REENTERED;
            break;
        }
        result = add_locked(&s, overflow, &id);
        ss_lock_drop(&tokens_lock);
    }
    ss_free(s.record);
    ss_free(s.table);
    ss_free(s.chunk);
    if (result == FULL) {
        *token = ss_token_of(SS_TOKEN_TABLE_FULL);
        return overflow ? S_FALSE : intern_overflow(info, token);
    }
    if (result == WANTS_SUPPLIES) {
        *token = ss_token_of(id == SS_TOKEN_REENTERED ? id : SS_TOKEN_NO_MEMORY);
        return E_OUTOFMEMORY;
    }
    *token = ss_token_of(id);
    return S_OK;
}

static stacksplice_hresult intern(const stacksplice_token_info *info, bool overflow,
                                  uintptr_t *token)
{
    uint32_t hash = hash_of(info);
    const record *r = ss_set_find(&records, hash, same_info, info);

    if (!r)
        return add(info, hash, overflow, token);
    *token = ss_token_of(r->id);
    return S_OK;
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
    return intern(info, false, token);
}

uintptr_t ss_token_gap(const char *language, const char *reason)
{
    stacksplice_token_info info = {.size = sizeof info,
                                   .kind = STACKSPLICE_FRAME_GAP,
                                   .trust = STACKSPLICE_TRUST_EXACT,
                                   .language = language,
                                   .reason = reason};
    uintptr_t token;

    (void)intern(&info, false, &token); /* also when it fails, the token says why */
    return token;
}
