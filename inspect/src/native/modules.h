/* The binaries of a target, as libdw knows them. */
#ifndef SSI_MODULES_H
#define SSI_MODULES_H

#include "native/libdw.h"
#include "target/target.h"

typedef struct ssi_module {
    uint64_t start, end;
    const char *path;
    const char *build_id; /* NULL: none */
} ssi_module;

typedef struct ssi_modules {
    ssi_module *items; /* by address */
    size_t count, room;
    size_t missing; /* so many have no file that can be used */
    const char *first_missing;
} ssi_modules;

/* Report all binaries of TARGET to DWFL, and list them. */
void ssi_modules_report(const ssi_libdw *dw, Dwfl *dwfl, const ssi_target *target,
                        ssi_modules *modules);
const ssi_module *ssi_modules_find(const ssi_modules *modules, uint64_t address);

#endif
