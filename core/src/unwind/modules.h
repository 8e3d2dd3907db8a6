/*
 * The loaded modules: which one holds an address, and where its unwind data and its segments are.
 *
 * What is found stays valid while a frame of the module is on the calling thread's stack, since
 * such a module cannot be unloaded.
 */
#ifndef SS_MODULES_H
#define SS_MODULES_H

#include "base/platform.h"

#include <link.h>

typedef struct ss_module {
    uintptr_t bias;   /* load address minus link-time address */
    const char *name; /* as the loader has it, who may free it: "" of the program */
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

/* The module that holds ADDRESS.  One implementation is chosen by the build: modules_*.c. */
ss_module_answer ss_module_find(uintptr_t address, ss_module *module);

/* The same, but never with the loader's lock: SS_MODULE_UNKNOWN where that is needed. */
ss_module_answer ss_module_find_unlocked(uintptr_t address, ss_module *module);

/* The same through dl_iterate_phdr, which takes the loader's lock: always there. */
ss_module_answer ss_module_find_by_iteration(uintptr_t address, ss_module *module);

/* Fill MODULE from INFO; false if ADDRESS is in none of its loaded segments. */
bool ss_module_from_info(ss_module *module, const struct dl_phdr_info *info, uintptr_t address);

/* The loaded, readable bytes around ADDRESS, of one segment; with FLAGS (PF_X) too. */
bool ss_module_segment(const ss_module *module, uintptr_t address, uint32_t flags,
                       const uint8_t **low, const uint8_t **high);

/* lookup.c: executable code of a loaded module that holds ADDRESS; *LOW is where that begins. */
ss_module_answer ss_module_code(uintptr_t address, const uint8_t **low);

#endif
