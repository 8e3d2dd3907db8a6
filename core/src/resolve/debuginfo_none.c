/* Built without debug information: names come from the dynamic symbol table alone. */
#include "resolve/debuginfo.h"

bool ss_debug_load(void)
{
    return false;
}

const char *ss_debug_missing(void)
{
    return "stacksplice was built without libdw";
}

void ss_debug_refresh(uint64_t generation)
{
    (void)generation;
}

void ss_debug_make_room(void)
{
}

void ss_debug_lookup(const ss_binary *module, uintptr_t address,
                     bool (*is_enough)(const char *symbol), ss_debug_answer *answer)
{
    (void)module;
    (void)address;
    (void)is_enough;
    (void)answer;
}

void ss_debug_close(void)
{
}
