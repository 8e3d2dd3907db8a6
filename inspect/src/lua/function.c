#include "lua/function.h"

#include "base/texts.h"
#include "lua/layout.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_SOURCE = 1024, MAX_LINES = 1 << 22, INSTRUCTION = 4, STORED_WHOLE = -128 };

static uint64_t word(const ssi_memory *memory, uint64_t address)
{
    uint64_t value = 0;

    return ssi_read_word(memory, address, &value) ? value : 0;
}

static int32_t number(const ssi_memory *memory, uint64_t address)
{
    int32_t value = 0;

    return ssi_read(memory, address, &value, sizeof value) ? value : 0;
}

/* The text at ADDRESS, cut to MAX_SOURCE bytes; NULL if it cannot be read. */
static const char *text_at(const ssi_memory *memory, unsigned minor, uint64_t address)
{
    char bytes[MAX_SOURCE];
    uint8_t type = 0, length = 0;
    uint64_t data = address + SSI_LUA_TEXT_DATA, size;

    if (!address || !ssi_read(memory, address + SSI_LUA_TYPE, &type, 1) ||
        !ssi_read(memory, address + SSI_LUA_TEXT_SHORT_LENGTH, &length, 1))
        return NULL;
    size = length;
    if (type != SSI_LUA_TEXT_SHORT) {
        size = word(memory, address + SSI_LUA_TEXT_LONG_LENGTH);
        data = minor >= 5 ? word(memory, data) : data;
    }
    if (size > sizeof bytes)
        size = sizeof bytes;
    return data && ssi_read(memory, data, bytes, (size_t)size) ? ssi_text(bytes, (size_t)size)
                                                               : NULL;
}

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
static int32_t known_line(const ssi_memory *memory, uint64_t proto, int32_t pc, int32_t *base)
{
    int32_t line = number(memory, proto + SSI_LUA_PROTO_LINE), row[2];
    int32_t low = 0, high = number(memory, proto + SSI_LUA_PROTO_KNOWN_COUNT);
    uint64_t rows = word(memory, proto + SSI_LUA_PROTO_KNOWN);

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

/* The line of instruction PC: each has its difference to the one before. */
static uint32_t line_of(const ssi_memory *memory, uint64_t proto, int32_t pc)
{
    uint64_t lines = word(memory, proto + SSI_LUA_PROTO_LINES);
    int32_t count = number(memory, proto + SSI_LUA_PROTO_LINE_COUNT), at, line;

    if (!lines || pc < 0 || pc >= count || count > MAX_LINES)
        return 0;
    line = known_line(memory, proto, pc, &at);
    while (at++ < pc) {
        int8_t difference;

        if (!ssi_read(memory, lines + (uint64_t)at, &difference, 1) || difference == STORED_WHOLE)
            return 0;
        line += difference;
    }
    return line > 0 ? (uint32_t)line : 0;
}

ssi_frame ssi_lua_frame(const ssi_memory *memory, unsigned minor, uint64_t call_info,
                        uint64_t function)
{
    uint64_t proto = word(memory, function + SSI_LUA_CLOSURE_PROTO);
    uint64_t pc = word(memory, call_info + SSI_LUA_CALL_PC);
    uint64_t code = word(memory, proto + SSI_LUA_PROTO_CODE);
    int32_t defined = number(memory, proto + SSI_LUA_PROTO_LINE);
    const char *source =
        shown_source(text_at(memory, minor, word(memory, proto + SSI_LUA_PROTO_SOURCE)));
    ssi_frame frame = {.kind = SSI_SCRIPT,
                       .inferred = true,
                       .language = "lua",
                       .address = pc,
                       .file = source,
                       .function = "main chunk"};

    if (defined)
        frame.function = ssi_text_format("function <%s:%d>", source ? source : "?", (int)defined);
    if (pc > code && pc - code <= (uint64_t)MAX_LINES * INSTRUCTION)
        frame.line = line_of(memory, proto, (int32_t)((pc - code) / INSTRUCTION) - 1);
    return frame;
}
