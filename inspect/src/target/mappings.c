/* What is mapped, in the form of the kernel's list /proc/PID/maps. */
#include "target/target.h"

#include <stdlib.h>
#include <string.h>

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
    mapping->readable = has_right(rights, 'r');
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
