#include "base/platform.h"

#include "com/iid_list.h"
#include <stacksplice/source.h>

#define IID_DEFINE(name, ...) const IID name = __VA_ARGS__;
STACKSPLICE_IID_LIST(IID_DEFINE)

const IID stacksplice_IID_IScriptException = {
    0xd886a545, 0x9c6c, 0x47c2, {0xb8, 0x9d, 0x6f, 0x52, 0xb7, 0x98, 0x66, 0x10}};
const IID stacksplice_IID_IScriptErrorInfo = {
    0x4d37ed9c, 0x890a, 0x4bc8, {0x9b, 0x55, 0x51, 0x41, 0x94, 0xfb, 0x63, 0x09}};
