/*
 * Memory of a process that is gone.  What the system left out of the core because a file has it is
 * read from that file, if it is the one that was mapped.
 */
#include "core/private.h"

#include "target/binary.h"

#include <string.h>
#include <unistd.h>

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
    ssi_segment *segment = &core->segments[mapping->segment];

    if (segment->fd != CLOSED)
        return segment->fd;
    segment->fd = UNUSABLE;
    /* What was writable may have been changed before the process died. */
    if (mapping->path && mapping->path[0] == '/' && !mapping->writable) {
        int fd = ssi_target_open(core->target, mapping);

        if (fd >= 0 && ssi_build_id_fits(&core->target->memory,
                                         core->target->mappings[first_of(core, at)].start, fd))
            segment->fd = fd;
        else if (fd >= 0)
            close(fd);
    }
    return segment->fd;
}

static bool read_piece(ssi_core *core, size_t at, uint64_t within, void *out, size_t size)
{
    const ssi_segment *segment = &core->segments[core->target->mappings[at].segment];
    const void *bytes = NULL;
    int fd;

    if (within < segment->in_file && size <= segment->in_file - within)
        bytes = ssi_core_part(core, segment->offset + within, size);
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

ssi_memory ssi_core_memory(ssi_core *core)
{
    return (ssi_memory){read_core, core};
}
