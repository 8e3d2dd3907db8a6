/* Finds a module through glibc's _dl_find_object (2.35 and later), which takes no lock. */
#include "unwind/modules.h"

#include <dlfcn.h>
#include <string.h>

/* What it fills.  This begins so on each machine; not all headers have it, so here is room. */
typedef struct found_object {
    unsigned long long flags;
    void *start, *end;
    struct link_map *map;
    uint64_t rest[12];
} found_object;

static int (*find_object)(void *address, found_object *found); /* NULL: an older C library */

/* One build serves both.  At load: dlsym allocates, so a signal handler could not. */
static __attribute__((constructor)) void look_up(void)
{
    void *function = dlsym(RTLD_DEFAULT, "_dl_find_object");

    memcpy(&find_object, &function, sizeof find_object);
}

/*
 * The program headers, through the ELF header at the start of the first mapped page.  Nearly every
 * module maps it; NULL for the others.
 */
static const ElfW(Phdr) * headers_of(const found_object *object, size_t *count)
{
    const uint8_t *start = object->start;
    size_t size = (size_t)((const uint8_t *)object->end - start);
    const ElfW(Ehdr) *elf = (const ElfW(Ehdr) *)start;
    const ElfW(Phdr) * headers;

    if (size < sizeof *elf || memcmp(elf->e_ident, ELFMAG, SELFMAG) != 0 ||
        elf->e_phentsize != sizeof *headers)
        return NULL;
    *count = elf->e_phnum;
    if (elf->e_phoff > size || *count * sizeof *headers > size - elf->e_phoff)
        return NULL;
    headers = (const ElfW(Phdr) *)(start + elf->e_phoff);
    for (size_t i = 0; i < *count; i++)
        /* Those bytes are the headers only if a segment starts with the ELF header. */
        if (headers[i].p_type == PT_LOAD && headers[i].p_offset == 0 &&
            headers[i].p_filesz >= elf->e_phoff + *count * sizeof *headers)
            return headers;
    return NULL;
}

ss_module_answer ss_module_find_unlocked(uintptr_t address, ss_module *module)
{
    struct dl_phdr_info info = {0};
    found_object object;
    size_t count;

    if (!find_object)
        return SS_MODULE_UNKNOWN;
    if (find_object((void *)address, &object) != 0)
        return SS_MODULE_NONE;
    info.dlpi_phdr = headers_of(&object, &count);
    if (!info.dlpi_phdr)
        return SS_MODULE_UNKNOWN;
    info.dlpi_addr = object.map->l_addr;
    info.dlpi_name = object.map->l_name;
    info.dlpi_phnum = (ElfW(Half))count;
    return ss_module_from_info(module, &info, address) ? SS_MODULE_FOUND : SS_MODULE_NONE;
}

ss_module_answer ss_module_find(uintptr_t address, ss_module *module)
{
    ss_module_answer answer = ss_module_find_unlocked(address, module);

    return answer == SS_MODULE_UNKNOWN ? ss_module_find_listed(address, module) : answer;
}
