/*
 * Functions keep their variables in their frame, some of them in cells; modules and classes in a
 * dict, of which reports show only what has a value of a plain type.
 */
#include "python/private.h"

#include "base/base.h"

enum {
    OPTIMIZED = 1, /* a flag of code: its variables are in the frame */
    IN_CELL = 0x40 | 0x80,
    MAX_NAME = 255,
    MAX_VARIABLES = 4096, /* that are searched for those which are shown */
    CELL_VALUE = 16
};
static const uint64_t STACK_TAG = 3; /* bits of a word that are no part of the pointer */

typedef struct writing {
    const sspy_layout *layout;
    ssi_written *to;
    int count;
} writing;

static bool is_letter(uint32_t c)
{
    return c == '_' || c >= 0x80 || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* Whether a program gave that name: not ".0" of a comprehension, nor "__class__". */
static bool is_name(const ssi_python_characters *name)
{
    if (!name->count || name->count > MAX_NAME || !is_letter(ssi_python_character(name, 0)))
        return false;
    for (size_t i = 1; i < name->count; i++) {
        uint32_t c = ssi_python_character(name, i);

        if (!is_letter(c) && !(c >= '0' && c <= '9'))
            return false;
    }
    return name->count < 2 || ssi_python_character(name, 0) != '_' ||
           ssi_python_character(name, 1) != '_';
}

static void add(writing *w, uint64_t name, uint64_t value)
{
    ssi_python_characters text;

    if (!ssi_python_characters_of(w->layout, name, &text) || !is_name(&text))
        return;
    ssi_write(w->to, w->count++ ? "," : "");
    ssi_python_write_characters(&text, w->to);
    ssi_write(w->to, ":");
    ssi_python_value(w->layout, value, w->to);
}

/* The value of the variable in the word at PLACE, which may stand in a cell; 0: it has none. */
static uint64_t value_of(uint64_t place, bool in_cell)
{
    char type[SSI_PYTHON_TYPE_ROOM];
    uint64_t value;

    if (!ssi_read_word(place, &value))
        return 0;
    value &= ~STACK_TAG;
    if (in_cell && ssi_python_kind_of(value, type) == SSI_PYTHON_CELL &&
        !ssi_read_word(value + CELL_VALUE, &value))
        return 0;
    return value;
}

static void add_of_function(writing *w, uint64_t frame, uint64_t code)
{
    uint64_t names, kinds, count, name, value;
    uint8_t kind;

    if (!ssi_read_word(code + SSPY_CODE_VARIABLES, &names) ||
        !ssi_read_word(code + SSPY_CODE_KINDS, &kinds) ||
        !ssi_read_word(kinds + SSPY_VAR_SIZE, &count))
        return;
    for (uint64_t i = 0; i < count && i < MAX_VARIABLES && w->count < SSI_SHOWN_VARIABLES; i++) {
        if (!ssi_read(kinds + SSPY_BYTES_DATA + i, &kind, 1) ||
            !ssi_read_word(names + w->layout->tuple_items + 8 * i, &name))
            return;
        value = value_of(frame + w->layout->frame_variables + 8 * i, kind & IN_CELL);
        if (value)
            add(w, name, value);
    }
}

static void add_of_module(writing *w, uint64_t names)
{
    char type[SSI_PYTHON_TYPE_ROOM];
    ssi_python_items items;
    uint64_t name, value;

    if (ssi_python_kind_of(names, type) != SSI_PYTHON_DICT ||
        !ssi_python_items_begin(&items, w->layout, SSI_PYTHON_DICT, names))
        return;
    while (w->count < SSI_SHOWN_VARIABLES && items.at < MAX_VARIABLES &&
           ssi_python_items_next(&items, &name, &value))
        if (ssi_python_kind_of(name, type) == SSI_PYTHON_STR &&
            ssi_python_kind_of(value, type) != SSI_PYTHON_OTHER)
            add(w, name, value);
}

void ssi_python_locals(const sspy_layout *layout, uint64_t frame, uint64_t code, ssi_written *to)
{
    writing w = {layout, to, 0};
    uint64_t names;
    uint32_t flags;

    ssi_write(to, "{");
    if (ssi_read(code + SSPY_CODE_FLAGS, &flags, sizeof flags)) {
        if (flags & OPTIMIZED)
            add_of_function(&w, frame, code);
        else if (ssi_read_word(frame + layout->frame_names, &names))
            add_of_module(&w, names);
    }
    ssi_write(to, "}");
}
