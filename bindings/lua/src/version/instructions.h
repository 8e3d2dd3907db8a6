/*
 * What we need of an instruction of Lua's machine: where its registers stand, and which ones set their
 * register A, by their numbers.
 */
#ifndef SS_LUA_INSTRUCTIONS_H
#define SS_LUA_INSTRUCTIONS_H

#include <stdint.h>

#include "version/compat.h"

/* LuaJIT's instructions copy from where 5.4's do; the numbers of its operations change. */
enum {
    SS_LUA_AT_B = LUA_VERSION_NUM < 504 && !SS_LUA_JIT ? 23 : 16,
    SS_LUA_AT_C = LUA_VERSION_NUM < 504 ? 14 : 24,
    SS_LUA_BITS_A = 0xff,
    SS_LUA_BITS_BC = LUA_VERSION_NUM < 504 ? 0x1ff : 0xff,
    SS_LUA_OPERATION = LUA_VERSION_NUM < 504 ? 0x3f : 0x7f,
    SS_LUA_MOVE = 0,
    SS_LUA_CLOSURE = LUA_VERSION_NUM == 501   ? 36
                     : LUA_VERSION_NUM == 502 ? 37
                     : LUA_VERSION_NUM == 503 ? 44
                                              : 79,
};
#if LUA_VERSION_NUM == 501
#define SS_LUA_SETS_A             \
    {                             \
        UINT64_C(0x31b83ffc7f), 0 \
    }
#elif LUA_VERSION_NUM == 502
#define SS_LUA_SETS_A             \
    {                             \
        UINT64_C(0x6b707ff8ff), 0 \
    }
#elif LUA_VERSION_NUM == 503
#define SS_LUA_SETS_A               \
    {                               \
        UINT64_C(0x35b83ffff8ff), 0 \
    }
#else
#define SS_LUA_SETS_A                                 \
    {                                                 \
        UINT64_C(0x3e3ffffff87bff), UINT64_C(0x3a638) \
    }
#endif

#endif
