#include "unwind/binary.h"

#include "unwind/modules.h"

#include <elf.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

static size_t round_up(size_t size, size_t align)
{
    return (size + align - 1) & ~(align - 1);
}

/*
 * Search one note segment, all of which is readable.  ALIGN aligns the start of a note's
 * description and of the next note, both as offsets from the note.
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
            for (size_t i = text; i < text + note.n_descsz; i++) {
                *out++ = "0123456789abcdef"[notes[i] >> 4];
                *out++ = "0123456789abcdef"[notes[i] & 15];
            }
            *out = 0;
            return true;
        }
        if (next > size)
            return false;
        notes += next;
        size -= next;
    }
    return false;
}

static void find_build_id(const ss_module *m, char *out)
{
    const uint8_t *low, *high;

    *out = 0;
    for (uint32_t i = 0; i < m->header_count; i++) {
        const ElfW(Phdr) *h = &m->headers[i];
        const uint8_t *at = (const uint8_t *)(m->bias + h->p_vaddr);

        if (h->p_type == PT_NOTE && ss_module_segment(m, (uintptr_t)at, 0, &low, &high) &&
            h->p_filesz <= (size_t)(high - at) &&
            note_build_id(at, h->p_filesz, h->p_align == 8 ? 8 : 4, out))
            return;
    }
}

static char *put_number(char *at, uintptr_t number)
{
    int shift = 8 * (int)sizeof number - 4;

    while (shift && !(number >> shift))
        shift -= 4;
    for (; shift >= 0; shift -= 4)
        *at++ = "0123456789abcdef"[number >> shift & 15];
    return at;
}

/* Get the file of M's first segment: the kernel names its links by the mapped pages. */
static ssize_t read_mapped_path(const ss_module *m, char *path)
{
    char link[64] = "/proc/self/map_files/", *at = link + strlen(link);
    uintptr_t page = getauxval(AT_PAGESZ), low;
    const ElfW(Phdr) *h = m->headers, *end = h + m->header_count;

    while (h < end && h->p_type != PT_LOAD)
        h++;
    if (h == end || !page)
        return -1;
    low = m->bias + h->p_vaddr;
    at = put_number(at, low & ~(page - 1));
    *at++ = '-';
    at = put_number(at, round_up(low + h->p_filesz, page));
    *at = 0;
    return readlink(link, path, SS_BINARY_PATH_MAX - 1);
}

/*
 * The main program has no name.  The kernel may have started the loader itself, with the program as
 * its argument; then /proc/self/exe is the loader.
 */
static void find_path(const ss_module *m, char *path)
{
    size_t length = m->name ? strlen(m->name) : 0;
    ssize_t got = 0; /* a path cut to fit would name another file */

    if (length && length < SS_BINARY_PATH_MAX)
        memcpy(path, m->name, (size_t)(got = (ssize_t)length));
    else if (!length)
        got = getauxval(AT_BASE) ? readlink("/proc/self/exe", path, SS_BINARY_PATH_MAX - 1)
                                 : read_mapped_path(m, path);
    path[got > 0 ? got : 0] = 0;
}

static void describe(const ss_module *m, ss_binary *binary)
{
    binary->bias = m->bias;
    ss_module_bounds(m, &binary->start, &binary->end);
    /* Tools count from the file's first page, even when its segment starts later in that page. */
    binary->start &= ~(uintptr_t)4095;
    find_build_id(m, binary->build_id);
    find_path(m, binary->path);
}

typedef struct visit {
    uintptr_t address;
    ss_binary *binary;
    bool (*back)(const ss_binary *binary, void *data); /* NULL: find the module with ADDRESS */
    void *data;
} visit;

static int visit_one(struct dl_phdr_info *info, size_t size, void *data)
{
    visit *v = data;
    ss_module m;

    (void)size;
    if (!ss_module_from_info(&m, info, v->address) && !v->back)
        return 0;
    describe(&m, v->binary);
    return !v->back || !v->back(v->binary, v->data);
}

static ss_module_answer find_unlocked(uintptr_t address, ss_binary *binary)
{
    ss_module m;
    ss_module_answer answer = ss_module_find_unlocked(address, &m);

    if (answer == SS_MODULE_FOUND)
        describe(&m, binary);
    return answer;
}

/* Under the lock, the module and its name stay while they are read. */
bool ss_binary_find(uintptr_t address, ss_binary *binary)
{
    visit v = {address, binary, NULL, NULL};
    int found = ss_loader_iterate(SS_LOADER_LONG, visit_one, &v);

    return found == SS_LOADER_REFUSED ? find_unlocked(address, binary) == SS_MODULE_FOUND
                                      : found == 1;
}

bool ss_binary_find_failfast(uintptr_t address, ss_binary *binary)
{
    ss_module_answer answer = find_unlocked(address, binary);

    return answer == SS_MODULE_UNKNOWN ? ss_binary_find(address, binary)
                                       : answer == SS_MODULE_FOUND;
}

bool ss_binary_each(ss_binary *scratch, ss_loader_patience patience,
                    bool (*back)(const ss_binary *binary, void *data), void *data)
{
    visit v = {0, scratch, back, data};

    return ss_loader_iterate(patience, visit_one, &v) != SS_LOADER_REFUSED;
}
