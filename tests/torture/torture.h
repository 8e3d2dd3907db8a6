/*
 * Threads that capture all the time, each along a path of calls of its own through C, Lua and
 * Python and libraries that come and go, while signals, forks, failing memory and stacks that
 * overflow interfere.  Each keeps a journal of its calls, and each captured stack must tell the
 * same.
 */
#ifndef TORTURE_H
#define TORTURE_H

#include "frames.h"

#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <lua.h>
#include <stacksplice/source.h>

/* A function of the paths: its frame is known by its place in the section of all of them. */
#if defined(__clang__)
#define NODE __attribute__((noinline, section("torture_nodes")))
#else
#define NODE __attribute__((noinline, noclone, section("torture_nodes")))
#endif

enum { MAX_DEPTH = 600, MAX_FRAMES = 4096 };

/* A call: of a C function, then FUNCTION and an address in its frame; or of a script's. */
typedef struct call {
    uintptr_t function, local;
    const char *language;
    uint32_t line;
} call;

typedef struct worker {
    unsigned number;
    uint64_t random;
    call journal[MAX_DEPTH]; /* outermost first */
    unsigned depth, base;    /* base: the calls from there on are on the stack in use */
    unsigned budget;         /* calls that the path in hand may still make */
    bool with_python;
    lua_State *own[2];       /* main states */
    lua_State *active[2];    /* the coroutine of each that runs */
    void *python;            /* thread state of Python */
    bool failing;            /* memory fails now and then */
    bool unknown;            /* on a stack whose bounds nobody gave */
    volatile bool switching; /* between two stacks */
    uintptr_t ip[MAX_FRAMES], sp[MAX_FRAMES], function[MAX_FRAMES];
    uint32_t frames; /* of the walk in hand */
    uint64_t checks, calls, libraries, fibers, errors, forks, out_of_memory;
} worker;

extern _Thread_local worker *self;
extern atomic_bool stopping;

/* Below N. */
unsigned draw(worker *w, unsigned n);

/* ---- journal.c --------------------------------------------------------------------------------*/

/* Once; WHAT, unless NULL, is done to one stack, which then must be found wrong: drop, swap, line.
 */
void journal_begin(const char *what);

/* Of each thread. */
void journal_end(void);

void journal_c(worker *w, uintptr_t function, const void *local);
void journal_script(worker *w, const char *language, uint32_t line);
/* The next script entered is called by one of which Lua keeps nothing but that: a gap says so. */
void journal_tail_call(worker *w);

/* Capture and compare with the journal; ends the program when they differ. */
void journal_check(worker *w);

/* The script frames of the thread's error, which must be INNERMOST of LANGUAGE; then it is gone. */
void journal_check_error(worker *w, const char *language, uint32_t innermost, bool whole);

/* ---- paths.c ----------------------------------------------------------------------------------*/

/* One call further, or the end of the path: a check. */
void path_step(worker *w);

/* A whole path, from the outermost function. */
void path_run(worker *w, bool with_python);

/* ---- One file for each kind of call -----------------------------------------------------------*/

void lua_begin(worker *w);
void lua_end(worker *w);
void lua_step(worker *w);
void lua_overflow(worker *w);

/* False where the program is built without Python; then none of these does anything. */
bool python_initialize(void);
void python_finalize(void);
void python_begin(worker *w);
void python_end(worker *w);
void python_step(worker *w);
void python_overflow(worker *w);

/* FOLDER: where the copies of the libraries are put, in one file for each thread. */
void library_begin(const char *folder, unsigned threads);
void library_end(void);
void library_step(worker *w);

void fiber_step(worker *w);
void fork_step(worker *w);

/* Whether a fork or an unload was under way at any time since loader_watch said SINCE, so that the
   loader may have been nobody to ask; false where nobody asks it. */
void loader_is_busy(bool now);
unsigned loader_watch(void);
bool loader_was_busy(unsigned since);

/* The allocator that fails for workers who ask for it. */
void memory_begin(void);

/* Interrupts every thread from its begin to its end; the number of handlers that ran, and of those
   that came in the middle of a capture and got no stack. */
void signal_begin(void);
uint64_t signal_end(uint64_t *without_stack);

/* A thread whose stack ends at its guard page; how often it came there. */
void *overflow_run(void *unused);
uint64_t overflow_count(void);

__attribute__((noreturn, format(printf, 1, 2))) void stop(const char *format, ...);

#endif
