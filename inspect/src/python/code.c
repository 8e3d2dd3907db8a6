#include "python/private.h"

#include "base/base.h"
#include "shared/python.h"

#include <stdlib.h>
#include <string.h>

enum {
    MAX_TABLE = 1 << 22,
    MAX_TABLES = 256 << 20, /* bytes of all */
    MAX_WALKED = 1 << 30    /* bytes, on the ways to all places */
};

/* ---- One code object --------------------------------------------------------------------------*/

static bool is_last_part(const char *name, const char *whole)
{
    size_t length = strlen(name), of = strlen(whole);

    return length <= of && !strcmp(whole + of - length, name) &&
           (length == of || whole[of - length - 1] == '.');
}

/* A qualified name is more precise, but renamed code keeps that of something else. */
static const char *shown_name(const ssi_codes *codes, uint64_t address)
{
    uint64_t name = ssi_word(address + SSPY_CODE_NAME);
    uint64_t whole = ssi_word(address + SSPY_CODE_QUALNAME);
    const char *short_name = ssi_python_text(codes->layout, name);
    const char *long_name = ssi_python_text(codes->layout, whole);

    return short_name && long_name && is_last_part(short_name, long_name) ? long_name : short_name;
}

static void read_table(ssi_codes *codes, ssi_code *code)
{
    uint64_t table = 0, size = 0;

    if (!ssi_read_word(code->address + SSPY_CODE_TABLE, &table) ||
        !ssi_read_word(table + SSPY_VAR_SIZE, &size) || size > MAX_TABLE ||
        codes->table_bytes + size > MAX_TABLES)
        return;
    code->table = malloc(size ? (size_t)size : 1);
    if (!code->table)
        return;
    if (ssi_read(table + SSPY_BYTES_DATA, code->table, (size_t)size)) {
        code->table_size = (size_t)size;
        codes->table_bytes += size;
        return;
    }
    free(code->table);
    code->table = NULL;
}

/* All code objects have one type.  The first that has a name and a file says which. */
static bool read_code(ssi_codes *codes, ssi_code *code)
{
    const sspy_layout *layout = codes->layout;
    uint64_t type, file = 0;

    if (!ssi_read_word(code->address + SSPY_OBJECT_TYPE, &type) ||
        (codes->type && type != codes->type))
        return false;
    if (!ssi_read(code->address + layout->code_first_line, &code->first_line,
                  sizeof code->first_line) ||
        !ssi_read(code->address + layout->code_first_traceable, &code->first_traceable,
                  sizeof code->first_traceable))
        return false;
    (void)ssi_read_word(code->address + SSPY_CODE_FILE, &file);
    code->file = ssi_python_text(layout, file);
    code->function = shown_name(codes, code->address);
    if (!codes->type && (!code->file || !code->function))
        return false;
    codes->type = type;
    read_table(codes, code);
    return true;
}

const ssi_code *ssi_code_at(ssi_codes *codes, uint64_t address)
{
    ssi_code code = {.address = address};
    const uint64_t *known = ssi_map_find(&codes->numbers, address);

    if (known)
        return &codes->items[*known];
    if (!address || !read_code(codes, &code))
        return NULL;
    if (!ssi_append(&codes->items, &codes->count, &codes->room, &code, sizeof code)) {
        free(code.table);
        return NULL;
    }
    (void)ssi_map_put(&codes->numbers, address, codes->count - 1); /* or it is read again */
    return &codes->items[codes->count - 1];
}

void ssi_codes_free(ssi_codes *codes)
{
    for (size_t i = 0; i < codes->count; i++)
        free(codes->items[i].table);
    free(codes->items);
    free(codes->numbers.entries);
}

void ssi_code_place(ssi_codes *codes, const ssi_code *code, int64_t offset, ssi_frame *frame)
{
    sspy_position position;

    if (!code->table || offset < INT32_MIN || offset > INT32_MAX || codes->walked > MAX_WALKED)
        return;
    position = sspy_position_in(code->table, code->table_size, code->first_line, (int)offset);
    codes->walked += position.prefix;
    frame->line = position.line;
    if (!position.column)
        return;
    frame->end_line = position.end_line;
    frame->column = position.column;
    frame->end_column = position.end_column;
}
