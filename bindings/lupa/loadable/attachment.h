/* An attached state, as the files here see it. */
#ifndef SS_LUA_ATTACHMENT_H
#define SS_LUA_ATTACHMENT_H

#include "cross/cross.h"
#include "loadable.h"

struct ss_lua_attachment {
    unsigned references;    /* handles, and the state's */
    lua_State *main;        /* NULL once the state was closed, or restored */
    ss_lua_hooks hooks;     /* without its metatable's name */
    lua_CFunction former;   /* debug.traceback, if it is a function in C without upvalues */
    bool keeps_caught;      /* as keep_caught asked for it */
    const void *raisers[2]; /* error and assert, only to compare */
};

/* ---- Errors (errors.c) -----------------------------------------------------------------------*/

/* Tell the hooks of the value at index 1, which debug.traceback was called with. [-0, +0, -], 4
   slots */
void ss_lua_record(lua_State *L, ss_lua_attachment *attachment, const void *above);

/* The members caught and find_in of ss_lua_outside, whose data is the attachment. */
void ss_lua_tell_caught(void *data, lua_State *L, int level, const void *above);
IUnknown *ss_lua_find_in(void *data, lua_State *L, int index, const char *text, size_t length,
                         const void *above);

/* As the members of ss_lua_loadable. */
bool ss_lua_owns(const ss_lua_attachment *attachment, void *coroutine);
IUnknown *ss_lua_find_failed(ss_lua_attachment *attachment, void *coroutine, const char *text,
                             size_t length, const void *above, void **block);
IUnknown *ss_lua_find_syntax(ss_lua_attachment *attachment, const char *text, size_t length,
                             const char *line, const void *above);

#endif
