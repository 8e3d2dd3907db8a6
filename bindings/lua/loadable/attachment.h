/* An attached state, as the files here see it. */
#ifndef SS_LUA_ATTACHMENT_H
#define SS_LUA_ATTACHMENT_H

#include <pthread.h>

#include "cross/job.h"
#include "loadable.h"

/* The last error whose traceback was asked for.  Whoever takes it out of the attachment owns it. */
typedef struct ss_lua_recorded {
    IUnknown *error; /* counted */
    pthread_t thread;
    size_t length; /* of the message; SIZE_MAX if the value was no string */
    char message[];
} ss_lua_recorded;

struct ss_lua_attachment {
    unsigned references;   /* handles, and the state's */
    lua_State *main;       /* NULL once the state was closed, or restored */
    ss_lua_hooks hooks;    /* without its metatable's name */
    const void *metatable; /* NULL: no hook for userdata */
    lua_CFunction former;  /* debug.traceback, if it is a function in C without upvalues */
    /* The thread that runs the state exchanges LAST; others take it meanwhile. */
    _Atomic(ss_lua_recorded *) last;
    _Atomic(pthread_t) last_thread; /* whose it is, so that others leave it alone */
};

/* ---- Errors (errors.c) -----------------------------------------------------------------------*/

/* Record the error of the value at index 1, which debug.traceback was called with. [-0, +0, -], 4
   slots */
void ss_lua_record(lua_State *L, ss_lua_attachment *attachment, const void *above);

/* Forget the last error. */
void ss_lua_drop_recorded(ss_lua_attachment *attachment);

/* As the members of ss_lua_loadable. */
IUnknown *ss_lua_take_recorded(ss_lua_attachment *attachment, const char *text, size_t length);
bool ss_lua_owns(const ss_lua_attachment *attachment, void *coroutine);
IUnknown *ss_lua_find_failed(ss_lua_attachment *attachment, void *coroutine, const char *text,
                             size_t length, const void *above);

#endif
