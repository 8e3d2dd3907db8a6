#include "python/frames.h"

#include "base/base.h"
#include "python/objects.h"
#include "shared/value_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DECIMALS = 100 /* a number with more is not shown */, FLOAT_VALUE = 16 };

typedef struct value_reader {
    const sspy_layout *layout;
    ss_value_text *to;
} value_reader;

/* ---- Numbers ----------------------------------------------------------------------------------*/

/* Divide the number of COUNT digits by ten; returns the rest. */
static unsigned divide(uint32_t *digits, size_t count)
{
    uint64_t rest = 0;

    while (count--) {
        rest = rest << SSI_DIGIT_BITS | (digits[count] & ((1u << SSI_DIGIT_BITS) - 1));
        digits[count] = (uint32_t)(rest / 10);
        rest %= 10;
    }
    return (unsigned)rest;
}

static bool put_int(const value_reader *r, uint64_t address)
{
    uint32_t digits[SSI_MAX_DIGITS] = {0};
    char text[MAX_DECIMALS + 1], *at = text + sizeof text;
    uint64_t count;
    bool negative;

    if (!ssi_object_digits(r->layout, address, digits, &count, &negative))
        return false;
    if (count <= SSI_MAX_DIGITS) {
        do {
            *--at = (char)('0' + divide(digits, (size_t)count));
            while (count && !digits[count - 1])
                count--;
        } while (count && at > text);
    }
    if (count || at == text) {
        ss_value_put(r->to, "<int, very large>");
        return true;
    }
    ss_value_put(r->to, negative ? "-" : "");
    ss_value_put_bytes(r->to, at, (size_t)(text + sizeof text - at));
    return true;
}

static bool put_bool(const value_reader *r, uint64_t address)
{
    uint64_t number;

    if (!ssi_object_number(r->layout, address, &number))
        return false;
    ss_value_put(r->to, number ? "True" : "False");
    return true;
}

/* As few digits as tell it from all other numbers, with an exponent where Python has one. */
static bool put_float(const value_reader *r, uint64_t address)
{
    char text[40];
    int digits = 1, exponent;
    double value;

    if (!ssi_read(ssi_members(address) + FLOAT_VALUE, &value, sizeof value))
        return false;
    if (!isfinite(value)) {
        ss_value_put(r->to, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return true;
    }
    do {
        snprintf(text, sizeof text, "%.*e", digits - 1, value);
    } while (strtod(text, NULL) != value && digits++ < 17);
    exponent = (int)strtol(strchr(text, 'e') + 1, NULL, 10);
    if (exponent >= -4 && exponent < 16)
        snprintf(text, sizeof text, "%.*f", digits - 1 > exponent ? digits - 1 - exponent : 1,
                 value);
    ss_value_put(r->to, text);
    return true;
}

/* ---- Texts ------------------------------------------------------------------------------------*/

/* What Python does not print: controls, marks of direction, blanks, private characters.  Python
   also knows the characters that its version of Unicode has not. */
static bool is_printable(uint32_t c)
{
    static const uint32_t others[][2] = {
        {0x80, 0xA0},     {0xAD, 0xAD},          {0x61C, 0x61C},   {0x1680, 0x1680},
        {0x180E, 0x180E}, {0x2000, 0x200F},      {0x2028, 0x202F}, {0x205F, 0x206F},
        {0x3000, 0x3000}, {0xD800, 0xF8FF},      {0xFEFF, 0xFEFF}, {0xFFF0, 0xFFFB},
        {0xFFFE, 0xFFFF}, {0xE0000, UINT32_MAX},
    };

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (c >= others[i][0] && c <= others[i][1])
            return false;
    return true;
}

static size_t escape(uint32_t c, char out[SS_VALUE_ESCAPED])
{
    return c >= 0x80 && is_printable(c) ? 0 : ss_value_python_escape(c, out);
}

static const ss_value_quoting quoting = {
    .before = "", .quote = '\'', .other = '"', .escape = escape};

static bool put_str(const value_reader *r, uint64_t address)
{
    ssi_python_text text;
    bool is_read = ssi_object_read_text(r->layout, address, &text);

    if (is_read)
        ss_value_quoted(r->to, &quoting, text.bytes, text.length, text.count);
    return is_read;
}

static bool put_bytes(const value_reader *r, uint64_t address)
{
    static char bytes[SSI_SHOWN_CHARACTERS];
    uint64_t size;
    size_t shown;

    if (!ssi_read_word(ssi_members(address) + SSPY_VAR_SIZE, &size))
        return false;
    shown = size < sizeof bytes ? (size_t)size : sizeof bytes;
    if (!ssi_read(ssi_members(address) + SSPY_BYTES_DATA, bytes, shown))
        return false;
    ss_value_quoted(r->to, &ss_value_of_python_bytes, bytes, shown, size);
    return true;
}

/* ---- Containers -------------------------------------------------------------------------------*/

static void put_value(const value_reader *r, uint64_t address);

/* Whether KEY is a name that says that its value is a secret: then that is written. */
static bool put_secret(const value_reader *r, uint64_t key)
{
    ssi_python_text name;

    return ssi_object_kind(key) == KIND_STR && ssi_object_read_text(r->layout, key, &name) &&
           ss_value_secret(r->to, name.bytes, "'");
}

static void put_items(const value_reader *r, ssi_items *items, bool is_dict)
{
    uint64_t key, value;

    while (ssi_items_next(items, &key, &value)) {
        if (!ss_value_item(r->to))
            return;
        if (is_dict) {
            put_value(r, key);
            ss_value_put(r->to, ": ");
        }
        if (!is_dict || !put_secret(r, key))
            put_value(r, value);
        if (!ss_value_fits(r->to))
            return;
    }
    if (items->is_damaged)
        ss_value_leave_out(r->to);
}

static bool put_container(const value_reader *r, ssi_kind kind, uint64_t address)
{
    static const char *const ends[][2] = {
        [KIND_LIST] = {"[", "]"},
        [KIND_TUPLE] = {"(", ")"},
        [KIND_DICT] = {"{", "}"},
        [KIND_SET] = {"{", "}"},
        [KIND_FROZENSET] = {"frozenset({", "})"},
    };
    bool is_frozen = kind == KIND_FROZENSET;
    ssi_items items;

    if (!ssi_items_begin(&items, r->layout, kind, address))
        return false;
    if (!items.size && (is_frozen || kind == KIND_SET)) {
        ss_value_put(r->to, is_frozen ? "frozenset()" : "set()");
        return true;
    }
    ss_value_begin(r->to, ends[kind][0]);
    put_items(r, &items, kind == KIND_DICT);
    if (kind == KIND_TUPLE && items.size == 1 && ss_value_count(r->to))
        ss_value_put(r->to, ",");
    ss_value_end(r->to, ends[kind][1]);
    return true;
}

/* ---- Values -----------------------------------------------------------------------------------*/

/* False if nothing was written. */
static bool put_plain(const value_reader *r, ssi_kind kind, uint64_t address)
{
    switch (kind) {
    case KIND_NONE:
        ss_value_put(r->to, "None");
        return true;
    case KIND_BOOL:
        return put_bool(r, address);
    case KIND_INT:
        return put_int(r, address);
    case KIND_FLOAT:
        return put_float(r, address);
    case KIND_STR:
        return put_str(r, address);
    case KIND_BYTES:
        return put_bytes(r, address);
    case KIND_OTHER:
    case KIND_CELL:
        return false;
    default:
        return put_container(r, kind, address);
    }
}

static void put_value(const value_reader *r, uint64_t address)
{
    char object[SSI_TYPE_ROOM + 32];
    const char *type;

    if (put_plain(r, ssi_object_kind(address), address))
        return;
    type = ssi_object_type(address);
    snprintf(object, sizeof object, "<%s object at %#" PRIx64 ">", *type ? type : "unreadable",
             address);
    ss_value_put(r->to, object);
}

void ssi_value_write(const sspy_layout *layout, uint64_t address, ssi_written *to)
{
    ss_value_text text;
    const value_reader r = {layout, &text};

    ss_value_text_init(&text, to->shows_secrets);
    put_value(&r, address);
    ssi_write_text(to, text.bytes, text.length);
}

/*
 * Functions keep their variables in their frame, some of them in cells; modules and classes in a
 * dict, of which reports show only what has a value of a plain type.
 */

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

static bool is_letter(unsigned char c)
{
    return c == '_' || c >= 0x80 || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

/* Whether a program gave that name: not ".0" of a comprehension, nor "__class__". */
static bool is_name(const ssi_python_text *name)
{
    if (!name->count || name->count > MAX_NAME || !is_letter((unsigned char)*name->bytes))
        return false;
    for (const char *c = name->bytes; *c; c++)
        if (!is_letter((unsigned char)*c) && !(*c >= '0' && *c <= '9'))
            return false;
    return strncmp(name->bytes, "__", 2) != 0;
}

/* One more than is shown is the remark that there are more. */
static void add_variable(writing *w, uint64_t name, uint64_t value)
{
    ssi_python_text text;

    if (!ssi_object_read_text(w->layout, name, &text) || !is_name(&text))
        return;
    ssi_write(w->to, w->count++ ? "," : "");
    if (w->count > SSI_SHOWN_VARIABLES) {
        ssi_write_remark(w->to, SS_VALUE_MORE);
        return;
    }
    ssi_write_characters(w->to, text.bytes, text.length);
    ssi_write(w->to, ":");
    ssi_value_write(w->layout, value, w->to);
}

/* The value of the variable in the word at PLACE, which may stand in a cell; 0: it has none. */
static uint64_t value_of(uint64_t place, bool in_cell)
{
    uint64_t value;

    if (!ssi_read_word(place, &value))
        return 0;
    value &= ~STACK_TAG;
    if (in_cell && ssi_object_kind(value) == KIND_CELL &&
        !ssi_read_word(ssi_members(value) + CELL_VALUE, &value))
        return 0;
    return value;
}

static void add_of_function(writing *w, uint64_t frame, uint64_t code)
{
    uint64_t names, kinds, count, name, value;
    uint8_t kind;

    if (!ssi_read_word(ssi_members(code) + SSPY_CODE_VARIABLES, &names) ||
        !ssi_read_word(ssi_members(code) + SSPY_CODE_KINDS, &kinds) ||
        !ssi_read_word(ssi_members(kinds) + SSPY_VAR_SIZE, &count))
        return;
    for (uint64_t i = 0; i < count && i < MAX_VARIABLES && w->count <= SSI_SHOWN_VARIABLES; i++) {
        if (!ssi_read(ssi_members(kinds) + SSPY_BYTES_DATA + i, &kind, 1) ||
            !ssi_read_word(ssi_members(names) + w->layout->tuple_items + 8 * i, &name))
            return;
        value = value_of(frame + w->layout->frame_variables + 8 * i, kind & IN_CELL);
        if (value)
            add_variable(w, name, value);
    }
}

static void add_of_module(writing *w, uint64_t names)
{
    ssi_items items;
    uint64_t name, value;

    if (!ssi_items_begin(&items, w->layout, KIND_DICT, names))
        return;
    while (w->count <= SSI_SHOWN_VARIABLES && items.at < MAX_VARIABLES &&
           ssi_items_next(&items, &name, &value))
        if (ssi_object_kind(name) == KIND_STR && ssi_object_kind(value) != KIND_OTHER)
            add_variable(w, name, value);
}

/* Write the variables of the frame at FRAME, which runs the code object at CODE, as one JSON object.
   What cannot be read is left out. */
static void write_locals(const sspy_layout *layout, uint64_t frame, uint64_t code, ssi_written *to)
{
    writing w = {layout, to, 0};
    uint64_t names;
    uint32_t flags;

    ssi_write(to, "{");
    if (ssi_read(ssi_members(code) + SSPY_CODE_FLAGS, &flags, sizeof flags)) {
        if (flags & OPTIMIZED)
            add_of_function(&w, frame, code);
        else if (ssi_read_word(frame + layout->frame_names, &names))
            add_of_module(&w, names);
    }
    ssi_write(to, "}");
}

/* ---- Code objects -----------------------------------------------------------------------------*/

enum {
    MAX_TABLE = 1 << 22,
    MAX_TABLES = 256 << 20, /* bytes of all */
    MAX_WALKED = 1 << 30    /* bytes, on the ways to all places */
};

/* What a code object says: names, and the place of an instruction. */
typedef struct ssi_code_object {
    uint64_t address;
    const char *file, *function; /* NULL: cannot be read */
    int first_line;
    int first_traceable; /* code units */
    unsigned char *table;
    size_t table_size;
} ssi_code_object;

/* ---- One code object --------------------------------------------------------------------------*/

static bool is_last_part(const char *name, const char *whole)
{
    size_t length = strlen(name), of = strlen(whole);

    return length <= of && !strcmp(whole + of - length, name) &&
           (length == of || whole[of - length - 1] == '.');
}

/* A qualified name is more precise, but renamed code keeps that of something else. */
static const char *shown_name(const sspy_layout *layout, uint64_t address)
{
    uint64_t name = ssi_word(ssi_members(address) + SSPY_CODE_NAME);
    uint64_t whole = ssi_word(ssi_members(address) + SSPY_CODE_QUALNAME);
    const char *short_name = ssi_object_text(layout, name);
    const char *long_name = ssi_object_text(layout, whole);

    return short_name && long_name && is_last_part(short_name, long_name) ? long_name : short_name;
}

static void read_table(ssi_code_objects *codes, ssi_code_object *code)
{
    uint64_t table = 0, size = 0;

    if (!ssi_read_word(ssi_members(code->address) + SSPY_CODE_TABLE, &table) ||
        !ssi_read_word(ssi_members(table) + SSPY_VAR_SIZE, &size) || size > MAX_TABLE ||
        codes->table_bytes + size > MAX_TABLES)
        return;
    code->table = malloc(size ? (size_t)size : 1);
    if (!code->table)
        return;
    if (ssi_read(ssi_members(table) + SSPY_BYTES_DATA, code->table, (size_t)size)) {
        code->table_size = (size_t)size;
        codes->table_bytes += size;
        return;
    }
    free(code->table);
    code->table = NULL;
}

/* All code objects have one type.  The first that has a name and a file says which. */
static bool read_code(ssi_python_frames *frames, ssi_code_object *code)
{
    const sspy_layout *layout = frames->layout;
    ssi_code_objects *codes = &frames->codes;
    uint64_t type, file = 0;

    if (!ssi_read_word(ssi_members(code->address) + SSPY_OBJECT_TYPE, &type) ||
        (codes->type && type != codes->type))
        return false;
    if (!ssi_read(ssi_members(code->address) + layout->code_first_line, &code->first_line,
                  sizeof code->first_line) ||
        !ssi_read(ssi_members(code->address) + layout->code_first_traceable, &code->first_traceable,
                  sizeof code->first_traceable))
        return false;
    (void)ssi_read_word(ssi_members(code->address) + SSPY_CODE_FILE, &file);
    code->file = ssi_object_text(layout, file);
    code->function = shown_name(layout, code->address);
    if (!codes->type && (!code->file || !code->function))
        return false;
    codes->type = type;
    read_table(codes, code);
    return true;
}

static const ssi_code_object *code_at(ssi_python_frames *frames, uint64_t address)
{
    ssi_code_objects *codes = &frames->codes;
    ssi_code_object code = {.address = address};
    const uint64_t *known = ssi_map_find(&codes->numbers, address);

    if (known)
        return &codes->items[*known];
    if (!address || !read_code(frames, &code))
        return NULL;
    if (!ssi_append(&codes->items, &codes->count, &codes->room, &code, sizeof code)) {
        free(code.table);
        return NULL;
    }
    (void)ssi_map_put(&codes->numbers, address, codes->count - 1); /* or it is read again */
    return &codes->items[codes->count - 1];
}

void ssi_python_frames_free(ssi_python_frames *frames)
{
    ssi_code_objects *codes = &frames->codes;

    for (size_t i = 0; i < codes->count; i++)
        free(codes->items[i].table);
    free(codes->items);
    free(codes->numbers.entries);
}

/* Set the lines and columns of FRAME, which is at the byte OFFSET of the instructions of CODE; not
   when that took too long for those before it. */
static void place_in_code(ssi_code_objects *codes, const ssi_code_object *code, int64_t offset,
                          stacksplice_frame *frame)
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

/* ---- Frames -----------------------------------------------------------------------------------*/

bool ssi_frame_read(const sspy_layout *layout, uint64_t address, ssi_seen_frame *seen)
{
    *seen = (ssi_seen_frame){.address = address};
    if (!ssi_read_word(address + layout->frame_code, &seen->code) ||
        !ssi_read_word(address + layout->frame_previous, &seen->previous) ||
        !ssi_read_word(address + layout->frame_instruction, &seen->instruction) ||
        !ssi_read(address + layout->frame_owner, &seen->owner, 1))
        return false;
    if (layout->frame_is_entry && !ssi_read(address + layout->frame_is_entry, &seen->is_entry, 1))
        return false;
    seen->code &= ~(uint64_t)SSPY_CODE_TAG;
    return true;
}

static const char *locals_of(ssi_python_frames *frames, const ssi_seen_frame *seen)
{
    ssi_written written = {.shows_secrets = frames->scripts->shows_secrets};

    if (!frames->scripts->with_locals || !frames->locals_left)
        return NULL;
    if (!--frames->locals_left)
        return ssi_scripts_locals_left_out(frames->scripts);
    write_locals(frames->layout, seen->address, seen->code, &written);
    return ssi_scripts_keep_locals(frames->scripts, &written);
}

/* Add SHOWN, which is at the byte OFFSET of the instructions of CODE. */
static bool add(ssi_python_frames *frames, const ssi_code_object *code, int64_t offset,
                ssi_frame *shown)
{
    shown->known.kind = STACKSPLICE_FRAME_SCRIPT;
    shown->known.language = "python";
    shown->known.function = code->function;
    shown->known.file = code->file;
    shown->known.address = sspy_code_start(frames->layout, code->address) + (uint64_t)offset;
    place_in_code(&frames->codes, code, offset, &shown->known);
    return ssi_frames_add(&frames->scripts->frames, shown);
}

static bool add_unreadable(ssi_python_frames *frames)
{
    return ssi_frames_add_gap(&frames->scripts->frames, "a Python frame cannot be read");
}

/* Set *START to where the instructions begin that SEEN runs: those of its code object, or a thread's copy,
   which a _PyCodeArray has behind their count. */
static bool find_start(const sspy_layout *layout, const ssi_seen_frame *seen, uint64_t *start)
{
    uint64_t copies, count;
    int32_t number;

    *start = sspy_code_start(layout, seen->code);
    if (!layout->frame_copy)
        return true;
    return ssi_read_word(*start - sizeof copies, &copies) && ssi_read_word(copies, &count) &&
           ssi_read(seen->address + layout->frame_copy, &number, sizeof number) && number >= 0 &&
           (uint64_t)number < count &&
           ssi_read_word(copies + sizeof count + sizeof *start * (uint64_t)number, start) && *start;
}

bool ssi_frame_show(ssi_python_frames *frames, const ssi_seen_frame *seen)
{
    const ssi_code_object *code = code_at(frames, seen->code);
    ssi_frame shown = {.known = {.interpreter = frames->interpreter}};
    uint64_t start;

    if (!code || !find_start(frames->layout, seen, &start))
        return add_unreadable(frames);
    if (!sspy_has_begun(seen->owner, start, seen->instruction, code->first_traceable))
        return true;
    shown.locals = locals_of(frames, seen);
    return add(frames, code, (int64_t)(seen->instruction - start), &shown);
}

bool ssi_frame_show_traced(ssi_python_frames *frames, uint64_t entry)
{
    uint64_t object = ssi_word(ssi_members(entry) + SSPY_TRACEBACK_FRAME);
    uint64_t frame = object ? ssi_word(ssi_members(object) + SSPY_FRAME_OBJECT_FRAME) : 0;
    const ssi_code_object *code = code_at(
        frames,
        frame ? ssi_word(frame + frames->layout->frame_code) & ~(uint64_t)SSPY_CODE_TAG : 0);
    ssi_frame shown = {.known = {.trust = STACKSPLICE_TRUST_TRACEBACK}};
    int32_t instruction = 0;

    if (!code)
        return add_unreadable(frames);
    (void)ssi_read(ssi_members(entry) + SSPY_TRACEBACK_INSTRUCTION, &instruction,
                   sizeof instruction);
    return add(frames, code, instruction, &shown);
}
