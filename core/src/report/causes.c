#include "report/report.h"

void ss_causes_begin(ss_causes *causes, IUnknown *error)
{
    causes->seen[0] = error;
    causes->count = 1;
    causes->cut = causes->circle = false;
}

IUnknown *ss_causes_next(ss_causes *causes)
{
    IUnknown *next = ss_error_previous(causes->seen[causes->count - 1]);

    for (uint32_t i = 0; next && i < causes->count; i++) {
        if (causes->seen[i] == next) {
            causes->circle = true;
            return NULL;
        }
    }
    if (next && causes->count == SS_COUNT_OF(causes->seen)) {
        causes->cut = true;
        return NULL;
    }
    if (next)
        causes->seen[causes->count++] = next;
    return next;
}
