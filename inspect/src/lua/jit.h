/*
 * The frames of LuaJIT on a stack of its own in a target: whatever is read is compared with what it
 * must be, since versions differ.  shared/lua.h has the places and links that the binding reads, too.
 */
#ifndef SSI_JIT_H
#define SSI_JIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A state whose activations are read, from the innermost outward. */
typedef struct ssi_jit {
    bool is_old;    /* 2.0 */
    bool is_narrow; /* references have 32 bits */
    bool is_arm;    /* 64-bit Arm */
    uint64_t state, stack, first, end;
    uint64_t frame, inner; /* the next one, and the one inside of it; 0: none */
    uint64_t c_frame; /* the stack address of the loop's frame that runs the next one; 0: none */
} ssi_jit;

/* Compiled code that runs for a state: its frame lies inside of the one of the loop that called it.  Old
   words on the stack may speak for several. */
enum { SSI_MAX_MADE = 8 };
typedef struct ssi_jit_trace {
    uint64_t pc; /* behind the instruction where all of them began; 0: not known */
    size_t count;
    struct {
        uint64_t sp, code, size; /* SP: of its frame */
    } made[SSI_MAX_MADE];
} ssi_jit_trace;

typedef struct ssi_jit_call {
    uint64_t pc;       /* of a Lua function: the next instruction; 0: not known */
    uint64_t proto;    /* of a Lua function, else 0 */
    uint64_t object;   /* the function itself, */
    uint64_t function; /* and of one in C its code, else 0 */
    uint64_t base;     /* where its variables begin */
    bool is_entered;   /* C called it */
    bool is_own;       /* LuaJIT's own, which has no native frame */
} ssi_jit_call;

/* Whether STATE is one, with references of this size, that runs or waits for what it called: it has a frame
   of the loop on the stack of a thread.  One that has yielded or ended has none. */
bool ssi_jit_begin(ssi_jit *jit, uint64_t state, bool is_narrow);
/* Have the next activation be the one that the loop's registers name: BASE, where its variables begin, and
   *PC, its next instruction, which becomes 0 if the function is not in Lua or its frames tell.  While the loop
   calls or returns, they are of two functions, and it is the caller.  False if they agree with none. */
bool ssi_jit_begin_at(ssi_jit *jit, uint64_t base, uint64_t *pc);
/* The base that the state had when it called C last, which may have returned since. */
uint64_t ssi_jit_stored_base(const ssi_jit *jit);
/* Have the next activation be that one, or the one in which compiled code was entered. */
bool ssi_jit_begin_stored(ssi_jit *jit);
/* Whether the state is in compiled code that a thread whose registers say PC and SP runs.  The next
   activation is then the one in which that code was entered. */
bool ssi_jit_find_trace(ssi_jit *jit, uint64_t sp, uint64_t pc, ssi_jit_trace *trace);
/* An address in the loop of the LuaJIT from START to END; 0: not found. */
uint64_t ssi_jit_loop(const ssi_jit *jit, uint64_t start, uint64_t end);
/* That of the loop's frame outside of JIT->c_frame, which the state had before; 0: none. */
uint64_t ssi_jit_outer_c_frame(const ssi_jit *jit);
/* False after the last activation. */
bool ssi_jit_next(ssi_jit *jit, ssi_jit_call *call);
/* The name that the code of CALLER has for what it calls, or NULL. */
const char *ssi_jit_name(const ssi_jit *jit, const ssi_jit_call *caller);
/* The table of the state's global variables. */
uint64_t ssi_jit_globals(const ssi_jit *jit);
/* The variable that is the NUMBERth in scope of CALL, or NULL after the last. */
const char *ssi_jit_variable(const ssi_jit *jit, const ssi_jit_call *call, unsigned number);
/* Copy the string at ADDRESS, cut to SIZE bytes.  Returns how many, or -1 if it cannot be read. */
int64_t ssi_jit_bytes(const ssi_jit *jit, uint64_t string, char *out, size_t size);
/* Read the value at ADDRESS: with the tag that Lua has for it, or 9 for what no variable has, 10 for C data. */
enum { SSI_JIT_VALUE = 8 /* its size */ };
bool ssi_jit_value(const ssi_jit *jit, uint64_t address, uint8_t *tag, uint64_t *bits);
typedef struct ssi_jit_table {
    uint64_t array, nodes, array_size, node_count;
} ssi_jit_table;
bool ssi_jit_read_table(const ssi_jit *jit, uint64_t table, ssi_jit_table *read);
/* Where a call is: what its host named the chunk, or NULL, the line where it is defined, and that of the
   instruction before its pc; 0: not known. */
typedef struct ssi_jit_place {
    const char *source;
    uint32_t defined, line;
} ssi_jit_place;
ssi_jit_place ssi_jit_place_of(const ssi_jit *jit, const ssi_jit_call *call);

#endif
