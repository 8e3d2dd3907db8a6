/*
 * What pcall caught.  Where install was asked for it, functions stand in the places of pcall and xpcall that
 * note the activations that an error ends, as tokens: nothing is resolved, no native frame is captured.
 * Where the error is raised again, it has these frames.  What xpcall caught is what the script's handler made
 * of it.
 *
 * A text has no identity.  So the code of the function that raises must prove that its value is the one
 * that pcall returned:
 *
 *     local ok, e = pcall(f)               A variable that begins at the instruction behind the call, that
 *     if not ok then error(e, 0) end       nothing else sets, and that is copied to where `error` has it.
 *     assert(ok, e)  assert(pcall(f))      So are the arguments of functions in Lua in between, up to
 *     check(ok, e)   check(pcall(f))       a few.
 *
 * The first variable is false.  So this very activation has called pcall there, and the call has failed; each
 * call that fails replaces what is known of the one before at that place.
 */
#include "calibrate/calibrate.h"
#include "cross/cross.h"
#include "version/call_info.h"
#include "version/instructions.h"

#include <string.h>

#if SS_LUA_JIT

/* A function in C between a coroutine and its body would not let it yield. */
ss_lua_caught *ss_lua_find_caught(lua_State *L, ss_lua_state *state, int index, lua_State *thread,
                                  int level)
{
    (void)L;
    (void)state;
    (void)index;
    (void)thread;
    (void)level;
    return NULL;
}

bool ss_lua_push_caught(lua_State *L, ss_lua_state *state, int index, int level, const void *above)
{
    (void)L;
    (void)state;
    (void)index;
    (void)level;
    (void)above;
    return false;
}

#else

/* ---- Code -------------------------------------------------------------------------------------*/

/* The code of a function in Lua, and where its activation goes on in it. */
typedef struct code {
    const uint32_t *instructions;
    uintptr_t prototype;
    uint32_t count, next;
} code;

/* The operations that set their register A. */
static const uint64_t sets_a[2] = SS_LUA_SETS_A;

static bool knows_code(void)
{
    const ss_lua_layout *layout = ss_lua_layout_get();

    return layout && !layout->failure;
}

/* False if CI is no function in Lua, or its prototype is not as we know it. */
static bool read_code(uintptr_t ci, code *out)
{
    uintptr_t pc;

    if (!ci || !knows_code() || !ss_lua_is_in_lua(ci))
        return false;
    pc = ss_lua_pc_of(ci);
    out->prototype = ss_lua_word(ss_lua_function_of(ci) + SS_LUA_AT_PROTO);
    out->instructions = (const uint32_t *)ss_lua_word(out->prototype + SS_LUA_AT_CODE);
    out->count = *(const uint32_t *)(out->prototype + SS_LUA_AT_CODE_COUNT);
    out->next = (uint32_t)((pc - (uintptr_t)out->instructions) / sizeof *out->instructions);
    return pc > (uintptr_t)out->instructions && out->next <= out->count;
}

/* The instruction that calls what runs inside. */
static uint32_t calling(const code *c)
{
    return c->instructions[c->next - 1];
}

static uint32_t field(uint32_t instruction, int at, uint32_t bits)
{
    return instruction >> at & bits;
}

/* The instructions in which a variable exists. */
typedef struct scope {
    uint32_t begin, end;
} scope;

/* The scope of the variable that register NUMBER has where the function goes on. */
static bool find_scope(const code *c, uint32_t number, scope *out)
{
    enum { VARIABLE_SIZE = 16, AT_BEGIN = 8, AT_END = 12 };
    uintptr_t variables = ss_lua_word(c->prototype + SS_LUA_AT_VARIABLES);
    uint32_t count = *(const uint32_t *)(c->prototype + SS_LUA_AT_VARIABLE_COUNT),
             now = c->next - 1;

    for (uint32_t i = 0; variables && i < count; i++) {
        uintptr_t variable = variables + (uintptr_t)i * VARIABLE_SIZE;

        out->begin = *(const uint32_t *)(variable + AT_BEGIN);
        out->end = *(const uint32_t *)(variable + AT_END);
        if (out->begin > now)
            return false;
        if (now < out->end && number-- == 0)
            return out->end <= c->count;
    }
    return false;
}

/* Whether nothing in its scope may set the variable in register NUMBER: a function inside could, too. */
static bool is_constant(const code *c, uint32_t number, const scope *in)
{
    for (uint32_t i = in->begin; i < in->end; i++) {
        uint32_t operation = c->instructions[i] & SS_LUA_OPERATION;

        if (operation == SS_LUA_CLOSURE ||
            ((sets_a[operation / 64] >> operation % 64 & 1) &&
             field(c->instructions[i], SS_LUA_AT_REGISTER, SS_LUA_BITS_A) == number))
            return false;
    }
    return true;
}

enum { NOWHERE = -1, MOST_ARGUMENTS = 4 };

/* The register that was copied to argument POSITION, from 1, of the call; NOWHERE: none is known to be. */
static int copied(const code *c, uint32_t position)
{
    uint32_t function = field(calling(c), SS_LUA_AT_REGISTER, SS_LUA_BITS_A);

    for (uint32_t i = 2; i < 2 + MOST_ARGUMENTS && i <= c->next; i++) {
        uint32_t instruction = c->instructions[c->next - i];
        uint32_t target = field(instruction, SS_LUA_AT_REGISTER, SS_LUA_BITS_A);

        if (target == function + position)
            return (instruction & SS_LUA_OPERATION) == SS_LUA_MOVE
                       ? (int)field(instruction, SS_LUA_AT_B, SS_LUA_BITS_BC)
                       : NOWHERE;
        if (target <= function)
            return NOWHERE;
    }
    return NOWHERE;
}

/* ---- The proof --------------------------------------------------------------------------------*/

/* The first of the PLACES, which are not empty, and the places without it. */
static inline ss_lua_caught *take_place(ss_lua_state *state, uint32_t *places)
{
    ss_lua_caught *caught = &state->caught[__builtin_ctz(*places)];

    *places &= *places - 1;
    return caught;
}

static ss_lua_caught *caught_in(ss_lua_state *state, lua_State *thread, uintptr_t ci, int result)
{
    for (uint32_t places = state->caught_places; places;) {
        ss_lua_caught *caught = take_place(state, &places);

        if (caught->L == thread && !caught->call && caught->result == result &&
            ss_lua_ci_address(thread, caught->ci) == ci)
            return caught;
    }
    return NULL;
}

/* Whether register NUMBER of the activation is false. [-0, +0, -], a slot */
static bool is_false(lua_State *thread, uintptr_t ci, int number)
{
    lua_Debug activation = ss_lua_debug_of(thread, ci);
    bool is;

    if (!lua_getlocal(thread, &activation, number + 1))
        return false;
    is = lua_isboolean(thread, -1) && !lua_toboolean(thread, -1);
    lua_pop(thread, 1);
    return is;
}

/* What the variable in register NUMBER certainly has. */
static ss_lua_caught *caught_variable(ss_lua_state *state, lua_State *thread, uintptr_t ci,
                                      const code *c, int number)
{
    ss_lua_caught *caught = number > 0 ? caught_in(state, thread, ci, number) : NULL;
    scope value, status;

    if (!caught || !find_scope(c, (uint32_t)number, &value) ||
        !find_scope(c, (uint32_t)number - 1, &status) || value.begin != status.begin ||
        caught->pc != (uintptr_t)(c->instructions + value.begin) ||
        !is_constant(c, (uint32_t)number, &value) ||
        !is_constant(c, (uint32_t)number - 1, &status) || !is_false(thread, ci, number - 1))
        return NULL;
    return caught;
}

/* What the argument POSITION certainly is if all results of pcall are arguments of the next call. */
static ss_lua_caught *caught_result(ss_lua_state *state, lua_State *thread, uintptr_t ci,
                                    const code *c, uint32_t position)
{
    uint32_t function = field(calling(c), SS_LUA_AT_REGISTER, SS_LUA_BITS_A);
    ss_lua_caught *caught;

    if (field(calling(c), SS_LUA_AT_B, SS_LUA_BITS_BC) ||
        field(c->instructions[c->next - 2], SS_LUA_AT_C, SS_LUA_BITS_BC))
        return NULL;
    caught = caught_in(state, thread, ci, (int)(function + position));
    return caught && caught->pc == (uintptr_t)(c->instructions + c->next - 1) ? caught : NULL;
}

enum { MOST_CALLS = 4 }; /* through which an argument is followed */

/* What argument POSITION of the function that CI calls was when pcall caught it.  *NUMBER: the register of
   CI that has it; NOWHERE: none has. */
static ss_lua_caught *caught_argument(ss_lua_state *state, lua_State *thread, uintptr_t ci,
                                      uint32_t position, int *number)
{
    ss_lua_caught *caught;
    scope parameter;
    code c;

    for (int i = 0; i < MOST_CALLS && read_code(ci, &c) && c.next >= 2; i++) {
        int from = copied(&c, position);

        if (i == 0)
            *number = from;
        if (from == NOWHERE)
            return caught_result(state, thread, ci, &c, position);
        caught = caught_variable(state, thread, ci, &c, from);
        if (caught)
            return caught;
        if (!find_scope(&c, (uint32_t)from, &parameter) || parameter.begin ||
            !is_constant(&c, (uint32_t)from, &parameter) || ss_lua_is_tail_call(ci))
            return NULL;
        position = (uint32_t)from + 1;
        ci = ss_lua_outer(ci);
    }
    return NULL;
}

/* Whether the value at INDEX of L is that in register NUMBER of the caller of LEVEL, also behind a place. */
static bool is_value_in(lua_State *L, int index, lua_State *thread, uintptr_t ci, int number,
                        int level)
{
    lua_Debug activation = ss_lua_debug_of(thread, ci);
    bool is;

    if (!lua_getlocal(thread, &activation, number + 1))
        return false;
    if (thread != L)
        lua_xmove(thread, L, 1);
    is = ss_lua_has_text(L, index, lua_gettop(L), thread, level);
    lua_pop(L, 1);
    return is;
}

/* Whether CI, or a function in Lua that it got its arguments from, has been given what pcall caught. */
static bool may_have_caught(ss_lua_state *state, lua_State *thread, uintptr_t ci)
{
    for (int i = 0; i < MOST_CALLS && ci && ss_lua_is_in_lua(ci); i++, ci = ss_lua_outer(ci))
        for (uint32_t places = state->caught_places; places;) {
            const ss_lua_caught *caught = take_place(state, &places);

            if (caught->L == thread && !caught->call && ss_lua_ci_address(thread, caught->ci) == ci)
                return true;
        }
    return false;
}

/* The same of the value that CI, the function at LEVEL, raises.  `assert` has it as its second argument. */
static ss_lua_caught *find_raised(lua_State *L, ss_lua_state *state, int index, lua_State *thread,
                                  uintptr_t ci, int level)
{
    if (!ci || ss_lua_is_in_lua(ci) || ss_lua_is_tail_call(ci))
        return NULL;
    ci = ss_lua_outer(ci);
    if (!may_have_caught(state, thread, ci))
        return NULL;
    for (uint32_t position = 1; position <= 2; position++) {
        int number = NOWHERE;
        ss_lua_caught *caught = caught_argument(state, thread, ci, position, &number);

        if (caught &&
            (number == NOWHERE ? position == 2 : is_value_in(L, index, thread, ci, number, level)))
            return caught;
    }
    return NULL;
}

ss_lua_caught *ss_lua_find_caught(lua_State *L, ss_lua_state *state, int index, lua_State *thread,
                                  int level)
{
    lua_Debug raiser;

    if (!state->caught_number || !knows_code() || !lua_checkstack(thread, 2) ||
        !lua_getstack(thread, level, &raiser))
        return NULL;
    return find_raised(L, state, index, thread, ss_lua_ci_address(thread, raiser.i_ci), level);
}

/* ---- A context --------------------------------------------------------------------------------*/

/* Push the variable that certainly has what pcall CAUGHT, for the function that runs at CI. [-0, +(0|1), -],
   a slot */
static bool push_variable(lua_State *L, ss_lua_state *state, uintptr_t ci, const code *c,
                          const ss_lua_caught *caught)
{
    lua_Debug activation = ss_lua_debug_of(L, ci);

    return caught->L == L && !caught->call && ss_lua_ci_address(L, caught->ci) == ci &&
           caught_variable(state, L, ci, c, caught->result) == caught &&
           lua_getlocal(L, &activation, caught->result + 1);
}

/* Push the error object of the guest at the top if the string at INDEX has its text, and return true.
   [-0, +(0|1), m], 4 slots */
static bool push_guest(lua_State *L, ss_lua_state *state, int index, const void *above)
{
    size_t length = 0;
    const char *text = lua_type(L, index) == LUA_TSTRING ? lua_tolstring(L, index, &length) : NULL;
    IUnknown **holder;
    bool found;

    if (!text || !state->outside.data)
        return false;
    holder = ss_lua_push_holder(L);
    *holder = state->outside.find_in(state->outside.data, L, -2, text, length, above);
    found = *holder != NULL;
    if (found)
        ss_lua_push_error(L, state, *holder);
    ss_lua_drop_holder(L, found ? -2 : -1);
    return found;
}

/* Whether the string at INDEX has the text of the value at the top. [-0, +0, m] */
static bool has_text_of(lua_State *L, int index)
{
    const char *text;
    size_t length;
    bool has;

    if (lua_type(L, index) != LUA_TSTRING ||
        (lua_type(L, -1) != LUA_TSTRING && !ss_lua_to_error(L, -1)))
        return false;
    text = luaL_tolstring(L, -1, &length);
    has = length && strstr(lua_tostring(L, index), text);
    lua_pop(L, 1);
    return has;
}

/* Push the error object of the value at the top, which CAUGHT is, if the string at INDEX has its text, and
   return true: not while origination is switched off. [-0, +(0|1), m] */
static bool push_own(lua_State *L, ss_lua_state *state, int index, const ss_lua_caught *caught,
                     const void *above)
{
    ss_lua_caught copy = *caught;
    const ss_lua_origin origin = {.which = caught->ties.exception ? SS_LUA_LAST : SS_LUA_NEW,
                                  .above = above,
                                  .status = LUA_ERRRUN,
                                  .unwound = true,
                                  .is_context = true,
                                  .caught = &copy};

    if (!has_text_of(L, index))
        return false;
    if (caught->ties.exception)
        ss_lua_set_last(state, &caught->ties);
    ss_lua_push_error_of(L, state, -1, &origin);
    return ss_lua_to_error(L, -1) != NULL;
}

static const char inferred[] = "inferred: the text of the error that followed has this one's";

static int is_inferred(const char *text, size_t length, void *data)
{
    (void)data;
    return length == sizeof inferred - 1 && !memcmp(text, inferred, length);
}

/* Say so of ERROR, which may have led to others before. */
static void note_inferred(IUnknown *error)
{
    if (stacksplice_error_notes(error, is_inferred, NULL) == S_OK)
        (void)stacksplice_add_note(error, inferred, sizeof inferred - 1);
}

/* The newest of what was caught before NUMBER; NULL: there is none. */
static ss_lua_caught *newest_before(ss_lua_state *state, uint64_t number)
{
    ss_lua_caught *newest = NULL;

    for (uint32_t i = 0; i < SS_LUA_CAUGHT; i++) {
        ss_lua_caught *caught = &state->caught[i];

        if (caught->number && caught->number < number &&
            (!newest || caught->number > newest->number))
            newest = caught;
    }
    return newest;
}

bool ss_lua_push_caught(lua_State *L, ss_lua_state *state, int index, int level, const void *above)
{
    const ss_lua_caught *caught;
    uint64_t number = UINT64_MAX;
    int top = lua_gettop(L);
    lua_Debug caller;
    uintptr_t ci;
    code c;

    if (!state->caught_number || !lua_getstack(L, level + 1, &caller))
        return false;
    while ((caught = newest_before(state, number)) != NULL) {
        number = caught->number;
        lua_settop(L, top);
        ci = ss_lua_ci_address(L, caller.i_ci); /* 5.1 moves activations when it calls */
        if (!read_code(ci, &c))
            return false;
        if (!push_variable(L, state, ci, &c, caught))
            continue;
        if (ss_lua_is_guest(L, -1) ? !push_guest(L, state, index, above)
                                   : !push_own(L, state, index, caught, above))
            continue;
        note_inferred(ss_lua_to_error(L, -1));
        lua_replace(L, top + 1);
        lua_settop(L, top + 1);
        return true;
    }
    lua_settop(L, top);
    return false;
}

/* ---- Keeping ----------------------------------------------------------------------------------*/

/* Where both functions have the message handler while their call runs, and xpcall that of the script. */
enum { HANDLER = 1, SCRIPTS = 2 };

/* As ss_lua_state_find, at once. */
static ss_lua_state *state_of(lua_State *L)
{
    return ss_lua_state_of_registry(lua_topointer(L, LUA_REGISTRYINDEX));
}

/* The place for what CALL of L catches: that of what nobody has asked for, a free one, or the oldest.
   Nothing else is known of that call then. */
static ss_lua_caught *place_for(ss_lua_state *state, lua_State *L, ss_lua_ci call)
{
    enum { ALL = (1 << SS_LUA_CAUGHT) - 1 };
    ss_lua_caught *place = state->caught;

    for (uint32_t places = state->caught_places; places;) {
        ss_lua_caught *caught = take_place(state, &places);

        if (caught->L == L && caught->call && ss_lua_is_same_ci(caught->call, call))
            ss_lua_forget_caught(state, caught);
    }
    if (state->caught_places != ALL)
        return &state->caught[__builtin_ctz(~state->caught_places)];
    for (uint32_t i = 1; i < SS_LUA_CAUGHT; i++)
        if (state->caught[i].number < place->number)
            place = &state->caught[i];
    ss_lua_forget_caught(state, place);
    return place;
}

static int note_caught(lua_State *L);

/* Whether CI is a pcall or xpcall of ours in its call: not if it refuses its arguments, or if the script's
   handler runs already. */
static bool is_catching(uintptr_t ci)
{
    uintptr_t function = ss_lua_c_function_of(ci);

    return (function == (uintptr_t)ss_lua_keeping_pcall ||
            function == (uintptr_t)ss_lua_keeping_xpcall) &&
           ss_lua_c_function_at(ss_lua_slot_of(ci) + (uintptr_t)HANDLER * SSI_LUA_VALUE) ==
               (uintptr_t)note_caught;
}

/* The innermost call of ours outward of CI; 0: none. */
static uintptr_t catching_call(uintptr_t ci)
{
    while (ci && !is_catching(ci))
        ci = ss_lua_outer(ci);
    return ci;
}

/* What has its whole stack is the state's last value then. [-0, +0, m] */
static SS_LUA_BODY int find_known(lua_State *L)
{
    ss_lua_state *state = ss_lua_state_find(L);
    bool *known = lua_touserdata(L, 2);

    *known = state && ss_lua_sees_raised(L, state, 1, L, 2);
    return 0;
}

/* Whether a function of ours raises the value at 1, or coroutine.resume gave it. */
static bool is_known(lua_State *L, const ss_lua_state *state)
{
    bool known = false, may_be = state->resumed.L != NULL;

    for (uint32_t i = 0; state->marks && i < SS_LUA_AT_ONCE; i++)
        may_be |= state->raising[i].L == L;
    return may_be && ss_lua_call_protected(L, find_known, &known) && known;
}

/* Begin FRAMES with those of what was caught AGAIN, and the seam: at most half of them. */
static uint32_t begin_with(const ss_lua_caught *again, uintptr_t *frames)
{
    enum { MOST = SS_LUA_CAUGHT_FRAMES / 2 - 1 };
    uint32_t count = stacksplice_copy_ends(again->frames, again->count, MOST, frames);

    frames[count++] = ss_lua_gap(SS_LUA_CAUGHT_HERE);
    return count;
}

/* The value at 1 is on its way to that CALL. */
static void note(lua_State *L, ss_lua_state *state, ss_lua_ci call)
{
    uintptr_t raiser = ss_lua_outer(ss_lua_innermost(L));
    const ss_lua_caught *again;
    ss_lua_caught *caught, former;

    again = state->handling ? NULL : find_raised(L, state, 1, L, raiser, 1);
    former.count = 0;
    former.ties = (stacksplice_ties){NULL, NULL, 0};
    if (again && again->ties.exception)
        ss_lua_keep(&former.ties, &again->ties);
    else if (again)
        former.count = begin_with(again, former.frames);
    caught = place_for(state, L, call);
    if (state->handling)
        return;
    if (!again && is_known(L, state))
        ss_lua_keep(&former.ties, &state->last);
    raiser = ss_lua_outer(ss_lua_innermost(L)); /* 5.1 moves activations when it calls */
    caught->L = L;
    caught->call = call;
    caught->number = ++state->caught_number;
    state->caught_places |= 1U << (caught - state->caught);
    caught->ties = former.ties;
    caught->count = former.count;
    memcpy(caught->frames, former.frames, former.count * sizeof *former.frames);
    caught->count +=
        ss_lua_run_frames(L, state, raiser, ss_lua_ci_address(L, call),
                          SS_LUA_CAUGHT_FRAMES - former.count, caught->frames + former.count);
}

/*
 * Have Lua call the script's handler, at 2, of xpcall CALL with the value at 1, as it would have done: the
 * caller is the function that raised, which debug.traceback and debug.getinfo then find where the script
 * expects it.  So our own activation ends first, and the handler takes our place, also for errors of its own.
 */
static SS_LUA_LEFT void hand_on(lua_State *L, uintptr_t call)
{
    lua_Debug activation = ss_lua_debug_of(L, call);

    (void)lua_setlocal(L, &activation, HANDLER);
    ss_lua_leave(L);
    lua_replace(L, -2); /* the value in the place of our function */
    (void)lua_error(L);
    __asm__ volatile("" ::: "memory"); /* no tail call: our frame says what has left */
}

/* Call the script's handler of xpcall CALL with the value at 1.  Inlined, so that the function whose
   activation ends is the caller of hand_on. */
static inline __attribute__((always_inline)) int call_handler(lua_State *L, uintptr_t call)
{
    lua_Debug activation = ss_lua_debug_of(L, call);

    (void)lua_getlocal(L, &activation, SCRIPTS);
    if (ss_lua_may_leave(L))
        hand_on(L, call);
    lua_insert(L, 1);
    lua_call(L, 1, 1);
    return 1;
}

/* Whether CALL is an xpcall whose handler is to be called: interrupts pass most of them. */
static bool has_handler(lua_State *L, const ss_lua_state *state, uintptr_t call)
{
    return ss_lua_c_function_of(call) == (uintptr_t)ss_lua_keeping_xpcall &&
           (!state || !state->interrupted || !ss_lua_is_interrupted(L, state) ||
            ss_lua_hears_interrupts(state, ss_lua_slot_of(call) + SCRIPTS * SSI_LUA_VALUE));
}

/* The message handler of both.  Scripts reach it by the library debug. */
static SS_LUA_OWN int note_caught(lua_State *L)
{
    ss_lua_state *state = state_of(L);
    uintptr_t end;
    ss_lua_ci call;

    lua_settop(L, 1);
    end = knows_code() ? catching_call(ss_lua_outer(ss_lua_innermost(L))) : 0;
    if (!end)
        return 1;
    call = ss_lua_ci_of(L, end);
    if (state)
        note(L, state, call);
    if (state && state->outside.data && !state->handling && ss_lua_is_guest(L, 1))
        state->outside.caught(state->outside.data, L, 1, SS_LUA_HERE());
    end = ss_lua_ci_address(L, call); /* 5.1 moves activations when it calls */
    return has_handler(L, state, end) ? call_handler(L, end) : 1;
}

static int plant_protected(lua_State *L)
{
    ss_lua_state_tend(L, ss_lua_state_open(L));
    return 0;
}

/* After a collection what is known of functions in Lua must be asked again, until there is a new canary. */
static void tend(lua_State *L, const ss_lua_state *state)
{
    if (!state->wants_tending || !lua_checkstack(L, 2))
        return;
    lua_pushcfunction(L, plant_protected);
    if (lua_pcall(L, 0, 0, 0) != LUA_OK)
        lua_pop(L, 1);
}

/* The running call has failed: what it HAS_CAUGHT belongs to the activation that called it, and what that one
   had in the registers from there on is gone.  If it has caught nothing, Lua ended the handler, for want of
   memory or of stack.  The last TAIL bytes of the text are no part of the message. */
static void give(lua_State *L, ss_lua_state *state, bool has_caught, size_t tail)
{
    uintptr_t call = ss_lua_innermost(L), receiver = ss_lua_outer(call);
    bool in_lua = receiver && ss_lua_is_in_lua(receiver);
    int result =
        in_lua ? (int)((ss_lua_slot_of(call) - ss_lua_registers_of(receiver)) / SSI_LUA_VALUE) + 1
               : 0;

    for (uint32_t places = state->caught_places; places;) {
        ss_lua_caught *caught = take_place(state, &places);

        if (caught->L != L)
            continue;
        if (caught->call && ss_lua_ci_address(L, caught->call) == call) {
            if (!in_lua || !has_caught) {
                ss_lua_forget_caught(state, caught);
                continue;
            }
            caught->call = 0;
            caught->ci = ss_lua_ci_of(L, receiver);
            caught->pc = ss_lua_pc_of(receiver);
            caught->result = result;
            caught->tail = tail;
        } else if (!caught->call && in_lua && caught->result >= result - 1 &&
                   ss_lua_ci_address(L, caught->ci) == receiver && caught->number) {
            ss_lua_forget_caught(state, caught);
        }
    }
}

/* ---- The functions ----------------------------------------------------------------------------*/

/* How much of the text at the top, what xpcall returns, is the traceback of this stack that its handler has
   put there: debug.traceback itself, or a function that has called it. */
static size_t length_of_traceback(lua_State *L)
{
    size_t length = 0;
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &length) : NULL;
    const char *begin = text ? strstr(text, "\nstack traceback:\n") : NULL;

    return begin && (lua_iscfunction(L, SCRIPTS) || strstr(begin, "'xpcall'"))
               ? length - (size_t)(begin - text)
               : 0;
}

static SS_LUA_NOINLINE int finish_failed(lua_State *L, int status, int below)
{
    ss_lua_state *state = state_of(L);

    if (state && knows_code()) {
        give(L, state, status == LUA_ERRRUN, below == SCRIPTS ? length_of_traceback(L) : 0);
        tend(L, state);
    }
    lua_pushboolean(L, 0);
    lua_pushvalue(L, -2);
    return 2;
}

/* BELOW: how many values are below the results. */
static inline int finish(lua_State *L, int status, lua_KContext below)
{
    return status == LUA_OK || status == LUA_YIELD ? lua_gettop(L) - (int)below
                                                   : finish_failed(L, status, (int)below);
}

SS_LUA_CONTINUATION(finish);

/* A hook of calls would see the message handler. */
static inline bool sees_calls(lua_State *L)
{
    return lua_gethookmask(L) & (LUA_MASKCALL | LUA_MASKRET);
}

SS_LUA_OWN int ss_lua_keeping_pcall(lua_State *L)
{
    int handler = sees_calls(L) ? 0 : HANDLER, count = lua_gettop(L);

    if (count == 0)
        luaL_checkany(L, 1);
    lua_pushcfunction(L, note_caught);
    lua_pushboolean(L, 1);
    lua_rotate(L, HANDLER, 2);
    return finish(L, lua_pcallk(L, count - 1, LUA_MULTRET, handler, HANDLER, SS_LUA_K(finish)),
                  HANDLER);
}

/* 5.1 gives the function no arguments; it and 5.2 let a handler be of any type, and say so where it is
   called. */
SS_LUA_OWN int ss_lua_keeping_xpcall(lua_State *L)
{
    if (SS_LUA_XPCALL_CHECKS_HANDLER)
        luaL_checktype(L, 2, LUA_TFUNCTION);
    else
        luaL_checkany(L, 2);
    if (!SS_LUA_XPCALL_PASSES)
        lua_settop(L, 2);
    lua_pushboolean(L, 1);
    lua_pushvalue(L, 1);
    lua_rotate(L, SCRIPTS + 1, 2);
    if (sees_calls(L) || !lua_isfunction(L, SCRIPTS) || !knows_code())
        lua_pushvalue(L, SCRIPTS);
    else
        lua_pushcfunction(L, note_caught);
    lua_replace(L, HANDLER);
    return finish(
        L,
        lua_pcallk(L, lua_gettop(L) - SCRIPTS - 2, LUA_MULTRET, HANDLER, SCRIPTS, SS_LUA_K(finish)),
        SCRIPTS);
}

#endif

bool ss_lua_take_caught(lua_State *L, ss_lua_state *state, int index, lua_State *thread, int level,
                        ss_lua_caught *caught)
{
    const ss_lua_caught *found = ss_lua_find_caught(L, state, index, thread, level);
    bool is_value;

    caught->number = 0;
    if (!found)
        return false;
    is_value = ss_lua_is_value_of(L, &found->ties, index);
    if (!found->ties.exception || (!is_value && lua_type(L, index) != LUA_TSTRING)) {
        *caught = *found; /* a handler may have made anything of it */
        return false;
    }
    if (is_value)
        ss_lua_set_last(state, &found->ties);
    else
        ss_lua_rename_last(L, state, &found->ties, index, found->tail);
    return true;
}

void ss_lua_forget_all_caught(ss_lua_state *state)
{
    for (uint32_t i = 0; i < SS_LUA_CAUGHT; i++)
        ss_lua_forget_caught(state, &state->caught[i]);
}
