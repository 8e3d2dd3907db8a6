/*
 * Tiny: a language of about 250 lines of C that knows nothing of stacksplice.  It stands for any
 * interpreter that somebody binds; docs/inside/bindings.md walks through its binding.
 *
 *     # A function reaches to the next one; words are separated by spaces.
 *     function careful path
 *         data = load path 3
 *         problem = try parse data
 *         if problem problem = error "io" "cannot read it" problem
 *         if problem throw problem
 *         return data
 *
 * A line calls one function: [if VALUE] [NAME =] [try] FUNCTION VALUE...  After try the result is
 * the error that the function threw, or nil.  Three functions are always there: return, throw and
 * error TYPE MESSAGE CAUSE.  Values are nil, integers, "strings", errors, and names of local
 * variables; nil and 0 are false.
 *
 * Several interpreters can exist; one thread at a time uses each.
 */
#ifndef TINY_H
#define TINY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TINY_MAX_ARGUMENTS = 8, TINY_MAX_LOCALS = 12, TINY_MAX_DEPTH = 200 };

typedef struct tiny tiny;

/* ---- Values ----------------------------------------------------------------------------------*/

/*
 * A string, or an error, whose message is its text.  An error keeps its identity: it is the same
 * object wherever it is thrown and caught.
 */
typedef struct tiny_object {
    size_t references;
    struct tiny_object *cause; /* an error, or NULL */
    void *host;                /* the host's data, see tiny_hooks */
    const char *type;          /* of an error; NULL of a string */
    size_t length;
    char text[]; /* NUL-terminated */
} tiny_object;

/* Nil has neither integer nor object.  The caller owns a value that a function returns, and drops
   it; arguments stay the caller's. */
typedef struct tiny_value {
    int64_t integer;
    tiny_object *object;
} tiny_value;

/* Without memory returns nil, and throws the error of no memory. */
tiny_value tiny_string(tiny *t, const char *text, size_t length);
tiny_value tiny_error(tiny *t, const char *type, const char *message, size_t length,
                      tiny_object *cause);

tiny_value tiny_keep(tiny_value value); /* adds a reference: returns VALUE */
void tiny_drop(tiny *t, tiny_value value);

static inline bool tiny_is_error(tiny_value value)
{
    return value.object && value.object->type;
}

/* ---- Interpreters ----------------------------------------------------------------------------*/

/* Like realloc; size 0 frees.  NULL: there is no memory. */
typedef void *tiny_allocator(void *data, void *block, size_t size);

/* What a host can observe.  Neither hook may run functions of scripts. */
typedef struct tiny_hooks {
    /* ERROR is being thrown, by a script or by C; all its callers are still running. */
    void (*thrown)(tiny *t, tiny_object *error, void *data);
    /* ERROR, whose member host is not NULL, is being freed.  Values may be dropped. */
    void (*ended)(tiny *t, tiny_object *error, void *data);
    void *data;
} tiny_hooks;

/* NULL without memory. */
tiny *tiny_open(tiny_allocator *allocate, void *data);

/* Drop all values first. */
void tiny_close(tiny *t);

/* The error of no memory: always the same object. */
tiny_object *tiny_no_memory(tiny *t);

tiny_hooks *tiny_hooks_of(tiny *t);

/* ---- Code ------------------------------------------------------------------------------------*/

/* A function in C.  It fails by returning what tiny_throw returns. */
typedef tiny_value tiny_native(tiny *t, void *data, const tiny_value *arguments, int count);

/* Define the functions of SOURCE, or one in C; the strings and DATA stay the host's and outlive T.
   A later definition replaces an earlier one.  False without memory. */
bool tiny_load(tiny *t, const char *file, const char *source);
bool tiny_define(tiny *t, const char *name, tiny_native *native, void *data);

/* A protected call: true and the function's *RESULT, or false and the thrown error. */
bool tiny_call(tiny *t, const char *name, const tiny_value *arguments, int count,
               tiny_value *result);

/* Throw ERROR, whose reference the interpreter takes over.  Returns nil, which the function in C
   then returns at once.  While an error is in flight, any other is dropped. */
tiny_value tiny_throw(tiny *t, tiny_value error);

/* ---- What a debugger sees --------------------------------------------------------------------*/

typedef struct tiny_word { /* a piece of source */
    const char *text;
    size_t length;
} tiny_word;

typedef struct tiny_function {
    struct tiny_function *next; /* older */
    tiny_word name;
    const char *file, *body; /* NULL for a function in C */
    int line;                /* its first line */
    tiny_native *native;     /* NULL for a script's function */
    void *data;              /* passed to NATIVE */
} tiny_function;

/*
 * An activation: a running function.  It is in the C stack frame of the machine code that runs it.
 * Only the interpreter is between a function and the script that called it.
 */
typedef struct tiny_frame {
    const struct tiny_frame *caller; /* on this thread, of whatever interpreter */
    tiny *interpreter;
    const tiny_function *function;
    int line;       /* that runs now */
    const char *at; /* behind what was read of it */
    struct tiny_local {
        tiny_word name;
        tiny_value value;
    } locals[TINY_MAX_LOCALS];
} tiny_frame;

/* The innermost activation of this thread, or NULL; signal handlers may call this too. */
const tiny_frame *tiny_frames(void);

#endif
