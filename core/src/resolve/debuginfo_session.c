#include "resolve/debuginfo_session.h"

#include <fcntl.h>
#include <setjmp.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const ss_libdw *ss_dw; /* (LOCK of native.c), as everything below */
static bool broken;    /* libdw ran out of memory half-way: never call it again */
static jmp_buf out_of_memory;

bool ss_debug_run(void (*f)(void *), void *data)
{
    if (broken)
        return false;
    ss_dw = ss_libdw_functions();
    if (setjmp(out_of_memory)) {
        broken = true;
        return false;
    }
    f(data);
    return true;
}

__attribute__((noreturn)) void ss_debug_leave(void)
{
    longjmp(out_of_memory, 1);
}

void ss_debug_stop(void)
{
    broken = true;
}

/* ---- Sessions --------------------------------------------------------------------------------*/

bool ss_session_begin(ss_session *session, const Dwfl_Callbacks *callbacks)
{
    if (!session->dwfl && ss_dw->elf_version(EV_CURRENT) != EV_NONE)
        session->dwfl = ss_dw->dwfl_begin(callbacks);
    return session->dwfl != NULL;
}

int ss_session_note(ss_session *session, int fd)
{
    struct stat status;

    if (fd < 0)
        return fd;
    if (session->opened_count == SS_SESSION_FILES || fstat(fd, &status)) {
        close(fd);
        return -1;
    }
    (void)fcntl(fd, F_SETFD, FD_CLOEXEC);
    session->opened[session->opened_count].fd = fd;
    session->opened[session->opened_count].device = status.st_dev;
    session->opened[session->opened_count].inode = status.st_ino;
    session->opened_count++;
    return fd;
}

static bool are_still_ours(const ss_session *session)
{
    for (uint32_t i = 0; i < session->opened_count; i++) {
        struct stat status;

        if (fstat(session->opened[i].fd, &status) || status.st_dev != session->opened[i].device ||
            status.st_ino != session->opened[i].inode)
            return false;
    }
    return true;
}

void ss_session_end(ss_session *session)
{
    if (session->dwfl && !broken && are_still_ours(session))
        ss_dw->dwfl_end(session->dwfl); /* otherwise leak it: it would close what is the host's */
    session->dwfl = NULL;
    session->opened_count = 0;
}

/* ---- Files -----------------------------------------------------------------------------------*/

/*
 * Whether FD can be a file that a process maps.  For an object file (ET_REL), libdw asks for the
 * address of each section, which we cannot answer.
 */
static bool can_be_mapped(int fd)
{
    unsigned char begin[EI_NIDENT + sizeof(Elf64_Half)];
    struct stat status;
    Elf64_Half type;

    if (fstat(fd, &status) || !S_ISREG(status.st_mode) ||
        pread(fd, begin, sizeof begin, 0) != (ssize_t)sizeof begin)
        return false;
    memcpy(&type, begin + EI_NIDENT, sizeof type);
    return type == ET_EXEC || type == ET_DYN;
}

/* Opens only regular files. */
int ss_session_find_elf(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                        char **file, Elf **elf)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    (void)module, (void)data, (void)base, (void)file;
    if (fd < 0)
        return -1;
    if (can_be_mapped(fd)) {
        *elf = ss_dw->elf_begin(fd, LIBELF_READ_MMAP_PRIVATE, NULL);
        if (*elf && ss_dw->elf_cntl(*elf, LIBELF_FDREAD)) { /* no longer needs the descriptor */
            ss_dw->elf_end(*elf);
            *elf = NULL;
        }
    }
    close(fd);
    return -1;
}

bool ss_session_same_build(Dwfl_Module *found, const char *build_id)
{
    const unsigned char *bits;
    GElf_Addr at;
    int length = ss_dw->dwfl_module_build_id(found, &bits, &at);

    if (length <= 0)
        return !*build_id;
    if (strlen(build_id) != 2 * (size_t)length)
        return false;
    for (int i = 0; i < length; i++) {
        if (build_id[2 * i] != "0123456789abcdef"[bits[i] >> 4] ||
            build_id[2 * i + 1] != "0123456789abcdef"[bits[i] & 15])
            return false;
    }
    return true;
}
