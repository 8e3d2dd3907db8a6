/*
 * The function of glibc that a gcc for glibc calls when it unwinds, for programs that are linked
 * with musl.  A gcc for musl needs none of this.
 */
#include <link.h>
#include <stddef.h>
#include <stdint.h>

/* As <dlfcn.h> of glibc has it on x86-64. */
struct dl_find_object {
    unsigned long long flags;
    void *map_start, *map_end;
    struct link_map *link_map;
    void *eh_frame; /* the table in front of it */
    unsigned long long reserved[7];
};

typedef struct search {
    uintptr_t address;
    struct dl_find_object *found;
} search;

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
    const search *s = data;
    uintptr_t low = UINTPTR_MAX, high = 0;
    void *table = NULL;

    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + header->p_vaddr;

        if (header->p_type == PT_GNU_EH_FRAME)
            table = (void *)start;
        if (header->p_type != PT_LOAD)
            continue;
        low = start < low ? start : low;
        high = start + header->p_memsz > high ? start + header->p_memsz : high;
    }
    if (s->address < low || s->address >= high || !table)
        return 0;
    *s->found = (struct dl_find_object){
        .map_start = (void *)low, .map_end = (void *)high, .eh_frame = table};
    return 1;
}

__attribute__((visibility("hidden"))) int _dl_find_object(void *address,
                                                          struct dl_find_object *found);
int _dl_find_object(void *address, struct dl_find_object *found)
{
    search s = {(uintptr_t)address, found};

    return dl_iterate_phdr(look, &s) ? 0 : -1;
}
