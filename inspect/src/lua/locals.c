#include "lua/private.h"

#include "base/base.h"
#include "shared/value_text.h"

#include <string.h>

/* ---- Which variables are in scope -------------------------------------------------------------*/

enum { MAX_VARIABLES = 1 << 16 };

typedef struct row {
    uint64_t name;
    int32_t begin, end; /* instructions */
} row;

ssi_lua_variables ssi_lua_variables_at(const ssi_lua_layout *layout, uint64_t proto, int32_t pc)
{
    ssi_lua_variables found = {.rows = ssi_word(proto + layout->proto_variables),
                               .count = ssi_lua_number(proto + SSI_LUA_PROTO_VARIABLE_COUNT),
                               .pc = pc};

    if (found.count > MAX_VARIABLES)
        found.count = MAX_VARIABLES;
    return found;
}

uint64_t ssi_lua_next_variable(ssi_lua_variables *variables)
{
    row r;

    while (variables->at < variables->count &&
           ssi_read(variables->rows + (uint64_t)variables->at * sizeof r, &r, sizeof r) &&
           r.begin <= variables->pc) {
        variables->at++;
        if (variables->pc < r.end)
            return r.name;
    }
    return 0;
}

/* ---- Their values -----------------------------------------------------------------------------*/

enum { MAX_REGISTERS = 255, INSTRUCTION = 4 };

/* A variable in scope: a later one of the same name hides it. */
typedef struct variable {
    const char *name;
    int place;
} variable;

static void remember(variable *found, int *count, const char *name, int place)
{
    int i = 0;

    while (i < *count && strcmp(found[i].name, name) != 0)
        i++;
    if (i == SSI_SHOWN_VARIABLES)
        return;
    found[i] = (variable){name, place};
    *count += i == *count;
}

/* Those in scope in CALL; returns how many. */
static int find(const ssi_lua_layout *layout, const ssi_lua_call *call, variable *found)
{
    uint64_t proto = ssi_word(ssi_word(call->function) + SSI_LUA_CLOSURE_PROTO);
    uint64_t code = ssi_word(proto + layout->proto_code), name;
    int count = 0;
    ssi_lua_variables all;

    if (!code || call->pc <= code || (call->pc - code) / INSTRUCTION > INT32_MAX)
        return 0;
    all = ssi_lua_variables_at(layout, proto, (int32_t)((call->pc - code) / INSTRUCTION) - 1);
    for (int place = 1; place <= MAX_REGISTERS && (name = ssi_lua_next_variable(&all)); place++) {
        const char *text = ssi_lua_text(layout, name);

        if (text && ss_value_is_lua_name(text, strlen(text))) /* Lua's own are in parentheses */
            remember(found, &count, text, place);
    }
    return count;
}

void ssi_lua_locals(const ssi_lua_layout *layout, const ssi_lua_call *call, ssi_written *to)
{
    variable found[SSI_SHOWN_VARIABLES];
    int count = find(layout, call, found), shown = 0;

    ssi_write(to, "{");
    for (int i = 0; i < count; i++) {
        uint64_t place = call->base + (uint64_t)(found[i].place - 1) * SSI_LUA_VALUE;
        ssi_lua_value value;

        if (!ssi_lua_read_value(layout, place, place + SSI_LUA_VALUE_TAG, &value))
            continue;
        ssi_write(to, shown++ ? ",\"" : "\"");
        ssi_write(to, found[i].name);
        ssi_write(to, "\":");
        ssi_lua_value_write(layout, value, to);
    }
    ssi_write(to, "}");
}
