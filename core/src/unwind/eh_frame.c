#include "unwind/eh_frame.h"

/*
 * Pointer encodings of the exception-handling supplement: low half the form, high half the base.  Those
 * that assemblers and linkers write.
 */
enum {
    FORM_ABSPTR = 0x00,
    FORM_UDATA4 = 0x03,
    FORM_UDATA8 = 0x04,
    FORM_SDATA4 = 0x0b,
    FORM_SDATA8 = 0x0c,
    FORM_MASK = 0x0f,
    BASE_ABSOLUTE = 0x00,
    BASE_PC = 0x10,
    BASE_DATA = 0x30,
    BASE_MASK = 0x70,
    ENCODED_INDIRECT = 0x80,
    ENCODED_OMIT = 0xff
};

/* The one table encoding that linkers write: 32-bit offsets from the header's own start. */
#define TABLE_ENCODING (BASE_DATA | FORM_SDATA4)

static uint64_t read_form(ss_cursor *c, uint8_t encoding)
{
    switch (encoding & FORM_MASK) {
    case FORM_ABSPTR:
        return ss_cursor_unsigned(c, sizeof(uintptr_t));
    case FORM_UDATA4:
        return ss_cursor_unsigned(c, 4);
    case FORM_UDATA8:
        return ss_cursor_unsigned(c, 8);
    case FORM_SDATA4:
        return (uint64_t)ss_cursor_signed(c, 4);
    case FORM_SDATA8:
        return (uint64_t)ss_cursor_signed(c, 8);
    default:
        c->failed = true;
        return 0;
    }
}

/* BASE_DATA counts from DATA_BASE.  An indirect pointer is never an address of code. */
static uintptr_t read_encoded(ss_cursor *c, uint8_t encoding, uintptr_t data_base)
{
    uintptr_t here = (uintptr_t)c->at;
    uintptr_t value = (uintptr_t)read_form(c, encoding);

    if (encoding & ENCODED_INDIRECT)
        c->failed = true;
    switch (encoding & BASE_MASK) {
    case BASE_ABSOLUTE:
        return value;
    case BASE_PC:
        return value + here;
    case BASE_DATA:
        return value + data_base;
    default:
        c->failed = true;
        return 0;
    }
}

/* The bytes of one entry after its length field. */
static ss_cursor entry_body(ss_bytes bytes, const uint8_t *at)
{
    ss_cursor c = ss_cursor_over(at, bytes.high);
    uint64_t length;

    if (at < bytes.low)
        c.failed = true;
    length = ss_cursor_unsigned(&c, 4);
    if (length == 0xffffffff)
        length = ss_cursor_unsigned(&c, 8);
    if (length == 0 || length > ss_cursor_left(&c))
        c.failed = true;
    else
        c.end = c.at + length;
    return c;
}

/* Fields of a common entry that ss_fde lacks. */
typedef struct cie_facts {
    uint8_t code_encoding;
    bool has_lengths; /* 'z': the entries carry the length of their augmentation data */
} cie_facts;

/* Read the augmentation data: one item for each letter after 'z'. */
static void read_augmentation(ss_cursor data, const char *letters, ss_fde *fde, cie_facts *facts)
{
    for (; *letters && !data.failed; letters++) {
        uint8_t encoding;

        switch (*letters) {
        case 'R':
            facts->code_encoding = ss_cursor_byte(&data);
            break;
        case 'L':
            (void)ss_cursor_byte(&data);
            break;
        case 'P':
            encoding = ss_cursor_byte(&data);
            if (encoding != ENCODED_OMIT)
                (void)read_form(&data, encoding);
            break;
        case 'S':
            fde->signal_frame = true;
            break;
        default:
            return; /* the data has a length, so an unknown letter hides only those after it */
        }
    }
}

static bool parse_cie(ss_bytes bytes, const uint8_t *at, ss_fde *fde, cie_facts *facts)
{
    ss_cursor c = entry_body(bytes, at);
    const char *letters;
    uint8_t version;

    if (ss_cursor_unsigned(&c, 4) != 0) /* the mark of a common entry */
        return false;
    version = ss_cursor_byte(&c);
    letters = (const char *)c.at;
    while (ss_cursor_byte(&c))
        ;
    if (c.failed || (version != 1 && version != 3))
        return false;
    fde->code_align = ss_cursor_uleb(&c);
    fde->data_align = ss_cursor_sleb(&c);
    fde->return_register = version == 1 ? ss_cursor_byte(&c) : ss_cursor_uleb(&c);
    fde->signal_frame = false;
    *facts = (cie_facts){FORM_ABSPTR, letters[0] == 'z'};
    if (facts->has_lengths) {
        uint64_t length = ss_cursor_uleb(&c);
        const uint8_t *data = ss_cursor_skip(&c, length);

        if (c.failed)
            return false;
        read_augmentation(ss_cursor_over(data, c.at), letters + 1, fde, facts);
    } else if (letters[0]) {
        return false; /* its data has an unknown size */
    }
    fde->initial = c;
    return !c.failed;
}

bool ss_fde_parse(ss_bytes bytes, const uint8_t *at, ss_fde *fde)
{
    ss_cursor c = entry_body(bytes, at);
    const uint8_t *id = c.at;
    uint64_t back;
    cie_facts facts;

    back = ss_cursor_unsigned(&c, 4); /* distance to the common entry; 0 in a common entry itself */
    if (c.failed || back == 0 || back > (uint64_t)(id - bytes.low) ||
        !parse_cie(bytes, id - back, fde, &facts))
        return false;
    fde->start = read_encoded(&c, facts.code_encoding, 0);
    fde->size = (uintptr_t)read_form(&c, facts.code_encoding & FORM_MASK);
    if (facts.has_lengths)
        (void)ss_cursor_skip(&c, ss_cursor_uleb(&c));
    fde->program = c;
    return !c.failed;
}

/* The sorted table of .eh_frame_hdr; NULL when it is missing or of another kind. */
static const uint8_t *read_header(ss_bytes header, size_t *rows)
{
    ss_cursor c = ss_cursor_over(header.low, header.high);
    uint8_t version = ss_cursor_byte(&c);
    uint8_t start_encoding = ss_cursor_byte(&c);
    uint8_t count_encoding = ss_cursor_byte(&c);
    uint8_t table_encoding = ss_cursor_byte(&c);

    if (version != 1 || table_encoding != TABLE_ENCODING || start_encoding == ENCODED_OMIT ||
        count_encoding == ENCODED_OMIT)
        return NULL;
    (void)read_encoded(&c, start_encoding, (uintptr_t)header.low);
    *rows = (size_t)read_encoded(&c, count_encoding, (uintptr_t)header.low);
    return !c.failed && *rows && *rows <= ss_cursor_left(&c) / 8 ? c.at : NULL;
}

static uintptr_t table_value(ss_bytes header, const uint8_t *table, size_t row, unsigned column)
{
    int32_t offset;

    memcpy(&offset, table + 8 * row + 4 * column, sizeof offset);
    return (uintptr_t)header.low + (uintptr_t)(intptr_t)offset;
}

bool ss_eh_frame_find(const ss_eh_frame *section, uintptr_t pc, ss_fde *fde)
{
    size_t low = 0, rows;
    const uint8_t *table = read_header(section->header, &rows);
    ss_bytes bytes;
    uintptr_t entry;

    if (!table)
        return false;
    for (size_t high = rows; high - low > 1;) {
        size_t middle = low + (high - low) / 2;

        if (table_value(section->header, table, middle, 0) <= pc)
            low = middle;
        else
            high = middle;
    }
    entry = table_value(section->header, table, low, 1);
    return section->segment(section->data, entry, &bytes) &&
           ss_fde_parse(bytes, (const uint8_t *)entry, fde) && pc - fde->start < fde->size;
}
