/*
 * The interpreter's loop keeps its place in a register, and writes it to memory only before what
 * may call or fail.  Of the registers that calls keep, some point into the function's code: at the
 * next instruction, at the one that runs, or where it jumps to.  Often the instruction itself is in
 * a register, too, and says which.
 */
#include "lua/running.h"

#include "lua/layout.h"
#include "lua/read.h"

enum { INSTRUCTION = 4, OPERATIONS = 128 };

/* Whether a register has the instruction at ADDRESS.  One without operands is any small number. */
static bool is_held(const ssi_target *target, const ssi_thread *thread, uint64_t address)
{
    uint32_t instruction;

    if (!ssi_read(&target->memory, address, &instruction, sizeof instruction) ||
        instruction < OPERATIONS)
        return false;
    for (size_t i = 0; i < target->machine->registers; i++)
        if ((uint32_t)thread->registers[i] == instruction)
            return true;
    return false;
}

void ssi_lua_find_pc(const ssi_target *target, const ssi_lua_layout *layout,
                     const ssi_thread *thread, ssi_lua_call *call)
{
    const ssi_memory *memory = &target->memory;
    const ssi_machine *machine = target->machine;
    uint64_t proto =
        ssi_lua_word(memory, ssi_lua_word(memory, call->function) + SSI_LUA_CLOSURE_PROTO);
    uint64_t code = ssi_lua_word(memory, proto + layout->proto_code), last = 0;
    uint64_t size =
        (uint32_t)ssi_lua_number(memory, proto + SSI_LUA_PROTO_CODE_COUNT) * (uint64_t)INSTRUCTION;

    for (size_t i = 0; i < machine->saved_count; i++) {
        uint64_t value = thread->registers[machine->saved[i]];

        if (!code || value < code || value - code > size || value % INSTRUCTION)
            continue;
        if (value > code && is_held(target, thread, value - INSTRUCTION)) {
            call->pc = value;
            return;
        }
        if (is_held(target, thread, value)) {
            call->pc = value + INSTRUCTION;
            return;
        }
        if (value > last)
            last = value;
    }
    if (last > code)
        call->pc = last;
}
