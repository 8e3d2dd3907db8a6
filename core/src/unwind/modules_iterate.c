/* Finding a module where the C library has nothing faster. */
#include "unwind/modules.h"

bool ss_module_find(uintptr_t address, ss_module *module)
{
    return ss_module_find_by_iteration(address, module);
}
