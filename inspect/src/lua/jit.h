/*
 * The frames of LuaJIT on a stack of its own in a target: whatever is read is compared with what it
 * must be, since versions differ.  The binding's calibrate/jit.h says how they are linked.
 */
#ifndef SSI_JIT_H
#define SSI_JIT_H

#include <stdbool.h>
#include <stdint.h>

/* A state whose activations are read, from the innermost outward. */
typedef struct ssi_jit {
    bool is_old;    /* 2.0 */
    bool is_narrow; /* references have 32 bits */
    uint64_t state, first, end;
    uint64_t frame, inner; /* the next one, and the one inside of it; 0: none */
} ssi_jit;

typedef struct ssi_jit_call {
    uint64_t pc;       /* of a Lua function: the next instruction; 0: not known */
    uint64_t proto;    /* of a Lua function, else 0 */
    uint64_t function; /* of a function in C: its code, else 0 */
    bool is_entered;   /* C called it */
} ssi_jit_call;

/* Whether STATE is one, with references of this size, whose frames form one chain down to its first. */
bool ssi_jit_begin(ssi_jit *jit, uint64_t state, bool is_narrow);
/* Have the next activation be that of the Lua function whose variables begin at BASE and which is at PC;
   false if that cannot be. */
bool ssi_jit_begin_at(ssi_jit *jit, uint64_t base, uint64_t pc);
/* False after the last activation. */
bool ssi_jit_next(ssi_jit *jit, ssi_jit_call *call);
/* The name that the code of CALLER has for what it calls, or NULL. */
const char *ssi_jit_name(const ssi_jit *jit, const ssi_jit_call *caller);
/* The name of the chunk of PROTO, as its host gave it, or NULL; the line where it is defined, or 0. */
const char *ssi_jit_source(const ssi_jit *jit, uint64_t proto);
uint32_t ssi_jit_first_line(const ssi_jit *jit, uint64_t proto);
/* The line of the instruction before PC; 0: not known. */
uint32_t ssi_jit_line(const ssi_jit *jit, uint64_t proto, uint64_t pc);

#endif
