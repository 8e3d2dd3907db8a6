#include "splice/unloaded.h"

#include "base/keep.h"
#include "unwind/binary.h"
#include "unwind/unloads.h"
#include <stacksplice/source.h>

#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

_Atomic(ss_met_module *) ss_met_modules[SS_MET_MOST];
static _Atomic uint32_t met_count; /* (ATOMIC) */
static _Atomic uint64_t epoch = 1; /* (ATOMIC) */
static _Atomic uint64_t last_loss; /* (ATOMIC) the epoch that last missed a module; 0: none */
static _Atomic uint64_t looked_at =
    UINT64_MAX; /* (ATOMIC) the loader's counters at the last look */

/* ---- Looking ---------------------------------------------------------------------------------*/

/* A look at all modules, which one thread takes at a time. */
typedef struct look {
    uint64_t number;
    ss_binary *binary;
} look;

static atomic_flag looking = ATOMIC_FLAG_INIT; /* (ATOMIC) */

/* Which file is at PATH now. */
static void identify(const char *path, uint64_t file[4])
{
    struct stat status;

    memset(file, 0, 4 * sizeof *file);
    if (!*path || stat(path, &status))
        return;
    file[0] = status.st_dev;
    file[1] = status.st_ino;
    file[2] = (uint64_t)status.st_size;
    file[3] = (uint64_t)status.st_mtim.tv_sec * 1000000000u + (uint64_t)status.st_mtim.tv_nsec;
}

static bool is_same(const ss_met_module *m, const ss_binary *b)
{
    return m->start == b->start && m->end == b->end && !strcmp(m->build_id, b->build_id) &&
           !strcmp(m->path, b->path);
}

/*
 * The record of B, if it is still there; else of what was met last where B is now, or partly.  The
 * same file may come back to the place where it was.  What an address there means is then the same
 * as before, and a program that loads and unloads a plug-in again and again needs one record for it.
 */
static ss_met_module *find_at(const ss_binary *b)
{
    ss_met_module *last = NULL;

    for (uint32_t i = atomic_load_explicit(&met_count, memory_order_relaxed); i-- > 0;) {
        ss_met_module *m = atomic_load_explicit(&ss_met_modules[i], memory_order_relaxed);

        if (m->start >= b->end || b->start >= m->end)
            continue;
        if (!atomic_load_explicit(&m->until, memory_order_relaxed) && is_same(m, b))
            return m;
        last = last ? last : m;
    }
    return last;
}

/* NULL if there is no room for more. */
static ss_met_module *add(const look *l, const uint64_t file[4])
{
    uint32_t count = atomic_load_explicit(&met_count, memory_order_relaxed);
    size_t path = strlen(l->binary->path) + 1, build_id = strlen(l->binary->build_id) + 1;
    ss_met_module *m = count < SS_MET_MOST ? ss_keep(sizeof *m + path + build_id) : NULL;

    if (!m)
        return NULL;
    m->start = l->binary->start;
    m->end = l->binary->end;
    m->since = atomic_load(&epoch) + 1;
    memcpy(m->file, file, sizeof m->file);
    memcpy(m->path, l->binary->path, path);
    m->build_id = memcpy(m->path + path, l->binary->build_id, build_id);
    atomic_store(&ss_met_modules[count], m);
    atomic_store(&met_count, count + 1);
    return m;
}

static bool meet(const ss_binary *binary, void *data)
{
    look *l = data;
    uint64_t file[4] = {0};
    ss_met_module *m = find_at(binary);
    bool same = m && is_same(m, binary), gone = same && atomic_load(&m->until);

    if (binary->end <= binary->start)
        return true;
    if (!*binary->build_id)
        identify(binary->path, file);
    if (same && !memcmp(m->file, file, sizeof file) && (!gone || *m->build_id || file[1])) {
        atomic_store(&m->until, 0);
    } else {
        if (same && !gone) /* it was loaded anew, or its file replaced: nobody can tell which */
            memset(file, 0, sizeof file);
        m = add(l, file);
    }
    if (m)
        atomic_store_explicit(&m->seen, l->number, memory_order_relaxed);
    return true;
}

/* Mark the modules that LOOK has not met; returns whether there are any. */
static bool mark_missing(const look *l, uint64_t now)
{
    bool any = false;

    for (uint32_t i = 0; i < atomic_load(&met_count); i++) {
        ss_met_module *m = atomic_load(&ss_met_modules[i]);

        if (!atomic_load(&m->until) && atomic_load(&m->seen) != l->number) {
            atomic_store(&m->until, now);
            any = true;
        }
    }
    return any;
}

/* Noinline: the binary is large for a small stack. */
static SS_COLD uint64_t look_at_modules(uint64_t counters)
{
    static uint64_t number; /* (by LOOKING) */
    static ss_binary binary;
    look l = {.binary = &binary};
    uint64_t now;

    if (atomic_flag_test_and_set(&looking))
        return atomic_load(&epoch) + 1; /* that of a look of another thread, or of this one */
    l.number = ++number;
    if (ss_binary_each(&binary, SS_LOADER_BRIEFLY, meet, &l)) {
        now = atomic_load(&epoch) + 1;
        if (mark_missing(&l, now))
            atomic_store(&last_loss, now);
        atomic_store(&epoch, now);
        atomic_store(&looked_at, counters);
    }
    atomic_flag_clear(&looking);
    return atomic_load(&epoch);
}

uint64_t ss_code_epoch(void)
{
    uint64_t counters = ss_modules_generation(false);

    if (SS_UNLIKELY(counters != atomic_load_explicit(&looked_at, memory_order_acquire)) &&
        ss_generation_is_certain(counters))
        return look_at_modules(counters);
    return atomic_load_explicit(&epoch, memory_order_acquire);
}

/* The first look costs the most, and a signal handler may need one. */
static __attribute__((constructor)) void begin(void)
{
    (void)ss_code_epoch();
}

/* ---- Settling --------------------------------------------------------------------------------*/

static uintptr_t token_of(uint32_t number, uintptr_t offset)
{
    return (SS_TOKEN_BASE | SS_UNLOADED_BITS) +
           (uintptr_t)STACKSPLICE_TOKEN_STRIDE *
               ((uintptr_t)number << STACKSPLICE_TOKEN_MODULE_BITS | offset) +
           STACKSPLICE_TOKEN_OFFSET;
}

static bool holds(const ss_met_module *m, uintptr_t address)
{
    return address - 1 - m->start < m->end - m->start; /* a return address may be the end */
}

/* What ADDRESS, which a stack of the epoch THEN has, is called now. */
static uintptr_t settled(uintptr_t address, uint64_t then)
{
    uint32_t count = atomic_load(&met_count);
    bool is_taken = false;

    for (uint32_t i = count; i-- > 0;) {
        const ss_met_module *m = atomic_load(&ss_met_modules[i]);
        uint64_t until = atomic_load(&m->until);

        if (!holds(m, address))
            continue;
        if (m->since <= then && !until)
            return address;
        if (m->since <= then && until > then)
            return (address - m->start) >> STACKSPLICE_TOKEN_MODULE_BITS
                       ? token_of(SS_MET_MOST, 0)
                       : token_of(i, address - m->start);
        is_taken = is_taken || !until;
    }
    return is_taken ? token_of(SS_MET_MOST, 0) : address;
}

uint64_t ss_settle(uintptr_t *frames, uint32_t count, uint64_t then)
{
    uint64_t now = atomic_load_explicit(&epoch, memory_order_acquire);

    if (SS_LIKELY(then >= atomic_load_explicit(&last_loss, memory_order_acquire)))
        return now;
    for (uint32_t i = 0; i < count; i++) {
        uintptr_t element = __atomic_load_n(&frames[i], __ATOMIC_RELAXED);

        if (element && !ss_token_is(element))
            __atomic_store_n(&frames[i], settled(element, then), __ATOMIC_RELAXED);
    }
    return now;
}

/* ---- Reading ---------------------------------------------------------------------------------*/

bool ss_met_file_stays(uintptr_t address)
{
    uint64_t file[4];

    for (uint32_t i = atomic_load(&met_count); i-- > 0;) {
        const ss_met_module *m = atomic_load(&ss_met_modules[i]);

        if (atomic_load(&m->until) || !holds(m, address))
            continue;
        identify(m->path, file);
        return m->file[1] && !memcmp(file, m->file, sizeof file);
    }
    return true; /* it was loaded since the last look */
}

const ss_met_module *ss_unloaded_module(uintptr_t token, uintptr_t *offset)
{
    uintptr_t number = (token & ~(SS_TOKEN_BASE | SS_UNLOADED_BITS)) / STACKSPLICE_TOKEN_STRIDE;

    *offset = number & (((uintptr_t)1 << STACKSPLICE_TOKEN_MODULE_BITS) - 1);
    number >>= STACKSPLICE_TOKEN_MODULE_BITS;
    return number < atomic_load(&met_count) ? atomic_load(&ss_met_modules[number]) : NULL;
}

uint64_t stacksplice_code_epoch(void)
{
    return ss_code_epoch();
}

uint64_t stacksplice_settle(uintptr_t *frames, uint32_t count, uint64_t then)
{
    (void)ss_code_epoch();
    return frames ? ss_settle(frames, count, then) : then;
}
