/*
 * The captures of native frames that are compared: each stores return addresses of the calling
 * thread, innermost first.
 */
#ifndef STACKSPLICE_BENCH_PEERS_H
#define STACKSPLICE_BENCH_PEERS_H

#include "bench.h"

#define PEER_MAX_FRAMES 2048

typedef struct peer_stack {
    void *frames[PEER_MAX_FRAMES];
    size_t count;
} peer_stack;

/* The stack that a method of peers_fill has written to. */
peer_stack *peer_result(void);

/*
 * The rest of a walk by frame pointers ends at this address; NULL, as at first: there is no such
 * method, because the code on the stack keeps none.
 */
void peer_set_frame_pointer_end(const void *end);

/* Fills METHODS, which has room for 16, and returns how many there are. */
size_t peers_fill(bench_method *methods);

/* What a stack must hold to be right. */
typedef struct peer_stack_check {
    const void *leaf; /* a return address that every method finds: frames outside it are compared */
    unsigned least;   /* frames there are at least, outside LEAF */
    bool scripts;     /* there are script frames, so the combined stack is another one */
} peer_stack_check;

/*
 * Runs each method once: those that do not find the same addresses as libgcc's unwinder, from the
 * leaf outward, are made unavailable.  Returns the number of frames that libgcc's finds from there.
 */
unsigned peers_check(bench_method *methods, size_t count, const peer_stack_check *check);

/* Says on standard error, and returns false, when a function is not the one of the library that it
   is named after. */
bool peers_are_themselves(void);

#endif
