/*
 * The two halves of learning a layout: visits of call sites (what a C function sees when it unwinds
 * outward) and the scripts that cause them.
 */
#ifndef SS_LUA_CALIBRATE_H
#define SS_LUA_CALIBRATE_H

#include "layout.h"

enum { SS_LUA_REGISTERS = 6, SS_LUA_SLOTS = 128, SS_LUA_VISIT_FRAMES = 240 };

/* A frame as the compiler's unwinder gives it. */
typedef struct ss_lua_visit_frame {
    uintptr_t ip, sp, function;
    uintptr_t registers[SS_LUA_REGISTERS];
} ss_lua_visit_frame;

/* The places that held a value at every visit so far. */
typedef struct ss_lua_candidates {
    uint32_t registers;
    uint64_t slots[SS_LUA_SLOTS / 64];
} ss_lua_candidates;

/* Everything that is being learnt; private to the thread that learns. */
typedef struct ss_lua_lesson {
    ss_lua_layout *layout;
    ss_lua_candidates state[SS_LUA_SITES], ci[SS_LUA_SITES];
    uint32_t visits[SS_LUA_SITES];
    bool overflow;        /* a table was too small */
    bool contradicted;    /* the second state disagreed about the CallInfo */
    const uintptr_t *own; /* starts of the functions that teach, which end an unwinding */
    uint32_t own_count;
    uint32_t frame_count;
    ss_lua_visit_frame frames[SS_LUA_VISIT_FRAMES];
} ss_lua_lesson;

/* Note the site from which PROBE, the start of the calling function, was called. */
void ss_lua_lesson_visit(ss_lua_lesson *lesson, lua_State *L, uintptr_t probe, bool hook);

/*
 * Learn the CallInfo from inside a C function called with ARGUMENTS arguments: at the bottom of a
 * chain of at least four activations.
 */
void ss_lua_lesson_call_info(ss_lua_lesson *lesson, lua_State *L, int arguments);

/* Learn where a C closure keeps its function; the closure CLOSURE of FUNCTION is at the top. */
void ss_lua_lesson_closure(ss_lua_lesson *lesson, lua_State *L, lua_CFunction function);

/* Make the tables of the layout from the candidates. */
void ss_lua_lesson_finish(ss_lua_lesson *lesson);

/* Run the scripts in a private state; false when it could not even be made. */
bool ss_lua_lesson_run(ss_lua_lesson *lesson);

#endif
