/* threading._active is a dict from numbers of threads to objects with their names. */
#include "python/names.h"

#include "base/list.h"
#include "python/items.h"
#include "python/text.h"
#include "python/value.h"

enum { MAX_NAMES = 1 << 14, MAX_NAME = 255 /* characters */, MAX_ATTRIBUTES = 1 << 10 };

/* False if there is no dict at ADDRESS. */
static bool begin(ssi_python_items *items, const ssi_memory *memory,
                  const ssi_python_layout *layout, uint64_t address)
{
    char type[SSI_PYTHON_TYPE_ROOM];

    return ssi_python_kind_of(memory, address, type) == SSI_PYTHON_DICT &&
           ssi_python_items_begin(items, memory, layout, SSI_PYTHON_DICT, address);
}

/* The value of NAME in the dict at ADDRESS, or 0. */
static uint64_t look_up(const ssi_memory *memory, const ssi_python_layout *layout, uint64_t address,
                        const char *name)
{
    ssi_python_items items;
    uint64_t key, value;

    if (!begin(&items, memory, layout, address))
        return 0;
    while (ssi_python_items_next(&items, &key, &value))
        if (ssi_python_text_is(memory, layout, key, name))
            return value;
    return 0;
}

/* The dict of threads of the interpreter at INTERPRETER, or 0. */
static uint64_t threads_of(const ssi_memory *memory, const ssi_python_layout *layout,
                           uint64_t interpreter)
{
    uint64_t modules, module, members;

    if (!ssi_read_word(memory, interpreter + layout->interpreter_modules, &modules))
        return 0;
    module = look_up(memory, layout, modules, "threading");
    if (!module || !ssi_read_word(memory, module + SSI_MODULE_DICT, &members))
        return 0;
    return look_up(memory, layout, members, "_active");
}

static const char *text_of(const ssi_memory *memory, const ssi_python_layout *layout,
                           uint64_t address)
{
    char type[SSI_PYTHON_TYPE_ROOM];
    uint64_t length;

    if (ssi_python_kind_of(memory, address, type) != SSI_PYTHON_STR ||
        !ssi_read_word(memory, address + SSI_TEXT_LENGTH, &length) || length > MAX_NAME)
        return NULL;
    return ssi_python_text(memory, layout, address);
}

static bool read_number(const ssi_memory *memory, const ssi_python_layout *layout, uint64_t address,
                        uint64_t *out)
{
    char type[SSI_PYTHON_TYPE_ROOM];

    return ssi_python_kind_of(memory, address, type) == SSI_PYTHON_INT &&
           ssi_python_number(memory, layout, address, out);
}

/* Fill in what the object THREAD says of itself. */
static void read_thread(const ssi_memory *memory, const ssi_python_layout *layout, uint64_t thread,
                        ssi_python_name *name)
{
    ssi_python_items items;
    uint64_t key, value;

    if (!ssi_python_attributes_begin(&items, memory, layout, thread))
        return;
    while (items.at < MAX_ATTRIBUTES && ssi_python_items_next(&items, &key, &value)) {
        if (ssi_python_text_is(memory, layout, key, "_name"))
            name->text = text_of(memory, layout, value);
        else if (ssi_python_text_is(memory, layout, key, "_native_id"))
            (void)read_number(memory, layout, value, &name->id);
    }
}

void ssi_python_names_add(ssi_python_names *names, const ssi_memory *memory,
                          const ssi_python_layout *layout, uint64_t interpreter)
{
    uint64_t threads = threads_of(memory, layout, interpreter), key, value;
    ssi_python_items items;

    if (!threads || !begin(&items, memory, layout, threads))
        return;
    while (names->count < MAX_NAMES && ssi_python_items_next(&items, &key, &value)) {
        ssi_python_name name = {.interpreter = interpreter};

        if (!read_number(memory, layout, key, &name.ident))
            continue;
        read_thread(memory, layout, value, &name);
        if (!ssi_grow(&names->items, names->count, &names->room, sizeof name))
            return;
        names->items[names->count++] = name;
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
