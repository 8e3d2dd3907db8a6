/* For processors that have no description yet: no native frames, and a reason. */
#include "unwind/unwind.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* nothing depends on them */

bool ss_unwind_walk(ss_unwind *walk, const void *above, uint32_t max)
{
    walk->count = walk->hidden = walk->marked_count = 0;
    walk->stack_count = 0;
    walk->end_reason = SS_UNWIND_NO_WALK;
    return true;
}

uint32_t ss_unwind_continue(ss_unwind *walk)
{
    return 0;
}

bool ss_unwind_recurring(ss_unwind *walk, const void *above, uint32_t skip, uint32_t max,
                         uintptr_t *addresses, uint32_t *count)
{
    return false;
}

void ss_unwind_recurs(ss_unwind *walk, const void *above)
{
}

bool ss_unwind_registers(const ss_unwind *walk, uint32_t frame, const uint32_t *dwarf_registers,
                         uint32_t count, uintptr_t *values)
{
    return count == 0;
}

bool ss_unwind_words(const ss_unwind *walk, uint32_t first, uint32_t count, ss_word_report report,
                     void *data)
{
    return false;
}

bool ss_unwind_register_word(const ss_unwind *walk, uint32_t frame, uint32_t dwarf_register,
                             ss_word_report report, void *data)
{
    return false;
}

uintptr_t ss_unwind_function(uintptr_t ip)
{
    return 0;
}

void ss_unwind_classify(uint32_t (*flags)(uintptr_t ip, uintptr_t function))
{
}

uint32_t ss_unwind_epoch(void)
{
    return 0;
}

void ss_unwind_trim(ss_unwind *walk, bool all)
{
}
