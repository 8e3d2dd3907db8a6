#include "frames/seen.h"

#include "frames/token_cache.h"

#include <string.h>

enum { WAYS = 2, ROW_BITS = 11, BUSY = 2 };

/* As in token_cache.h, the upper bits of KEY count changes, and a reader compares it twice.  Any
   thread writes; who finds an entry busy leaves it alone. */
typedef struct entry {
    _Atomic(uint64_t) key;     /* the address of an instruction */
    _Atomic(uint64_t) content; /* a hash of all that the token was made of */
    _Atomic(uint64_t) made;    /* the length of the prefix, and above it the epoch */
    _Atomic(uint64_t) token;
} entry;

typedef struct row {
    _Alignas(64) entry ways[WAYS];
} row;

static row rows[1 << ROW_BITS];

/* ---- Content ----------------------------------------------------------------------------------*/

__extension__ typedef unsigned __int128 product;

/* Both halves of a product: each bit of the result depends on all bits of A and B. */
static inline uint64_t mix(uint64_t a, uint64_t b)
{
    product whole = (product)a * b;

    return (uint64_t)whole ^ (uint64_t)(whole >> 64);
}

static inline uint64_t word_at(const unsigned char *bytes)
{
    uint64_t word;

    memcpy(&word, bytes, sizeof word);
    return word;
}

static uint64_t add_bytes(uint64_t hash, const void *data, size_t length)
{
    const uint64_t odd = UINT64_C(0xA0761D6478BD642F), last = UINT64_C(0xE7037ED1A0B428DB);
    const unsigned char *at = data;
    uint64_t rest = 0;
    size_t left = length;

    for (; left >= 16; at += 16, left -= 16)
        hash = mix(hash ^ word_at(at), odd ^ word_at(at + 8));
    if (left >= 8) {
        hash = mix(hash ^ word_at(at), odd);
        at += 8;
        left -= 8;
    }
    while (left > 0)
        rest = rest << 8 | at[--left];
    return mix(hash ^ rest, last ^ length);
}

/* TEXT has a hash of its content, which Python keeps in it once something asked for it: for names,
   when the code is made. */
static bool add_text(uint64_t *hash, PyObject *text)
{
    Py_hash_t kept;

    if (!text || !PyUnicode_Check(text))
        return false;
#if PY_VERSION_HEX < 0x030C0000
    if (!PyUnicode_IS_READY(text))
        return false;
#endif
    kept = ((PyASCIIObject *)(void *)text)->hash;
    if (kept != -1)
        *hash = mix(*hash ^ (uint64_t)kept, UINT64_C(0xD6E8FEB86659FD93));
    else
        *hash = add_bytes(*hash ^ PyUnicode_KIND(text), PyUnicode_DATA(text),
                          (size_t)PyUnicode_GET_LENGTH(text) * PyUnicode_KIND(text));
    return true;
}

/* A hash of all that the token of the place is made of, whose location is in the first PREFIX bytes
   of its table; 0 if the content cannot be read.  The same code can be made again at an address
   that overlaps the old one: how far the place is from the code's beginning counts, too. */
static uint64_t content_of(const sspy_sight *seen, uint32_t prefix)
{
    const PyCodeObject *code = seen->code;
    uint64_t size = (uint64_t)PyBytes_GET_SIZE(code->co_linetable), hash;

    if (size < prefix)
        return 0;
    hash = mix((uint64_t)PyInterpreterState_GetID(seen->interp) ^ size << 32,
               UINT64_C(0x8EBC6AF09C88C6E3) ^ (uint64_t)code->co_firstlineno);
    hash = mix(hash ^ (seen->place - (uintptr_t)code), UINT64_C(0x589965CC75374CC3));
    hash = add_bytes(hash, PyBytes_AS_STRING(code->co_linetable), prefix);
    if (!add_text(&hash, code->co_filename) || !add_text(&hash, code->co_name) ||
        !add_text(&hash, code->co_qualname))
        return 0;
    return hash | 1;
}

/* ---- The table --------------------------------------------------------------------------------*/

static row *row_of(uintptr_t place)
{
    return &rows[(uint64_t)(place >> 1) * UINT64_C(0x9E3779B97F4A7C15) >> (64 - ROW_BITS)];
}

uintptr_t sspy_seen_find(const sspy_sight *seen)
{
    entry *ways = row_of(seen->place)->ways;

    for (unsigned i = 0; i < WAYS; i++) {
        uint64_t key = atomic_load_explicit(&ways[i].key, memory_order_acquire);
        uint64_t content, made, token;

        if ((key ^ seen->place) & SSPY_CACHE_ADDRESS)
            continue;
        content = atomic_load_explicit(&ways[i].content, memory_order_relaxed);
        made = atomic_load_explicit(&ways[i].made, memory_order_relaxed);
        token = atomic_load_explicit(&ways[i].token, memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&ways[i].key, memory_order_relaxed) != key ||
            made >> 32 != stacksplice_token_epoch() || content_of(seen, (uint32_t)made) != content)
            return 0;
        return (uintptr_t)token;
    }
    return 0;
}

/* The entry of that place, else the one that was changed less often. */
static entry *choose(entry *ways, uintptr_t place)
{
    uint64_t keys[WAYS];

    for (unsigned i = 0; i < WAYS; i++) {
        keys[i] = atomic_load_explicit(&ways[i].key, memory_order_relaxed);
        if ((keys[i] & SSPY_CACHE_ADDRESS) == place)
            return &ways[i];
    }
    return &ways[keys[1] >> SSPY_TOKEN_BITS < keys[0] >> SSPY_TOKEN_BITS];
}

void sspy_seen_put(const sspy_sight *seen, uint32_t prefix, uintptr_t token, uint32_t epoch)
{
    uint64_t content = content_of(seen, prefix), key, counted;
    entry *chosen = choose(row_of(seen->place)->ways, seen->place);

    if (!content || seen->place & ~SSPY_CACHE_ADDRESS)
        return;
    key = atomic_load_explicit(&chosen->key, memory_order_relaxed);
    counted = (key & ~SSPY_CACHE_ADDRESS) + SSPY_CACHE_ADDRESS + 1;
    /* A signal handler may have interrupted the writer of this entry. */
    if ((key & SSPY_CACHE_ADDRESS) == BUSY ||
        !atomic_compare_exchange_strong(&chosen->key, &key, counted | BUSY))
        return;
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&chosen->content, content, memory_order_relaxed);
    atomic_store_explicit(&chosen->made, (uint64_t)epoch << 32 | prefix, memory_order_relaxed);
    atomic_store_explicit(&chosen->token, token, memory_order_relaxed);
    atomic_store_explicit(&chosen->key, counted | seen->place, memory_order_release);
}
