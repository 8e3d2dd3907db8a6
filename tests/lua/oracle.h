/*
 * The oracle of Lua stacks.  What a capture gives is compared, frame by frame, with what Lua itself
 * says at the same moment (lua_getstack, lua_getinfo) about each state, and with the order in which
 * the states entered each other, which the functions that enter them write down.
 *
 * Lua activations: file, line, name and state must be equal.  Activations of C functions: the
 * native frame that starts where the function does, in its place between the script frames; or a
 * frame that says it has none of its own; or, where a function gave its frame away (a sibling call,
 * a continuation), another native frame in that place: those are counted as adopted.
 */
#ifndef TESTS_LUA_ORACLE_H
#define TESTS_LUA_ORACLE_H

#include "frames.h"

#include <stdbool.h>

#include <lua.h>
#include <lauxlib.h>
#include <lualib.h>

/* What a check found wrong is printed with this name. */
extern const char *oracle_scenario;

/* Begin anew, with nothing entered: the outermost state runs. */
void oracle_begin(const char *scenario);

typedef struct oracle_counts {
    int checks, failures;
    int lua;      /* activations of Lua functions that were equal */
    int exact;    /* activations of C functions with the frame that starts where they do */
    int labelled; /* with the frame that says there is none */
    int adopted;  /* with another native frame in their place */
    int inferred; /* of all these, those whose place was inferred */
    int gaps;     /* stretches without a place */
    int tails;    /* tail calls, each said by a gap behind the function they led to */
} oracle_counts;

extern oracle_counts oracle;

/* Frames may be marked as inferred, and gaps may say that a call site was missed. */
extern bool oracle_site_is_missed;

/* A name from package.loaded may come late: until then it is said where the function was defined. */
extern bool oracle_names_may_come_late;

/* Where captures of several copies of Lua meet: each names its states by its own number. */
typedef const char *(*oracle_state_name)(lua_State *L);
extern oracle_state_name oracle_name_state; /* NULL: all states but the first have other names */

/*
 * FROM, which now runs a C function, enters another state or coroutine TO.  FRESH: what TO has on
 * its stack already belongs to this stretch (a coroutine that rests), or does not (a state that
 * runs further out).  EXTRA: activations that FROM will have on top of those it has now.
 */
void oracle_enter(lua_State *from, lua_State *to, bool fresh, int extra);
void oracle_leave(void);

/* Capture here, in a function called by L or in a hook of L, and compare. */
void oracle_check(lua_State *L);

void oracle_complain(const char *what, const char *expected, const char *got);

#endif
