/* Native frames of a target's threads, unwound from its registers and memory by libdw. */
#ifndef SSI_NATIVE_H
#define SSI_NATIVE_H

#include "target/frame.h"
#include "target/target.h"

typedef struct ssi_native ssi_native;

typedef struct ssi_native_frame {
    uint64_t address;              /* address - 1 is in the instruction */
    uint64_t sp;                   /* the frame owns the stack from here to the next frame's sp */
    uint64_t saved[SSI_MAX_SAVED]; /* those of the machine's table */
    unsigned known;                /* a bit for each of SAVED that has a value */
    bool inferred;
    bool described;   /* by its binary, so that the caller is certain */
    bool interrupted; /* the address is not that of a call */
} ssi_native_frame;

typedef struct ssi_native_stack {
    ssi_native_frame *frames;
    size_t count, room;
    size_t left_out; /* so many frames of a long stack, before that number CUT */
    size_t cut;
    uint64_t cut_sp;       /* of the first that was left out */
    const char *truncated; /* why the walk ended early, or NULL */
} ssi_native_stack;

/* NULL with *WHY when libdw cannot be had, or memory. */
ssi_native *ssi_native_new(const ssi_target *target, const char **why);
/* A note about binaries that cannot be read; NULL if all can. */
const char *ssi_native_missing(const ssi_native *native);
void ssi_native_free(ssi_native *native);
/* Where the stack pointer of LuaJIT's loop has to be, and code inside of it whose unwind data is missing or
   wrong: compiled code, and parts of the loop that have moved the pointer. */
typedef struct ssi_native_jump {
    uint64_t sp, pc;     /* of the loop */
    uint64_t code, size; /* all of the loop's */
    uint64_t from;       /* the sp of compiled code, or 0 */
    uint64_t made, made_size;
} ssi_native_jump;

/* Whether FRAME is that of the compiled code of JUMP. */
static inline bool ssi_native_is_made(const ssi_native_jump *jump, const ssi_native_frame *frame)
{
    return jump->from == frame->sp && frame->address - 1 - jump->made < jump->made_size;
}

/* The frames of THREAD, innermost first, with COUNT known JUMPS; STACK is emptied before. */
void ssi_native_walk(ssi_native *native, const ssi_thread *thread, const ssi_native_jump *jumps,
                     size_t count, ssi_native_stack *stack);
/* Where the frame number AT ends on the stack; 0 if that is not known. */
uint64_t ssi_native_end(const ssi_native_stack *stack, size_t at);
/* What is known of the native frame at ADDRESS. */
ssi_frame ssi_native_describe(ssi_native *native, const ssi_native_frame *frame);

#endif
