/* What one capture finds of Lua among the native frames. */
#ifndef SS_LUA_COLLECTION_H
#define SS_LUA_COLLECTION_H

#include "frames/tokens.h"

/* ---- Runs: the activations of one coroutine, from one outward ---------------------------------*/

/* More links than any Lua stack can hold: such a chain is damaged. */
enum { SS_LUA_RUN_LIMIT = 4000000 };

/* How many activations there are from CI outward, up to but without STOP (0: to the end). */
uint32_t ss_lua_run_length(uintptr_t ci, uintptr_t stop);

/* ---- A capture --------------------------------------------------------------------------------*/

enum {
    SS_LUA_CAPTURE_SITES = 512, /* call sites of one capture; */
    SS_LUA_NEAR_SITES = 48,     /* for so many we need only the stack's memory */
    SS_LUA_INTERPRETERS = 8,
    SS_LUA_MISSED = 16,
    SS_LUA_TOKENS = 64 /* waiting to be pushed */
};

/* A place where the interpreter called C, but at no known site. */
typedef struct ss_lua_missed {
    uint32_t frame;   /* the interpreter's */
    bool may_be_none; /* the frame inside is a library function, or Lua's own on a rare path */
} ss_lua_missed;

typedef struct ss_lua_call_site {
    uint32_t frame;
    uint32_t hidden; /* frames of the interpreter from this one outward, which the run replaces */
    bool hook;
    bool first;      /* of its coroutine */
    bool closed;     /* of a first one: Lua has closed its activation and those outward */
    bool by_order;   /* its activation follows from the order alone, */
    bool inferred;   /* and nothing proves that */
    uint16_t latest; /* of a first one: the outermost site of its coroutine; else the first */
    lua_State *L;
    uintptr_t ci;
    uintptr_t stop; /* where its run ends: the ci of the coroutine's next site outward, or 0 */
    ss_lua_interpreter *interpreter;
} ss_lua_call_site;

/* What a coroutine ran in frames that the walk lost. */
typedef struct ss_lua_rest {
    const ss_lua_call_site *site; /* one of the coroutine */
    uintptr_t ci, stop;           /* CI 0: none */
    uint32_t frame, end; /* where the walk goes on; the next site, or the number of frames */
} ss_lua_rest;

/* The kind of a frame, as the core keeps it: the number of its site, from 1 on, or one of these. */
enum { SS_LUA_MARK_INTERNAL = 128, SS_LUA_MARK_API, SS_LUA_MARK_NEAR };

typedef struct ss_lua_collection {
    stacksplice_walk *walk;
    const ss_lua_layout *layout;
    ss_lua_interpreter
        interpreters[SS_LUA_INTERPRETERS + 1]; /* the last one stands for all further states */
    uint32_t interpreter_count;
    lua_State *lost;      /* of LuaJIT: not known what it runs */
    lua_State *capturing; /* suspended in a function of ours that captures now; or NULL */
    ss_lua_activation_log *log;
    uint32_t site_count, site_room;
    uint32_t source; /* the source that gave our marks */
    bool marks;      /* frames have marks */
    bool too_many;
    bool uncalled;          /* the walk ends in LuaJIT's loop, where a trace ends */
    uint32_t unclaimed_end; /* the frame after the last one of the interpreter without a site */
    uint32_t missed_count, missed_pushed;
    uint32_t spliced;         /* the frame after those that tokens have replaced so far */
    ss_lua_call_site running; /* stands for what Lua's own loop runs, inside of all sites */
    ss_lua_rest rest;
    uintptr_t tail_calls; /* the token of the tail-call gap; 0: not interned yet */
    uint32_t token_count;
    uintptr_t tokens[SS_LUA_TOKENS]; /* of the splice opened last, not pushed yet */
    ss_lua_missed missed[SS_LUA_MISSED];
    ss_lua_call_site *sites; /* the near ones, or allocated: stacks are short */
    ss_lua_call_site near_sites[SS_LUA_NEAR_SITES];
} ss_lua_collection;

/* The member "classify" of stacksplice_source. */
uint8_t ss_lua_classify(uintptr_t ip, uintptr_t function, void *data);

/* The mark of a frame, stored or by a search. */
static inline uint8_t ss_lua_mark_of(const ss_lua_collection *c, uint32_t frame)
{
    const stacksplice_native_frame *native = &c->walk->frames[frame];

    if (!c->marks)
        return ss_lua_classify(native->ip, native->function, NULL);
    return stacksplice_native_mark_owner(native->flags) == c->source
               ? (uint8_t)stacksplice_native_mark(native->flags)
               : 0;
}

/* Find the sites among the marked frames, and make room for them in the collection. */
void ss_lua_find_sites(ss_lua_collection *c);
/* Release what that has taken. */
void ss_lua_end_sites(ss_lua_collection *c);

/* The interpreter of L; notes a capture of ours that is running in it. */
ss_lua_interpreter *ss_lua_interpreter_of(ss_lua_collection *c, lua_State *L);

/* Whether a coroutine was resumed somewhere from frame FIRST up to frame END. */
bool ss_lua_resumes_between(const ss_lua_collection *c, uint32_t first, uint32_t end);

/*
 * Where the run that begins at CI, and is to end at STOP, leaves these frames: at the first
 * activation that was called from elsewhere; STOP when there is none.  FRAME is where the
 * interpreter's frames of the run begin, outside of SITE if that is the frame of one.  While a hook
 * of a call runs, the function in C that is called has no frame yet.
 */
uintptr_t ss_lua_run_end(const ss_lua_collection *c, const ss_lua_call_site *site, uint32_t frame,
                         uintptr_t ci, uintptr_t stop);

/* Whether a missed site lies between FRAME and the next site outward, or, if not SURELY, what may be one. */
bool ss_lua_misses_behind(const ss_lua_collection *c, uint32_t frame, bool surely);

/* The place where the walk may have lost frames between FRAME and the next site outward, which is
   *NEXT: the first frame after it, which may be the end; SS_LUA_NO_HOLE if there is none. */
#define SS_LUA_NO_HOLE UINT32_MAX
uint32_t ss_lua_hole_behind(const ss_lua_collection *c, uint32_t frame, uint32_t *next);

/* Of LuaJIT: the coroutine whose compiled code ended the walk, or NULL; *CI is the activation in which that
   code was entered. */
lua_State *ss_lua_compiled(const ss_lua_collection *c, uintptr_t *ci);

/* Splice what belongs to the found sites into their places. */
void ss_lua_splice_all(ss_lua_collection *c);

/* Put back what was above the tops of stacks that were used there: the last act of a collection. */
void ss_lua_give_back(const ss_lua_collection *c);

/* Whether CI, a function in C, is the running activation of L, and there is room on L's stack. */
bool ss_lua_rests(lua_State *L, uintptr_t ci);

/* Report to the core what all that was spliced follows from. */
void ss_lua_report_words(const ss_lua_collection *c);

/* A longer run is not repeated. */
enum { SS_LUA_MOST_REPORTED = 1000 };

/* ---- Splices: tokens in the place of the interpreter's native frames --------------------------*/

/* Pass the pushed tokens to the walk; false when it wants no more. */
bool ss_lua_flush(ss_lua_collection *c);

static inline bool ss_lua_push(ss_lua_collection *c, uintptr_t token)
{
    if (c->token_count == SS_LUA_TOKENS && !ss_lua_flush(c))
        return false;
    c->tokens[c->token_count++] = token;
    return true;
}

/* Read CI, an activation outside of SITE; with its callee if that is the site's function.  Not only
   where the walk has a frame of that: captures that begin further outward must give the same token. */
static inline void ss_lua_read_outside(const ss_lua_call_site *site, uintptr_t ci,
                                       ss_lua_activation *out)
{
    ss_lua_activation_read(ci, out);
    if (site->ci && !site->hook)
        ss_lua_note_callee(out, site->ci);
}

/* Note in the log of the capture, if it has one, that L runs here; the innermost first. */
static inline void ss_lua_log_coroutine(const ss_lua_collection *c, lua_State *L)
{
    ss_lua_activation_log *log = c->log;

    if (log && log->state_count < SS_LUA_DISPLACED)
        log->states[log->state_count++] = L;
}

#endif
