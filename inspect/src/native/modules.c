#include "native/modules.h"

#include "base/list.h"
#include "base/texts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool is_elf(int fd)
{
    char magic[SELFMAG];

    return pread(fd, magic, sizeof magic, 0) == (ssize_t)sizeof magic &&
           !memcmp(magic, ELFMAG, SELFMAG);
}

static const char *build_id_of(const ssi_libdw *dw, Dwfl_Module *module)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bits;
    Dwarf_Addr where;
    char text[129];
    int length = dw->dwfl_module_build_id(module, &bits, &where);

    if (length <= 0 || length > 64)
        return NULL;
    for (int i = 0; i < length; i++) {
        text[2 * i] = digits[bits[i] >> 4];
        text[2 * i + 1] = digits[bits[i] & 15];
    }
    return ssi_text(text, (size_t)length * 2);
}

static void add(ssi_modules *modules, const ssi_module *module)
{
    if (ssi_grow((void **)&modules->items, modules->count, &modules->room, sizeof *module))
        modules->items[modules->count++] = *module;
}

static void report(const ssi_libdw *dw, Dwfl *dwfl, const ssi_target *target, size_t first,
                   ssi_modules *modules)
{
    const ssi_mapping *mapping = &target->mappings[first];
    ssi_module module = {mapping->start, ssi_target_binary_end(target, first),
                         ssi_text(mapping->path, strlen(mapping->path)), NULL};
    Dwfl_Module *reported = NULL;
    int fd;

    if (!module.path)
        return;
    fd = ssi_target_open(target, mapping);
    if (fd >= 0 && is_elf(fd))
        reported = dw->dwfl_report_elf(dwfl, module.path, module.path, fd, mapping->start, false);
    if (!reported && fd >= 0)
        close(fd); /* it is libdw's otherwise */
    if (reported)
        module.build_id = build_id_of(dw, reported);
    add(modules, &module); /* a file that cannot be read still has a name */
}

void ssi_modules_report(const ssi_libdw *dw, Dwfl *dwfl, const ssi_target *target,
                        ssi_modules *modules)
{
    dw->dwfl_report_begin(dwfl);
    for (size_t i = 0; i < target->mapping_count; i++) {
        const ssi_mapping *m = &target->mappings[i];

        if (ssi_target_binary_end(target, i))
            report(dw, dwfl, target, i, modules);
        else if (m->path && !strcmp(m->path, "[vdso]"))
            (void)dw->dwfl_report_module(dwfl, "[vdso]", m->start, m->end);
    }
    (void)dw->dwfl_report_end(dwfl, NULL, NULL);
}

const ssi_module *ssi_modules_find(const ssi_modules *modules, uint64_t address)
{
    for (size_t i = 0; i < modules->count; i++)
        if (modules->items[i].start <= address && address < modules->items[i].end)
            return &modules->items[i];
    return NULL;
}
