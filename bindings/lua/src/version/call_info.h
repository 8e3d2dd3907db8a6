/*
 * What we read of an activation (its CallInfo) and of a function.  shared/lua.h has what is the same
 * in all versions; a test compares the rest, here, with its rows.  Calibration compares both with
 * what lua_getinfo says of this copy of Lua before anything reads by them.
 */
#ifndef SS_LUA_CALL_INFO_H
#define SS_LUA_CALL_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include "version/compat.h"
#include "shared/lua.h"

#if SS_LUA_JIT
#include "version/jit.h"

/* A tail call of LuaJIT leaves nothing, and its states have no words of a handler and of hooks. */
enum { SS_LUA_TAIL_CALLED = 0, SS_LUA_AT_REGISTER = 0, SS_LUA_AT_HANDLER = 0, SS_LUA_AT_HOOKS = 0 };

static inline uintptr_t ss_lua_registers_of(uintptr_t ci)
{
    (void)ci;
    return 0;
}

static inline uintptr_t ss_lua_registers_end_of(uintptr_t ci)
{
    (void)ci;
    return 0;
}

static inline uint32_t ss_lua_status_of(uintptr_t ci)
{
    (void)ci;
    return 0;
}

static inline uintptr_t ss_lua_slot_of(uintptr_t ci)
{
    return ss_lua_frame_of(ci);
}
#else
/* An activation has the address of its registers until Lua 5.3; later they follow its function.  The
   status is two halves of a word from 5.2 to 5.4.  AT_REGISTER is the bit of an instruction at which
   the number of its first register begins. */
enum {
#if LUA_VERSION_NUM == 501
    SS_LUA_AT_FUNCTION = 8,
    SS_LUA_AT_TOP = 16,
    SS_LUA_AT_REGISTERS = 0,
    SS_LUA_BEFORE_REGISTERS = 0,
    SS_LUA_AT_PC = 24,
    SS_LUA_AT_STATUS = 36, /* how many tail calls a function in Lua has lost */
    SS_LUA_TAIL_CALLED = INT32_MAX,
    SS_LUA_AT_REGISTER = 6,
    SS_LUA_AT_HANDLER = 176,
    SS_LUA_AT_CALL = 40, /* the running activation, of a state; and the first register of that */
    SS_LUA_AT_BASE = 24,
    SS_LUA_AT_HOOKS = 101,
    SS_LUA_STATE_SIZE = 184, /* at least */
    SS_LUA_AT_PROTO = 32,    /* of a function in Lua; the others of its prototype */
    SS_LUA_AT_CODE = 24,
    SS_LUA_AT_CODE_COUNT = 80,
    SS_LUA_AT_VARIABLES = 48,
    SS_LUA_AT_VARIABLE_COUNT = 92,
#else
    SS_LUA_AT_FUNCTION = SSI_LUA_CALL_FUNCTION,
    SS_LUA_AT_TOP = SSI_LUA_CALL_TOP,
    SS_LUA_AT_CALL = 32, /* the running activation, of a state */
#if LUA_VERSION_NUM == 502
    SS_LUA_AT_REGISTERS = 48,
    SS_LUA_BEFORE_REGISTERS = 0,
    SS_LUA_AT_PC = 56,
    SS_LUA_AT_CONTINUATION = SS_LUA_AT_PC, /* of a function in C */
    SS_LUA_AT_STATUS = 32,
    SS_LUA_STATUS_BITS = 0xffffff,
    SS_LUA_TAIL_CALLED = 1 << 22,
    SS_LUA_AT_REGISTER = 6,
    SS_LUA_AT_HANDLER = 120,
    SS_LUA_AT_HOOKS = 73,
    SS_LUA_STATE_SIZE = 128,
    SS_LUA_AT_PROTO = 24,
    SS_LUA_AT_CODE = 24,
    SS_LUA_AT_CODE_COUNT = 88,
    SS_LUA_AT_VARIABLES = 48,
    SS_LUA_AT_VARIABLE_COUNT = 100,
#elif LUA_VERSION_NUM == 503
    SS_LUA_AT_REGISTERS = 32,
    SS_LUA_BEFORE_REGISTERS = 0,
    SS_LUA_AT_PC = 40,
    SS_LUA_AT_STATUS = 64,
    SS_LUA_STATUS_BITS = -1,
    SS_LUA_TAIL_CALLED = 1 << 21,
    SS_LUA_AT_REGISTER = 6,
    SS_LUA_AT_HANDLER = 176,
    SS_LUA_AT_HOOKS = 204,
    SS_LUA_STATE_SIZE = 208,
    SS_LUA_AT_PROTO = 24,
    SS_LUA_AT_CODE = 56,
    SS_LUA_AT_CODE_COUNT = 24,
    SS_LUA_AT_VARIABLES = 80,
    SS_LUA_AT_VARIABLE_COUNT = 36,
#else
    SS_LUA_AT_REGISTERS = SSI_LUA_CALL_FUNCTION,
    SS_LUA_BEFORE_REGISTERS = SSI_LUA_VALUE,
    SS_LUA_AT_PC = 32,
    SS_LUA_AT_STATUS = 60,
    SS_LUA_STATUS_BITS = -1,
    SS_LUA_TAIL_CALLED = LUA_VERSION_NUM < 505 ? 1 << 21 : 1 << 22,
    SS_LUA_AT_REGISTER = 7,
    SS_LUA_AT_HANDLER = 168,
    SS_LUA_AT_HOOKS = LUA_VERSION_NUM < 505 ? 11 : 10,
    SS_LUA_AT_LUA_STATUS = LUA_VERSION_NUM < 505 ? 10 : 11, /* what lua_status returns */
    SS_LUA_STATE_SIZE = 176,
    SS_LUA_AT_PROTO = 24,
    SS_LUA_AT_CODE = 64,
    SS_LUA_AT_CODE_COUNT = 24,
    SS_LUA_AT_VARIABLES = 104,
    SS_LUA_AT_VARIABLE_COUNT = 36,
#endif
#endif
};

/* One word of memory that is known to be readable. */
static inline uintptr_t ss_lua_word(uintptr_t address)
{
    return *(const uintptr_t *)address;
}

/*
 * What lua_Debug calls an activation.  Since 5.2 it is the activation's address.  In 5.1 all of a
 * coroutine are in one array, which Lua moves when it runs, and this is the index; 0 stands for one
 * that a tail call has dropped, for which lua_getstack has a level.
 */
#if LUA_VERSION_NUM == 501
enum {
    SS_LUA_CALL_SIZE = 40,
    SS_LUA_AT_CALLS = 80,
    SS_LUA_IS_C = 10,
    SS_LUA_CLOSURE_FUNCTION = 32
};

static inline uintptr_t ss_lua_ci_address(lua_State *L, ss_lua_ci ci)
{
    return ci ? ss_lua_word((uintptr_t)L + SS_LUA_AT_CALLS) + (uintptr_t)ci * SS_LUA_CALL_SIZE : 0;
}

static inline ss_lua_ci ss_lua_ci_of(lua_State *L, uintptr_t address)
{
    return (ss_lua_ci)((address - ss_lua_word((uintptr_t)L + SS_LUA_AT_CALLS)) / SS_LUA_CALL_SIZE);
}
#else
static inline uintptr_t ss_lua_ci_address(lua_State *L, ss_lua_ci ci)
{
    (void)L;
    return (uintptr_t)ci;
}

static inline ss_lua_ci ss_lua_ci_of(lua_State *L, uintptr_t address)
{
    (void)L;
    return (ss_lua_ci)address;
}
#endif

/* The slot of its function. */
static inline uintptr_t ss_lua_slot_of(uintptr_t ci)
{
    return ss_lua_word(ci + SS_LUA_AT_FUNCTION);
}

/* What lua_topointer says of that; the tag. */
static inline uintptr_t ss_lua_function_of(uintptr_t ci)
{
    return ss_lua_word(ss_lua_slot_of(ci));
}

static inline uint8_t ss_lua_tag_of(uintptr_t ci)
{
    return *(const uint8_t *)(ss_lua_slot_of(ci) + SSI_LUA_VALUE_TAG);
}

#if LUA_VERSION_NUM == 501
static inline bool ss_lua_is_in_lua(uintptr_t ci)
{
    return ss_lua_tag_of(ci) == LUA_TFUNCTION &&
           !*(const uint8_t *)(ss_lua_function_of(ci) + SS_LUA_IS_C);
}

/* The base level has no function: nil stands in its slot. */
static inline uintptr_t ss_lua_previous(uintptr_t ci)
{
    return ss_lua_tag_of(ci) == LUA_TNIL ? 0 : ci - SS_LUA_CALL_SIZE;
}
#else
static inline bool ss_lua_is_in_lua(uintptr_t ci)
{
    return ss_lua_tag_of(ci) == SSI_LUA_TAG_LUA;
}

/* The activation that CI was called by, or the coroutine's base level; 0 for that. */
static inline uintptr_t ss_lua_previous(uintptr_t ci)
{
    return ss_lua_word(ci + SSI_LUA_CALL_PREVIOUS);
}
#endif

/* Of a function in Lua: a pointer into the code of its prototype, where it goes on. */
static inline uintptr_t ss_lua_pc_of(uintptr_t ci)
{
    return ss_lua_word(ci + SS_LUA_AT_PC);
}

/* Its first register. */
static inline uintptr_t ss_lua_registers_of(uintptr_t ci)
{
    return ss_lua_word(ci + SS_LUA_AT_REGISTERS) + SS_LUA_BEFORE_REGISTERS;
}

/* The end of all its registers, used or not. */
static inline uintptr_t ss_lua_registers_end_of(uintptr_t ci)
{
    return ss_lua_word(ci + SS_LUA_AT_TOP);
}

/* Wanted results and every flag that lua_getinfo reads.  Each bit but the tail call's may differ where
   that one is not read. */
static inline uint32_t ss_lua_status_of(uintptr_t ci)
{
    uint32_t status = *(const uint32_t *)(ci + SS_LUA_AT_STATUS);

#if LUA_VERSION_NUM == 501
    return ss_lua_is_in_lua(ci) ? status : 0;
#else
    return status & (uint32_t)SS_LUA_STATUS_BITS;
#endif
}

/* Whether the value at SLOT is a C function without upvalues. */
static inline bool ss_lua_is_plain_c(uintptr_t slot)
{
    uint8_t tag = *(const uint8_t *)(slot + SSI_LUA_VALUE_TAG);

#if LUA_VERSION_NUM == 501
    uintptr_t kind = tag == LUA_TFUNCTION ? ss_lua_word(slot) + SS_LUA_IS_C : 0;

    return kind && *(const uint8_t *)kind && !*(const uint8_t *)(kind + 1);
#else
    return tag == SSI_LUA_TAG_LIGHT;
#endif
}

/* The lua_CFunction of the function in C at SLOT; 0 of any other value. */
static inline uintptr_t ss_lua_c_function_at(uintptr_t slot)
{
    uintptr_t function = ss_lua_word(slot);
    uint8_t tag = *(const uint8_t *)(slot + SSI_LUA_VALUE_TAG);

#if LUA_VERSION_NUM == 501
    return tag == LUA_TFUNCTION && *(const uint8_t *)(function + SS_LUA_IS_C)
               ? ss_lua_word(function + SS_LUA_CLOSURE_FUNCTION)
               : 0;
#else
    switch (tag) {
    case SSI_LUA_TAG_LIGHT:
        return function;
    case SSI_LUA_TAG_CLOSURE:
        return ss_lua_word(function + SSI_LUA_CLOSURE_FUNCTION);
    default:
        return 0;
    }
#endif
}

/* The same of the function of an activation. */
static inline uintptr_t ss_lua_c_function_of(uintptr_t ci)
{
    return ss_lua_c_function_at(ss_lua_slot_of(ci));
}

#endif

/* The word of an object that has its kind, the bits below that, and the kind of a coroutine. */
#if SS_LUA_JIT
#define SS_LUA_KIND_WORD (ss_lua_narrow ? 0 : 8)
#define SS_LUA_KIND_SHIFT (ss_lua_narrow ? 40 : 8)
#define SS_LUA_KIND_THREAD SSI_JIT_THREAD
#else
#define SS_LUA_KIND_WORD SSI_LUA_TYPE
#define SS_LUA_KIND_SHIFT 0
#define SS_LUA_KIND_THREAD SSI_LUA_THREAD
#endif

/* For lua_getinfo and lua_getlocal of the activation at an address. */
static inline lua_Debug ss_lua_debug_of(lua_State *L, uintptr_t ci)
{
    return (lua_Debug){.namewhat = "", .i_ci = ss_lua_ci_of(L, ci)};
}

/* The activation in which L runs, or was suspended; 0: none. */
static inline uintptr_t ss_lua_innermost(lua_State *L)
{
    lua_Debug activation;

    return lua_getstack(L, 0, &activation) ? ss_lua_ci_address(L, activation.i_ci) : 0;
}

/* The slot of the base level outward of CI, from which the message handler is counted. */
static inline uintptr_t ss_lua_base_slot(uintptr_t ci)
{
    while (ss_lua_previous(ci))
        ci = ss_lua_previous(ci);
    return ss_lua_slot_of(ci);
}

/* The next activation outward; 0 at the end.  The base level is no activation. */
static inline uintptr_t ss_lua_outer(uintptr_t ci)
{
    uintptr_t outer = ss_lua_previous(ci);

    return outer && ss_lua_previous(outer) ? outer : 0;
}

/* Whether the function was entered by a tail call, for which Lua dropped the activation of the
   caller. */
static inline bool ss_lua_is_tail_call(uintptr_t ci)
{
    return (ss_lua_status_of(ci) & (uint32_t)SS_LUA_TAIL_CALLED) != 0;
}

/* The same of what lua_getstack has given. */
static inline bool ss_lua_is_tail_called(lua_State *L, const lua_Debug *activation)
{
    uintptr_t ci = ss_lua_ci_address(L, activation->i_ci);

    return ci && ss_lua_is_tail_call(ci);
}

/* How far above the base of L's stack the message handler is that Lua calls for the next error; 0:
   none. */
static inline uintptr_t *ss_lua_handler_of(lua_State *L)
{
    return (uintptr_t *)((uintptr_t)L + SS_LUA_AT_HANDLER);
}

#if !SS_LUA_JIT
/* Whether this Lua has in its place which activation of L runs. */
static inline bool ss_lua_may_leave(lua_State *L)
{
    uintptr_t ci = ss_lua_innermost(L);

    return ci && ss_lua_word((uintptr_t)L + SS_LUA_AT_CALL) == ci;
}

/* Then: the running function, in C, ends without a return, and the one that called it runs. */
static inline void ss_lua_leave(lua_State *L)
{
    uintptr_t *running = (uintptr_t *)((uintptr_t)L + SS_LUA_AT_CALL);

    *running = ss_lua_previous(*running);
#if LUA_VERSION_NUM == 501
    *(uintptr_t *)((uintptr_t)L + SS_LUA_AT_BASE) = ss_lua_registers_of(*running);
#endif
}
#endif

/* 1, or 0 while no hook of L may run. */
static inline volatile uint8_t *ss_lua_hooks_of(lua_State *L)
{
    return (uint8_t *)((uintptr_t)L + SS_LUA_AT_HOOKS);
}

#endif
