#include "lua/read.h"

#include "base/texts.h"
#include "lua/layout.h"

enum { MAX_TEXT = 1024 };

uint64_t ssi_lua_word(const ssi_memory *memory, uint64_t address)
{
    uint64_t value = 0;

    return ssi_read_word(memory, address, &value) ? value : 0;
}

int32_t ssi_lua_number(const ssi_memory *memory, uint64_t address)
{
    int32_t value = 0;

    return ssi_read(memory, address, &value, sizeof value) ? value : 0;
}

int64_t ssi_lua_bytes(const ssi_memory *memory, const ssi_lua_layout *layout, uint64_t address,
                      char *out, size_t size)
{
    uint8_t type = 0, length = 0;
    uint64_t data = address + SSI_LUA_TEXT_DATA, whole;

    if (!address || !ssi_read(memory, address + SSI_LUA_TYPE, &type, 1) ||
        !ssi_read(memory, address + SSI_LUA_TEXT_SHORT_LENGTH, &length, 1))
        return -1;
    whole = length;
    if (type != SSI_LUA_TAG_SHORT) {
        whole = ssi_lua_word(memory, address + SSI_LUA_TEXT_LONG_LENGTH);
        data = layout->long_text_pointer ? ssi_lua_word(memory, data) : data;
    }
    if (whole < size)
        size = (size_t)whole;
    return data && ssi_read(memory, data, out, size) ? (int64_t)size : -1;
}

const char *ssi_lua_text(const ssi_memory *memory, const ssi_lua_layout *layout, uint64_t address)
{
    char bytes[MAX_TEXT];
    int64_t length = ssi_lua_bytes(memory, layout, address, bytes, sizeof bytes);

    return length < 0 ? NULL : ssi_text(bytes, (size_t)length);
}

bool ssi_lua_read_value(const ssi_memory *memory, const ssi_lua_layout *layout, uint64_t bits,
                        uint64_t tag, ssi_lua_value *out)
{
    if (!ssi_read(memory, bits, &out->bits, sizeof out->bits) ||
        !ssi_read(memory, tag, &out->tag, 1))
        return false;
    if (layout->old_tags && (out->tag == SSI_LUA_TAG_INTEGER || out->tag == SSI_LUA_TAG_FLOAT))
        out->tag ^= SSI_LUA_TAG_INTEGER ^ SSI_LUA_TAG_FLOAT;
    if (layout->old_tags && out->tag == SSI_LUA_TAG_FALSE && (int32_t)out->bits)
        out->tag = SSI_LUA_TAG_TRUE;
    return true;
}
