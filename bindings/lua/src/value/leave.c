/*
 * Causes: the error from which an error was made.  A script sets one as the field "cause" of its
 * error value, or passes it to stacksplice.error.  The error of a cause exists before that of its
 * effect, so there are no circles.
 */
#include "value/value.h"

/* ---- Causes -----------------------------------------------------------------------------------*/

/* Push the cause that the value at INDEX names; push nothing and return false when there is none.
   Numbers, booleans and functions are other data under the same name. [-0, +(0|1), m] */
static bool push_cause(lua_State *L, int index)
{
    if (!lua_istable(L, index) && !lua_isuserdata(L, index))
        return false;
    ss_lua_push_field(L, index, "cause");
    switch (lua_type(L, -1)) {
    case LUA_TSTRING:
    case LUA_TTABLE:
    case LUA_TUSERDATA:
        return true;
    default:
        lua_pop(L, 1);
        return false;
    }
}

/* Whether the values from FIRST on contain the value at the top. */
static bool is_among(lua_State *L, int first)
{
    int top = lua_gettop(L);

    for (int i = first; i < top; i++)
        if (lua_rawequal(L, i, top))
            return true;
    return false;
}

/* Whether a chain with one more error would be too long: the core cuts longer chains too. */
static bool is_too_deep(IUnknown *error)
{
    uint32_t depth = STACKSPLICE_MAX_DEPTH;

    (void)stacksplice_error_depth(error, &depth);
    return depth >= STACKSPLICE_MAX_DEPTH;
}

/* Whether the cause of the value at the top was not looked up before; marks it as looked up. [-0,
   +0, m] */
static bool is_to_be_asked(lua_State *L, ss_lua_state *state, const ss_lua_origin *origin)
{
    ss_lua_hold *hold;
    bool asked;

    if (ss_lua_to_error(L, -1) || !ss_lua_has_identity(L, -1))
        return false;
    hold = ss_lua_hold_of(ss_lua_ties_make(L, state, -1, origin));
    asked = hold->cause_asked;
    hold->cause_asked = true;
    return !asked;
}

static void relate(lua_State *L, int index, stacksplice_ties *ties, int cause,
                   stacksplice_relation relation)
{
    IScriptErrorInfo *error = (IScriptErrorInfo *)ss_lua_to_error(L, cause);

    if (ties->error) /* its __tostring originated it */
        return;
    cause = lua_absindex(L, cause);
    index = lua_absindex(L, index);
    /* First, so that the core may hold it from outside. */
    ss_lua_pin(L, cause, ss_lua_ties_find(L, cause));
    ss_lua_pin_alone(L, ties->exception, index);
    if (ss_lua_has_identity(L, index)) {
        ss_lua_hold_of(ties)->cause_asked = true;
        ss_lua_push_tied(L, index);
        lua_pushvalue(L, cause);
        lua_setiuservalue(L, -2, SS_LUA_CAUSE);
        lua_pop(L, 1);
    }
    if (is_too_deep((IUnknown *)error))
        return;
    error->lpVtbl->AddRef(error);
    stacksplice_exception_set_cause(ties->exception, error, relation, 0);
    error->lpVtbl->Release(error);
}

void ss_lua_set_cause(lua_State *L, int index, stacksplice_ties *ties, int cause)
{
    relate(L, index, ties, cause, STACKSPLICE_RELATION_CAUSE);
}

void ss_lua_set_context(lua_State *L, ss_lua_state *state, int index, int context)
{
    stacksplice_ties *ties =
        ss_lua_has_identity(L, index) ? ss_lua_ties_find(L, index) : &state->last;

    context = lua_absindex(L, context);
    if (!ties || !ties->exception || stacksplice_exception_related(ties->exception, 0))
        return;
    if (push_cause(L, index))
        lua_pop(L, 1);
    else
        relate(L, index, ties, context, STACKSPLICE_RELATION_CONTEXT);
}

/* Push the error object of the value at the top, whose own cause was already looked up. [-0, +1,
   m] */
static void push_error(lua_State *L, ss_lua_state *state, const ss_lua_origin *origin)
{
    stacksplice_ties *ties;
    IUnknown **holder;

    if (ss_lua_to_error(L, -1)) {
        lua_pushvalue(L, -1);
        return;
    }
    holder = ss_lua_push_holder(L);
    ties = ss_lua_ties_make(L, state, -2, origin);
    ss_lua_pin(L, -2, ties);
    ss_lua_push_made_error(L, state, holder, ties);
}

/* Look up the cause of the value at INDEX, which has ties, the cause of that cause and so on; make
   errors of them and tie each to the next.  Does nothing the second time.  Call it before any code
   outside gets the exception.  EFFECT says how to take the value's own stack. [-0, +0, m] */
static void find_causes(lua_State *L, ss_lua_state *state, int index, const ss_lua_origin *effect)
{
    ss_lua_origin origin = {
        .which = SS_LUA_LAST, .above = effect->above, .status = LUA_ERRRUN, .unwound = true};
    int first = lua_gettop(L) + 1;

    luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
    lua_pushvalue(L, index);
    while (is_to_be_asked(L, state, &origin) && lua_gettop(L) - first < STACKSPLICE_MAX_DEPTH &&
           push_cause(L, -1)) {
        luaL_checkstack(L, LUA_MINSTACK, "stacksplice");
        if (is_among(L, first))
            lua_pop(L, 1); /* which was looked up: the loop ends */
    }
    /* From the innermost cause outward, make an error of each and tie it to the next. */
    while (lua_gettop(L) > first) {
        push_error(L, state, &origin);
        lua_remove(L, -2);
        if (ss_lua_to_error(L, -1)) /* else origination is switched off */
            ss_lua_set_cause(L, -2, ss_lua_ties_find(L, -2), -1);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
}

/* ---- Leaving ----------------------------------------------------------------------------------*/

/* An error value leaves Lua: originate its error once, then put it back or show it. */

stacksplice_ties *ss_lua_ties_ready(lua_State *L, ss_lua_state *state, int index,
                                    const ss_lua_origin *origin)
{
    stacksplice_ties *ties = ss_lua_ties_make(L, state, index, origin);

    find_causes(L, state, index, origin);
    ss_lua_pin(L, index, ties);
    return ties;
}

HRESULT ss_lua_originate_value(lua_State *L, ss_lua_state *state, int index,
                               const ss_lua_origin *origin)
{
    stacksplice_ties *ties = ss_lua_ties_ready(L, state, index, origin);
    HRESULT hr = E_FAIL, result = stacksplice_leave(ties, &hr);

    return FAILED(result) ? result : hr;
}

void ss_lua_push_error_of(lua_State *L, ss_lua_state *state, int index, const ss_lua_origin *origin)
{
    IUnknown **holder;

    if (ss_lua_to_error(L, index)) {
        lua_pushvalue(L, index);
        return;
    }
    index = lua_absindex(L, index);
    holder = ss_lua_push_holder(L);
    ss_lua_push_made_error(L, state, holder, ss_lua_ties_ready(L, state, index, origin));
}
