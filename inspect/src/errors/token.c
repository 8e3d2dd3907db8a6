/* The table is read as its users read it: a cell whose state is another one has another row. */
#include "errors/errors.h"

#include "base/base.h"

#include <stacksplice/source.h>
#include <string.h>

#define TOKEN_BASE ((uint64_t)0x5353000000000000)
#define LEFT_OUT_BIT ((uint64_t)1 << 47)
#define UNLOADED_BIT ((uint64_t)1 << 46) /* with the other one */

enum { OFFSET_BITS = 30, MODULES = (1 << 12) - 1 }; /* of code that was unloaded */
enum { STRIDE = 16, HEAD = 4, STRINGS = 6, ASYNCHRONOUS = 2, MAX_STRING = 1 << 16 };

typedef struct row {
    const ssi_block *block;
    uint64_t cell; /* its address; 0: it cannot be read */
    int32_t at;    /* the next word in it */
} row;

static int32_t number(const ssi_block *block, stacksplice_number which)
{
    return block->numbers[which];
}

/* The address of the cell INDEX, or 0. */
static uint64_t cell_at(const ssi_block *block, uint64_t index)
{
    uint64_t in_chunk = (uint64_t)number(block, STACKSPLICE_NUMBER_CHUNK_CELLS), chunk = 0;

    if (!index || index >= (uint64_t)number(block, STACKSPLICE_NUMBER_CELLS) ||
        !ssi_read_word(block->token_chunks + index / in_chunk * sizeof chunk, &chunk) || !chunk)
        return 0;
    return chunk + index % in_chunk * (uint64_t)number(block, STACKSPLICE_NUMBER_CELL_SIZE);
}

static uint64_t next_word(row *r)
{
    uint32_t next = 0;

    if (r->cell && r->at == number(r->block, STACKSPLICE_NUMBER_CELL_WORDS)) {
        (void)ssi_read(r->cell + (uint64_t)number(r->block, STACKSPLICE_NUMBER_CELL_NEXT), &next,
                       sizeof next);
        r->cell = cell_at(r->block, next);
        r->at = 0;
    }
    if (!r->cell)
        return 0;
    return ssi_word(r->cell + (uint64_t)number(r->block, STACKSPLICE_NUMBER_CELL_ROW) +
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

static void decode(row *r, ssi_frame *frame)
{
    static const struct {
        uint8_t word, shift;
    } lengths[STRINGS] = {{0, 32}, {0, 48}, {3, 0}, {3, 16}, {3, 32}, {3, 48}};
    const char **const strings[STRINGS] = {&frame->language, &frame->function,    &frame->file,
                                           &frame->reason,   &frame->interpreter, &frame->calls};
    uint64_t head[HEAD];

    for (int i = 0; i < HEAD; i++)
        head[i] = next_word(r);
    frame->kind = (uint8_t)head[0] == STACKSPLICE_FRAME_SCRIPT ? SSI_SCRIPT : SSI_GAP;
    frame->inferred = (uint8_t)(head[0] >> 8) == STACKSPLICE_TRUST_INFERRED;
    frame->traceback = (uint8_t)(head[0] >> 8) == STACKSPLICE_TRUST_TRACEBACK;
    frame->asynchronous = head[0] >> 16 & ASYNCHRONOUS;
    frame->line = (uint32_t)(head[1] >> 32);
    frame->end_line = (uint32_t)head[1];
    frame->column = (uint32_t)(head[2] >> 32);
    frame->end_column = (uint32_t)head[2];
    for (int i = 0; i < STRINGS; i++) {
        size_t stored = (uint16_t)(head[lengths[i].word] >> lengths[i].shift);

        if (stored)
            *strings[i] = next_string(r, stored - 1, head[0] >> (24 + i) & 1);
    }
}

static void read_cell(const ssi_block *block, uint64_t id, ssi_frame *frame)
{
    uint64_t cells = (uint64_t)number(block, STACKSPLICE_NUMBER_CELLS), generation = id / cells;
    uint64_t cell = cell_at(block, id % cells), state = 0;
    row r = {block, cell, 0};

    frame->reason = "frame does not belong to this process";
    if (!cell || !generation ||
        !ssi_read_word(cell + (uint64_t)number(block, STACKSPLICE_NUMBER_CELL_STATE), &state))
        return;
    if (state == (generation << 1 | 1)) {
        frame->reason = NULL;
        decode(&r, frame);
    } else if (state >> 1 >= generation) {
        frame->reason = "name of this frame evicted: too many newer code locations";
    }
    if (frame->kind == SSI_GAP && !frame->reason)
        frame->reason = "this frame cannot be read";
}

static void read_fixed(const ssi_block *block, uint64_t id, ssi_frame *frame)
{
    stacksplice_token_info info = {0};

    if (ssi_read(block->fixed_tokens + id * sizeof info, &info, sizeof info))
        frame->reason = ssi_text_at((uintptr_t)info.reason);
    frame->inferred = info.trust == STACKSPLICE_TRUST_INFERRED;
    if (!frame->reason)
        frame->reason = "this frame cannot be read";
}

/* Of nothing, too. */
static const char *text_or_null(uint64_t address)
{
    const char *text = ssi_text_at(address);

    return text && *text ? text : NULL;
}

static void read_left_out(uint64_t count, ssi_frame *frame, uint64_t *left_out)
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
static void read_unloaded(const ssi_block *block, uint64_t id, ssi_frame *frame)
{
    uint64_t module = 0, build_id = 0, which = id >> OFFSET_BITS;
    uint64_t offset = id & ((1 << OFFSET_BITS) - 1);
    const char *path;

    frame->reason = "this code was unloaded";
    if (which >= MODULES ||
        !ssi_read_word(block->unloaded_modules + which * sizeof module, &module) ||
        !ssi_read_word(module + (uint64_t)number(block, STACKSPLICE_NUMBER_MODULE_BUILD_ID),
                       &build_id))
        return;
    path = text_or_null(module + (uint64_t)number(block, STACKSPLICE_NUMBER_MODULE_PATH));
    frame->build_id = text_or_null(build_id);
    if (path && frame->build_id) {
        frame->kind = SSI_NATIVE;
        frame->reason = NULL;
        frame->module = path;
        frame->module_offset = offset;
    } else if (path) {
        frame->reason = ssi_text_format("this code was unloaded: %.300s+0x%llx", path,
                                        (unsigned long long)offset);
    }
}

ssi_frame ssi_token_frame(const ssi_block *block, uint64_t element, uint64_t *left_out)
{
    ssi_frame frame = {.kind = SSI_GAP, .language = "native", .address = element};
    uint64_t id = (element - TOKEN_BASE) / STRIDE;

    if (element >> 48 != TOKEN_BASE >> 48 || element % STRIDE != STRIDE / 2)
        frame.kind = SSI_NATIVE;
    else if (element & LEFT_OUT_BIT && element & UNLOADED_BIT)
        read_unloaded(block, (element & (UNLOADED_BIT - 1)) / STRIDE, &frame);
    else if (element & LEFT_OUT_BIT)
        read_left_out((element & (LEFT_OUT_BIT - 1)) / STRIDE, &frame, left_out);
    else if (id < (uint64_t)number(block, STACKSPLICE_NUMBER_FIXED_TOKENS))
        read_fixed(block, id, &frame);
    else
        read_cell(block, id, &frame);
    return frame;
}

ssi_frame ssi_token_look_up(const ssi_blocks *blocks, uint64_t token)
{
    ssi_frame frame = {.kind = SSI_GAP, .language = "native", .address = token};

    frame.reason = "the process has no stacksplice that can be read";
    for (size_t i = 0; i < blocks->count; i++) {
        ssi_block block;
        uint64_t left_out = 0;

        if (ssi_block_read(blocks->addresses[i], &block))
            frame = ssi_token_frame(&block, token, &left_out);
        if (frame.kind == SSI_SCRIPT)
            break;
    }
    return frame;
}
