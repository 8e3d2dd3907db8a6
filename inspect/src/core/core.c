#include "core/private.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The file ---------------------------------------------------------------------------------*/

static const char *map_file(ssi_core *core, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat status;
    void *bytes;

    if (fd < 0)
        return ssi_text_format("cannot read %.300s: %s", path, strerror(errno));
    if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size <= 0) {
        close(fd);
        return ssi_text_format("cannot read %.300s: it is empty, or no file", path);
    }
    bytes = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (bytes == MAP_FAILED)
        return "out of memory";
    core->bytes = bytes;
    core->size = (size_t)status.st_size;
    core->owner = status.st_uid;
    return NULL;
}

static const char *check_header(const ssi_core *core, const char *path, Elf64_Ehdr *header)
{
    static const unsigned char zstd[] = {0x28, 0xB5, 0x2F, 0xFD}, gzip[] = {0x1F, 0x8B};
    const void *at = ssi_core_part(core, 0, sizeof *header);
    const unsigned char *magic = ssi_core_part(core, 0, sizeof zstd);

    if (magic && (!memcmp(magic, zstd, sizeof zstd) || !memcmp(magic, gzip, sizeof gzip) ||
                  !memcmp(magic,
                          "\xFD"
                          "7zX",
                          4)))
        return ssi_text_format("%.300s is compressed: unpack it first (coredumpctl dump does)",
                               path);
    if (!at || memcmp(at, ELFMAG, SELFMAG) != 0)
        return ssi_text_format("%.300s is no core file", path);
    memcpy(header, at, sizeof *header);
    core->target->machine = ssi_machine_find(header->e_machine);
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        !core->target->machine)
        return ssi_text_format("%.300s is of another machine than x86-64 and 64-bit Arm", path);
    if (header->e_type != ET_CORE)
        return ssi_text_format("%.300s is a program or library, no core file: name its core first, "
                               "and the program as --exe",
                               path);
    if (header->e_phentsize != sizeof(Elf64_Phdr))
        return ssi_text_format("%.300s is damaged", path);
    return NULL;
}

/* ---- Segments ---------------------------------------------------------------------------------*/

/* The number of program headers stands in a section where it needs more than 16 bits. */
static uint64_t program_count(const ssi_core *core, const Elf64_Ehdr *header)
{
    Elf64_Shdr section;
    const void *at = ssi_core_part(core, header->e_shoff, sizeof section);

    if (header->e_phnum != PN_XNUM || !at)
        return header->e_phnum;
    memcpy(&section, at, sizeof section);
    return section.sh_info;
}

/* The program header NUMBER; false if the file ends before. */
static bool program_at(const ssi_core *core, const Elf64_Ehdr *header, uint64_t number,
                       Elf64_Phdr *out)
{
    const void *at = ssi_core_part(core, header->e_phoff + number * sizeof *out, sizeof *out);

    if (at)
        memcpy(out, at, sizeof *out);
    return at != NULL;
}

static bool add_mapping(ssi_core *core, ssi_mapping *mapping, const ssi_segment *segment)
{
    if (!ssi_grow(&core->segments, core->segment_count, &core->segment_room, sizeof *segment))
        return false;
    mapping->segment = core->segment_count;
    core->segments[core->segment_count++] = *segment;
    return ssi_target_add_mapping(core->target, mapping) != NULL;
}

/* Segments stand in the order of their addresses.  One that does not belongs to a damaged file. */
static bool add_segment(ssi_core *core, const Elf64_Phdr *program, uint64_t *cut)
{
    const ssi_target *target = core->target;
    uint64_t end = program->p_vaddr + program->p_memsz, have = program->p_filesz;
    ssi_mapping mapping = {.start = program->p_vaddr,
                           .end = end,
                           .readable = program->p_flags & PF_R,
                           .writable = program->p_flags & PF_W,
                           .executable = program->p_flags & PF_X};
    size_t count = target->mapping_count;

    if (!ssi_target_can_map(program->p_vaddr, end) ||
        (count && target->mappings[count - 1].end > program->p_vaddr))
        return true;
    if (program->p_offset > core->size)
        have = 0;
    else if (have > core->size - program->p_offset)
        have = core->size - program->p_offset;
    *cut += program->p_filesz - have;
    /* What the cut took away is not to be had from a file either. */
    return add_mapping(core, &mapping,
                       &(ssi_segment){have, program->p_offset, have < program->p_filesz ? -2 : -1});
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
        if (!add_mapping(core, &core->files[i], &(ssi_segment){.fd = -1}))
            return false;
    if (core->file_count)
        qsort(core->target->mappings, core->target->mapping_count, sizeof *core->target->mappings,
              compare_mappings);
    return true;
}

static const char *read_segments(ssi_core *core, const Elf64_Ehdr *header, ssi_scripts *scripts)
{
    uint64_t count = program_count(core, header), cut = 0;
    Elf64_Phdr program;

    for (uint64_t i = 0; i < count && program_at(core, header, i, &program); i++)
        if (program.p_type == PT_LOAD && !add_segment(core, &program, &cut))
            return "out of memory";
    if (cut)
        ssi_scripts_note(scripts, ssi_text_format("the core file is cut: %llu bytes are missing "
                                                  "(ulimit -c, or a full disk)",
                                                  (unsigned long long)cut));
    /* Notes name what is mapped, so they come after all that is. */
    for (uint64_t i = 0; i < count && program_at(core, header, i, &program); i++)
        if (program.p_type == PT_NOTE)
            ssi_core_read_notes(core, program.p_offset, program.p_filesz);
    if (core->target->thread_count == SSI_MAX_THREADS)
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
    Elf64_Ehdr header = {.e_version = EV_NONE};

    *why = "out of memory";
    if (!core)
        return NULL;
    core->target = target;
    target->memory = ssi_core_memory(core);
    *why = map_file(core, path);
    if (!*why)
        *why = check_header(core, path, &header);
    if (!*why)
        *why = read_segments(core, &header, scripts);
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
    if (core->bytes)
        munmap((void *)core->bytes, core->size);
    free(core);
}
