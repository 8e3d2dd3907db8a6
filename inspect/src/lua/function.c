#include "lua/function.h"

#include "base/texts.h"
#include "lua/layout.h"
#include "lua/read.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_LINES = 1 << 22, INSTRUCTION = 4, STORED_WHOLE = -128 };

/* The name that Lua itself shows for a chunk: of a file, as its host named it, or its first line.
 */
static const char *shown_source(const char *source)
{
    if (!source)
        return NULL;
    if (*source == '@' || *source == '=')
        return ssi_text(source + 1, strlen(source + 1));
    return ssi_text_format("[string \"%.*s%s\"]", (int)strcspn(source, "\n"), source,
                           strchr(source, '\n') ? "..." : "");
}

/* The last line that is stored whole for an instruction up to PC; *BASE is that instruction. */
static int32_t known_line(const ssi_memory *memory, const ssi_lua_layout *layout, uint64_t proto,
                          int32_t pc, int32_t *base)
{
    int32_t line = ssi_lua_number(memory, proto + layout->proto_line), row[2];
    int32_t low = 0, high = ssi_lua_number(memory, proto + SSI_LUA_PROTO_KNOWN_COUNT);
    uint64_t rows = ssi_lua_word(memory, proto + SSI_LUA_PROTO_KNOWN);

    *base = -1;
    if (high > MAX_LINES)
        return line;
    while (low < high) {
        int32_t middle = low + (high - low) / 2;

        if (!ssi_read(memory, rows + (uint64_t)middle * sizeof row, row, sizeof row))
            return line;
        if (row[0] <= pc) {
            *base = row[0];
            line = row[1];
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return line;
}

/* The line of instruction PC: each has its line, or the difference to the one before. */
static uint32_t line_of(const ssi_memory *memory, const ssi_lua_layout *layout, uint64_t proto,
                        int32_t pc)
{
    uint64_t lines = ssi_lua_word(memory, proto + layout->proto_lines);
    int32_t count = ssi_lua_number(memory, proto + SSI_LUA_PROTO_LINE_COUNT), at, line;

    if (!lines || pc < 0 || pc >= count || count > MAX_LINES)
        return 0;
    if (layout->whole_lines)
        return (uint32_t)ssi_lua_number(memory, lines + (uint64_t)pc * sizeof line);
    line = known_line(memory, layout, proto, pc, &at);
    while (at++ < pc) {
        int8_t difference;

        if (!ssi_read(memory, lines + (uint64_t)at, &difference, 1) || difference == STORED_WHOLE)
            return 0;
        line += difference;
    }
    return line > 0 ? (uint32_t)line : 0;
}

ssi_frame ssi_lua_frame(const ssi_memory *memory, const ssi_lua_layout *layout,
                        const ssi_lua_call *call, const char *name)
{
    uint64_t function = ssi_lua_word(memory, call->function), pc = call->pc;
    uint64_t proto = ssi_lua_word(memory, function + SSI_LUA_CLOSURE_PROTO);
    uint64_t code = ssi_lua_word(memory, proto + layout->proto_code);
    int32_t defined = ssi_lua_number(memory, proto + layout->proto_line);
    const char *source = shown_source(
        ssi_lua_text(memory, layout, ssi_lua_word(memory, proto + layout->proto_source)));
    ssi_frame frame = {.kind = SSI_SCRIPT,
                       .inferred = true,
                       .language = "lua",
                       .address = pc,
                       .file = source,
                       .function = name ? name : "main chunk"};

    if (!name && defined)
        frame.function = ssi_text_format("function <%s:%d>", source ? source : "?", (int)defined);
    if (pc > code && pc - code <= (uint64_t)MAX_LINES * INSTRUCTION)
        frame.line = line_of(memory, layout, proto, (int32_t)((pc - code) / INSTRUCTION) - 1);
    return frame;
}
