/* Finds the copies of CPython in a target: in programs and libraries, stripped or not. */
#include "python/private.h"

#include "base/base.h"
#include "target/binary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Names of threads -------------------------------------------------------------------------*/

/* threading._active is a dict from numbers of threads to objects with their names. */

enum { MAX_NAMES = 1 << 14, MAX_NAME = 255 /* characters */, MAX_ATTRIBUTES = 1 << 10 };

/* False if there is no dict at ADDRESS. */
static bool begin(ssi_python_items *items, const sspy_layout *layout, uint64_t address)
{
    char type[SSI_PYTHON_TYPE_ROOM];

    return ssi_python_kind_of(address, type) == SSI_PYTHON_DICT &&
           ssi_python_items_begin(items, layout, SSI_PYTHON_DICT, address);
}

/* The value of NAME in the dict at ADDRESS, or 0. */
static uint64_t look_up(const sspy_layout *layout, uint64_t address, const char *name)
{
    ssi_python_items items;
    uint64_t key, value;

    if (!begin(&items, layout, address))
        return 0;
    while (ssi_python_items_next(&items, &key, &value))
        if (ssi_python_text_is(layout, key, name))
            return value;
    return 0;
}

/* The dict of threads of the interpreter at INTERPRETER, or 0. */
static uint64_t threads_of(const sspy_layout *layout, uint64_t interpreter)
{
    uint64_t modules, module, members;

    if (!ssi_read_word(interpreter + layout->interpreter_modules, &modules))
        return 0;
    module = look_up(layout, modules, "threading");
    if (!module || !ssi_read_word(module + SSPY_MODULE_DICT, &members))
        return 0;
    return look_up(layout, members, "_active");
}

static const char *text_of(const sspy_layout *layout, uint64_t address)
{
    char type[SSI_PYTHON_TYPE_ROOM];
    uint64_t length;

    if (ssi_python_kind_of(address, type) != SSI_PYTHON_STR ||
        !ssi_read_word(address + SSPY_TEXT_LENGTH, &length) || length > MAX_NAME)
        return NULL;
    return ssi_python_text(layout, address);
}

static bool read_number(const sspy_layout *layout, uint64_t address, uint64_t *out)
{
    char type[SSI_PYTHON_TYPE_ROOM];

    return ssi_python_kind_of(address, type) == SSI_PYTHON_INT &&
           ssi_python_number(layout, address, out);
}

/* Fill in what the object THREAD says of itself. */
static void read_thread(const sspy_layout *layout, uint64_t thread, ssi_python_name *name)
{
    ssi_python_items items;
    uint64_t key, value;

    if (!ssi_python_attributes_begin(&items, layout, thread))
        return;
    while (items.at < MAX_ATTRIBUTES && ssi_python_items_next(&items, &key, &value)) {
        if (ssi_python_text_is(layout, key, "_name"))
            name->text = text_of(layout, value);
        else if (ssi_python_text_is(layout, key, "_native_id"))
            (void)read_number(layout, value, &name->id);
    }
}

/* Add those of the threads of the interpreter at INTERPRETER. */
static void add_names(ssi_python_names *names, const sspy_layout *layout, uint64_t interpreter)
{
    uint64_t threads = threads_of(layout, interpreter), key, value;
    ssi_python_items items;

    if (!threads || !begin(&items, layout, threads))
        return;
    while (names->count < MAX_NAMES && ssi_python_items_next(&items, &key, &value)) {
        ssi_python_name name = {.interpreter = interpreter};

        if (!read_number(layout, key, &name.ident))
            continue;
        read_thread(layout, value, &name);
        if (!ssi_append(&names->items, &names->count, &names->room, &name, sizeof name))
            return;
    }
}

/* The youngest thread is the last here, and the first in the interpreter's list. */
const char *ssi_python_name_of(ssi_python_names *names, uint64_t interpreter, uint64_t ident,
                               uint64_t id, bool oldest)
{
    for (size_t steps = 0; steps < names->count; steps++) {
        const ssi_python_name *name;

        names->at = names->at ? names->at - 1 : names->count - 1;
        name = &names->items[names->at];
        if (name->ident == ident && name->interpreter == interpreter)
            return name->id == id || oldest ? name->text : NULL;
    }
    return NULL;
}

/* ---- Copies -----------------------------------------------------------------------------------*/

size_t ssi_python_add(ssi_python *pythons, size_t count, const ssi_binary *binary,
                      const ssi_mapping *mapping)
{
    ssi_python found = {.runtime = ssi_binary_symbol(binary, "_PyRuntime")};

    if (!found.runtime)
        found.runtime = ssi_binary_section(binary, ".PyRuntime");
    if (!found.runtime || count == SSI_MAX_PYTHONS)
        return count;
    for (size_t i = 0; i < count; i++)
        if (pythons[i].runtime == found.runtime)
            return count;
    found.version_at = ssi_binary_symbol(binary, "Py_Version");
    found.path = ssi_text(mapping->path, strlen(mapping->path));
    pythons[count] = found;
    return count + 1;
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

/* The runtime says its version itself where it begins with a table of offsets.  *NUMBER is that as
   Py_Version has it, or 0.  NULL, or why FOUND cannot be read. */
static const char *find_layout(ssi_python *found, uint64_t *number)
{
    uint64_t words[SSPY_TABLE_WORDS];

    if (!ssi_read(found->runtime, words, sizeof words))
        return "its runtime cannot be read";
    if (!memcmp(words, "xdebugpy", 8))
        *number = words[1];
    else if (!ssi_read_word(found->version_at, number))
        return "it does not say which version it is";
    return sspy_layout_of(*number, words, &found->layout);
}

void ssi_python_learn(ssi_python *found)
{
    uint64_t interpreter = 0, number = 0;

    found->why = find_layout(found, &number);
    found->version = version_text(number);
    if (found->why)
        return;
    (void)ssi_read_word(found->runtime + found->layout.interpreters, &interpreter);
    for (int i = 0; interpreter && i < SSI_MAX_INTERPRETERS; i++) {
        add_names(&found->names, &found->layout, interpreter);
        if (!ssi_read_word(interpreter + found->layout.interpreter_next, &interpreter))
            return;
    }
}

void ssi_python_free(ssi_python *python)
{
    free(python->names.items);
}
