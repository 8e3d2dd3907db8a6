/*
 * The loaded modules: which one holds an address, and where its unwind data and segments are.
 *
 * A result stays valid while a frame of the module is on the calling thread's stack, since the
 * loader cannot unload such a module.
 */
#ifndef SS_MODULES_H
#define SS_MODULES_H

#include "base/platform.h"

#include <link.h>

typedef struct ss_module {
    uintptr_t bias;   /* load address minus link-time address */
    const char *name; /* owned by the loader, which may free it; "" for the program */
    const ElfW(Phdr) * headers;
    uint32_t header_count;
    const uint8_t *eh_frame_hdr; /* NULL: it has none */
    size_t eh_frame_hdr_size;
} ss_module;

typedef enum ss_module_answer {
    SS_MODULE_FOUND,
    SS_MODULE_NONE,   /* no module holds the address */
    SS_MODULE_UNKNOWN /* the loader cannot be asked now: see ss_loader_iterate */
} ss_module_answer;

/* Find the module that holds ADDRESS: without the lock where that is possible, else listed. */
ss_module_answer ss_module_find(uintptr_t address, ss_module *module);

/* The same without the loader's lock: SS_MODULE_UNKNOWN where it is needed. */
ss_module_answer ss_module_find_unlocked(uintptr_t address, ss_module *module);

/* The same through dl_iterate_phdr; only a module that it has not met takes the loader's lock. */
ss_module_answer ss_module_find_listed(uintptr_t address, ss_module *module);

/* The same with the lock, and nothing kept. */
ss_module_answer ss_module_find_by_iteration(uintptr_t address, ss_module *module);

/* Fill MODULE from INFO; false if none of its loaded segments holds ADDRESS. */
bool ss_module_from_info(ss_module *module, const struct dl_phdr_info *info, uintptr_t address);

/* What MODULE's loaded segments take: from *LOW up to *HIGH. */
void ss_module_bounds(const ss_module *module, uintptr_t *low, uintptr_t *high);

/* The loaded, readable bytes of the segment around ADDRESS; it must have FLAGS (PF_X) too. */
bool ss_module_segment(const ss_module *module, uintptr_t address, uint32_t flags,
                       const uint8_t **low, const uint8_t **high);

/* lookup.c: find the executable code of a loaded module around ADDRESS; *LOW is its start. */
ss_module_answer ss_module_code(uintptr_t address, const uint8_t **low);

/* ---- symbol.c: exported functions, by the mapped symbol tables --------------------------------*/

/*
 * Find the exported function that contains ADDRESS: its NAME, which lies in its module, and its
 * START.  Takes no memory, reads only loaded segments, and takes the loader's lock only where the
 * platform finds modules no other way.
 */
bool ss_symbol_find(uintptr_t address, const char **name, uintptr_t *start);

#endif
