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

ss_file_status ss_debug_lookup_file(const char *path, const char *build_id, uint64_t offset,
                                    ss_debug_answer *answer)
{
    (void)path;
    (void)build_id;
    (void)offset;
    (void)answer;
    return SS_FILE_READ; /* not called, as nothing is loaded */
}

void ss_debug_forget_files(void)
{
}

void ss_debug_close(void)
{
}
