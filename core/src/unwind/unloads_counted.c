#include "unwind/unloads.h"

#include "base/loader.h"
#include "unwind/modules.h"

#include <dlfcn.h>
#include <stdatomic.h>

#define MAX_WORDS 4
#define SEARCHED 8192 /* bytes of _rtld_global, at most */

typedef const volatile uint64_t *word64;
typedef const volatile uint32_t *word32;

/* Modules ever loaded, and those loaded now. */
typedef struct counters {
    uint64_t adds;
    uint32_t loaded;
} counters;

/*
 * Words that had the value of `adds` at every comparison so far.  The search finds them by value,
 * so some may be false.  A word is dropped as soon as it differs from the others or from the
 * counter, and its entry then repeats a good one.
 */
static _Atomic(word64) words[MAX_WORDS]; /* (ATOMIC) */
static _Atomic uint32_t word_count;      /* (ATOMIC) 0: none */
static _Atomic(word32) loaded_word;      /* (ATOMIC) NULL: none */
static atomic_bool attached;             /* (ATOMIC) the search has started */
static _Atomic uint64_t found_at;        /* (ATOMIC) their value at the search */
static atomic_bool proven;               /* (ATOMIC) they have followed the counter since */

static int read_counters(struct dl_phdr_info *info, size_t size, void *data)
{
    counters *c = data;

    /* Both counters belong to the loader, not to the module: the first call has all we need. */
    if (size >= offsetof(struct dl_phdr_info, dlpi_subs) + sizeof info->dlpi_subs)
        *c = (counters){info->dlpi_adds, (uint32_t)(info->dlpi_adds - info->dlpi_subs)};
    return 1;
}

/*
 * glibc's loader keeps its state in _rtld_global.  It starts with the main namespace's list of
 * modules and their number, so the place of that number is certain.  The count of all modules ever
 * added is at an unknown place further on.
 */
static SS_COLD void attach(const counters *c)
{
    const uint8_t *start = dlsym(RTLD_DEFAULT, "_rtld_global"), *low, *high;
    const uint64_t *global = (const uint64_t *)(const void *)start;
    counters now = {0, 0};
    uint32_t found = 0;
    ss_module loader;

    if (!start || ss_module_find_by_iteration((uintptr_t)start, &loader) != SS_MODULE_FOUND ||
        !ss_module_segment(&loader, (uintptr_t)start, PF_W, &low, &high) || high - start < 64)
        return;
    if (high - start > SEARCHED)
        high = start + SEARCHED;
    for (size_t i = 0; i < (size_t)(high - start) / sizeof *global && found < MAX_WORDS; i++)
        if (*(word64)&global[i] == c->adds)
            atomic_store(&words[found++], &global[i]);
    /* If another thread has loaded a module since, these words are false; the next walk retries. */
    ss_loader_iterate(SS_LOADER_BRIEFLY, read_counters, &now);
    if (now.adds != c->adds) {
        atomic_store(&attached, false);
        return;
    }
    if (*(struct link_map *const volatile *)(const void *)start == _r_debug.r_map &&
        *(word32)(const void *)(start + sizeof(void *)) == c->loaded)
        atomic_store(&loaded_word, (word32)(const void *)(start + sizeof(void *)));
    atomic_store(&found_at, c->adds);
    atomic_store(&word_count, found);
}

/* Drop words that were ahead of the counter before it was read, or that lag it now. */
static void verify(const counters *c, const uint64_t *before, uint32_t end)
{
    word64 good = NULL;

    for (uint32_t i = 0; i < end; i++)
        if (before[i] <= c->adds && *atomic_load(&words[i]) >= c->adds)
            good = atomic_load(&words[i]);
    if (!good)
        atomic_store(&word_count, 0);
    for (uint32_t i = 0; good && i < end; i++)
        if (before[i] > c->adds || *atomic_load(&words[i]) < c->adds)
            atomic_store(&words[i], good);
    if (good && c->adds != atomic_load(&found_at))
        atomic_store(&proven, true);
}

static uint64_t pack(uint64_t adds, uint32_t loaded)
{
    return (adds << SS_GENERATION_LOADED_BITS | loaded % (1u << SS_GENERATION_LOADED_BITS)) &
           ((UINT64_C(1) << SS_GENERATION_BITS) - 1);
}

static SS_COLD uint64_t ask(void)
{
    static atomic_uint made_up; /* (ATOMIC) */
    uint32_t end = atomic_load(&word_count);
    uint64_t before[MAX_WORDS];
    counters c = {0, 0};
    word32 loaded;

    for (uint32_t i = 0; i < end; i++)
        before[i] = *atomic_load(&words[i]);
    if (ss_loader_iterate(SS_LOADER_BRIEFLY, read_counters, &c) == SS_LOADER_REFUSED)
        return (UINT64_C(1) << SS_GENERATION_BITS) - 1 - /* a new number: no cached fact is used */
               atomic_fetch_add(&made_up, 1) % SS_MADE_UP_GENERATIONS;
    if (end)
        verify(&c, before, end);
    else if (!atomic_exchange(&attached, true))
        attach(&c);
    loaded = atomic_load(&loaded_word);
    if (atomic_load(&word_count) > 0)
        c.loaded = loaded ? *loaded : 0; /* the same number as a call that does not ask */
    return pack(c.adds, c.loaded);
}

uint64_t ss_modules_generation(bool check)
{
    uint32_t end = atomic_load_explicit(&word_count, memory_order_acquire);
    word32 loaded = atomic_load_explicit(&loaded_word, memory_order_relaxed);
    uint64_t adds;

    if (SS_UNLIKELY(!end || (check && !atomic_load_explicit(&proven, memory_order_relaxed))))
        return ask();
    adds = *atomic_load_explicit(&words[0], memory_order_relaxed);
    for (uint32_t i = 1; i < end; i++)
        if (SS_UNLIKELY(*atomic_load_explicit(&words[i], memory_order_relaxed) != adds))
            return ask();
    return pack(adds, loaded ? *loaded : 0);
}

/* Look them up at load: dlsym allocates, so a signal handler could not. */
static __attribute__((constructor)) void begin(void)
{
    (void)ask();
}

bool ss_modules_watched(bool off)
{
    if (off) {
        atomic_store(&attached, true);
        atomic_store(&word_count, 0);
    }
    return atomic_load(&word_count) > 0;
}
