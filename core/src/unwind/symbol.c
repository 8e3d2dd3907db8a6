#include "unwind/modules.h"

#include <elf.h>
#include <string.h>

/* What the dynamic section says; 0: nothing. */
typedef struct tables {
    const ss_module *module;
    uintptr_t symbols, strings, strings_size, hash, gnu_hash;
} tables;

/* The SIZE bytes at ADDRESS, or NULL when they are not in a loaded segment. */
static const void *mapped(const ss_module *m, uintptr_t address, size_t size)
{
    const uint8_t *low, *high;

    if (!ss_module_segment(m, address, 0, &low, &high) ||
        size > (size_t)(high - (uint8_t *)address))
        return NULL;
    return (const void *)address;
}

static uint32_t word_at(const ss_module *m, uintptr_t address)
{
    const uint32_t *word = mapped(m, address, sizeof *word);

    return word ? *word : 0;
}

/* Some C libraries make addresses of the values there when they load a module, others do not. */
static uintptr_t pointer(const ss_module *m, uintptr_t value)
{
    return mapped(m, value, 1) ? value : m->bias + value;
}

static bool read_dynamic(tables *t, uintptr_t address)
{
    const ElfW(Dyn) * d;

    for (; (d = mapped(t->module, address, sizeof *d)) != NULL && d->d_tag != DT_NULL;
         address += sizeof *d) {
        if (d->d_tag == DT_SYMTAB)
            t->symbols = pointer(t->module, d->d_un.d_ptr);
        else if (d->d_tag == DT_STRTAB)
            t->strings = pointer(t->module, d->d_un.d_ptr);
        else if (d->d_tag == DT_STRSZ)
            t->strings_size = d->d_un.d_val;
        else if (d->d_tag == DT_HASH)
            t->hash = pointer(t->module, d->d_un.d_ptr);
        else if (d->d_tag == DT_GNU_HASH)
            t->gnu_hash = pointer(t->module, d->d_un.d_ptr);
    }
    return t->symbols && t->strings && mapped(t->module, t->strings, t->strings_size);
}

/*
 * The number of symbols.  Only a hash table tells it: the older kind by its second word, the newer
 * by the end of its last chain.
 */
static size_t count_symbols(const tables *t)
{
    const ss_module *m = t->module;
    uint32_t buckets = t->gnu_hash ? word_at(m, t->gnu_hash) : 0, last = 0;
    uint32_t first = t->gnu_hash ? word_at(m, t->gnu_hash + 4) : 0;
    uintptr_t at;

    if (t->hash)
        return word_at(m, t->hash + 4);
    at = t->gnu_hash + 16 + (uintptr_t)word_at(m, t->gnu_hash + 8) * sizeof(ElfW(Addr));
    for (uint32_t i = 0; i < buckets; i++, at += 4) {
        uint32_t begin = word_at(m, at);

        last = begin > last ? begin : last;
    }
    if (last < first || !last)
        return 0;
    for (at += (uintptr_t)(last - first) * 4; mapped(m, at, 4) && !(word_at(m, at) & 1); at += 4)
        last++;
    return (size_t)last + 1;
}

/* Find the function around OFFSET. */
static bool search(const tables *t, uintptr_t offset, const char **name, uintptr_t *start)
{
    size_t count = count_symbols(t);
    const ElfW(Sym) *symbols = mapped(t->module, t->symbols, count * sizeof *symbols);

    for (size_t i = 0; symbols && i < count; i++) {
        unsigned type = symbols[i].st_info & 15;
        size_t at = symbols[i].st_name;

        if ((type != STT_FUNC && type != STT_GNU_IFUNC) || symbols[i].st_shndx == SHN_UNDEF ||
            offset - symbols[i].st_value >= symbols[i].st_size || at >= t->strings_size ||
            !memchr((const char *)t->strings + at, 0, t->strings_size - at))
            continue;
        *name = (const char *)t->strings + at;
        *start = t->module->bias + symbols[i].st_value;
        return true;
    }
    return false;
}

bool ss_symbol_find(uintptr_t address, const char **name, uintptr_t *start)
{
    ss_module m;
    tables t = {.module = &m};

    if (ss_module_find(address, &m) != SS_MODULE_FOUND)
        return false;
    for (uint32_t i = 0; i < m.header_count; i++) {
        if (m.headers[i].p_type == PT_DYNAMIC)
            return read_dynamic(&t, m.bias + m.headers[i].p_vaddr) &&
                   search(&t, address - m.bias, name, start);
    }
    return false;
}
