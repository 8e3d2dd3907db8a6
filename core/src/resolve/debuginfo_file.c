/*
 * Debug information of files that are not loaded.  Each has a session of its own, in which it lies
 * as if it were loaded: at the addresses that its program headers name.
 */
#include "resolve/debuginfo_session.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 32, PAGE = 4096 }; /* a stack has seldom code of more binaries */

typedef struct kept_file {
    ss_session session;
    Dwfl_Module *module; /* NULL: libdw cannot read it */
    uint64_t start;      /* its load address, as libdw counts */
    uint64_t size;
    struct stat status; /* another one is another file */
    char path[SS_BINARY_PATH_MAX];
} kept_file;

/* The addresses that the segments of a file take. */
typedef struct extent {
    uint64_t low, high;
} extent;

/* (LOCK of native.c) everything below */
static kept_file files[FILES];
static uint32_t next_slot;
static ss_session *reading; /* that of the file which libdw reads now */

/*
 * Search by build-id.  libdw asks debuginfod servers only where the environment names some, and
 * only in its wider search.
 */
static int find_debuginfo(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                          const char *file, const char *link, GElf_Word crc, char **out)
{
    return ss_session_note(reading, ss_dw->dwfl_build_id_find_debuginfo(module, data, name, base,
                                                                        file, link, crc, out));
}

static const Dwfl_Callbacks callbacks = {
    .find_elf = ss_session_find_elf,
    .find_debuginfo = find_debuginfo,
};

/* ---- Headers ---------------------------------------------------------------------------------*/

static bool is_ours(const Elf64_Ehdr *header)
{
    const uint16_t one = 1;
    const unsigned char order = *(const unsigned char *)&one ? ELFDATA2LSB : ELFDATA2MSB;

    return !memcmp(header->e_ident, ELFMAG, SELFMAG) && header->e_ident[EI_CLASS] == ELFCLASS64 &&
           header->e_ident[EI_DATA] == order &&
           (header->e_type == ET_DYN || header->e_type == ET_EXEC) &&
           header->e_phentsize == sizeof(Elf64_Phdr);
}

/* Read which addresses FD's segments take; false when it is no binary that can be loaded. */
static bool read_extent(int fd, extent *out)
{
    Elf64_Ehdr header;

    *out = (extent){UINT64_MAX, 0};
    if (pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header || !is_ours(&header))
        return false;
    for (uint16_t i = 0; i < header.e_phnum; i++) {
        Elf64_Phdr segment;
        off_t at = (off_t)(header.e_phoff + (uint64_t)i * sizeof segment);

        if (pread(fd, &segment, sizeof segment, at) != (ssize_t)sizeof segment)
            return false;
        if (segment.p_type != PT_LOAD)
            continue;
        if (segment.p_memsz > UINT64_MAX - segment.p_vaddr)
            return false;
        if (segment.p_vaddr < out->low)
            out->low = segment.p_vaddr;
        if (segment.p_vaddr + segment.p_memsz > out->high)
            out->high = segment.p_vaddr + segment.p_memsz;
    }
    out->low &= ~(uint64_t)(PAGE - 1); /* as in binary.c */
    return out->low < out->high;
}

/* ---- The files that are kept -----------------------------------------------------------------*/

static void forget(kept_file *file)
{
    ss_session_end(&file->session);
    file->module = NULL;
    *file->path = 0;
}

void ss_debug_forget_files(void)
{
    for (size_t i = 0; i < FILES; i++)
        forget(&files[i]);
}

static bool is_same(const struct stat *one, const struct stat *other)
{
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino &&
           one->st_size == other->st_size && one->st_mtim.tv_sec == other->st_mtim.tv_sec &&
           one->st_mtim.tv_nsec == other->st_mtim.tv_nsec;
}

static kept_file *kept(const char *path, const struct stat *status)
{
    for (size_t i = 0; i < FILES; i++) {
        if (!strcmp(files[i].path, path) && is_same(&files[i].status, status))
            return &files[i];
    }
    return NULL;
}

/* Have libdw open FILE, whose segments are at ADDRESSES. */
static void begin(kept_file *file, const extent *addresses)
{
    Dwfl *dwfl;
    Dwfl_Module *found;
    GElf_Addr bias;

    if (!ss_session_begin(&file->session, &callbacks))
        return;
    dwfl = file->session.dwfl;
    ss_dw->dwfl_report_begin_add(dwfl);
    found = ss_dw->dwfl_report_module(dwfl, file->path, addresses->low, addresses->high);
    ss_dw->dwfl_report_end(dwfl, NULL, NULL);
    if (!found || !ss_dw->dwfl_module_getelf(found, &bias))
        return;
    file->module = found;
    file->start = addresses->low + bias;
    file->size = addresses->high - addresses->low;
}

/* Find PATH among the kept files, or open it in place of the oldest one. */
static ss_file_status open_file(const char *path, kept_file **out)
{
    struct stat status;
    extent addresses;
    kept_file *file;
    bool readable;
    int fd;

    /* A report names what it likes, and to open a device is to act on it. */
    if (stat(path, &status) || !S_ISREG(status.st_mode))
        return SS_FILE_MISSING;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return SS_FILE_MISSING;
    if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
        close(fd);
        return SS_FILE_MISSING;
    }
    file = kept(path, &status);
    readable = file || read_extent(fd, &addresses);
    close(fd);
    if (!readable)
        return SS_FILE_NO_BINARY;
    if (!file) {
        file = &files[next_slot++ % FILES];
        forget(file);
        memcpy(file->path, path, strlen(path) + 1);
        file->status = status;
        reading = &file->session;
        begin(file, &addresses);
    }
    *out = file;
    return file->module ? SS_FILE_READ : SS_FILE_NO_BINARY;
}

/* ---- Looking up ------------------------------------------------------------------------------*/

typedef struct question {
    const char *path, *build_id;
    uint64_t offset;
    ss_debug_answer *answer;
    ss_file_status status;
} question;

static void look_up(void *data)
{
    question *q = data;
    kept_file *file;

    q->status = open_file(q->path, &file);
    if (q->status != SS_FILE_READ)
        return;
    reading = &file->session;
    if (*q->build_id && !ss_session_same_build(file->module, q->build_id))
        q->status = SS_FILE_OTHER_BUILD;
    else if (q->offset < file->size)
        ss_debug_answer_from(file->module, file->start + q->offset, NULL, q->answer);
    if (q->answer->symbol)
        q->answer->symbol_start -= file->start;
}

ss_file_status ss_debug_lookup_file(const char *path, const char *build_id, uint64_t offset,
                                    ss_debug_answer *answer)
{
    question q = {path, build_id, offset, answer, SS_FILE_READ};

    if (strlen(path) >= SS_BINARY_PATH_MAX)
        return SS_FILE_MISSING;
    if (!ss_debug_run(look_up, &q)) {
        memset(answer, 0, sizeof *answer);
        return SS_FILE_NO_MEMORY;
    }
    return q.status;
}
