#include "unwind/modules.h"

#include "base/loader.h"

bool ss_module_segment(const ss_module *module, uintptr_t address, uint32_t flags,
                       const uint8_t **low, const uint8_t **high)
{
    for (uint32_t i = 0; i < module->header_count; i++) {
        const ElfW(Phdr) *header = &module->headers[i];
        uintptr_t start = module->bias + header->p_vaddr;

        if (header->p_type != PT_LOAD || address - start >= header->p_memsz)
            continue;
        if ((header->p_flags & (PF_R | flags)) != (PF_R | flags))
            return false;
        *low = (const uint8_t *)start;
        *high = *low + header->p_memsz;
        return true;
    }
    return false;
}

bool ss_module_from_info(ss_module *module, const struct dl_phdr_info *info, uintptr_t address)
{
    bool holds = false;

    *module =
        (ss_module){info->dlpi_addr, info->dlpi_name, info->dlpi_phdr, info->dlpi_phnum, NULL, 0};
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + header->p_vaddr;

        if (header->p_type == PT_LOAD)
            holds = holds || address - start < header->p_memsz;
        if (header->p_type == PT_GNU_EH_FRAME) {
            module->eh_frame_hdr = (const uint8_t *)start;
            module->eh_frame_hdr_size = header->p_memsz;
        }
    }
    return holds;
}

void ss_module_bounds(const ss_module *module, uintptr_t *low, uintptr_t *high)
{
    *low = UINTPTR_MAX;
    *high = 0;
    for (uint32_t i = 0; i < module->header_count; i++) {
        const ElfW(Phdr) *header = &module->headers[i];
        uintptr_t start = module->bias + header->p_vaddr;

        if (header->p_type != PT_LOAD)
            continue;
        *low = start < *low ? start : *low;
        *high = start + header->p_memsz > *high ? start + header->p_memsz : *high;
    }
}

typedef struct search {
    uintptr_t address;
    ss_module *module;
} search;

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
    search *s = data;

    (void)size;
    return ss_module_from_info(s->module, info, s->address);
}

ss_module_answer ss_module_find_by_iteration(uintptr_t address, ss_module *module)
{
    search s = {address, module};

    switch (ss_loader_iterate(SS_LOADER_BRIEFLY, look, &s)) {
    case SS_LOADER_REFUSED:
        return SS_MODULE_UNKNOWN;
    case 0:
        return SS_MODULE_NONE;
    default:
        return SS_MODULE_FOUND;
    }
}
