/* Finds the copies of Lua in a target by the mark that its authors put into each, stripped or not.
 */
#include "lua/lua.h"

#include "base/texts.h"
#include "target/symbols.h"

#include <stdlib.h>
#include <string.h>

static const char mark[] = "$LuaVersion: Lua 5.";

/* The minor version of the Lua in BINARY; -1 if it has none. */
static int version_in(const ssi_binary *binary)
{
    const char *found = memmem(binary->bytes, binary->size, mark, sizeof mark - 1);

    if (!found || found + sizeof mark > (const char *)binary->bytes + binary->size)
        return -1;
    return found[sizeof mark - 1] - '0';
}

void ssi_lua_find(const ssi_target *target, ssi_luas *luas, ssi_scripts *scripts)
{
    for (size_t i = 0; i < target->mapping_count && luas->copy_count < SSI_MAX_LUAS; i++) {
        uint64_t end = ssi_target_binary_end(target, i);
        ssi_binary binary;
        int minor;

        if (!end || !ssi_binary_open(target, &target->mappings[i], &binary))
            continue;
        minor = version_in(&binary);
        if (ssi_lua_layout_of(minor)) {
            luas->copies[luas->copy_count++] =
                (ssi_lua){ssi_lua_layout_of(minor), target->mappings[i].start, end, binary};
            continue;
        }
        ssi_binary_close(&binary);
        if (minor >= 0 && minor <= 9)
            ssi_scripts_note(
                scripts, ssi_text_format("cannot read Lua frames of %.200s: Lua 5.%d is not known",
                                         target->mappings[i].path, minor));
    }
}
