/* The local variables of the activations that an error passes, taken while they are alive. */
#ifndef SS_LUA_LOCALS_H
#define SS_LUA_LOCALS_H

#include "frames/frames.h"
#include "value/gather.h"

enum {
    SS_LUA_LOCAL_VARIABLES = 20, /* of an activation */
    SS_LUA_LOCAL_FRAMES = 32,    /* of a stack: the innermost */
    SS_LUA_LOCAL_SEEN = 128      /* activations of a stack: half of them are the innermost */
};

typedef struct ss_lua_locals {
    ss_lua_activation_log log; /* for ss_lua_capture */
    ss_lua_gathered texts;
    uint32_t count;
    stacksplice_kept_local all[SS_LUA_LOCAL_FRAMES * SS_LUA_LOCAL_VARIABLES];
    ss_lua_seen seen[SS_LUA_LOCAL_SEEN]; /* of the log */
} ss_lua_locals;

/* NULL if the errors of STATE have no variables, or without memory. */
ss_lua_locals *ss_lua_locals_new(const ss_lua_state *state);
void ss_lua_locals_free(ss_lua_locals *locals);

/* Add those of the stack of PARTS, which was captured with the log. [-0, +0, -] */
void ss_lua_locals_take(ss_lua_locals *locals, stacksplice_exception_parts *parts);

#endif
