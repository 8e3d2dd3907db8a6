#include "splice/row.h"

_Atomic(ss_cell *) ss_row_chunks[SS_POOL_CELLS / SS_CHUNK_CELLS];

void ss_row_add_chunk(uint32_t first, ss_cell *chunk)
{
    atomic_store_explicit(&ss_row_chunks[first / SS_CHUNK_CELLS], chunk, memory_order_release);
}

ss_cell *ss_row_cell(uint32_t index)
{
    ss_cell *chunk = NULL;

    if (index && index < SS_POOL_CELLS)
        chunk = atomic_load_explicit(&ss_row_chunks[index / SS_CHUNK_CELLS], memory_order_acquire);
    return chunk ? &chunk[index % SS_CHUNK_CELLS] : NULL;
}

ss_cell *ss_row_used_cell(uint32_t index)
{
    ss_cell *chunk =
        atomic_load_explicit(&ss_row_chunks[index / SS_CHUNK_CELLS], memory_order_relaxed);

    return &chunk[index % SS_CHUNK_CELLS];
}

/* Iterates over the words of a row. */
typedef struct row_cursor {
    const ss_cell *cell;
    uint32_t at;
} row_cursor;

static inline uint64_t next_word(row_cursor *c)
{
    if (c->at == SS_CELL_WORDS) {
        c->cell = ss_row_cell(atomic_load_explicit(&c->cell->next, memory_order_acquire));
        c->at = 0;
    }
    if (!c->cell) { /* the row cannot end here: a writer is reusing the cell */
        c->at = SS_CELL_WORDS - 1;
        return 0;
    }
    return atomic_load_explicit(&c->cell->row[c->at++], memory_order_acquire);
}

bool ss_row_equals(const ss_cell *first, const ss_content *content)
{
    row_cursor row = {first, 0};
    ss_content_cursor wanted;

    ss_content_begin(&wanted, content);
    for (uint32_t i = 0; i < content->words; i++)
        if (!row.cell || next_word(&row) != ss_content_next(&wanted))
            return false;
    return true;
}

typedef struct text_sink {
    char *buffer;
    size_t left, needed;
} text_sink;

/* Append the next string of ROW, which STRING describes; NULL when there is no room. */
static const char *put_string(row_cursor *row, ss_content_string string, text_sink *sink)
{
    size_t mark = string.cut ? sizeof SS_CUT_MARK - 1 : 0, keep = string.length;
    char *out = sink->buffer;
    bool fits;

    sink->needed += keep + mark + 1;
    fits = keep + mark + 1 <= sink->left;
    if (!fits) {
        mark = sizeof SS_CUT_MARK - 1;
        keep = sink->left > mark ? sink->left - mark - 1 : 0;
    }
    for (uint32_t at = 0; at < string.length; at += sizeof(uint64_t)) {
        uint64_t word = next_word(row);

        for (uint32_t i = at; i < at + sizeof word && i < string.length; i++, word >>= 8)
            if (i < sink->left)
                out[i] = (char)word;
    }
    if (sink->left <= mark)
        return NULL;
    while (!fits && keep && (out[keep] & 0xC0) == 0x80)
        keep--; /* never cut inside a character */
    memcpy(out + keep, SS_CUT_MARK, mark);
    out[keep + mark] = '\0';
    sink->buffer += keep + mark + 1;
    sink->left -= keep + mark + 1;
    return out;
}

size_t ss_row_read(const ss_cell *first, stacksplice_token_info *info, char *buffer,
                   size_t capacity)
{
    uint64_t head[SS_CONTENT_HEAD];
    row_cursor row = {first, 0};
    text_sink sink = {buffer, capacity, 0};

    for (uint32_t i = 0; i < SS_CONTENT_HEAD; i++)
        head[i] = next_word(&row);
    ss_content_info(head, info);
    for (uint32_t i = 0; i < SS_CONTENT_STRINGS; i++) {
        ss_content_string string = ss_content_string_at(head, i);

        if (string.present)
            *ss_content_member(info, i) = put_string(&row, string, &sink);
    }
    return sink.needed;
}
