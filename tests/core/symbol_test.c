/* Names of exported functions, read without the loader, against the loader's own answers. */
#include "support.h"

#include "unwind/modules.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static unsigned found, compared;

/* What the loader says of the function at ADDRESS. */
typedef enum answer { NONE, OTHER, FUNCTION } answer;

static answer ask_loader(uintptr_t address, Dl_info *info)
{
#ifdef __GLIBC__
    const ElfW(Sym) *symbol = NULL;
    bool known = dladdr1((void *)address, info, (void **)(uintptr_t)&symbol, RTLD_DL_SYMENT);
    unsigned type = known && symbol ? ELF64_ST_TYPE(symbol->st_info) : STT_NOTYPE;

    if (!known || !info->dli_sname)
        return NONE;
    return symbol && symbol->st_size && (type == STT_FUNC || type == STT_GNU_IFUNC) ? FUNCTION
                                                                                    : OTHER;
#else
    return dladdr((void *)address, info) && info->dli_sname ? OTHER : NONE;
#endif
}

/*
 * Our answer at ADDRESS is that of the loader, which may know the function by another of its names,
 * and also names labels and data that lie beside the code.
 */
static void compare(uintptr_t address)
{
    const char *name = NULL;
    uintptr_t start = 0;
    Dl_info info;
    answer theirs = ask_loader(address, &info);

    compared++;
    if (!ss_symbol_find(address, &name, &start)) {
        assert_int_not_equal(theirs, FUNCTION);
        return;
    }
    found++;
    assert_int_not_equal(theirs, NONE);
    assert_int_equal(start, info.dli_saddr);
    assert_true(strcmp(name, info.dli_sname) == 0 || dlsym(RTLD_DEFAULT, name));
}

/* A few thousand addresses of the code of each loaded module. */
static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uintptr_t low = info->dlpi_addr + h->p_vaddr, step = h->p_memsz / 3000 + 1;

        if (h->p_type != PT_LOAD || !(h->p_flags & PF_X))
            continue;
        for (uintptr_t at = low; at < low + h->p_memsz; at += step)
            compare(at);
    }
    return 0;
}

TEST(test_each_module)
{
    (void)dl_iterate_phdr(visit, NULL);
    printf("%u of %u addresses have a name\n", found, compared);
    assert_true(found > 1000);
}

TEST(test_functions_of_the_library)
{
    static const char *const names[] = {"abort", "qsort", "malloc", "getenv", "strtol"};

    for (size_t i = 0; i < COUNT_OF(names); i++) {
        uintptr_t function = (uintptr_t)dlsym(RTLD_NEXT, names[i]), start;
        const char *name;
        Dl_info info;

        assert_int_not_equal(function, 0);
        assert_true(ss_symbol_find(function, &name, &start));
        assert_int_equal(start, function);
        assert_true(dladdr((void *)function, &info));
        assert_string_equal(name, info.dli_sname);
    }
}

TEST(test_no_function)
{
    static int data;
    const char *name;
    uintptr_t start;

    assert_false(ss_symbol_find(0, &name, &start));
    assert_false(ss_symbol_find((uintptr_t)&data, &name, &start));
    assert_false(ss_symbol_find((uintptr_t)&start, &name, &start));
}
