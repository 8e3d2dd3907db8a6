#include "errors/errors.h"

#include "base/base.h"
#include "shared/utf8.h"

#include <stacksplice/script.h>
#include <stacksplice/source.h>

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- Texts ------------------------------------------------------------------------------------*/

/* All are NULL if they cannot be read, and end in "..." if they are cut. */

enum { MAX_BYTES = 1 << 16, MAX_UNITS = 1 << 14 };

static char text_bytes[MAX_BYTES + 4];

/* The first USED of TEXT_BYTES; so many, if they are CUT, that no character is. */
static const char *made(size_t used, bool cut)
{
    if (cut) {
        while (used && (text_bytes[used] & 0xC0) == 0x80)
            used--;
        memset(text_bytes + used, '.', 3);
        used += 3;
    }
    return ssi_text(text_bytes, used);
}

/* The text at ADDRESS, which ends in a NUL. */
static const char *text_at(uint64_t address)
{
    size_t used = 0;

    if (!address)
        return NULL;
    for (size_t step; used < MAX_BYTES; used += step) {
        const char *end;

        step = 64 - (size_t)((address + used) % 64); /* never beyond a page */
        if (step > MAX_BYTES - used)
            step = MAX_BYTES - used;
        if (!ssi_read(address + used, text_bytes + used, step))
            return NULL;
        end = memchr(text_bytes + used, 0, step);
        if (end)
            return made((size_t)(end - text_bytes), false);
    }
    text_bytes[used] = 0;
    return made(used, true);
}

/* LENGTH bytes there.  A NUL in them becomes U+FFFD. */
static const char *bytes_at(uint64_t address, uint64_t length)
{
    size_t used = length < MAX_BYTES ? (size_t)length : MAX_BYTES;

    if (!address || !ssi_read(address, text_bytes, used))
        return NULL;
    for (char *nul = text_bytes; (nul = memchr(nul, 0, used - (size_t)(nul - text_bytes))) != NULL;)
        *nul = (char)0xFF;
    text_bytes[used] = 0;
    return made(used, length > used);
}

/* The code point that begins at UNITS[*AT], with *AT behind it. */
static uint32_t code_point(const uint16_t *units, size_t count, size_t *at)
{
    uint32_t unit = units[(*at)++];

    if (unit < 0xD800 || unit > 0xDFFF)
        return unit ? unit : 0xFFFD;
    if (unit > 0xDBFF || *at == count || units[*at] < 0xDC00 || units[*at] > 0xDFFF)
        return 0xFFFD;
    return 0x10000 + ((unit - 0xD800) << 10) + (units[(*at)++] - 0xDC00u);
}

/* UNITS of UTF-16 there, without white space at the end. */
static const char *wide_at(uint64_t address, uint64_t units)
{
    static uint16_t wide[MAX_UNITS];
    size_t count = units < MAX_UNITS ? (size_t)units : MAX_UNITS, used = 0;

    if (!address || !ssi_read(address, wide, count * sizeof *wide))
        return NULL;
    for (size_t at = 0; at < count;)
        used += sspy_put_utf8(code_point(wide, count, &at), text_bytes + used);
    while (used && strchr(" \r\n\t", text_bytes[used - 1]))
        used--;
    text_bytes[used] = 0;
    return made(used, units > count);
}

/*
 * The signature is searched in the data of binaries, so that no symbol is needed: a program that is
 * linked statically and stripped has none.
 */

enum {
    STEP = 16, /* blocks are aligned to it */
    PART = 1 << 16,
    MAX_DATA = 64 << 20, /* of one mapping that is searched */
    MAX_NUMBER = 1 << 20
};

/* ---- One block --------------------------------------------------------------------------------*/

/* No division by zero, no offset that leads far away. */
static bool is_sane(const stacksplice_inspection_block *b)
{
    for (int i = 0; i < STACKSPLICE_NUMBERS; i++)
        if (b->numbers[i] < -MAX_NUMBER || b->numbers[i] > MAX_NUMBER)
            return false;
    return b->numbers[STACKSPLICE_NUMBER_CELLS] > 0 &&
           b->numbers[STACKSPLICE_NUMBER_CHUNK_CELLS] > 0 &&
           b->numbers[STACKSPLICE_NUMBER_CELL_SIZE] > 0 &&
           b->numbers[STACKSPLICE_NUMBER_CELL_WORDS] > 0 &&
           b->numbers[STACKSPLICE_NUMBER_FIXED_TOKENS] >= 0;
}

/* Read the block at ADDRESS as it is now; false if it is damaged. */
static bool read_block(uint64_t address, ssi_block *block)
{
    return ssi_read(address, block, sizeof *block) && block->self == address && is_sane(block);
}

/* Only the beginning is the same in all versions. */
static void meet(const ssi_mapping *mapping, uint64_t address, ssi_blocks *blocks,
                 ssi_scripts *scripts)
{
    struct {
        char signature[16];
        uint64_t self;
        uint32_t version, size;
    } head;

    if (!ssi_read(address, &head, sizeof head) || head.self != address)
        return;
    if (head.version != STACKSPLICE_INSPECTION_VERSION ||
        head.size < sizeof(stacksplice_inspection_block))
        ssi_scripts_note(
            scripts, ssi_text_format("cannot read the errors of %s: its stacksplice has version "
                                     "%u of the block for readers, this one reads %u: use the "
                                     "stacksplice of that process",
                                     mapping->path, head.version, STACKSPLICE_INSPECTION_VERSION));
    else if (blocks->count < SSI_MAX_BLOCKS)
        blocks->addresses[blocks->count++] = address;
}

/* ---- The search -------------------------------------------------------------------------------*/

static void search(const ssi_mapping *mapping, ssi_blocks *blocks, ssi_scripts *scripts)
{
    static char part[PART];
    static const char signature[16] = STACKSPLICE_INSPECTION_SIGNATURE;

    for (uint64_t at = mapping->start; at < mapping->end; at += PART) {
        size_t size = mapping->end - at < PART ? (size_t)(mapping->end - at) : PART;

        if (!ssi_read(at, part, size))
            return;
        for (size_t i = 0; i + STEP <= size; i += STEP)
            if (!memcmp(part + i, signature, sizeof signature))
                meet(mapping, at + i, blocks, scripts);
    }
}

void ssi_blocks_find(const ssi_target *target, ssi_blocks *blocks, ssi_scripts *scripts)
{
    uint64_t end = 0;

    for (size_t i = 0; i < target->mapping_count; i++) {
        const ssi_mapping *m = &target->mappings[i];
        uint64_t begins = ssi_target_binary_end(target, i);

        if (begins)
            end = begins;
        if (m->end <= end && m->path && m->writable && m->end - m->start <= MAX_DATA)
            search(m, blocks, scripts);
    }
}

/* ---- Tokens -----------------------------------------------------------------------------------*/

/* The table is read as its users read it: a cell whose state is another one has another row. */

enum { STRINGS = STACKSPLICE_TOKEN_STRINGS, MAX_STRING = 1 << 16 };

typedef struct row {
    const ssi_block *block;
    uint64_t cell; /* its address; 0: it cannot be read */
    int32_t at;    /* the next word in it */
} row;

static int32_t number_of(const ssi_block *block, stacksplice_number which)
{
    return block->numbers[which];
}

/* The address of the cell INDEX, or 0. */
static uint64_t cell_at(const ssi_block *block, uint64_t index)
{
    uint64_t in_chunk = (uint64_t)number_of(block, STACKSPLICE_NUMBER_CHUNK_CELLS), chunk = 0;

    if (!index || index >= (uint64_t)number_of(block, STACKSPLICE_NUMBER_CELLS) ||
        !ssi_read_word(block->token_chunks + index / in_chunk * sizeof chunk, &chunk) || !chunk)
        return 0;
    return chunk + index % in_chunk * (uint64_t)number_of(block, STACKSPLICE_NUMBER_CELL_SIZE);
}

static uint64_t next_word(row *r)
{
    uint32_t next = 0;

    if (r->cell && r->at == number_of(r->block, STACKSPLICE_NUMBER_CELL_WORDS)) {
        (void)ssi_read(r->cell + (uint64_t)number_of(r->block, STACKSPLICE_NUMBER_CELL_NEXT), &next,
                       sizeof next);
        r->cell = cell_at(r->block, next);
        r->at = 0;
    }
    if (!r->cell)
        return 0;
    return ssi_word(r->cell + (uint64_t)number_of(r->block, STACKSPLICE_NUMBER_CELL_ROW) +
                    (uint64_t)r->at++ * sizeof(uint64_t));
}

static const char *next_string(row *r, size_t length, bool cut)
{
    static char text[MAX_STRING + 2 * sizeof(uint64_t)];

    for (size_t at = 0; at < length; at += sizeof(uint64_t)) {
        uint64_t word = next_word(r);

        memcpy(text + at, &word, sizeof word);
    }
    memset(text + length, '.', 3);
    return ssi_text(text, length + (cut ? 3 : 0));
}

static void decode(row *r, stacksplice_frame *frame)
{
    const char **const strings[STRINGS] = {[STACKSPLICE_TOKEN_LANGUAGE] = &frame->language,
                                           [STACKSPLICE_TOKEN_FUNCTION] = &frame->function,
                                           [STACKSPLICE_TOKEN_FILE] = &frame->file,
                                           [STACKSPLICE_TOKEN_REASON] = &frame->reason,
                                           [STACKSPLICE_TOKEN_INTERPRETER] = &frame->interpreter,
                                           [STACKSPLICE_TOKEN_CALLS] = &frame->calls,
                                           [STACKSPLICE_TOKEN_SOURCE] = &frame->source};
    uint64_t words[sizeof(stacksplice_token_row) / sizeof(uint64_t)];
    stacksplice_token_row head;
    int first = sizeof head.first_sizes / sizeof *head.first_sizes;

    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        words[i] = next_word(r);
    memcpy(&head, words, sizeof head);
    frame->kind =
        head.kind == STACKSPLICE_FRAME_SCRIPT ? STACKSPLICE_FRAME_SCRIPT : STACKSPLICE_FRAME_GAP;
    frame->trust = head.trust & 3;
    frame->asynchronous = head.flags & STACKSPLICE_TOKEN_ASYNCHRONOUS;
    frame->line = head.line;
    frame->end_line = head.end_line;
    frame->column = head.column;
    frame->end_column = head.end_column;
    for (int i = 0; i < STRINGS; i++) {
        uint16_t size = i < first ? head.first_sizes[i] : head.later_sizes[i - first];

        if (size)
            *strings[i] = next_string(r, size - 1u, head.cut >> i & 1);
    }
}

static void read_cell(const ssi_block *block, uint64_t id, stacksplice_frame *frame)
{
    uint64_t cells = (uint64_t)number_of(block, STACKSPLICE_NUMBER_CELLS), generation = id / cells;
    uint64_t cell = cell_at(block, id % cells), state = 0;
    row r = {block, cell, 0};

    frame->reason = "frame does not belong to this process";
    if (!cell || !generation ||
        !ssi_read_word(cell + (uint64_t)number_of(block, STACKSPLICE_NUMBER_CELL_STATE), &state))
        return;
    if (state == (generation << 1 | 1)) {
        frame->reason = NULL;
        decode(&r, frame);
    } else if (state >> 1 >= generation) {
        frame->reason = "name of this frame evicted: too many newer code locations";
    }
    if (frame->kind == STACKSPLICE_FRAME_GAP && !frame->reason)
        frame->reason = "this frame cannot be read";
}

static void read_fixed(const ssi_block *block, uint64_t id, stacksplice_frame *frame)
{
    stacksplice_token_info info = {0};

    if (ssi_read(block->fixed_tokens + id * sizeof info, &info, sizeof info))
        frame->reason = text_at((uintptr_t)info.reason);
    frame->trust = info.trust == STACKSPLICE_TRUST_INFERRED ? info.trust : STACKSPLICE_TRUST_EXACT;
    if (!frame->reason)
        frame->reason = "this frame cannot be read";
}

/* Of nothing, too. */
static const char *text_or_null(uint64_t address)
{
    const char *text = text_at(address);

    return text && *text ? text : NULL;
}

static void read_left_out(uint64_t count, stacksplice_frame *frame, uint64_t *left_out)
{
    *left_out += count ? count : 1;
    frame->reason = !count
                        ? "outer frames missing: the exception did not provide them"
                        : ssi_text_format("%llu frame%s omitted here: stack longer than the limit",
                                          (unsigned long long)count, count == 1 ? "" : "s");
}

/*
 * ID: of a token of code that was unloaded, without its highest bits.  Without a build-id nobody can
 * tell whether the file is still the one that was loaded, so its frame offers none to be read.
 */
static void read_unloaded(const ssi_block *block, uint64_t id, stacksplice_frame *frame)
{
    uint64_t module = 0, build_id = 0, which = id >> STACKSPLICE_TOKEN_MODULE_BITS;
    uint64_t offset = id & ((1 << STACKSPLICE_TOKEN_MODULE_BITS) - 1);
    const char *path;

    frame->reason = "this code was unloaded";
    if (which >= STACKSPLICE_TOKEN_MODULES ||
        !ssi_read_word(block->unloaded_modules + which * sizeof module, &module) ||
        !ssi_read_word(module + (uint64_t)number_of(block, STACKSPLICE_NUMBER_MODULE_BUILD_ID),
                       &build_id))
        return;
    path = text_or_null(module + (uint64_t)number_of(block, STACKSPLICE_NUMBER_MODULE_PATH));
    frame->build_id = text_or_null(build_id);
    if (path && frame->build_id) {
        frame->kind = STACKSPLICE_FRAME_NATIVE;
        frame->reason = NULL;
        frame->module = path;
        frame->module_offset = offset;
    } else if (path) {
        frame->reason = ssi_text_format("this code was unloaded: %.300s+0x%llx", path,
                                        (unsigned long long)offset);
    }
}

/* The frame of ELEMENT of a stack: that of a token, or a native one with its address alone.
   *LEFT_OUT grows by the frames that it stands for, if it is the gap in a long stack. */
static ssi_frame frame_of_token(const ssi_block *block, uint64_t element, uint64_t *left_out)
{
    ssi_frame frame = {
        .known = {.kind = STACKSPLICE_FRAME_GAP, .language = "native", .address = element}};
    uint64_t id = (element - STACKSPLICE_TOKEN_BASE) / STACKSPLICE_TOKEN_STRIDE;
    uint64_t bits = element & STACKSPLICE_TOKEN_UNLOADED;
    uint64_t rest = (element & ~(STACKSPLICE_TOKEN_BASE | bits)) / STACKSPLICE_TOKEN_STRIDE;

    if (!stacksplice_is_token(element) ||
        element % STACKSPLICE_TOKEN_STRIDE != STACKSPLICE_TOKEN_OFFSET)
        frame.known.kind = STACKSPLICE_FRAME_NATIVE;
    else if (bits == STACKSPLICE_TOKEN_UNLOADED)
        read_unloaded(block, rest, &frame.known);
    else if (bits == STACKSPLICE_TOKEN_LEFT_OUT)
        read_left_out(rest, &frame.known, left_out);
    else if (id < (uint64_t)number_of(block, STACKSPLICE_NUMBER_FIXED_TOKENS))
        read_fixed(block, id, &frame.known);
    else
        read_cell(block, id, &frame.known);
    return frame;
}

ssi_frame ssi_token_look_up(const ssi_blocks *blocks, uint64_t token)
{
    ssi_frame frame = {
        .known = {.kind = STACKSPLICE_FRAME_GAP, .language = "native", .address = token}};

    frame.known.reason = "the process has no stacksplice that can be read";
    for (size_t i = 0; i < blocks->count; i++) {
        ssi_block block;
        uint64_t left_out = 0;

        if (read_block(blocks->addresses[i], &block))
            frame = frame_of_token(&block, token, &left_out);
        if (frame.known.kind == STACKSPLICE_FRAME_SCRIPT)
            break;
    }
    return frame;
}

/*
 * An error is written as it is read.  That happens twice: while the process is stopped, into
 * nothing, so that all of it is copied; then for the document, when the binaries of native frames
 * are known.
 *
 * The process was stopped anywhere and may be damaged: all lists are bounded, and an error that
 * encloses itself ends its chain.
 */

enum {
    MAX_ERRORS = 4096,
    MAX_AROUND = 256,
    MAX_MEMBERS = 128,
    MAX_LEVELS = 32,
    MAX_ELEMENTS = 1 << 16,
    MAX_ALL_ELEMENTS = 1 << 19,
    MAX_NODES = 256,
    MAX_NOTES = 512,
    MAX_LISTS = 4096
};

typedef struct reader {
    const ssi_block *block;
    ssi_written *to;
    const ssi_describer *describer; /* NULL: nobody reads what is written */
    size_t errors, elements;        /* so far */
    uint64_t around[MAX_AROUND];    /* records of the errors that enclose what is read */
    unsigned around_count;
} reader;

/* ---- Words ------------------------------------------------------------------------------------*/

static uint64_t address_of(const reader *r, uint64_t object, stacksplice_number which)
{
    return object + (uint64_t)(int64_t)r->block->numbers[which];
}

/* The number of SIZE bytes at OBJECT plus the offset WHICH; 0 if it cannot be read. */
static uint64_t number_at(const reader *r, uint64_t object, stacksplice_number which, size_t size)
{
    uint64_t number = 0;

    if (!object || !ssi_read(address_of(r, object, which), &number, size))
        return 0;
    return number;
}

static uint64_t pointer_at(const reader *r, uint64_t object, stacksplice_number which)
{
    return number_at(r, object, which, sizeof object);
}

static uint32_t count_at(const reader *r, uint64_t object, stacksplice_number which)
{
    return (uint32_t)number_at(r, object, which, sizeof(uint32_t));
}

/* The record of the error to whose interface a pointer leads; 0 if it is none of this library. */
static uint64_t error_of(const reader *r, uint64_t interface)
{
    if (!interface || ssi_word(interface) != r->block->error_methods)
        return 0;
    return interface - (uint64_t)(int64_t)r->block->numbers[STACKSPLICE_NUMBER_ERROR_INTERFACE];
}

/* The exception's interface of the error at RECORD; 0 if it has none that can be read. */
static uint64_t exception_of(const reader *r, uint64_t record)
{
    uint64_t exception = pointer_at(r, record, STACKSPLICE_NUMBER_RECORD_EXCEPTION);

    return exception && ssi_word(exception) == r->block->exception_methods ? exception : 0;
}

static bool read_record(uint64_t address, stacksplice_record *record)
{
    return address && ssi_read(address, record, sizeof *record) &&
           record->signature == STACKSPLICE_RECORD_SIGNATURE &&
           record->version == STACKSPLICE_INSPECT_VERSION;
}

/* The language of the owner of interpreters at OWNER, or NULL. */
static const char *language_of_owner(const reader *r, uint64_t owner)
{
    uint64_t language = pointer_at(r, owner, STACKSPLICE_NUMBER_OWNER_LANGUAGE);

    return language ? text_at(ssi_word(language + offsetof(stacksplice_language, name))) : NULL;
}

static void write_or_null(ssi_written *to, const char *name, const char *text)
{
    if (text)
        ssi_write_member(to, name, text);
    else
        ssi_write_format(to, ",\"%s\":null", name);
}

/* ---- Stacks -----------------------------------------------------------------------------------*/

typedef struct stack {
    ssi_frames frames;
    uint64_t left_out;
} stack;

static void read_stack(reader *r, const stacksplice_record *record, stack *s)
{
    uint64_t element;

    *s = (stack){.left_out = 0};
    for (uint32_t i = 0; i < record->frame_count; i++) {
        ssi_frame frame;

        if (i == MAX_ELEMENTS || r->elements++ >= MAX_ALL_ELEMENTS ||
            record->frame_size != sizeof element ||
            !ssi_read_word(record->frames + i * sizeof element, &element)) {
            (void)ssi_frames_add_gap(&s->frames, "the rest of this stack cannot be read");
            return;
        }
        frame = frame_of_token(r->block, element, &s->left_out);
        if (!ssi_frames_add(&s->frames, &frame))
            return;
    }
}

/* Releases the frames. */
static void write_stack(const reader *r, stack *s)
{
    if (r->describer)
        r->describer->describe(r->describer->data, &s->frames);
    ssi_write(r->to, ",\"stack\":");
    ssi_write_frames(r->to, s->frames.items, s->frames.count);
    ssi_write_format(r->to, ",\"frames_left_out\":%" PRIu32, (uint32_t)s->left_out);
    free(s->frames.items);
}

/* The language of the innermost script frame. */
static const char *language_of_stack(const stack *s)
{
    for (size_t i = 0; i < s->frames.count; i++)
        if (s->frames.items[i].known.kind == STACKSPLICE_FRAME_SCRIPT &&
            s->frames.items[i].known.language)
            return s->frames.items[i].known.language;
    return "native";
}

/* ---- Parts of an error ------------------------------------------------------------------------*/

/* The newest is the first of their list, and the last that is written. */
static void write_nodes(reader *r, uint64_t error)
{
    uint64_t node = pointer_at(r, error, STACKSPLICE_NUMBER_ERROR_NODES), nodes[MAX_NODES];
    size_t count = 0, shown = 0;

    for (; node && count < MAX_NODES;
         node = pointer_at(r, nodes[count - 1], STACKSPLICE_NUMBER_NODE_PREVIOUS))
        nodes[count++] = address_of(r, node, STACKSPLICE_NUMBER_NODE_RECORD);
    ssi_write(r->to, ",\"propagation\":[");
    while (count--) {
        const char *receiver;
        stacksplice_record record;
        stack s;

        if (!read_record(nodes[count], &record))
            continue;
        receiver = text_at(pointer_at(r, nodes[count], STACKSPLICE_NUMBER_NODE_RECEIVER));
        read_stack(r, &record, &s);
        ssi_write_format(r->to, "%s{\"thread_id\":%" PRIu64, shown++ ? ",\n" : "",
                         (uint64_t)record.thread_id);
        ssi_write_member(r->to, "language", receiver ? receiver : "native");
        write_stack(r, &s);
        ssi_write(r->to, "}");
    }
    ssi_write(r->to, "]");
}

static void write_note(const reader *r, uint64_t address, uint64_t length, size_t *shown)
{
    const char *note = bytes_at(address, length);

    if (!note)
        return;
    ssi_write(r->to, (*shown)++ ? "," : "");
    ssi_write_text(r->to, note, strlen(note));
}

/* Those that the exception came with, then those added to the error, the newest of which is the
   first of their list. */
static void write_notes(const reader *r, uint64_t error, uint64_t exception)
{
    uint64_t told = pointer_at(r, exception, STACKSPLICE_NUMBER_EXCEPTION_NOTES);
    uint32_t told_count = count_at(r, exception, STACKSPLICE_NUMBER_EXCEPTION_NOTE_COUNT);
    uint64_t note = pointer_at(r, error, STACKSPLICE_NUMBER_ERROR_NOTES), notes[MAX_NOTES];
    size_t count = 0, shown = 0;

    ssi_write(r->to, ",\"notes\":[");
    for (uint64_t i = 0; i < told_count && i < MAX_NOTES; i++) {
        stacksplice_document_text text;

        if (!ssi_read(told + i * sizeof text, &text, sizeof text))
            break;
        write_note(r, (uintptr_t)text.text, text.length, &shown);
    }
    for (; note && count < MAX_NOTES; note = pointer_at(r, note, STACKSPLICE_NUMBER_NOTE_PREVIOUS))
        notes[count++] = note;
    while (count--)
        write_note(r, address_of(r, notes[count], STACKSPLICE_NUMBER_NOTE_TEXT),
                   pointer_at(r, notes[count], STACKSPLICE_NUMBER_NOTE_LENGTH), &shown);
    ssi_write(r->to, "]");
}

static const char *reference_of(const reader *r, uint64_t error)
{
    uint64_t number = pointer_at(r, error, STACKSPLICE_NUMBER_ERROR_NUMBER);

    if (!number)
        return NULL;
    return ssi_text_format("%016" PRIx64 "-%016" PRIx64,
                           pointer_at(r, error, STACKSPLICE_NUMBER_ERROR_PROCESS), number);
}

/* That of the exception, else that of the error. */
static const char *message_of(const reader *r, uint64_t error, uint64_t exception)
{
    uint64_t told = pointer_at(r, exception, STACKSPLICE_NUMBER_EXCEPTION_MESSAGE);

    if (told)
        return bytes_at(told,
                        pointer_at(r, exception, STACKSPLICE_NUMBER_EXCEPTION_MESSAGE_LENGTH));
    return wide_at(pointer_at(r, error, STACKSPLICE_NUMBER_ERROR_MESSAGE),
                   count_at(r, error, STACKSPLICE_NUMBER_ERROR_MESSAGE_LENGTH));
}

/* ---- Errors -----------------------------------------------------------------------------------*/

static bool write_error_at(reader *r, uint64_t address, const char *relation, bool is_first);

static bool is_around(const reader *r, uint64_t record)
{
    for (unsigned i = 0; i < r->around_count; i++)
        if (r->around[i] == record)
            return true;
    return false;
}

static bool write_member(reader *r, uint64_t pointer, bool is_first)
{
    unsigned before = r->around_count;
    uint64_t interface = 0, member;
    bool written = false;

    if (before < MAX_LEVELS && ssi_read_word(pointer, &interface)) {
        member = error_of(r, interface);
        written = member && !is_around(r, member) && write_error_at(r, member, NULL, is_first);
    }
    r->around_count = before;
    return written;
}

static void write_members(reader *r, uint64_t exception)
{
    uint64_t members = pointer_at(r, exception, STACKSPLICE_NUMBER_EXCEPTION_MEMBERS);
    uint32_t count = count_at(r, exception, STACKSPLICE_NUMBER_EXCEPTION_MEMBER_COUNT);
    uint32_t left_out = count_at(r, exception, STACKSPLICE_NUMBER_EXCEPTION_MEMBERS_LEFT_OUT);
    uint32_t shown = 0;

    if (!number_at(r, exception, STACKSPLICE_NUMBER_EXCEPTION_GROUP, 1)) {
        ssi_write_format(r->to, ",\"exceptions\":null,\"exceptions_left_out\":%" PRIu32, left_out);
        return;
    }
    ssi_write(r->to, ",\"exceptions\":[");
    for (uint64_t i = 0; i < count && i < MAX_MEMBERS; i++)
        shown += write_member(r, members + i * sizeof members, !shown);
    ssi_write_format(r->to, "],\"exceptions_left_out\":%" PRIu32, left_out + count - shown);
}

static const char *relation_at(const reader *r, uint64_t record)
{
    return number_at(r, record, STACKSPLICE_NUMBER_ERROR_RELATION, 1) ==
                   STACKSPLICE_RELATION_CONTEXT
               ? "context"
               : "cause";
}

/* All errors behind the one at RECORD, as one list, the latest first. */
static void write_causes(reader *r, uint64_t record)
{
    uint32_t left_out = count_at(r, record, STACKSPLICE_NUMBER_ERROR_CAUSES_LEFT_OUT);
    unsigned before = r->around_count;
    const char *above = NULL; /* how an error that encloses the last one relates to it */

    ssi_write(r->to, ",\"transformed\":[");
    for (bool is_first = true;; is_first = false) {
        uint64_t interface = pointer_at(r, record, STACKSPLICE_NUMBER_ERROR_PREVIOUS);
        uint64_t previous = error_of(r, interface);
        const char *relation = relation_at(r, record);

        if (!interface)
            break;
        if (previous && is_around(r, previous)) {
            above = relation;
            left_out = 0;
            break;
        }
        if (!previous || !write_error_at(r, previous, relation, is_first)) {
            left_out = 1;
            break;
        }
        left_out = count_at(r, previous, STACKSPLICE_NUMBER_ERROR_CAUSES_LEFT_OUT);
        record = previous;
    }
    r->around_count = before;
    ssi_write_format(r->to, "],\"transformed_left_out\":%" PRIu32, left_out);
    write_or_null(r->to, "transformed_above", above);
}

/* The error with RECORD, all that belongs to it, and what is behind it, unless it has a RELATION to
   another error, which then has a list of both.  ADDRESS: of the record; 0: nothing else is known. */
static void write_error(reader *r, uint64_t address, const stacksplice_record *record,
                        const char *relation)
{
    uint64_t exception = exception_of(r, address);
    const char *message = message_of(r, address, exception), *language;
    stack s;

    read_stack(r, record, &s);
    language = language_of_owner(r, pointer_at(r, exception, STACKSPLICE_NUMBER_EXCEPTION_OWNER));
    ssi_write_format(r->to, "{\"hresult\":\"0x%08" PRIx32 "\",\"hresult_signed\":%" PRId32,
                     (uint32_t)record->hresult, (int32_t)record->hresult);
    ssi_write_member(r->to, "relation", relation);
    ssi_write_member(r->to, "message", message ? message : "");
    write_or_null(r->to, "type",
                  text_at(pointer_at(r, exception, STACKSPLICE_NUMBER_EXCEPTION_TYPE)));
    ssi_write_member(r->to, "language", language ? language : language_of_stack(&s));
    write_notes(r, address, exception);
    ssi_write_format(r->to, ",\"thread_id\":%" PRIu64, (uint64_t)record->thread_id);
    write_or_null(r->to, "reference", reference_of(r, address));
    write_stack(r, &s);
    write_nodes(r, address);
    write_members(r, exception);
    if (!relation)
        write_causes(r, address);
    ssi_write(r->to, "}");
}

/* The next of a list.  False if it cannot be read, and nothing is written; else it is among those
   that enclose what follows. */
static bool write_error_at(reader *r, uint64_t address, const char *relation, bool is_first)
{
    stacksplice_record record;

    if (r->around_count == MAX_AROUND || r->errors == MAX_ERRORS || !read_record(address, &record))
        return false;
    r->errors++;
    r->around[r->around_count++] = address;
    ssi_write(r->to, is_first ? "" : ",\n");
    write_error(r, address, &record, relation);
    return true;
}

/* ---- All of a process -------------------------------------------------------------------------*/

static const ssi_pending *pending_of(const ssi_errors *errors, int thread)
{
    for (size_t i = 0; i < errors->pending_count; i++)
        if (errors->pending[i].thread == thread)
            return &errors->pending[i];
    return NULL;
}

static bool write_pending(reader *r, const ssi_pending *pending)
{
    bool written = write_error_at(r, pending->record, NULL, true);

    r->around_count = 0;
    return written;
}

/* Add the error at RECORD of THREAD, of all of which there are copies now.  False if it cannot be
   read. */
static bool add_pending(reader *r, ssi_errors *errors, uint64_t thread, uint64_t record)
{
    ssi_pending pending = {(int)thread, r->block->self, record};
    bool written = write_pending(r, &pending);

    r->to->length = 0;
    if (written && pending_of(errors, (int)thread))
        errors->hidden = true;
    else if (written)
        (void)ssi_append(&errors->pending, &errors->pending_count, &errors->pending_room, &pending,
                         sizeof pending);
    return written;
}

/* False if its error cannot be read. */
static bool read_thread(reader *r, ssi_errors *errors, const stacksplice_entry *entry)
{
    stacksplice_anchor anchor;

    return ssi_read(entry->object, &anchor, sizeof anchor) &&
           anchor.signature == STACKSPLICE_ANCHOR_SIGNATURE &&
           anchor.version == STACKSPLICE_INSPECT_VERSION &&
           (!anchor.error || add_pending(r, errors, entry->detail, anchor.error));
}

static void read_interpreter(const reader *r, ssi_errors *errors, const stacksplice_entry *entry)
{
    ssi_interpreter interpreter = {
        .language = language_of_owner(r, entry->detail),
        .version = text_at(pointer_at(r, entry->detail, STACKSPLICE_NUMBER_OWNER_VERSION)),
        .address = entry->object,
    };

    if (interpreter.language)
        (void)ssi_append(&errors->interpreters, &errors->interpreter_count,
                         &errors->interpreter_room, &interpreter, sizeof interpreter);
}

/* False if some of it cannot be read. */
static bool read_list(reader *r, ssi_errors *errors)
{
    uint64_t at = r->block->entries;
    stacksplice_entries list;
    bool whole = true;

    for (int i = 0; at && i < MAX_LISTS; i++) {
        if (!ssi_read(at, &list, sizeof list))
            return false;
        for (size_t e = 0; e < STACKSPLICE_ENTRIES; e++) {
            if (list.entries[e].kind == STACKSPLICE_ENTRY_THREAD)
                whole &= read_thread(r, errors, &list.entries[e]);
            else if (list.entries[e].kind == STACKSPLICE_ENTRY_INTERPRETER)
                read_interpreter(r, errors, &list.entries[e]);
        }
        at = list.next;
    }
    return whole;
}

void ssi_errors_read(const ssi_blocks *blocks, ssi_errors *errors, ssi_scripts *scripts)
{
    ssi_written unread = {.length = 0};
    bool whole = true;

    for (size_t i = 0; i < blocks->count; i++) {
        ssi_block block;
        reader r = {.block = &block, .to = &unread};

        if (!read_block(blocks->addresses[i], &block)) {
            whole = false;
            continue;
        }
        (void)add_pending(&r, errors, 0, block.failed);
        whole &= read_list(&r, errors);
    }
    free(unread.bytes);
    if (errors->hidden)
        ssi_scripts_note(scripts, "the process has several copies of stacksplice: of a thread's "
                                  "errors, only that in the first copy is shown");
    if (!whole)
        ssi_scripts_note(scripts, "not all current errors of threads can be read: they are too "
                                  "many, or their memory is missing or damaged");
}

bool ssi_errors_write(const ssi_errors *errors, int thread, const ssi_describer *describer,
                      ssi_written *to)
{
    const ssi_pending *pending = pending_of(errors, thread);
    ssi_block block;
    reader r = {.block = &block, .to = to, .describer = describer};

    return pending && read_block(pending->block, &block) && write_pending(&r, pending);
}

void ssi_errors_free(ssi_errors *errors)
{
    free(errors->pending);
    free(errors->interpreters);
}
