/* Finds the copies of CPython in a target: in programs and libraries, stripped or not. */
#include "python/python.h"

#include "base/texts.h"
#include "target/symbols.h"

#include <string.h>

static bool is_python(const ssi_target *target, const ssi_mapping *mapping, ssi_python *found)
{
    ssi_binary binary;

    if (!ssi_binary_open(target, mapping, &binary))
        return false;
    found->runtime = ssi_binary_symbol(&binary, "_PyRuntime");
    if (!found->runtime)
        found->runtime = ssi_binary_section(&binary, ".PyRuntime");
    found->version = found->runtime ? ssi_binary_symbol(&binary, "Py_Version") : 0;
    found->path = ssi_text(mapping->path, strlen(mapping->path));
    ssi_binary_close(&binary);
    return found->runtime != 0;
}

static bool is_known(const ssi_python *found, size_t count, uint64_t runtime)
{
    for (size_t i = 0; i < count; i++)
        if (found[i].runtime == runtime)
            return true;
    return false;
}

size_t ssi_python_find(const ssi_target *target, ssi_python *found)
{
    size_t count = 0;

    for (size_t i = 0; i < target->mapping_count && count < SSI_MAX_PYTHONS; i++) {
        const ssi_mapping *m = &target->mappings[i];

        if (ssi_target_binary_end(target, i) && is_python(target, m, &found[count]) &&
            !is_known(found, count, found[count].runtime))
            count++;
    }
    return count;
}
