/*
 * What we read of an activation of LuaJIT, in place of call_info.h's words.  Its frames lie on Lua's
 * stack: a slot, or two in builds with references of 64 bits, holds the function and how far it is to
 * the frame outside.  An activation is the address of that slot, and above it, in the highest 16 bits,
 * the distance to the slot inside of it, without which LuaJIT cannot tell the line.
 */
#ifndef SS_LUA_JIT_H
#define SS_LUA_JIT_H

#include <stdbool.h>
#include <stdint.h>

#include "version/compat.h"
#include "shared/lua.h"

/* Whether references have 32 bits; learnt with the layout. */
extern __attribute__((visibility("hidden"))) bool ss_lua_narrow;

enum { SS_LUA_SLOT_SIZE = SSI_JIT_SLOT, SS_LUA_DISTANCE_BIT = 48 };

static inline uintptr_t ss_lua_word(uintptr_t address)
{
    return *(const uintptr_t *)address;
}

static inline uint32_t ss_lua_half(uintptr_t address)
{
    return *(const uint32_t *)address;
}

/* One of the two places of shared/lua.h. */
static inline uint32_t ss_lua_at(uint32_t wide, uint32_t narrow)
{
    return ss_lua_narrow ? narrow : wide;
}

static inline uintptr_t ss_lua_reference(uintptr_t object, uint32_t wide, uint32_t narrow)
{
    return ss_lua_narrow ? ss_lua_half(object + narrow) : ss_lua_word(object + wide);
}

/* The words of a lua_State. */
static inline uintptr_t ss_lua_stack_of(uintptr_t L)
{
    return ss_lua_reference(L, SSI_JIT_STACK);
}

static inline uintptr_t ss_lua_base_of(uintptr_t L)
{
    return ss_lua_word(L + ss_lua_at(SSI_JIT_BASE));
}

static inline uintptr_t ss_lua_top_of(uintptr_t L)
{
    return ss_lua_word(L + ss_lua_at(SSI_JIT_TOP));
}

static inline uintptr_t ss_lua_stack_end_of(uintptr_t L)
{
    return ss_lua_reference(L, SSI_JIT_STACK_END);
}

/* A reference of the state that all coroutines share, AT that place. */
static inline uintptr_t ss_lua_shared_of(uintptr_t L, uint32_t at)
{
    return ss_lua_reference(ss_lua_reference(L, SSI_JIT_SHARED), at, at);
}

/* ---- Frames ----------------------------------------------------------------------------------*/

static inline uintptr_t ss_lua_frame_of(uintptr_t ci)
{
    return ci & ((UINT64_C(1) << SS_LUA_DISTANCE_BIT) - 1);
}

/* The function of the frame, or the thread where that has none. */
static inline uintptr_t ss_lua_frame_object(uintptr_t frame)
{
    return ss_lua_narrow ? ss_lua_half(frame)
                         : ss_lua_word(frame - SS_LUA_SLOT_SIZE) &
                               ((UINT64_C(1) << SSI_JIT_REFERENCE_BITS) - 1);
}

static inline uint8_t ss_lua_kind_of(uintptr_t object)
{
    return *(const uint8_t *)(object + ss_lua_at(SSI_JIT_KIND));
}

static inline uintptr_t ss_lua_link_of(uintptr_t frame)
{
    return ss_lua_narrow ? ss_lua_half(frame + 4) : ss_lua_word(frame);
}

/* The frame outside; of a function that Lua has called, by its call instruction. */
static inline uintptr_t ss_lua_frame_outside(uintptr_t frame)
{
    uintptr_t link = ss_lua_link_of(frame);

    if ((link & SSI_JIT_LINK_KIND) != SSI_JIT_LINK_LUA)
        return frame - (link & ~(uintptr_t)SSI_JIT_LINK_BITS);
    return frame - SS_LUA_SLOT_SIZE *
                       ((ss_lua_half(link - 4) >> 8 & 0xff) + ss_lua_at(SSI_JIT_FRAME_SLOTS));
}

static inline bool ss_lua_is_moved(uintptr_t frame)
{
    return (ss_lua_link_of(frame) & SSI_JIT_LINK_BITS) == SSI_JIT_LINK_VARARG;
}

/* Whether the frame has no function: its stack's first one, or one that Lua puts under an error. */
static inline bool ss_lua_is_empty(uintptr_t frame)
{
    return ss_lua_kind_of(ss_lua_frame_object(frame)) == SSI_JIT_THREAD;
}

static inline bool ss_lua_is_base(uintptr_t frame)
{
    return ss_lua_is_empty(frame) && frame <= ss_lua_stack_of(ss_lua_frame_object(frame)) +
                                                  (ss_lua_narrow ? 0 : SS_LUA_SLOT_SIZE);
}

/* ---- Activations, as in call_info.h ----------------------------------------------------------*/

static inline uintptr_t ss_lua_ci_address(lua_State *L, ss_lua_ci ci)
{
    uintptr_t distance = (uint32_t)ci >> 16;

    if (!ci)
        return 0;
    return distance << SS_LUA_DISTANCE_BIT |
           (ss_lua_stack_of((uintptr_t)L) + ((uint32_t)ci & 0xffff) * SS_LUA_SLOT_SIZE);
}

static inline ss_lua_ci ss_lua_ci_of(lua_State *L, uintptr_t ci)
{
    uintptr_t slot = (ss_lua_frame_of(ci) - ss_lua_stack_of((uintptr_t)L)) / SS_LUA_SLOT_SIZE;

    return (ss_lua_ci)(uint32_t)(ci >> SS_LUA_DISTANCE_BIT << 16 | slot);
}

static inline uintptr_t ss_lua_function_of(uintptr_t ci)
{
    return ss_lua_frame_object(ss_lua_frame_of(ci));
}

static inline uint8_t ss_lua_sort_of(uintptr_t function)
{
    return *(const uint8_t *)(function + ss_lua_at(SSI_JIT_SORT));
}

static inline bool ss_lua_is_in_lua(uintptr_t ci)
{
    uintptr_t function = ss_lua_function_of(ci);

    return ss_lua_kind_of(function) == SSI_JIT_FUNCTION && !ss_lua_sort_of(function);
}

static inline uintptr_t ss_lua_c_function_of(uintptr_t ci)
{
    uintptr_t function = ss_lua_function_of(ci);

    return ss_lua_kind_of(function) == SSI_JIT_FUNCTION && ss_lua_sort_of(function)
               ? ss_lua_word(function + ss_lua_at(SSI_JIT_C_FUNCTION))
               : 0;
}

static inline uintptr_t ss_lua_previous(uintptr_t ci)
{
    uintptr_t frame = ss_lua_frame_of(ci), inner;
    bool moved;

    if (ss_lua_is_base(frame))
        return 0;
    do {
        inner = frame;
        moved = ss_lua_is_moved(frame);
        frame = ss_lua_frame_outside(frame);
    } while (moved || (ss_lua_is_empty(frame) && !ss_lua_is_base(frame)));
    return (inner - frame) / SS_LUA_SLOT_SIZE << SS_LUA_DISTANCE_BIT | frame;
}

/* The continuation behind a frame that has one: code, or what stands for C's callback or a tail call. */
static inline uintptr_t ss_lua_continuation_of(uintptr_t frame)
{
    return ss_lua_narrow ? ss_lua_half(frame - SS_LUA_SLOT_SIZE)
                         : ss_lua_word(frame - 3 * SS_LUA_SLOT_SIZE);
}

/* Where the function goes on, if the frame inside of it tells; else 0. */
static inline uintptr_t ss_lua_pc_of(uintptr_t ci)
{
    uintptr_t distance = ci >> SS_LUA_DISTANCE_BIT,
              inner = ss_lua_frame_of(ci) + distance * SS_LUA_SLOT_SIZE;
    uintptr_t link = distance ? ss_lua_link_of(inner) : SSI_JIT_LINK_C;

    if ((link & SSI_JIT_LINK_KIND) == SSI_JIT_LINK_LUA)
        return link;
    if ((link & SSI_JIT_LINK_BITS) != SSI_JIT_LINK_NEXT ||
        ss_lua_continuation_of(inner) == SSI_JIT_CALLBACK)
        return 0;
    return ss_lua_narrow ? ss_lua_half(inner - SS_LUA_SLOT_SIZE + 4)
                         : ss_lua_word(inner - 2 * SS_LUA_SLOT_SIZE);
}

/* Whether C has called the function of CI: the activation outside is that of a function in C. */
static inline bool ss_lua_is_entered(uintptr_t ci)
{
    uintptr_t frame = ss_lua_frame_of(ci), link;

    if (ss_lua_is_moved(frame))
        frame = ss_lua_frame_outside(frame);
    link = ss_lua_link_of(frame);
    if ((link & SSI_JIT_LINK_KIND) == SSI_JIT_LINK_C)
        return true;
    return (link & SSI_JIT_LINK_BITS) == SSI_JIT_LINK_NEXT &&
           ss_lua_continuation_of(frame) == SSI_JIT_CALLBACK;
}

#endif
