#include "python/type.h"

#include "python/layout.h"

#include <string.h>

enum {
    MADE_AT_RUN_TIME = 1 << 9, /* by a class statement, or by an extension */
    KNOWN = 256
};

typedef struct known_type {
    uint64_t address;
    ssi_python_kind kind;
    char name[SSI_PYTHON_TYPE_ROOM];
} known_type;

static const struct {
    const char *name;
    ssi_python_kind kind;
} kinds[] = {
    {"NoneType", SSI_PYTHON_NONE}, {"bool", SSI_PYTHON_BOOL},   {"int", SSI_PYTHON_INT},
    {"float", SSI_PYTHON_FLOAT},   {"str", SSI_PYTHON_STR},     {"bytes", SSI_PYTHON_BYTES},
    {"list", SSI_PYTHON_LIST},     {"tuple", SSI_PYTHON_TUPLE}, {"dict", SSI_PYTHON_DICT},
    {"set", SSI_PYTHON_SET},       {"cell", SSI_PYTHON_CELL},   {"frozenset", SSI_PYTHON_FROZENSET},
};

/* Up to its NUL, or cut. */
static void read_name(const ssi_memory *memory, uint64_t address, char name[SSI_PYTHON_TYPE_ROOM])
{
    size_t i = 0;

    while (i < SSI_PYTHON_TYPE_ROOM - 1 && address && ssi_read(memory, address + i, name + i, 1) &&
           name[i])
        i++;
    name[i] = '\0';
}

static bool read_type(const ssi_memory *memory, uint64_t type, known_type *out)
{
    uint64_t text, flags;

    if (!ssi_read_word(memory, type + SSI_TYPE_NAME, &text) ||
        !ssi_read_word(memory, type + SSI_TYPE_FLAGS, &flags))
        return false;
    *out = (known_type){.address = type};
    read_name(memory, text, out->name);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !(flags & MADE_AT_RUN_TIME); i++)
        if (!strcmp(kinds[i].name, out->name))
            out->kind = kinds[i].kind;
    return true;
}

ssi_python_kind ssi_python_kind_of(const ssi_memory *memory, uint64_t address,
                                   char name[SSI_PYTHON_TYPE_ROOM])
{
    static known_type all[KNOWN]; /* most values are of few types */
    known_type *known;
    uint64_t type;

    *name = '\0';
    if (!address || !ssi_read_word(memory, address + SSI_OBJECT_TYPE, &type))
        return SSI_PYTHON_OTHER;
    known = &all[type / 16 % KNOWN];
    if (known->address != type && !read_type(memory, type, known))
        return SSI_PYTHON_OTHER;
    memcpy(name, known->name, SSI_PYTHON_TYPE_ROOM);
    return known->kind;
}
