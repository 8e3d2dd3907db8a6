/*
 * Finds a module in the loader's list by dl_iterate_phdr, which takes the loader's lock.
 *
 * Answers are cached, so only new modules take the lock.  A fork may wait for the thread that wants
 * it (see base/loader.h), and in a forked child its owner may not exist.
 */
#include "unwind/modules.h"

#include "base/keep.h"
#include "base/loader.h"
#include "unwind/stack.h"
#include "unwind/unloads.h"

#include <stdatomic.h>
#include <string.h>

/* A module that was met.  Never freed: readers take no lock. */
typedef struct known {
    struct known *next;          /* (RO) */
    uintptr_t low, high;         /* (RO) */
    ss_module module;            /* (RO) */
    uint64_t print;              /* (RO) hash of the bytes that we read of it */
    _Atomic uint64_t generation; /* (ATOMIC) of the set of modules, at which it was there last */
} known;

enum { MAX_KNOWN = 4096, PRINTED = 1024 };

static _Atomic(known *) all;  /* (ATOMIC) grows only, at its head */
static _Atomic uint32_t kept; /* (ATOMIC) */

static void set_generation(known *k, uint64_t generation)
{
    atomic_store_explicit(&k->generation, generation, memory_order_release);
}

/* Keep a copy of NEW, unless it is kept already.  Without room, it has to be asked for again. */
static void keep_known(const known *new, uint64_t generation)
{
    known *k = atomic_load(&all);

    while (k && (k->low != new->low || k->high != new->high || k->print != new->print ||
                 k->module.headers != new->module.headers))
        k = k->next;
    if (k) {
        set_generation(k, generation);
    } else if (atomic_load(&kept) < MAX_KNOWN && (k = ss_keep(sizeof *k)) != NULL) {
        memcpy(k, new, sizeof *k);
        set_generation(k, generation);
        atomic_fetch_add(&kept, 1);
        k->next = atomic_load(&all);
        while (!atomic_compare_exchange_weak(&all, &k->next, k))
            continue; /* another thread may keep the same one: that does no harm */
    }
}

/* The newest record of the module at ADDRESS, or of a module that was there before; or NULL. */
static known *recall(uintptr_t address)
{
    known *found = NULL;

    for (known *k = atomic_load(&all); k; k = k->next)
        if (address - k->low < k->high - k->low &&
            (!found || atomic_load(&k->generation) > atomic_load(&found->generation)))
            found = k;
    return found;
}

/* Whether memory of at most two pages is mapped. */
static bool is_there(const void *start, size_t size)
{
    uintptr_t first = (uintptr_t)start;

    return size < sizeof(uint64_t) ||
           (ss_is_readable(first) && ss_is_readable(first + size - sizeof(uint64_t)));
}

/* Mix the first bytes at START into *PRINT; false if they are not mapped. */
static bool add_print(uint64_t *print, const void *start, size_t size)
{
    const uint8_t *bytes = start;

    if (size > PRINTED)
        size = PRINTED;
    if (!is_there(start, size))
        return false;
    for (size_t i = 0; i < size; i++)
        *print = (*print ^ bytes[i]) * UINT64_C(0x100000001b3);
    return true;
}

/*
 * Hash the headers, the notes (one is the build-id) and the table of functions; 0: some are
 * missing.
 */
static uint64_t print_module(const ss_module *m)
{
    uint64_t print = UINT64_C(0xcbf29ce484222325);

    if (!add_print(&print, m->headers, m->header_count * sizeof *m->headers) ||
        !add_print(&print, m->eh_frame_hdr, m->eh_frame_hdr_size))
        return 0;
    for (uint32_t i = 0; i < m->header_count; i++)
        if (m->headers[i].p_type == PT_NOTE &&
            !add_print(&print, (const void *)(m->bias + m->headers[i].p_vaddr),
                       m->headers[i].p_memsz))
            return 0;
    return print | 1;
}

/* ---- Asking the loader ------------------------------------------------------------------------*/

typedef struct search {
    uintptr_t address;
    uint64_t generation;
    ss_module *module;
    bool found;
} search;

static int look_and_keep(struct dl_phdr_info *info, size_t size, void *data)
{
    search *s = data;
    known k;

    (void)size;
    /* A handler that interrupted dlclose can see a module that is listed but already unmapped. */
    if (!is_there(info->dlpi_phdr, info->dlpi_phnum * sizeof *info->dlpi_phdr))
        return 0;
    if (ss_module_from_info(&k.module, info, s->address)) {
        *s->module = k.module;
        s->found = true;
    }
    ss_module_bounds(&k.module, &k.low, &k.high);
    if (ss_generation_is_certain(s->generation) && (k.print = print_module(&k.module)) != 0)
        keep_known(&k, s->generation);
    return 0;
}

/*
 * The cached module of ADDRESS, if it is still valid.  The loader cannot unload a module with
 * frames on the caller's stack.  So it is enough that the same module is still mapped there.
 */
static bool find_known(uintptr_t address, uint64_t generation, ss_module *module)
{
    struct dl_phdr_info info = {0};
    known *k = recall(address);

    if (!k)
        return false;
    if (atomic_load(&k->generation) != generation) {
        if (print_module(&k->module) != k->print)
            return false;
        if (ss_generation_is_certain(generation))
            set_generation(k, generation);
    }
    info.dlpi_addr = k->module.bias;
    info.dlpi_phdr = k->module.headers;
    info.dlpi_phnum = (ElfW(Half))k->module.header_count;
    return ss_module_from_info(module, &info, address);
}

ss_module_answer ss_module_find_listed(uintptr_t address, ss_module *module)
{
    search s = {address, ss_modules_generation(false), module, false};

    if (find_known(address, s.generation, module))
        return SS_MODULE_FOUND;
    if (ss_loader_iterate(SS_LOADER_BRIEFLY, look_and_keep, &s) == SS_LOADER_REFUSED)
        return SS_MODULE_UNKNOWN;
    return s.found ? SS_MODULE_FOUND : SS_MODULE_NONE;
}
