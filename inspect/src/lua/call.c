#include "lua/call.h"

#include "lua/layout.h"

static bool read_status(const ssi_memory *memory, const ssi_lua_layout *layout, ssi_lua_call *c)
{
    uint32_t status = 0;

    if (!ssi_read(memory, c->address + layout->call_status, &status, layout->status_size))
        return false;
    c->is_c = (status >> layout->status_c & 1) != layout->status_c_is_lua;
    c->is_fresh = status >> layout->status_fresh & 1;
    c->is_tail = status >> layout->status_tail & 1;
    c->runs_hook = status >> layout->status_hook & 1;
    c->runs_finalizer = status >> layout->status_finalizer & 1;
    return true;
}

static bool read_base(const ssi_memory *memory, const ssi_lua_layout *layout, ssi_lua_call *c)
{
    c->base = c->function + SSI_LUA_VALUE;
    return !layout->call_base ||
           ssi_read(memory, c->address + layout->call_base, &c->base, sizeof c->base);
}

bool ssi_lua_read_call(const ssi_memory *memory, const ssi_lua_layout *layout, uint64_t address,
                       ssi_lua_call *call)
{
    *call = (ssi_lua_call){.address = address};
    return ssi_read_word(memory, address + SSI_LUA_CALL_FUNCTION, &call->function) &&
           ssi_read(memory, address + SSI_LUA_CALL_PREVIOUS, &call->previous,
                    sizeof call->previous) &&
           ssi_read(memory, address + layout->call_pc, &call->pc, sizeof call->pc) &&
           read_base(memory, layout, call) && read_status(memory, layout, call) &&
           ssi_read(memory, call->function + SSI_LUA_VALUE_TAG, &call->tag, 1);
}
