#include "lua/variables.h"

#include "lua/layout.h"
#include "lua/read.h"

enum { MAX_VARIABLES = 1 << 16 };

typedef struct row {
    uint64_t name;
    int32_t begin, end; /* instructions */
} row;

ssi_lua_variables ssi_lua_variables_at(const ssi_memory *memory, const ssi_lua_layout *layout,
                                       uint64_t proto, int32_t pc)
{
    ssi_lua_variables found = {.memory = memory,
                               .rows = ssi_lua_word(memory, proto + layout->proto_variables),
                               .count =
                                   ssi_lua_number(memory, proto + SSI_LUA_PROTO_VARIABLE_COUNT),
                               .pc = pc};

    if (found.count > MAX_VARIABLES)
        found.count = MAX_VARIABLES;
    return found;
}

uint64_t ssi_lua_next_variable(ssi_lua_variables *variables)
{
    row r;

    while (variables->at < variables->count &&
           ssi_read(variables->memory, variables->rows + (uint64_t)variables->at * sizeof r, &r,
                    sizeof r) &&
           r.begin <= variables->pc) {
        variables->at++;
        if (variables->pc < r.end)
            return r.name;
    }
    return 0;
}
