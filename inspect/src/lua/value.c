#include "lua/value.h"

#include "base/shown.h"
#include "lua/layout.h"
#include "lua/read.h"

#include <inttypes.h>
#include <string.h>

typedef struct writing {
    const ssi_memory *memory;
    const ssi_lua_layout *layout;
    ssi_written *to;
    size_t values, text; /* so many may follow */
} writing;

/* By the number of the type. */
static const char *const names[] = {"nil",   "boolean",  "userdata", "number", "string",
                                    "table", "function", "userdata", "thread"};

static void put_value(writing *w, ssi_lua_value value, int depth);

static bool put_float(const writing *w, uint64_t bits)
{
    double value;

    memcpy(&value, &bits, sizeof value);
    ssi_write_format(w->to, "{\"float\":\"%a\"}", value);
    return true;
}

static bool put_string(writing *w, uint64_t address)
{
    static char bytes[SSI_SHOWN_CHARACTERS];
    int64_t length = ssi_lua_bytes(w->memory, w->layout, address, bytes, sizeof bytes);

    if (length < 0 || (size_t)length > w->text)
        return false;
    w->text -= (size_t)length;
    ssi_write(w->to, "{\"bytes\":");
    ssi_write_hex(w->to, bytes, (size_t)length);
    ssi_write(w->to, "}");
    return true;
}

static void put_pairs(writing *w, ssi_lua_table *table, int depth)
{
    ssi_lua_value key, value;
    int count = 0;

    while (count < SSI_SHOWN_ITEMS && ssi_lua_table_next(table, &key, &value)) {
        ssi_write(w->to, count++ ? "," : "");
        if (depth > SSI_SHOWN_DEPTH) {
            ssi_write_left_out(w->to, true);
            return;
        }
        ssi_write(w->to, "[");
        put_value(w, key, depth);
        ssi_write(w->to, ",");
        put_value(w, value, depth);
        ssi_write(w->to, "]");
    }
    if (table->is_damaged) {
        ssi_write(w->to, count ? "," : "");
        ssi_write_left_out(w->to, true);
    }
}

static bool put_table(writing *w, uint64_t address, int depth)
{
    ssi_lua_table table;

    if (!ssi_lua_table_begin(&table, w->memory, w->layout, address))
        return false;
    ssi_write(w->to, "{\"table\":[");
    put_pairs(w, &table, depth + 1);
    ssi_write(w->to, "]}");
    return true;
}

/* False if nothing was written. */
static bool put_plain(writing *w, ssi_lua_value value, int depth)
{
    switch (value.tag & ~SSI_LUA_COLLECTED) {
    case SSI_LUA_TAG_INTEGER:
        ssi_write_format(w->to, "%" PRId64, (int64_t)value.bits);
        return true;
    case SSI_LUA_TAG_FLOAT:
        return put_float(w, value.bits);
    case SSI_LUA_TAG_FALSE:
    case SSI_LUA_TAG_TRUE:
        ssi_write(w->to, value.tag == SSI_LUA_TAG_TRUE ? "true" : "false");
        return true;
    case SSI_LUA_TAG_SHORT:
    case SSI_LUA_TAG_LONG:
        return put_string(w, value.bits);
    case SSI_LUA_TAG_TABLE:
        return put_table(w, value.bits, depth);
    default:
        if (value.tag & SSI_LUA_TYPE_BITS)
            return false;
        ssi_write(w->to, "null");
        return true;
    }
}

static void put_value(writing *w, ssi_lua_value value, int depth)
{
    size_t type = value.tag & SSI_LUA_TYPE_BITS;

    if (!w->values) {
        ssi_write_left_out(w->to, false);
        return;
    }
    w->values--;
    if (!put_plain(w, value, depth))
        ssi_write_other(w->to, type < sizeof names / sizeof *names ? names[type] : "", value.bits);
}

void ssi_lua_value_write(const ssi_memory *memory, const ssi_lua_layout *layout,
                         ssi_lua_value value, ssi_written *to)
{
    writing w = {memory, layout, to, SSI_SHOWN_VALUES, SSI_SHOWN_ALL_CHARACTERS};

    put_value(&w, value, 0);
}
