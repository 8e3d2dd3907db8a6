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

ss_file_status ss_debug_lookup(const ss_binary *module, uint64_t offset,
                               bool (*is_enough)(const char *symbol), ss_debug_answer *answer)
{
    (void)module;
    (void)offset;
    (void)is_enough;
    (void)answer;
    return SS_FILE_READ; /* not called, as nothing is loaded */
}

void ss_debug_forget(void)
{
}

void ss_debug_close(void)
{
}
