/*
 * The functions of Lua and LuaJIT that run in a target, with or without stacksplice in it.
 *
 * A lua_State is found where the stacks of threads have its address, and is believed only if its
 * whole chain of calls is as it must be.
 */
#ifndef SSI_LUA_H
#define SSI_LUA_H

#include "native/native.h"
#include "shared/lua.h"
#include "target/frame.h"
#include "target/binary.h"
#include "target/target.h"

enum { SSI_MAX_LUAS = 8, SSI_MAX_LUA_STATES = 256 };

/* A copy of Lua in a target: found before a process is stopped. */
typedef struct ssi_lua {
    const ssi_lua_layout *layout; /* NULL: of LuaJIT */
    bool is_old;                  /* LuaJIT 2.0 */
    uint64_t start, end;          /* of its binary */
    ssi_binary binary;
} ssi_lua;

/* One run of the interpreter's loop: Lua functions that called one another. */
typedef struct ssi_lua_run {
    uint64_t held;       /* by the loop's frame: the innermost call, or the state */
    size_t first, count; /* of the frames */
    bool is_running;     /* Lua itself runs, in the first one */
    uint64_t called;     /* the function in C that the run calls; 0: none */
    bool is_jit;
    uint64_t base; /* of LuaJIT's innermost activation, as its loop has to keep it */
} ssi_lua_run;

typedef struct ssi_lua_state {
    uint64_t address;
    size_t first, count; /* of the runs, from the innermost outward */
    size_t placed;       /* so many are on the stack that is put together */
    int thread;          /* whose stack that was */
    bool is_narrow;      /* of LuaJIT */
    bool is_lost;        /* it is on a stack, and which functions run in it is not known */
} ssi_lua_state;

typedef struct ssi_luas {
    ssi_lua copies[SSI_MAX_LUAS];
    size_t copy_count;
    ssi_lua_state *states;
    size_t state_count, state_room;
    ssi_lua_run *runs;
    size_t run_count, run_room;
    ssi_native_jump *jumps; /* out of code that LuaJIT compiled */
    size_t jump_count, jump_room;
} ssi_luas;

/* Whether the Lua of BINARY, which is mapped from MAPPING to END, was added, with BINARY.  One of
   another version is noted. */
bool ssi_lua_add(ssi_luas *luas, const ssi_binary *binary, const ssi_mapping *mapping, uint64_t end,
                 ssi_scripts *scripts);
/* Read all states that the stacks of TARGET name; their frames go to SCRIPTS. */
void ssi_lua_read(const ssi_target *target, ssi_luas *luas, ssi_scripts *scripts);
/* Add to SCRIPTS which native frames of STACK, that of THREAD, the runs stand for. */
void ssi_lua_place(const ssi_target *target, ssi_luas *luas, const ssi_native_stack *stack,
                   int thread, ssi_scripts *scripts);
void ssi_lua_free(ssi_luas *luas);

#endif
