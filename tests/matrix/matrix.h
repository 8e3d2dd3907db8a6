/*
 * What the parts of the extension module "matrix" share: a border library as somebody else would
 * write it, against the public headers only, whose calls follow a path given as data.
 *
 * A path is a string of languages, the catcher first and the origin last: P Python, L Lua, M a
 * second Lua state, T tiny, C, X C++.  matrix_step calls step I of the path, which calls the next
 * one, until the last one fails.  Between two neighbours lies one border.
 */
#ifndef MATRIX_H
#define MATRIX_H

#ifdef __cplusplus
#include <lua.hpp>
extern "C" {
#else
#include <lua.h>
#endif

#include <stacksplice/script.h>
#include <stacksplice/stacksplice.h>

/* Seen by the symbol table and never inlined: the stack is compared by these names. */
#define MATRIX_NODE __attribute__((noinline, visibility("default")))

/* Keeps a call from becoming the last thing a function does. */
#define MATRIX_AFTER() __asm__ volatile("" ::: "memory")

enum { MATRIX_MAX_PATH = 12 };

typedef struct matrix_run {
    char path[MATRIX_MAX_PATH], modes[MATRIX_MAX_PATH], styles[MATRIX_MAX_PATH];
    char kind;  /* what the origin fails with */
    int length; /* of the path */
} matrix_run;

extern matrix_run matrix;

/* ---- The log of calls (log.c) -----------------------------------------------------------------*/

/* What is on the stack, outermost first: native functions by name, script frames as their languages
   tell them, and marks: a thread (t) or a coroutine (c) begins; a coroutine goes on that was called
   in another thread (o); a tail call took the place of its caller (x). */
typedef struct matrix_entry {
    char what; /* n native, p Python, l Lua, y tiny, t, c, o, x */
    char name[64];
    int line;
} matrix_entry;

void matrix_log_reset(void);
int matrix_log_count(void);
const matrix_entry *matrix_log_entry(int i);
void matrix_log_cut(int count);
/* Where in the log the last thread begins. */
int matrix_log_thread(void);
void matrix_log_add(char what, const char *name, int line);
/* The calling native function, one of MATRIX_NODE. */
#define matrix_enter() matrix_log_add('n', __func__, 0)
/* Step I is about to call step I + 1: where in the log it will receive what that one fails with. */
void matrix_border(int i);
int matrix_border_of(int i);

/* ---- The steps --------------------------------------------------------------------------------*/

HRESULT matrix_step(int i);
HRESULT matrix_to_python(int i);
HRESULT matrix_to_lua(int i);
HRESULT matrix_to_tiny(int i);
HRESULT matrix_c_step(int i);
HRESULT matrix_cpp_step(int i);

/* Step I in a thread of its own.  The error comes along by hand. */
HRESULT matrix_c_thread(int i);

/* The lock of Python is let go if this thread has it: NULL, or what has to be taken again. */
void *matrix_unlock(void);
void matrix_lock(void *unlocked);

/* ---- What is checked (facts.c) ----------------------------------------------------------------*/

/* Every border calls it with what came from inside: the error object is the same at each. */
void matrix_passed(HRESULT hr);
/* Takes the slot's error and keeps what it says.  HR: what the catcher got. */
void matrix_collect(HRESULT hr);
/* Counted unless the slot is empty. */
void matrix_check_slot(void);
/* What the catcher's own language says of the error; the lock of Python is held. */
void matrix_fact_text(const char *name, const char *text, size_t length);
void matrix_fact_number(const char *name, long long number);

/* Whether LANGUAGE_EXCEPTION stands for what the origin threw. */
int matrix_is_thrown_by_python(IUnknown *language_exception);
int matrix_is_thrown_by_lua(IUnknown *language_exception);
int matrix_is_thrown_by_tiny(IUnknown *language_exception);
/* The slot's error, thrown once more, is the C++ object that was thrown. */
int matrix_is_thrown_by_cpp(HRESULT hr);
/* C++ exception objects that are alive. */
int matrix_cpp_alive(void);

/* ---- Lua (lua_side.c) -------------------------------------------------------------------------*/

/* Opens the states and runs SOURCE in each; NULL or what is wrong. */
const char *matrix_lua_open(const char *source, size_t length);
void matrix_lua_reset(void);
void matrix_lua_close(void);
/* Drops what was thrown; the number of thrown values that are still there after a collection. */
int matrix_lua_forget(void);

/* ---- Tiny (tiny_side.c) -----------------------------------------------------------------------*/

/* Opens the interpreter with SOURCE, which stays the caller's; NULL or what is wrong. */
const char *matrix_tiny_open(const char *source);
void matrix_tiny_close(void);
/* Drops what was thrown; the number of values that are still there. */
int matrix_tiny_forget(void);

#ifdef __cplusplus
}
#endif
#endif
