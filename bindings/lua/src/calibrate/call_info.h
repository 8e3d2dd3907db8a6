/*
 * What we read of an activation (its CallInfo) and of a function.  shared/lua.h has what is the same
 * in all versions; a test compares the rest, here, with its rows.  Calibration compares both with
 * what lua_getinfo says of this copy of Lua before anything reads by them.
 */
#ifndef SS_LUA_CALL_INFO_H
#define SS_LUA_CALL_INFO_H

#include <stdbool.h>
#include <stdint.h>

#include <lua.h>

#include "shared/lua.h"

/* An activation has the address of its registers in Lua 5.3; later they follow its function.  The
   status is two halves of a word before 5.5.  AT_REGISTER is the bit of an instruction at which the
   number of its first register begins. */
enum {
#if LUA_VERSION_NUM < 504
    SS_LUA_AT_REGISTERS = 32,
    SS_LUA_BEFORE_REGISTERS = 0,
    SS_LUA_AT_PC = 40,
    SS_LUA_AT_STATUS = 64,
    SS_LUA_TAIL_CALLED = 1 << 21,
    SS_LUA_AT_REGISTER = 6,
    SS_LUA_AT_HANDLER = 176,
    SS_LUA_AT_HOOKS = 204,
    SS_LUA_STATE_SIZE = 208, /* at least */
#else
    SS_LUA_AT_REGISTERS = SSI_LUA_CALL_FUNCTION,
    SS_LUA_BEFORE_REGISTERS = SSI_LUA_VALUE,
    SS_LUA_AT_PC = 32,
    SS_LUA_AT_STATUS = 60,
    SS_LUA_TAIL_CALLED = LUA_VERSION_NUM < 505 ? 1 << 21 : 1 << 22,
    SS_LUA_AT_REGISTER = 7,
    SS_LUA_AT_HANDLER = 168,
    SS_LUA_AT_HOOKS = LUA_VERSION_NUM < 505 ? 11 : 10,
    SS_LUA_STATE_SIZE = 176,
#endif
};

/* One word of memory that is known to be readable. */
static inline uintptr_t ss_lua_word(uintptr_t address)
{
    return *(const uintptr_t *)address;
}

/* The activation in which L runs, or was suspended; 0: none. */
static inline uintptr_t ss_lua_innermost(lua_State *L)
{
    lua_Debug activation;

    return lua_getstack(L, 0, &activation) ? (uintptr_t)activation.i_ci : 0;
}

/* The activation that CI was called by, or the coroutine's base level; 0 for that. */
static inline uintptr_t ss_lua_previous(uintptr_t ci)
{
    return ss_lua_word(ci + SSI_LUA_CALL_PREVIOUS);
}

/* The next activation outward; 0 at the end.  The base level is no activation. */
static inline uintptr_t ss_lua_outer(uintptr_t ci)
{
    uintptr_t outer = ss_lua_previous(ci);

    return outer && ss_lua_previous(outer) ? outer : 0;
}

/* The slot of its function. */
static inline uintptr_t ss_lua_slot_of(uintptr_t ci)
{
    return ss_lua_word(ci + SSI_LUA_CALL_FUNCTION);
}

/* The slot of the base level outward of CI, from which the message handler is counted. */
static inline uintptr_t ss_lua_base_slot(uintptr_t ci)
{
    while (ss_lua_previous(ci))
        ci = ss_lua_previous(ci);
    return ss_lua_slot_of(ci);
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

static inline bool ss_lua_is_in_lua(uintptr_t ci)
{
    return ss_lua_tag_of(ci) == SSI_LUA_TAG_LUA;
}

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

/* Wanted results and every flag that lua_getinfo reads. */
static inline uint32_t ss_lua_status_of(uintptr_t ci)
{
    return *(const uint32_t *)(ci + SS_LUA_AT_STATUS);
}

/* Whether the function was entered by a tail call, for which Lua dropped the activation of the
   caller. */
static inline bool ss_lua_is_tail_call(uintptr_t ci)
{
    return ss_lua_status_of(ci) & SS_LUA_TAIL_CALLED;
}

/* The lua_CFunction of a C activation; 0 of one in Lua. */
static inline uintptr_t ss_lua_c_function_of(uintptr_t ci)
{
    uintptr_t function = ss_lua_function_of(ci);

    switch (ss_lua_tag_of(ci)) {
    case SSI_LUA_TAG_LIGHT:
        return function;
    case SSI_LUA_TAG_CLOSURE:
        return ss_lua_word(function + SSI_LUA_CLOSURE_FUNCTION);
    default:
        return 0;
    }
}

/* How far above the base of L's stack the message handler is that Lua calls for the next error; 0:
   none. */
static inline uintptr_t *ss_lua_handler_of(lua_State *L)
{
    return (uintptr_t *)((uintptr_t)L + SS_LUA_AT_HANDLER);
}

/* 1, or 0 while no hook of L may run. */
static inline volatile uint8_t *ss_lua_hooks_of(lua_State *L)
{
    return (uint8_t *)((uintptr_t)L + SS_LUA_AT_HOOKS);
}

#endif
