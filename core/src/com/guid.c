#include "base/platform.h"

#include "com/iid_list.h"
#include <stacksplice/script.h>

#define IID_DEFINE(name, ...) const IID name = __VA_ARGS__;
STACKSPLICE_IID_LIST(IID_DEFINE)

const IID stacksplice_IID_IScriptException = {
    0x0be5d1c7, 0x43f9, 0x4a16, {0x8e, 0x2d, 0x7c, 0x90, 0x5f, 0x3a, 0xb8, 0x61}};
const IID stacksplice_IID_IScriptErrorInfo = {
    0x4d37ed9c, 0x890a, 0x4bc8, {0x9b, 0x55, 0x51, 0x41, 0x94, 0xfb, 0x63, 0x09}};
