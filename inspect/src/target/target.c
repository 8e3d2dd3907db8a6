#include "target/target.h"

#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MAX_OVERFLOW = 1 << 20 }; /* bytes that one function takes beyond a stack's end */

/* Of <linux/openat2.h>, which not every C library has beside it */
enum { NO_MAGIC_LINKS = 0x02, IN_ROOT = 0x10, NUMBER_OF_OPENAT2 = 437 };
struct how {
    uint64_t flags, mode, resolve;
};

ssi_thread *ssi_target_add_thread(ssi_target *target, int id)
{
    ssi_thread *thread;

    if (!ssi_grow(&target->threads, target->thread_count, &target->thread_room,
                  sizeof *target->threads))
        return NULL;
    thread = &target->threads[target->thread_count++];
    memset(thread, 0, sizeof *thread);
    thread->id = thread->own_id = id;
    return thread;
}

ssi_mapping *ssi_target_add_mapping(ssi_target *target, const ssi_mapping *mapping)
{
    ssi_mapping *added;
    char *path = NULL;

    if (mapping->path && !(path = strdup(mapping->path)))
        return NULL;
    if (!ssi_grow(&target->mappings, target->mapping_count, &target->mapping_room,
                  sizeof *target->mappings)) {
        free(path);
        return NULL;
    }
    added = &target->mappings[target->mapping_count++];
    *added = *mapping;
    added->path = path;
    return added;
}

/* The index of the first mapping that ends above ADDRESS. */
static size_t index_of(const ssi_target *target, uint64_t address)
{
    size_t low = 0, high = target->mapping_count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (target->mappings[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const ssi_mapping *ssi_target_mapping(const ssi_target *target, uint64_t address)
{
    size_t at = index_of(target, address);

    return at < target->mapping_count && target->mappings[at].start <= address
               ? &target->mappings[at]
               : NULL;
}

const ssi_mapping *ssi_target_stack(const ssi_target *target, uint64_t sp)
{
    size_t at = index_of(target, sp), count = target->mapping_count;
    const ssi_mapping *m = target->mappings;

    if (at < count && m[at].start <= sp && !m[at].writable)
        at++; /* a guard page */
    return at < count && m[at].writable && m[at].start < sp + MAX_OVERFLOW ? &m[at] : NULL;
}

uint64_t ssi_target_binary_end(const ssi_target *target, size_t first)
{
    const char *path = target->mappings[first].path;
    uint64_t end = 0;
    bool executable = false;

    if (!path || path[0] != '/' || target->mappings[first].offset)
        return 0;
    for (size_t i = first; i < target->mapping_count; i++) {
        const ssi_mapping *m = &target->mappings[i];

        if (m->path && strcmp(m->path, path) != 0)
            break;
        if (!m->path)
            continue; /* zeroes of the file, or a gap of the address space */
        if (i > first && !m->offset)
            break; /* the same file once more */
        executable |= m->executable;
        end = m->end;
    }
    return executable ? end : 0;
}

/* The kernel's name of a file that is no longer there ends so. */
static void cut_deleted(char *path)
{
    static const char end[] = " (deleted)";
    size_t length = strlen(path);

    if (length > sizeof end - 1 && !strcmp(path + length - (sizeof end - 1), end))
        path[length - (sizeof end - 1)] = '\0';
}

int ssi_target_number_here(const ssi_target *target)
{
    char own[32];

    snprintf(own, sizeof own, "/proc/%d/root", target->process);
    if (target->is_live)
        return target->living;
    return strcmp(target->root, own) ? 0 : target->process;
}

/* The descriptor of a regular file that FILE refers to, or -1; FILE is closed.  A name can lead to
   a device, where opening is doing, or to a pipe, which may be all that its writer waits for. */
static int open_regular(int file)
{
    struct stat status;
    char path[32];
    int fd = -1;

    if (file < 0)
        return -1;
    errno = EINVAL;
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    if (!fstat(file, &status) && S_ISREG(status.st_mode))
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    close(file);
    return fd;
}

static int open_path(const char *path)
{
    return open_regular(open(path, O_PATH | O_CLOEXEC));
}

int ssi_target_open_path(const ssi_target *target, const char *path)
{
    const struct how how = {.flags = O_PATH | O_CLOEXEC, .resolve = IN_ROOT | NO_MAGIC_LINKS};
    int root, file;

    /* Without another root, that of who asks. */
    if (!*target->root)
        return open_path(path);
    root = open(target->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return -1;
    file = (int)syscall(NUMBER_OF_OPENAT2, root, path, &how, sizeof how);
    close(root);
    return open_regular(file);
}

/* The file of the program of process NUMBER, if that is called NAME.  Its user may open it, too: those
   of map_files take all rights. */
static int open_program(int number, const char *name)
{
    char link[32], program[PATH_MAX];
    ssize_t length;

    snprintf(link, sizeof link, "/proc/%d/exe", number);
    length = readlink(link, program, sizeof program);
    if (length != (ssize_t)strlen(name) || memcmp(program, name, (size_t)length) != 0)
        return -1;
    return open_path(link);
}

/* What is opened here may be another file by now: build-ids are compared. */
static int open_file(const ssi_target *target, const ssi_mapping *mapping)
{
    char path[PATH_MAX];
    int number = ssi_target_number_here(target), fd;

    fd = ssi_target_open_path(target, mapping->path);
    if (fd < 0 && number) {
        /* The file was replaced or deleted; the kernel still has the mapped one. */
        snprintf(path, sizeof path, "/proc/%d/map_files/%llx-%llx", number,
                 (unsigned long long)mapping->start, (unsigned long long)mapping->end);
        fd = open_path(path);
        if (fd < 0)
            fd = open_program(number, mapping->path);
        if (fd < 0) /* the list has the path from our own root, if the process's is below */
            fd = open_path(mapping->path);
    } else if (fd < 0) {
        snprintf(path, sizeof path, "%s", mapping->path);
        cut_deleted(path);
        fd = ssi_target_open_path(target, path);
    }
    return fd;
}

/* Whether a process that is gone could read the file.  A core file names what it likes. */
static bool may_read(const ssi_target *target, int fd)
{
    struct stat status;

    return !fstat(fd, &status) && (status.st_mode & S_IROTH ||
                                   (target->user.is_known && status.st_uid == target->user.id));
}

bool ssi_elf_header(int fd, Elf64_Ehdr *header)
{
    return pread(fd, header, sizeof *header, 0) == (ssize_t)sizeof *header &&
           !memcmp(header->e_ident, ELFMAG, SELFMAG);
}

int ssi_target_open(const ssi_target *target, const ssi_mapping *mapping)
{
    bool is_given = target->program_file && !strcmp(mapping->path, target->program_path);
    int fd = is_given ? open_path(target->program_file) : open_file(target, mapping);
    int error = 0;
    Elf64_Ehdr header;

    if (fd >= 0 && ssi_elf_header(fd, &header) && header.e_machine != target->machine->number)
        error = ENOEXEC;
    else if (fd >= 0 && !is_given && !ssi_target_number_here(target) && !may_read(target, fd))
        error = EACCES;
    if (error) {
        close(fd);
        errno = error;
        fd = -1;
    }
    return fd;
}

bool ssi_target_name(ssi_target *target, uint64_t address, const char *path, uint64_t offset)
{
    ssi_mapping *mapping = (ssi_mapping *)ssi_target_mapping(target, address);
    char *copy;

    if (!mapping || mapping->path)
        return true;
    copy = strdup(path);
    mapping->path = copy;
    mapping->offset = offset;
    return copy != NULL;
}

void ssi_target_set_command(ssi_target *target, const char *bytes, size_t size, bool cut)
{
    static const char left_out[] = "...";
    char *line = malloc((size + 2) * sizeof left_out), *to = line;

    if (!line)
        return;
    for (size_t at = 0, length; at < size; at += length + 1) {
        length = strnlen(bytes + at, size - at);
        to = memchr(bytes + at, '\n', length) ? stpcpy(to, left_out)
                                              : mempcpy(to, bytes + at, length);
        *to++ = ' ';
    }
    while (to > line && to[-1] == ' ')
        to--;
    while (cut && to > line && to[-1] != ' ')
        to--;
    if (to == line && !cut) {
        free(line); /* the process has cleared it */
        return;
    }
    *to = '\0';
    if (cut)
        memcpy(to, left_out, sizeof left_out);
    free(target->command);
    target->command = line;
}

void ssi_thread_set_registers(ssi_thread *thread, const ssi_machine *machine, const uint64_t *words)
{
    for (unsigned i = 0; i < machine->registers; i++)
        thread->registers[i] = words[machine->kernel[i]];
    thread->has_registers = true;
}

void ssi_target_free(ssi_target *target)
{
    for (size_t i = 0; i < target->mapping_count; i++)
        free(target->mappings[i].path);
    free(target->mappings);
    free(target->threads);
    free(target->executable);
    free(target->command);
    free(target->user.groups);
}

/* What is mapped, in the form of the kernel's list /proc/PID/maps. */

/* Move *AT behind the spaces and the word that begin there; the word. */
static const char *word(char **at)
{
    const char *begin = *at += strspn(*at, " ");

    *at += strcspn(*at, " ");
    return begin;
}

static bool has_right(const char *rights, char right)
{
    return memchr(rights, right, strcspn(rights, " ")) != NULL;
}

/* START-END RIGHTS OFFSET DEVICE INODE PATH; false if it is something else. */
static bool parse(char *line, ssi_mapping *mapping)
{
    const char *rights;
    char *at;

    line[strcspn(line, "\n")] = '\0';
    mapping->start = strtoull(line, &at, 16);
    if (at == line || *at != '-')
        return false;
    mapping->end = strtoull(at + 1, &at, 16);
    rights = word(&at);
    mapping->writable = has_right(rights, 'w');
    mapping->executable = has_right(rights, 'x');
    mapping->offset = strtoull(at, &at, 16);
    (void)word(&at);
    (void)word(&at);
    at += strspn(at, " ");
    mapping->path = *at ? at : NULL;
    return ssi_target_can_map(mapping->start, mapping->end);
}

bool ssi_target_add_line(ssi_target *target, char *line)
{
    ssi_mapping mapping = {0};
    size_t count = target->mapping_count;

    if (!parse(line, &mapping) || (count && target->mappings[count - 1].end > mapping.start))
        return true;
    return ssi_target_add_mapping(target, &mapping) != NULL;
}
