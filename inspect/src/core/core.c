#include "core/core.h"

#include "base/base.h"
#include "target/binary.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/procfs.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_THREADS = 1 << 16 };

typedef struct segment_of_core {
    uint64_t in_file; /* so many of its first bytes are in the core, at OFFSET */
    uint64_t offset;
    int fd; /* of the mapped file; -1: not open, -2: cannot be used */
} segment_of_core;

struct ssi_core {
    ssi_binary file;
    unsigned owner; /* of the file */
    ssi_target *target;
    segment_of_core *segments;
    size_t segment_count, segment_room;
    ssi_mapping *files; /* what was mapped there has no segment */
    size_t file_count, file_room;
    uint64_t noted; /* bytes of notes that were read */
};

/* ---- Memory -----------------------------------------------------------------------------------*/

/*
 * Memory of a process that is gone.  What the system left out of the core because a file has it is
 * read from that file, if it is the one that was mapped.
 */

enum { CLOSED = -1, UNUSABLE = -2 };

/* The mapping with which the binary of mapping AT begins. */
static size_t first_of(const ssi_core *core, size_t at)
{
    const ssi_mapping *mappings = core->target->mappings;

    while (at && mappings[at].offset && mappings[at].path && mappings[at - 1].path &&
           !strcmp(mappings[at - 1].path, mappings[at].path))
        at--;
    return at;
}

static int file_of(ssi_core *core, size_t at)
{
    const ssi_mapping *mapping = &core->target->mappings[at];
    segment_of_core *segment = &core->segments[mapping->segment];

    if (segment->fd != CLOSED)
        return segment->fd;
    segment->fd = UNUSABLE;
    /* What was writable may have been changed before the process died. */
    if (mapping->path && mapping->path[0] == '/' && !mapping->writable) {
        int fd = ssi_target_open(core->target, mapping);

        if (fd >= 0 && ssi_build_id_fits(core->target->mappings[first_of(core, at)].start, fd))
            segment->fd = fd;
        else if (fd >= 0)
            close(fd);
    }
    return segment->fd;
}

static bool read_piece(ssi_core *core, size_t at, uint64_t within, void *out, size_t size)
{
    const segment_of_core *segment = &core->segments[core->target->mappings[at].segment];
    const void *bytes = NULL;
    int fd;

    if (within < segment->in_file && size <= segment->in_file - within)
        bytes = ssi_binary_part(&core->file, segment->offset + within, size);
    if (bytes) {
        memcpy(out, bytes, size);
        return true;
    }
    fd = within >= segment->in_file ? file_of(core, at) : UNUSABLE;
    return fd >= 0 && pread(fd, out, size, (off_t)(core->target->mappings[at].offset + within)) ==
                          (ssize_t)size;
}

static bool read_core(void *data, uint64_t address, void *out, size_t size)
{
    ssi_core *core = data;
    char *to = out;

    while (size) {
        const ssi_mapping *mapping = ssi_target_mapping(core->target, address);
        size_t now = size;

        if (!mapping)
            return false;
        if (now > mapping->end - address)
            now = (size_t)(mapping->end - address);
        if (!read_piece(core, (size_t)(mapping - core->target->mappings), address - mapping->start,
                        to, now))
            return false;
        to += now;
        address += now;
        size -= now;
    }
    return true;
}

/* ---- Notes ------------------------------------------------------------------------------------*/

/* The notes of a core file: a register set for each thread, the process, and the mapped files. */

enum { MAX_FILES = 1 << 16 };

static const unsigned nobody = ~0u; /* owns no file */

/* Where struct elf_prstatus has its members on each machine with 64 bits. */
enum { STATUS_SIGNAL = 12, STATUS_THREAD = 32, STATUS_REGISTERS = 112 };

static void read_thread(ssi_core *core, const unsigned char *data, size_t size)
{
    const ssi_machine *machine = core->target->machine;
    uint64_t words[SSI_MAX_KERNEL_WORDS];
    size_t length = machine->kernel_words * sizeof *words;
    ssi_thread *thread;
    int16_t signal;
    int32_t id;

    if (size < STATUS_REGISTERS + length || core->target->thread_count == MAX_THREADS)
        return;
    memcpy(&signal, data + STATUS_SIGNAL, sizeof signal);
    memcpy(&id, data + STATUS_THREAD, sizeof id);
    memcpy(words, data + STATUS_REGISTERS, length);
    thread = ssi_target_add_thread(core->target, id);
    if (!thread)
        return;
    ssi_thread_set_registers(thread, machine, words);
    if (core->target->thread_count == 1)
        core->target->signal = signal;
}

/* A core file can be forged, and in a user namespace anybody is root.  So a user is believed only
   who owns the file as well.  Of root's, only files are read that everybody may read. */
static void read_user(ssi_core *core, const struct elf_prpsinfo *info)
{
    char group[16];

    if (info->pr_uid != core->owner || core->target->user.is_known)
        return;
    snprintf(group, sizeof group, "%u", (unsigned)info->pr_gid);
    core->target->user = (ssi_user){.is_known = true,
                                    .enters_all = !info->pr_uid,
                                    .id = info->pr_uid ? info->pr_uid : nobody,
                                    .groups = info->pr_uid ? strdup(group) : NULL};
}

static void read_process(ssi_core *core, const void *data, size_t size)
{
    struct elf_prpsinfo info;
    size_t length;

    if (size < sizeof info)
        return;
    memcpy(&info, data, sizeof info);
    info.pr_psargs[sizeof info.pr_psargs - 1] = '\0';
    core->target->process = info.pr_pid;
    read_user(core, &info);
    if (!core->target->executable)
        core->target->executable = strndup(info.pr_fname, sizeof info.pr_fname);
    /* The kernel put spaces between arguments, so what is behind a line's end can be all one. */
    length = strcspn(info.pr_psargs, "\n");
    ssi_target_set_command(core->target, info.pr_psargs, length,
                           length == sizeof info.pr_psargs - 1 || info.pr_psargs[length]);
}

static bool is_fault(int signal)
{
    return signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE;
}

/* From where the signal came that ended the process.  Others' are behind it, if there are any. */
static void read_signal(ssi_target *target, const void *data, size_t size)
{
    siginfo_t info;

    if (size < sizeof info || target->has_fault || target->has_sender)
        return;
    memcpy(&info, data, sizeof info);
    if (!target->signal || info.si_signo != target->signal)
        return;
    if (info.si_code == SI_USER || info.si_code == SI_TKILL || info.si_code == SI_QUEUE) {
        target->has_sender = true;
        target->sender = info.si_pid;
        target->sender_user = (int)info.si_uid;
    } else if (info.si_code > 0 && info.si_code != SI_KERNEL && is_fault(info.si_signo)) {
        target->has_fault = true;
        target->fault = (uint64_t)(uintptr_t)info.si_addr;
    }
}

/* The program's own file, and the code that the kernel gave the process. */
static void read_auxiliary(ssi_core *core, const unsigned char *data, size_t size)
{
    Elf64_auxv_t entry;

    for (size_t at = 0; at + sizeof entry <= size; at += sizeof entry) {
        memcpy(&entry, data + at, sizeof entry);
        if (entry.a_type == AT_PHDR)
            core->target->program = entry.a_un.a_val;
        else if (entry.a_type == AT_SYSINFO_EHDR)
            (void)ssi_target_name(core->target, entry.a_un.a_val, "[vdso]", 0);
    }
}

/* The kernel writes a segment for all that is mapped; debuggers leave out what the file has. */
static void add_file(ssi_core *core, const char *name, uint64_t start, uint64_t end,
                     uint64_t offset)
{
    if (ssi_target_mapping(core->target, start)) {
        (void)ssi_target_name(core->target, start, name, offset);
        return;
    }
    if (ssi_target_can_map(start, end))
        (void)ssi_append(&core->files, &core->file_count, &core->file_room,
                         &(ssi_mapping){.start = start,
                                        .end = end,
                                        .offset = offset,
                                        .executable = true,
                                        .path = (char *)name},
                         sizeof(ssi_mapping));
}

/* A count, the size of a page, START END OFFSET of each file, then their names. */
static void read_files(ssi_core *core, const unsigned char *data, size_t size)
{
    uint64_t head[2], row[3];
    const char *name;

    if (size < sizeof head)
        return;
    memcpy(head, data, sizeof head);
    if (head[0] > MAX_FILES || head[1] > (1 << 24) ||
        size - sizeof head < (size_t)head[0] * sizeof row)
        return;
    name = (const char *)data + sizeof head + (size_t)head[0] * sizeof row;
    for (size_t i = 0; i < head[0]; i++) {
        size_t left = size - (size_t)(name - (const char *)data);

        if (!memchr(name, '\0', left))
            return;
        memcpy(row, data + sizeof head + i * sizeof row, sizeof row);
        add_file(core, name, row[0], row[1], row[2] * head[1]);
        name += strlen(name) + 1;
    }
}

static void read_note(ssi_core *core, uint32_t type, const void *data, size_t size)
{
    switch (type) {
    case NT_PRSTATUS:
        read_thread(core, data, size);
        break;
    case NT_PRPSINFO:
        read_process(core, data, size);
        break;
    case NT_SIGINFO:
        read_signal(core->target, data, size);
        break;
    case NT_AUXV:
        read_auxiliary(core, data, size);
        break;
    case NT_FILE:
        read_files(core, data, size);
        break;
    default:
        break;
    }
}

static void read_notes(ssi_core *core, uint64_t offset, uint64_t size)
{
    const ssi_binary *file = &core->file;
    ssi_note note;

    if (offset > file->size)
        return;
    if (size > file->size - offset)
        size = file->size - offset;
    for (size_t at = 0; ssi_note_next(file->bytes + offset, (size_t)size, &at, &note);) {
        /* Segments of a damaged file can have the same notes, again and again. */
        core->noted += sizeof(Elf64_Nhdr) + note.size;
        if (core->noted > file->size)
            return;
        read_note(core, note.type, note.data, note.size);
    }
}

/* ---- The file ---------------------------------------------------------------------------------*/

static const char *map_file(ssi_core *core, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;

    if (fd < 0)
        return ssi_text_format("cannot read %.300s: %s", path, strerror(errno));
    if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size <= 0) {
        close(fd);
        return ssi_text_format("cannot read %.300s: it is empty, or no file", path);
    }
    core->owner = status.st_uid;
    return ssi_binary_map(fd, &core->file) ? NULL : "out of memory";
}

static const char *check_header(const ssi_core *core, const char *path)
{
    static const unsigned char zstd[] = {0x28, 0xB5, 0x2F, 0xFD}, gzip[] = {0x1F, 0x8B};
    const Elf64_Ehdr *header = ssi_binary_part(&core->file, 0, sizeof *header);
    const unsigned char *magic = ssi_binary_part(&core->file, 0, sizeof zstd);

    if (magic && (!memcmp(magic, zstd, sizeof zstd) || !memcmp(magic, gzip, sizeof gzip) ||
                  !memcmp(magic,
                          "\xFD"
                          "7zX",
                          4)))
        return ssi_text_format("%.300s is compressed: unpack it first (coredumpctl dump does)",
                               path);
    if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
        return ssi_text_format("%.300s is not a core file", path);
    core->target->machine = ssi_machine_find(header->e_machine);
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        !core->target->machine)
        return ssi_text_format("%.300s is of another machine than x86-64 and 64-bit Arm", path);
    if (header->e_type != ET_CORE)
        return ssi_text_format(
            "%.300s is a program or library, not a core file: name its core first, "
            "and the program as --exe",
            path);
    if (header->e_phentsize != sizeof(Elf64_Phdr))
        return ssi_text_format("%.300s is damaged", path);
    return NULL;
}

/* ---- Segments ---------------------------------------------------------------------------------*/

static bool add_mapping(ssi_core *core, ssi_mapping *mapping, const segment_of_core *segment)
{
    mapping->segment = core->segment_count;
    return ssi_append(&core->segments, &core->segment_count, &core->segment_room, segment,
                      sizeof *segment) &&
           ssi_target_add_mapping(core->target, mapping) != NULL;
}

/* Segments stand in the order of their addresses.  One that does not belongs to a damaged file. */
static bool add_segment(ssi_core *core, const Elf64_Phdr *program, uint64_t *cut)
{
    const ssi_target *target = core->target;
    uint64_t end = program->p_vaddr + program->p_memsz, have = program->p_filesz;
    ssi_mapping mapping = {.start = program->p_vaddr,
                           .end = end,
                           .writable = program->p_flags & PF_W,
                           .executable = program->p_flags & PF_X};
    size_t count = target->mapping_count;

    if (!ssi_target_can_map(program->p_vaddr, end) ||
        (count && target->mappings[count - 1].end > program->p_vaddr))
        return true;
    if (program->p_offset > core->file.size)
        have = 0;
    else if (have > core->file.size - program->p_offset)
        have = core->file.size - program->p_offset;
    *cut += program->p_filesz - have;
    /* What the cut took away is not to be had from a file either. */
    return add_mapping(
        core, &mapping,
        &(segment_of_core){have, program->p_offset, have < program->p_filesz ? -2 : -1});
}

static int compare_mappings(const void *left, const void *right)
{
    const ssi_mapping *a = left, *b = right;

    return a->start < b->start ? -1 : a->start > b->start;
}

/* Add the mappings that have no segment, where they belong. */
static bool add_files(ssi_core *core)
{
    for (size_t i = 0; i < core->file_count; i++)
        if (!add_mapping(core, &core->files[i], &(segment_of_core){.fd = -1}))
            return false;
    if (core->file_count)
        qsort(core->target->mappings, core->target->mapping_count, sizeof *core->target->mappings,
              compare_mappings);
    return true;
}

static const char *read_segments(ssi_core *core, ssi_scripts *scripts)
{
    uint64_t cut = 0;
    Elf64_Phdr program;

    for (uint64_t i = 0; ssi_binary_program(&core->file, i, &program); i++)
        if (program.p_type == PT_LOAD && !add_segment(core, &program, &cut))
            return "out of memory";
    if (cut)
        ssi_scripts_note(scripts, ssi_text_format("the core file is cut: %llu bytes are missing "
                                                  "(ulimit -c, or a full disk)",
                                                  (unsigned long long)cut));
    /* Notes name what is mapped, so they come after all that is. */
    for (uint64_t i = 0; ssi_binary_program(&core->file, i, &program); i++)
        if (program.p_type == PT_NOTE)
            read_notes(core, program.p_offset, program.p_filesz);
    if (core->target->thread_count == MAX_THREADS)
        ssi_scripts_note(scripts, "of more than 65,535 threads the rest is not shown");
    return add_files(core) ? NULL : "out of memory";
}

/* ---- Life -------------------------------------------------------------------------------------*/

/* The file of the program is the one that contains its own headers. */
static void name_program(ssi_target *target, const char *executable)
{
    const ssi_mapping *mapping = ssi_target_mapping(target, target->program);

    if (mapping && mapping->path) {
        free(target->executable);
        target->executable = strdup(mapping->path);
        target->program_path = ssi_text(mapping->path, strlen(mapping->path));
        target->program_file = executable;
    }
}

ssi_core *ssi_core_open(const char *path, const char *executable, ssi_target *target,
                        ssi_scripts *scripts, const char **why)
{
    ssi_core *core = calloc(1, sizeof *core);

    *why = "out of memory";
    if (!core)
        return NULL;
    core->target = target;
    ssi_read_by(read_core, core);
    *why = map_file(core, path);
    if (!*why)
        *why = check_header(core, path);
    if (!*why)
        *why = read_segments(core, scripts);
    if (!*why && !target->thread_count)
        *why = ssi_text_format("%.300s is damaged: no thread is in it", path);
    if (*why) {
        ssi_core_free(core);
        return NULL;
    }
    ssi_target_find_stacks(target);
    name_program(target, executable);
    return core;
}

void ssi_core_free(ssi_core *core)
{
    if (!core)
        return;
    for (size_t i = 0; i < core->segment_count; i++)
        if (core->segments[i].fd >= 0)
            close(core->segments[i].fd);
    free(core->segments);
    free(core->files);
    if (core->file.bytes)
        ssi_binary_close(&core->file);
    free(core);
}
