#include "unwind/modules.h"
#include "unwind/rule_cache.h"
#include "unwind/walk.h"

static bool module_segment(const void *data, uintptr_t address, ss_bytes *bytes)
{
    return ss_module_segment(data, address, 0, &bytes->low, &bytes->high);
}

ss_module_answer ss_module_code(uintptr_t address, const uint8_t **low)
{
    ss_module module;
    ss_module_answer answer = ss_module_find(address, &module);
    const uint8_t *high;

    if (answer == SS_MODULE_FOUND && !ss_module_segment(&module, address, PF_X, low, &high))
        return SS_MODULE_NONE;
    return answer;
}

ss_verdict ss_find_fde(uintptr_t pc, ss_fde *fde)
{
    ss_module module;
    ss_eh_frame section = {{NULL, NULL}, module_segment, &module};
    ss_module_answer answer = ss_module_find(pc, &module);
    ss_bytes segment;

    if (answer == SS_MODULE_UNKNOWN)
        return SS_STEP_UNASKED;
    if (answer == SS_MODULE_NONE || !module.eh_frame_hdr ||
        !module_segment(&module, (uintptr_t)module.eh_frame_hdr, &segment))
        return SS_STEP_NO_DATA;
    section.header.low = module.eh_frame_hdr;
    section.header.high = module.eh_frame_hdr + module.eh_frame_hdr_size;
    if (section.header.high > segment.high)
        section.header.high = segment.high;
    return ss_eh_frame_find(&section, pc, fde) ? SS_STEP_ON : SS_STEP_NO_DATA;
}

static SS_COLD ss_verdict learn_rule(uintptr_t pc, uint64_t generation, ss_rule *rule)
{
    ss_fde fde;
    ss_cfi_row row;
    ss_verdict found = ss_find_fde(pc, &fde);

    if (found != SS_STEP_ON)
        return found;
    if (!ss_cfi_row_at(&fde, pc, &row))
        return SS_STEP_BROKEN;
    *rule = ss_rule_from_row(&fde, pc, &row);
    ss_rule_cache_put(pc, generation, rule);
    return SS_STEP_ON;
}

ss_verdict ss_find_rule(uintptr_t pc, uint64_t generation, ss_rule *rule)
{
    if (SS_LIKELY(ss_rule_cache_get(pc, generation, rule)))
        return SS_STEP_ON;
    return learn_rule(pc, generation, rule);
}

SS_COLD bool ss_ends_stack(uintptr_t ip)
{
    const uint8_t *low;
    ss_fde fde;

    return ss_find_fde(ip, &fde) == SS_STEP_ON && fde.start == ip &&
           ss_module_code(ip, &low) == SS_MODULE_FOUND &&
           !ss_arch_is_after_call(low, (const uint8_t *)ip);
}

uintptr_t ss_unwind_function(uintptr_t ip)
{
    ss_fde fde;

    return ip && ss_find_fde(ip - 1, &fde) == SS_STEP_ON ? fde.start : 0;
}
