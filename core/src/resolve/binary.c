#include "resolve/binary.h"

#include "base/loader.h"
#include "resolve/mapped_path.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* One loaded object as the loader describes it. */
typedef struct object {
    uintptr_t bias;
    const char *name;
    const ElfW(Phdr) * headers;
    size_t header_count;
} object;

/* Whether [address, address + size) lies in what one loaded segment takes from the file. */
static bool is_mapped(const object *o, uintptr_t address, size_t size)
{
    for (size_t i = 0; i < o->header_count; i++) {
        const ElfW(Phdr) *h = &o->headers[i];

        if (h->p_type == PT_LOAD && address - (o->bias + h->p_vaddr) <= h->p_filesz &&
            size <= h->p_filesz - (address - (o->bias + h->p_vaddr)))
            return true;
    }
    return false;
}

static bool holds(const object *o, uintptr_t address)
{
    for (size_t i = 0; i < o->header_count; i++) {
        const ElfW(Phdr) *h = &o->headers[i];

        if (h->p_type == PT_LOAD && address - (o->bias + h->p_vaddr) < h->p_memsz)
            return true;
    }
    return false;
}

static void put_hex(const unsigned char *bytes, size_t count, char *out)
{
    for (size_t i = 0; i < count; i++) {
        *out++ = "0123456789abcdef"[bytes[i] >> 4];
        *out++ = "0123456789abcdef"[bytes[i] & 15];
    }
    *out = 0;
}

static size_t round_up(size_t size, size_t align)
{
    return (size + align - 1) & ~(align - 1);
}

/*
 * Look through one note segment, all of which is readable.  What ALIGN aligns is where a text and
 * where the next note begin, counted from the note.
 */
static bool note_build_id(const unsigned char *notes, size_t size, size_t align, char *out)
{
    while (size >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        size_t text, next;

        memcpy(&note, notes, sizeof note);
        text = round_up(sizeof note + note.n_namesz, align);
        next = round_up(text + note.n_descsz, align);
        if (text > size || note.n_descsz > size - text)
            return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            !memcmp(notes + sizeof note, "GNU", 4) && note.n_descsz &&
            note.n_descsz <= SS_BUILD_ID_MAX) {
            put_hex(notes + text, note.n_descsz, out);
            return true;
        }
        if (next > size)
            return false;
        notes += next;
        size -= next;
    }
    return false;
}

static void find_build_id(const object *o, char *out)
{
    *out = 0;
    for (size_t i = 0; i < o->header_count; i++) {
        const ElfW(Phdr) *h = &o->headers[i];
        uintptr_t at = o->bias + h->p_vaddr;

        if (h->p_type == PT_NOTE && is_mapped(o, at, h->p_filesz) &&
            note_build_id((const unsigned char *)at, h->p_filesz, h->p_align == 8 ? 8 : 4, out))
            return;
    }
}

static void find_bounds(const object *o, ss_binary *module)
{
    module->start = UINTPTR_MAX;
    module->end = 0;
    for (size_t i = 0; i < o->header_count; i++) {
        const ElfW(Phdr) *h = &o->headers[i];
        uintptr_t low = o->bias + h->p_vaddr, high = low + h->p_memsz;

        if (h->p_type != PT_LOAD)
            continue;
        module->start = low < module->start ? low : module->start;
        module->end = high > module->end ? high : module->end;
    }
    /* The file's first page is where tools count from, also when its segment begins later in it. */
    module->start &= ~(uintptr_t)4095;
}

/* The main program, which the loader does not name; START is where it begins. */
static void find_program_path(uintptr_t start, char *path)
{
    ssize_t got;

    /* What was started has no interpreter: it may be the loader, with the program as its argument.
     */
    if (!getauxval(AT_BASE)) {
        ss_mapped_path(start, path);
        return;
    }
    got = readlink("/proc/self/exe", path, SS_BINARY_PATH_MAX - 1);
    path[got > 0 ? got : 0] = 0;
}

static void find_path(const object *o, uintptr_t start, char *path)
{
    size_t length = o->name ? strlen(o->name) : 0;

    if (length && length < SS_BINARY_PATH_MAX) {
        memcpy(path, o->name, length + 1);
    } else if (!length) {
        find_program_path(start, path);
    } else {
        *path = 0; /* a cut path would name another file */
    }
}

static void describe(const object *o, ss_binary *module)
{
    module->bias = o->bias;
    find_bounds(o, module);
    find_build_id(o, module->build_id);
    find_path(o, module->start, module->path);
}

static object from_info(const struct dl_phdr_info *info)
{
    return (object){info->dlpi_addr, info->dlpi_name, info->dlpi_phdr, info->dlpi_phnum};
}

typedef struct search {
    uintptr_t address;
    ss_binary *module;
} search;

static int find_in(struct dl_phdr_info *info, size_t size, void *data)
{
    search *s = data;
    object o = from_info(info);

    (void)size;
    if (!holds(&o, s->address))
        return 0;
    describe(&o, s->module);
    return 1;
}

bool ss_binary_find(uintptr_t address, ss_binary *module)
{
    search s = {address, module};

    return ss_loader_iterate(SS_LOADER_LONG, find_in, &s) == 1;
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
extern __typeof__(_dl_find_object) _dl_find_object __attribute__((weak)); /* glibc 2.35 */

bool ss_binary_find_failfast(uintptr_t address, ss_binary *module)
{
    struct dl_find_object found;
    const ElfW(Ehdr) * header;
    object o;

    if (!_dl_find_object)
        return ss_binary_find(address, module);
    if (_dl_find_object((void *)address, &found))
        return false;
    header = found.dlfo_map_start;
    o = (object){found.dlfo_link_map->l_addr, found.dlfo_link_map->l_name, NULL, 0};
    if (!memcmp(header->e_ident, ELFMAG, SELFMAG) && header->e_phentsize == sizeof(ElfW(Phdr)) &&
        header->e_phoff <= 4096 - sizeof(ElfW(Phdr)) &&
        header->e_phnum <= (4096 - header->e_phoff) / sizeof(ElfW(Phdr))) {
        o.headers = (const ElfW(Phdr) *)((const char *)header + header->e_phoff);
        o.header_count = header->e_phnum;
    }
    describe(&o, module);
    if (!o.header_count) {
        module->start = (uintptr_t)found.dlfo_map_start;
        module->end = (uintptr_t)found.dlfo_map_end;
    }
    return true;
}
#else
bool ss_binary_find_failfast(uintptr_t address, ss_binary *module)
{
    return ss_binary_find(address, module);
}
#endif

typedef struct visit {
    ss_binary *scratch;
    bool (*back)(const ss_binary *module, void *data);
    void *data;
} visit;

static int visit_one(struct dl_phdr_info *info, size_t size, void *data)
{
    visit *v = data;
    object o = from_info(info);

    (void)size;
    describe(&o, v->scratch);
    return v->back(v->scratch, v->data) ? 0 : 1;
}

void ss_binary_each(ss_binary *scratch, bool (*back)(const ss_binary *module, void *data),
                    void *data)
{
    visit v = {scratch, back, data};

    (void)ss_loader_iterate(SS_LOADER_LONG, visit_one, &v);
}
