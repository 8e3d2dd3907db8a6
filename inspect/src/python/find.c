/* Finds the copies of CPython in a target: in programs and libraries, stripped or not. */
#include "python/python.h"

#include "base/texts.h"
#include "target/symbols.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_python(const ssi_target *target, const ssi_mapping *mapping, ssi_python *found)
{
    ssi_binary binary;

    if (!ssi_binary_open(target, mapping, &binary))
        return false;
    found->runtime = ssi_binary_symbol(&binary, "_PyRuntime");
    if (!found->runtime)
        found->runtime = ssi_binary_section(&binary, ".PyRuntime");
    found->version_at = found->runtime ? ssi_binary_symbol(&binary, "Py_Version") : 0;
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

/* NUMBER of Py_Version as Python writes it, such as "3.15.0rc1". */
static const char *version_text(uint64_t number)
{
    static const char *const kinds[16] = {[0xA] = "a", [0xB] = "b", [0xC] = "rc"};
    const char *kind = kinds[number >> 4 & 15];
    char pre[16] = "";

    if (kind)
        snprintf(pre, sizeof pre, "%s%u", kind, (unsigned)(number & 15));
    return number
               ? ssi_text_format("%u.%u.%u%s", (unsigned)(number >> 24 & 255),
                                 (unsigned)(number >> 16 & 255), (unsigned)(number >> 8 & 255), pre)
               : NULL;
}

void ssi_python_learn(const ssi_memory *memory, ssi_python *found)
{
    uint64_t interpreter = 0, number = 0;

    found->why =
        ssi_python_layout_of(memory, found->runtime, found->version_at, &found->layout, &number);
    found->version = version_text(number);
    if (found->why)
        return;
    (void)ssi_read_word(memory, found->runtime + found->layout.interpreters, &interpreter);
    for (int i = 0; interpreter && i < SSI_MAX_INTERPRETERS; i++) {
        ssi_python_names_add(&found->names, memory, &found->layout, interpreter);
        if (!ssi_read_word(memory, interpreter + found->layout.interpreter_next, &interpreter))
            return;
    }
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
    for (size_t i = 0; i < count; i++)
        ssi_python_learn(&target->memory, &found[i]);
    return count;
}

void ssi_python_free(ssi_python *python)
{
    free(python->names.items);
}
