/* Finding a module through glibc's _dl_find_object (2.35 and later), which takes no lock. */
#include "unwind/modules.h"

#include <dlfcn.h>
#include <string.h>

/*
 * The program headers, through the ELF header that begins the first mapped page of nearly every
 * module; NULL for the others.
 */
static const ElfW(Phdr) * headers_of(const struct dl_find_object *object, size_t *count)
{
    const uint8_t *start = object->dlfo_map_start;
    size_t size = (size_t)((const uint8_t *)object->dlfo_map_end - start);
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
        /* Only a segment that begins with the ELF header makes those bytes the headers. */
        if (headers[i].p_type == PT_LOAD && headers[i].p_offset == 0 &&
            headers[i].p_filesz >= elf->e_phoff + *count * sizeof *headers)
            return headers;
    return NULL;
}

ss_module_answer ss_module_find(uintptr_t address, ss_module *module)
{
    struct dl_find_object object;
    const ElfW(Phdr) * headers;
    size_t count;

    if (_dl_find_object((void *)address, &object) != 0)
        return SS_MODULE_NONE;
    headers = headers_of(&object, &count);
    if (!headers)
        return ss_module_find_by_iteration(address, module);
    return ss_module_from_headers(module, object.dlfo_link_map->l_addr, headers, count, address)
               ? SS_MODULE_FOUND
               : SS_MODULE_NONE;
}
