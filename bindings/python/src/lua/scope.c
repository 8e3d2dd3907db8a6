/*
 * Which copy of Lua a loaded file calls.  A file may contain Lua and still call another one: if a
 * Lua was loaded into the global scope first, the loader binds the file's calls to that.
 */
#include "lua/lua.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

/* A function that everybody calls who uses Lua. */
static const char asked[] = "lua_settop";

/* What is looked up in a file's dynamic section. */
typedef struct tables {
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * calls, *data;
    size_t call_size, data_size;
} tables;

/* The C library may have added the base address already. */
static const void *at(const struct link_map *map, ElfW(Addr) address)
{
    return (const void *)(address < map->l_addr ? map->l_addr + address : address);
}

static tables tables_of(const struct link_map *map)
{
    tables found = {NULL, NULL, NULL, NULL, 0, 0};

    for (const ElfW(Dyn) *each = map->l_ld; each->d_tag != DT_NULL; each++)
        switch (each->d_tag) {
        case DT_SYMTAB:
            found.symbols = at(map, each->d_un.d_ptr);
            break;
        case DT_STRTAB:
            found.names = at(map, each->d_un.d_ptr);
            break;
        case DT_JMPREL:
            found.calls = at(map, each->d_un.d_ptr);
            break;
        case DT_PLTRELSZ:
            found.call_size = each->d_un.d_val;
            break;
        case DT_RELA:
            found.data = at(map, each->d_un.d_ptr);
            break;
        case DT_RELASZ:
            found.data_size = each->d_un.d_val;
            break;
        default:
            break;
        }
    return found;
}

/* The address in the slot of the function, from the SIZE bytes of relocations; 0 without one. */
static uintptr_t bound(const struct link_map *map, const tables *of, const ElfW(Rela) * relocations,
                       size_t size)
{
    for (size_t i = 0; relocations && i < size / sizeof *relocations; i++) {
        size_t symbol = ELF64_R_SYM(relocations[i].r_info);

        if (symbol && strcmp(of->names + of->symbols[symbol].st_name, asked) == 0)
            return *(const uintptr_t *)(map->l_addr + relocations[i].r_offset);
    }
    return 0;
}

static bool calls(void *handle, const void *function)
{
    struct link_map *map = NULL;
    tables of;

    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) || !map)
        return false;
    of = tables_of(map);
    if (!of.symbols || !of.names)
        return false;
    return bound(map, &of, of.calls, of.call_size) == (uintptr_t)function ||
           bound(map, &of, of.data, of.data_size) == (uintptr_t)function;
}

void *sspy_lua_handle(const char *library)
{
    void *handle = dlopen(library, RTLD_LAZY | RTLD_NOLOAD), *global = dlopen(NULL, RTLD_LAZY);
    void *function = global ? dlsym(global, asked) : NULL;

    if (handle && function && function != dlsym(handle, asked) && calls(handle, function)) {
        (void)dlclose(handle);
        return global;
    }
    if (global)
        (void)dlclose(global);
    return handle;
}
