/* The notes of a core file: a register set for each thread, the process, and the mapped files. */
#include "core/private.h"

#include "base/base.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/procfs.h>

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

    if (size < STATUS_REGISTERS + length || core->target->thread_count == SSI_MAX_THREADS)
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
    if (ssi_target_can_map(start, end) &&
        ssi_grow(&core->files, core->file_count, &core->file_room, sizeof *core->files))
        core->files[core->file_count++] = (ssi_mapping){.start = start,
                                                        .end = end,
                                                        .offset = offset,
                                                        .readable = true,
                                                        .executable = true,
                                                        .path = (char *)name};
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

static uint64_t padded(uint64_t size)
{
    return (size + 3) & ~(uint64_t)3;
}

void ssi_core_read_notes(ssi_core *core, uint64_t offset, uint64_t size)
{
    Elf64_Nhdr note;

    for (uint64_t at = 0; at + sizeof note <= size;) {
        const void *head = ssi_core_part(core, offset + at, sizeof note), *data;
        uint64_t begin;

        if (!head)
            return;
        memcpy(&note, head, sizeof note);
        begin = at + sizeof note + padded(note.n_namesz);
        data = ssi_core_part(core, offset + begin, note.n_descsz);
        if (!data || begin + note.n_descsz > size)
            return;
        /* Segments of a damaged file can have the same notes, again and again. */
        core->noted += sizeof note + note.n_descsz;
        if (core->noted > core->size)
            return;
        read_note(core, note.n_type, data, note.n_descsz);
        at = begin + padded(note.n_descsz);
    }
}
