#include "native/private.h"

#include "base/base.h"
#include "target/binary.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- The library ------------------------------------------------------------------------------*/

#define NAME(result, name, parameters) #name,
static const char *const names[] = {SSI_LIBDW_FUNCTIONS(NAME)};

const ssi_libdw *ssi_libdw_load(const char **why)
{
    static ssi_libdw functions;
    void *library = dlopen("libdw.so.1", RTLD_LAZY | RTLD_LOCAL);

    *why = "libdw.so.1 not found (Debian package: libdw1)";
    if (!library)
        return NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *function = dlsym(library, names[i]);

        *why = "libdw.so.1 is older than elfutils 0.188, which stacks need";
        if (!function)
            return NULL;
        memcpy((char *)&functions + i * sizeof function, &function, sizeof function);
    }
    functions.elf_version(EV_CURRENT);
    *why = NULL;
    return &functions;
}

/* ---- Binaries ---------------------------------------------------------------------------------*/

/* Sets the build-id of the binary at MAPPING, whose file is FD or, at -1, cannot be read.  False if
   that is not the file that was mapped; without a build-id in memory nobody can say. */
static bool find_build_id(const ssi_mapping *mapping, int fd, const char **build_id)
{
    char there[SSI_BUILD_ID_ROOM], here[SSI_BUILD_ID_ROOM];
    bool said = ssi_build_id(-1, mapping->start, there);
    bool found = fd >= 0 && ssi_build_id(fd, 0, here);

    if (said || found)
        *build_id = ssi_text(said ? there : here, strlen(said ? there : here));
    return fd >= 0 && (!said || (found && !strcmp(there, here)));
}

static void report(const ssi_libdw *dw, Dwfl *dwfl, const ssi_target *target, size_t first,
                   ssi_modules *modules)
{
    const ssi_mapping *mapping = &target->mappings[first];
    ssi_module module = {mapping->start, ssi_target_binary_end(target, first),
                         ssi_text(mapping->path, strlen(mapping->path)), NULL};
    int fd = ssi_target_open(target, mapping);
    Dwfl_Module *reported = NULL;
    Elf64_Ehdr header;

    /* Debuggers do not say what was executable: it may be no binary. */
    if (!module.path || (fd >= 0 && !ssi_elf_header(fd, &header))) {
        if (fd >= 0)
            close(fd);
        return;
    }
    if (find_build_id(mapping, fd, &module.build_id))
        /* A name, for libdw does not learn the machine from one that ends in " (deleted)". */
        reported = dw->dwfl_report_elf(dwfl, "binary", module.path, fd, mapping->start, false);
    if (!reported && fd >= 0)
        close(fd); /* it is libdw's otherwise */
    if (!reported && !modules->missing++)
        modules->first_missing = module.path;
    /* A file that cannot be read still has a name. */
    (void)ssi_append(&modules->items, &modules->count, &modules->room, &module, sizeof module);
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
