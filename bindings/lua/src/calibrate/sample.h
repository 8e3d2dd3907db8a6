/*
 * The calibration sample: what C functions see of the interpreter that calls them, over all visits,
 * and the scripts that cause these visits.
 */
#ifndef SS_LUA_SAMPLE_H
#define SS_LUA_SAMPLE_H

#include <sys/types.h>

#include "life/compat.h"
#include "calibrate/calibrate.h"

enum { SS_LUA_REGISTERS = 6, SS_LUA_SLOTS = 128, SS_LUA_VISIT_FRAMES = 240 };
enum { SS_LUA_STATE_WORDS = 40 };

/* What the functions of entry.c store: the callee-saved registers of the call site, on the stack
   right below its frame. */
typedef struct ss_lua_entry {
    uintptr_t registers[SS_LUA_REGISTERS];
#if defined(__aarch64__)
    uintptr_t frame_pointer;
#endif
    uintptr_t ip;
} ss_lua_entry;

/* A frame as the compiler's unwinder gives it. */
typedef struct ss_lua_visit_frame {
    uintptr_t ip, sp, function;
} ss_lua_visit_frame;

/* The places that held a value at every visit so far; slots only once no register is left. */
typedef struct ss_lua_candidates {
    uint32_t registers;
    uint64_t slots[SS_LUA_SLOTS / 64];
} ss_lua_candidates;

/* What a word or a byte of a lua_State cannot be, after some looks. */
typedef struct ss_lua_state_words {
    uint32_t count; /* of the words of a coroutine; 0 until the first look */
    bool handled, hooked, unhooked;
    bool not_handler[SS_LUA_STATE_WORDS];
    bool not_hooks[SS_LUA_STATE_WORDS * sizeof(uintptr_t)];
} ss_lua_state_words;

/*
 * A return address into the interpreter at which nothing is left to learn.  Its frame takes SIZE
 * bytes, and the frames outside of it were examined.
 */
enum { SS_LUA_STEPS = 1024 /* a power of two */ };
typedef struct ss_lua_step_seen {
    uintptr_t ip;    /* 0: free */
    uintptr_t outer; /* the return address into the next frame; 0: we learn from no frame beyond */
    uintptr_t size;
} ss_lua_step_seen;

/* What is being learnt; private to the learning thread. */
typedef struct ss_lua_sample {
    ss_lua_layout *layout;
    ss_lua_candidates state[SS_LUA_SITES], ci[SS_LUA_SITES];
    uint32_t visits[SS_LUA_SITES];
    uint8_t seen[SS_LUA_SITES]; /* in this run: one bit a state */
    uint8_t state_bit;          /* of the state that runs */
    bool starved;               /* memory ran out: any part may be missing */
    bool overflow;              /* a table was too small */
    bool compared, pc_compared; /* call_info.h with activations of this copy, */
    bool contradicted;          /* which has them elsewhere */
    uintptr_t pc, pc_step;      /* at the last comparison */
    bool again; /* slots came into question after visits at which nobody looked at them */
    ss_lua_state_words state_words;
    const uintptr_t *own; /* starts of our functions that call Lua, which end an unwinding */
    uint32_t own_count;
    const ss_lua_entry *entry; /* of the visit */
    uint32_t frame_count;
    ss_lua_visit_frame frames[SS_LUA_VISIT_FRAMES];
    uint32_t step_count;
    ss_lua_step_seen steps[SS_LUA_STEPS];
    pid_t process;
    uintptr_t stack_end; /* an address further out than all frames that are visited */
} ss_lua_sample;

/*
 * Call BODY with L while every callee-saved register holds a meaningless value (filler.c).
 * Otherwise a register of a frame outside of the interpreter could look right.
 */
int ss_lua_with_filler(lua_CFunction body, lua_State *L);

/* Called by Lua, to note the site of the call (entry.c). */
int ss_lua_probe(lua_State *L);
int ss_lua_probe_true(lua_State *L);
int ss_lua_probe_continuation(lua_State *L, int status, lua_KContext context);
void ss_lua_probe_hook(lua_State *L, lua_Debug *activation);

/* Note the site of ENTRY. */
void ss_lua_sample_visit(ss_lua_sample *sample, lua_State *L, const ss_lua_entry *entry, bool hook);

/* Compare call_info.h with all activations, from inside a C function that was just called. */
void ss_lua_sample_call_info(ss_lua_sample *sample, lua_State *L);

/*
 * The same for the program counter.  The caller is a C function that one Lua function calls for the
 * TURN-th time (1, 2, ...) by equal statements on one line.
 */
void ss_lua_sample_pc(ss_lua_sample *sample, lua_State *L, int turn);

/* Learn where a coroutine keeps its message handler.  A C function calls the caller protected, with
   the handler at INDEX of its own stack; 0: without one. */
void ss_lua_sample_handler(ss_lua_sample *sample, lua_State *L, int index);

/* Learn where a coroutine keeps whether hooks may run now. */
void ss_lua_sample_hooks(ss_lua_sample *sample, lua_State *L, bool may_run);

/* Turn the remaining candidates into offsets in a lua_State. */
void ss_lua_sample_settle_state(ss_lua_sample *sample);

/* Turn the candidates into the tables of the layout. */
void ss_lua_sample_finish(ss_lua_sample *sample);

/* The scripts; NULL at the end. */
extern const char *const ss_lua_snippets[];

/* The allocator of the private state, whose DATA is the sample. */
void *ss_lua_sample_allocate(void *data, void *block, size_t old_size, size_t new_size);

/* How many whole words an object of the private state has; 0 if that is unknown. */
uint32_t ss_lua_sample_object_words(uintptr_t object);

/* Run the scripts in two private states; false when memory ran out. */
bool ss_lua_sample_run(ss_lua_sample *sample);

#endif
