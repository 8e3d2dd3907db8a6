/* The names scripts use for machine code. */
#include "splice/token.h"

#include "splice/hash.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

enum { BUCKETS = 1 << 14, MAX_NAMES = 1 << 20, BLOCK = 64 << 10, LONGEST_NAME = 4095 };

/* Never changed or freed, so readers need no lock. */
typedef struct entry {
    struct entry *next;
    uintptr_t function;
    char name[];
} entry;

/* A capture in a signal handler may have interrupted the allocator, so entries are no memory of the
   heap. */
typedef struct block {
    _Atomic uint32_t used; /* (ATOMIC) bytes */
    _Alignas(entry) char bytes[BLOCK - 2 * sizeof(uint64_t)];
} block;

static _Atomic(block *) newest; /* (ATOMIC) */

static _Atomic(entry *) buckets[BUCKETS]; /* (ATOMIC) grow only, at their heads */
static _Atomic uint32_t count;            /* (ATOMIC) */

static _Atomic(entry *) *bucket_of(uintptr_t function)
{
    return &buckets[ss_hash_words(&function, 1) % BUCKETS];
}

/* Search from E to END. */
static const entry *find(const entry *e, const entry *end, uintptr_t function)
{
    while (e != end && e->function != function)
        e = e->next;
    return e != end ? e : NULL;
}

static const entry *look_up(uintptr_t function)
{
    return find(atomic_load_explicit(bucket_of(function), memory_order_acquire), NULL, function);
}

const char *ss_function_name(uintptr_t function)
{
    const entry *found = look_up(function);

    return found && *found->name ? found->name : NULL;
}

/* Have a block after FULL be the newest.  False without memory. */
static bool add_block(block *full)
{
    block *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (b == MAP_FAILED)
        return false;
    if (!atomic_compare_exchange_strong(&newest, &full, b))
        (void)munmap(b, sizeof *b); /* another thread, or a handler, has added one */
    return true;
}

/* NULL without memory.  An entry is never given back. */
static entry *new_entry(size_t size)
{
    size = (size + _Alignof(entry) - 1) / _Alignof(entry) * _Alignof(entry);
    for (;;) {
        block *b = atomic_load(&newest);
        uint32_t used = b ? atomic_load(&b->used) : sizeof b->bytes;

        if (used + size > sizeof b->bytes) {
            if (!add_block(b))
                return NULL;
        } else if (atomic_compare_exchange_strong(&b->used, &used, used + (uint32_t)size)) {
            return (entry *)(b->bytes + used);
        }
    }
}

stacksplice_hresult stacksplice_name_function(uintptr_t function, const char *language,
                                              const char *name)
{
    _Atomic(entry *) *bucket = bucket_of(function);
    const entry *seen = NULL; /* all entries from here on are of other functions */
    size_t size;
    entry *e;

    if (!function || !language || !name)
        return E_POINTER;
    if (look_up(function))
        return S_FALSE;
    if (atomic_fetch_add(&count, 1) >= MAX_NAMES) {
        atomic_fetch_sub(&count, 1);
        return E_OUTOFMEMORY;
    }
    size = strnlen(name, LONGEST_NAME);
    e = new_entry(sizeof *e + size + 1);
    if (!e) {
        atomic_fetch_sub(&count, 1);
        return E_OUTOFMEMORY;
    }
    e->function = function;
    memcpy(e->name, name, size);
    e->name[size] = 0;
    e->next = atomic_load(bucket);
    do {
        if (find(e->next, seen, function)) {
            atomic_fetch_sub(&count, 1);
            return S_FALSE;
        }
        seen = e->next;
    } while (!atomic_compare_exchange_weak(bucket, &e->next, e));
    return S_OK;
}
