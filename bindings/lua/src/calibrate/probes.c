/*
 * Learns by running the snippets in a private state.  The C functions that Lua calls there look at
 * their callers, as a capture shows them, and at what Lua says of itself.
 */
#include "calibrate/calibrate.h"
#include "life/life.h"

#include <lauxlib.h>
#include <lualib.h>

#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
static const uint32_t callee_saved[] = {3, 6, 12, 13, 14, 15};
#elif defined(__aarch64__)
static const uint32_t callee_saved[] = {19, 20, 21, 22, 23, 24};
#else
#error "the callee-saved registers of this architecture are not known here"
#endif

enum { REGISTERS = sizeof callee_saved / sizeof *callee_saved, SLOTS = 128, MET = 64 };

/* The places that held a value at every visit so far; slots only once no register is left. */
typedef struct candidates {
    uint32_t registers;
    uint64_t slots[SLOTS / 64];
} candidates;

/* What is being learnt; one thread does at a time. */
static struct {
    ss_lua_layout *layout;
    candidates state[SS_LUA_SITES], ci[SS_LUA_SITES];
    uint32_t visits[2][SS_LUA_SITES]; /* by probes of each kind */
    bool upvalues, has_probes;        /* the kind that is called now, if any */
    pthread_t thread;                 /* that learns */
    lua_State *visited;               /* of the visit; NULL: none */
    const lua_Debug *hook;            /* it is one of a hook: what that was called with */
    uint32_t hook_at[SS_LUA_SITES];   /* where that was, above the frame's sp */
    bool frameless;                   /* native frames are not known here */
    bool starved;                     /* memory ran out: any part may be missing */
    bool overflow;                    /* a table was too small */
    bool again; /* slots came into question after visits that did not look at them */
    bool compared, pc_compared;              /* call_info.h with activations of this copy, */
    bool contradicted;                       /* which has them elsewhere */
    bool state_compared, state_contradicted; /* the same of a lua_State */
    uintptr_t pc, pc_step;                   /* at the last comparison */
    uintptr_t met_callbacks[MET], met_internals[MET]; /* some that their table has */
} sample;

/* Marks each function of ours that calls Lua or is called by it: we learn from no frame outward of
   one. */
#define PROBE static __attribute__((noinline, section("ss_lua_probes")))
extern const char __start_ss_lua_probes[] __attribute__((visibility("hidden")));
extern const char __stop_ss_lua_probes[] __attribute__((visibility("hidden")));

/* Prevents a tail call, which would remove the caller's frame. */
#define KEEP_FRAME() __asm__ volatile("" ::: "memory")

static bool is_probe(uintptr_t function)
{
    return function >= (uintptr_t)__start_ss_lua_probes &&
           function < (uintptr_t)__stop_ss_lua_probes;
}

/* ---- Blocks: how much of an object we may read -------------------------------------------------*/

/* Precedes every block. */
typedef struct block_head {
    size_t size;
    uintptr_t mark; /* distinguishes a block from an address inside one */
} block_head;

static uintptr_t mark_of(const block_head *head)
{
    return (uintptr_t)head ^ (uintptr_t)UINT64_C(0x5353b10c0b5e1ec7);
}

/* The bytes of an object of a private state; 0 if that is unknown. */
static size_t size_of(uintptr_t object)
{
    const block_head *head = (const block_head *)object - 1;

    return head->mark == mark_of(head) ? head->size : 0;
}

/* Where MET has VALUE, or another one in its place. */
static uintptr_t *place_in(uintptr_t met[MET], uintptr_t value)
{
    return &met[(value ^ value >> 6) % MET];
}

/* Record where the interpreter calls an allocator. */
static void learn_callback(ss_lua_layout *layout, uintptr_t ip)
{
    uintptr_t *met = place_in(sample.met_callbacks, ip);

    if (*met == ip)
        return;
    *met = ip;
    for (uint32_t i = 0; i < layout->callback_count; i++)
        if (layout->callbacks[i] == ip)
            return;
    if (layout->callback_count < SS_LUA_CALLBACKS)
        layout->callbacks[layout->callback_count++] = ip;
}

/*
 * Small blocks are cut from chunks, and used again by their size: a state takes thousands of them for
 * a moment, and malloc would take as long as all that Lua does.
 */

enum { UNIT = 32, SMALL = 256, CHUNK = 2048 };

typedef struct link {
    struct link *next;
} link;

static struct {
    link *chunks; /* owned */
    link *unused[SMALL / UNIT + 1];
    char *rest; /* of the newest chunk */
    size_t left;
} pool;

static void free_pool(void)
{
    while (pool.chunks) {
        link *chunk = pool.chunks;

        pool.chunks = chunk->next;
        free(chunk);
    }
    memset(&pool, 0, sizeof pool);
}

/* All memory is asked for here, as a test makes realloc fail: for a NULL that they see, compilers would
   call malloc. */
static void *ask_for(void *block, size_t size)
{
    __asm__("" : "+r"(block));
    return realloc(block, size);
}

/* How many units the small block of SIZE bytes takes; 0: it is a large one. */
static size_t units_of(size_t size)
{
    return size <= SMALL - sizeof(block_head) ? (sizeof(block_head) + size + UNIT - 1) / UNIT : 0;
}

/* A chunk begins with a unit for the link to the next one. */
static bool add_chunk(void)
{
    char *chunk = ask_for(NULL, CHUNK);

    if (!chunk)
        return false;
    *(link *)chunk = (link){pool.chunks};
    pool.chunks = (link *)chunk;
    pool.rest = chunk + UNIT;
    pool.left = CHUNK - UNIT;
    return true;
}

/* NULL without memory. */
static block_head *take_block(size_t size)
{
    size_t units = units_of(size);
    link *unused = pool.unused[units];

    if (!units)
        return ask_for(NULL, sizeof(block_head) + size);
    if (unused) {
        pool.unused[units] = unused->next;
        return (block_head *)unused;
    }
    if (pool.left < units * UNIT && !add_chunk())
        return NULL;
    pool.left -= units * UNIT;
    pool.rest += units * UNIT;
    return (block_head *)(pool.rest - units * UNIT);
}

static void give_block(block_head *head)
{
    size_t units = head ? units_of(head->size) : 0;

    if (!units) {
        free(head);
        return;
    }
    head->mark = 0;
    *(link *)head = (link){pool.unused[units]};
    pool.unused[units] = (link *)head;
}

/* HEAD with room for SIZE bytes, or another block with its contents; NULL without memory. */
static block_head *resize_block(block_head *head, size_t size)
{
    size_t units = units_of(size), before = units_of(head->size);
    block_head *other;

    if (units && units == before)
        return head;
    if (!units && !before)
        return ask_for(head, sizeof *head + size);
    other = take_block(size);
    if (!other)
        return NULL;
    memcpy(other, head, sizeof *head + (head->size < size ? head->size : size));
    give_block(head);
    return other;
}

/* New memory is zeroed: we look at words that Lua may never have written. */
static void *allocate(void *data, void *block, size_t old_size, size_t new_size)
{
    block_head *head = block ? (block_head *)block - 1 : NULL, *grown;

    (void)data;
    learn_callback(sample.layout, (uintptr_t)__builtin_return_address(0));
    if (new_size == 0) {
        give_block(head);
        return NULL;
    }
    old_size = head ? head->size : 0; /* without a block it is the kind of object that Lua wants */
    grown = head ? resize_block(head, new_size) : take_block(new_size);
    if (!grown) {
        /* Lua relies on shrinking a block without failure. */
        if (new_size <= old_size)
            return block;
        sample.starved = true;
        return NULL;
    }
    grown->size = new_size;
    grown->mark = mark_of(grown);
    if (new_size > old_size)
        memset((char *)(grown + 1) + old_size, 0, new_size - old_size);
    return grown + 1;
}

/* ---- What Lua says of its activations ---------------------------------------------------------*/

enum { MOST_APART = 4096 /* the slots of two activations that follow each other */ };

/* The address of the activation in L, if its words may be read; else 0. */
static uintptr_t readable(lua_State *L, const lua_Debug *activation)
{
#if SS_LUA_NUMBERS_CALLS
    uintptr_t block = ss_lua_word((uintptr_t)L + SS_LUA_AT_CALLS);
#else
    uintptr_t block = (uintptr_t)activation->i_ci;
#endif
    uintptr_t ci = ss_lua_ci_address(L, activation->i_ci);

    return size_of(block) > ci - block + SS_LUA_AT_STATUS ? ci : 0;
}

/* Whether the slot of CI may be read: that of INNER, if not 0, is further in. */
static bool has_slot(uintptr_t ci, uintptr_t inner)
{
    uintptr_t apart = inner ? ss_lua_slot_of(inner) - ss_lua_slot_of(ci) : SSI_LUA_VALUE;

    return apart && apart <= MOST_APART && apart % SSI_LUA_VALUE == 0;
}

/* Whether Lua says that the function at LEVEL, which ACTIVATION describes, was entered by a tail call.
   In 5.1 the level outside of it then stands for what was dropped. */
static bool is_said_tail_call(lua_State *L, int level, const lua_Debug *activation)
{
#if SS_LUA_TAIL_CALLS_HAVE_LEVELS
    lua_Debug outer;

    (void)activation;
    return lua_getstack(L, level + 1, &outer) && !outer.i_ci;
#else
    (void)L;
    (void)level;
    return activation->istailcall != 0;
#endif
}

/* Whether the function of CI, at the top, is where it should be. */
static bool has_function(lua_State *L, uintptr_t ci)
{
    uintptr_t function = (uintptr_t)lua_topointer(L, -1), c = (uintptr_t)lua_tocfunction(L, -1);

    return ss_lua_function_of(ci) == function && ss_lua_c_function_of(ci) == c &&
           ss_lua_is_in_lua(ci) == !c;
}

/* Whether the activation of LEVEL is as expected; INNER becomes its address, 0 at the end. */
static bool is_right(lua_State *L, int level, uintptr_t *inner)
{
    lua_Debug activation;
    uintptr_t ci, before = *inner;
    bool right;

    if (!lua_getstack(L, level, &activation)) {
        *inner = 0;
        return !ss_lua_outer(before);
    }
    if (!activation.i_ci) /* in 5.1 */
        return before && ss_lua_is_tail_call(before);
    ci = *inner = readable(L, &activation);
    if (!ci || !has_slot(ci, before) || (before && ss_lua_outer(before) != ci))
        return false;
    lua_getinfo(L, SS_LUA_ALL_INFO "f", &activation);
    right =
        has_function(L, ci) && ss_lua_is_tail_call(ci) == is_said_tail_call(L, level, &activation);
    lua_pop(L, 1);
    return right;
}

/* Compare call_info.h with all activations. */
PROBE int compare_activations(lua_State *L)
{
    uintptr_t size = (uintptr_t)(lua_gettop(L) + 1 + LUA_MINSTACK) * SSI_LUA_VALUE, ci = 0;

    if (size_of((uintptr_t)L) < SS_LUA_STATE_SIZE && SS_LUA_NUMBERS_CALLS) {
        sample.contradicted = true;
        return 0;
    }
    for (int level = 0; !level || ci; level++)
        if (!is_right(L, level, &ci)) {
            sample.contradicted = true;
            return 0;
        }
    ci = ss_lua_innermost(L);
    if (ci)
        sample.contradicted |= ss_lua_word(ci + SS_LUA_AT_TOP) != ss_lua_slot_of(ci) + size;
    sample.compared = true;
    return 0;
}

/* The same for the program counter.  One Lua function calls this for the TURN-th time (its
   argument: 1, 2, ...) by equal statements on one line. */
PROBE int compare_pc(lua_State *L)
{
    uintptr_t before = sample.pc, step = sample.pc_step;
    lua_Debug caller;

    if (!lua_getstack(L, 1, &caller))
        return 0;
    sample.pc = ss_lua_pc_of(ss_lua_ci_address(L, caller.i_ci));
    sample.pc_step = sample.pc - before;
    if (lua_tointeger(L, 1) < 3)
        return 0;
    /* Equal statements are a few instructions of four bytes each. */
    sample.contradicted |= sample.pc_step != step || step == 0 || step > 64 || step % 4;
    sample.pc_compared = true;
    return 0;
}

/* ---- What Lua says of a coroutine --------------------------------------------------------------*/

/* Whether what call_info.h says of L may be read.  A coroutine's block begins with the words that a
   build of Lua gives its host (LUA_EXTRASPACE). */
static bool is_readable_state(lua_State *L)
{
    enum { MOST_EXTRA = 4 * sizeof(uintptr_t) };

    for (size_t extra = 0; extra < MOST_EXTRA; extra += sizeof(uintptr_t)) {
        size_t size = size_of((uintptr_t)L - extra);

        if (size)
            return size - extra >= SS_LUA_STATE_SIZE;
    }
    return false;
}

/* Its caller has the message handler at the index that is the argument; 0: none. */
PROBE int compare_handler(lua_State *L)
{
    uintptr_t index = (uintptr_t)lua_tointeger(L, 1), distance = 0;
    lua_Debug caller;

    if (!sample.compared || sample.contradicted || !is_readable_state(L) ||
        !lua_getstack(L, 1, &caller))
        return 0;
    if (index)
        distance = ss_lua_slot_of(ss_lua_ci_address(L, caller.i_ci)) + index * SSI_LUA_VALUE -
                   ss_lua_base_slot(ss_lua_ci_address(L, caller.i_ci));
    sample.state_contradicted |= *ss_lua_handler_of(L) != distance;
    sample.state_compared |= index != 0;
    return 0;
}

/* The handler stands above the arguments. */
PROBE int call_handled(lua_State *L)
{
    int handler = lua_gettop(L) + 1;

    lua_pushcfunction(L, compare_handler);
    lua_pushcfunction(L, compare_handler);
    lua_pushinteger(L, handler);
    (void)lua_pcall(L, 1, 0, handler);
    lua_pushcfunction(L, compare_handler);
    (void)lua_pcall(L, 0, 0, 0);
    return 0;
}

static void compare_hooks(lua_State *L, bool may_run)
{
    sample.state_contradicted |= is_readable_state(L) && *ss_lua_hooks_of(L) != may_run;
}

PROBE int compare_hooks_on(lua_State *L)
{
    compare_hooks(L, true);
    return 0;
}

/* ---- One visit of a site ----------------------------------------------------------------------*/

/* The callee-saved registers at a visit, those that are in question. */
typedef struct registers {
    uint32_t known;
    uintptr_t values[REGISTERS];
} registers;

static void read_registers(const stacksplice_walk *walk, uint32_t wanted, registers *out)
{
    out->known = 0;
    for (uint32_t i = 0; i < REGISTERS; i++)
        if (wanted >> i & 1 && stacksplice_walk_register(walk, 0, callee_saved[i], &out->values[i]))
            out->known |= 1u << i;
}

static void keep_registers(candidates *kept, const registers *now, uintptr_t value, bool first)
{
    uint32_t before = kept->registers;

    kept->registers &= now->known;
    for (uint32_t i = 0; i < REGISTERS; i++)
        if (kept->registers >> i & 1 && now->values[i] != value)
            kept->registers &= ~(1u << i);
    if (before && !kept->registers && !first)
        sample.again = true;
}

static void keep_slots(candidates *kept, const uintptr_t *words, size_t word_count, uintptr_t value)
{
    if (kept->registers)
        return;
    for (uint32_t i = 0; i < SLOTS; i++)
        if (i >= word_count || words[i] != value)
            kept->slots[i / 64] &= ~(UINT64_C(1) << i % 64);
}

/*
 * At a visit of the site at ROW.  Nearly all builds keep both values in registers, which needs no
 * look at the slots.
 */
static void keep_candidates(const stacksplice_walk *walk, uint32_t row, uintptr_t state,
                            uintptr_t ci)
{
    uintptr_t words[SLOTS], start = walk->frames[0].sp;
    size_t count = (walk->frames[1].sp - start) / sizeof *words;
    bool first = !sample.visits[0][row] && !sample.visits[1][row];
    registers now;
    uint32_t wanted;

    sample.visits[sample.upvalues][row]++;
    wanted = sample.state[row].registers;
    if (!SS_LUA_BY_ORDER) /* else no site keeps the activation */
        wanted |= sample.ci[row].registers;
    read_registers(walk, wanted, &now);
    keep_registers(&sample.state[row], &now, state, first);
    if (!SS_LUA_BY_ORDER)
        keep_registers(&sample.ci[row], &now, ci, first);
    if (sample.state[row].registers && sample.ci[row].registers)
        return;
    count = count < SLOTS ? count : SLOTS;
    if (!ss_lua_read_words(start, words, count))
        count = 0;
    keep_slots(&sample.state[row], words, count, state);
    keep_slots(&sample.ci[row], words, count, ci);
}

/* The row of the site, with all places possible if it is new; SS_LUA_SITES when the table is
   full. */
static uint32_t row_of_site(uintptr_t ip, bool hook)
{
    ss_lua_layout *layout = sample.layout;
    uint32_t row = 0;

    while (row < layout->site_count && layout->sites[row].ip != ip)
        row++;
    if (row < layout->site_count || row == SS_LUA_SITES)
        return row;
    layout->sites[row] = (ss_lua_site){.ip = ip, .hook = hook};
    memset(&sample.state[row], 0xff, sizeof sample.state[row]);
    sample.state[row].registers = (1u << REGISTERS) - 1;
    sample.ci[row] = sample.state[row];
    layout->site_count++;
    return row;
}

/* Whether the table has the value; else it is added. */
static bool has_or_add(uintptr_t *table, uint32_t *count, uint32_t capacity, uintptr_t value)
{
    for (uint32_t i = 0; i < *count; i++)
        if (table[i] == value)
            return true;
    if (*count < capacity)
        table[(*count)++] = value;
    else
        sample.overflow = true;
    return false;
}

/* From the site outward everything is the interpreter's, up to the API function we called. */
static void learn_internals(ss_lua_layout *layout, const stacksplice_walk *walk)
{
    for (uint32_t i = 0; i + 1 < walk->frame_count; i++) {
        uintptr_t function = walk->frames[i].function;
        uintptr_t *met = place_in(sample.met_internals, function);

        if (is_probe(walk->frames[i + 1].function)) {
            (void)has_or_add(layout->apis, &layout->api_count, SS_LUA_APIS, function);
            return;
        }
        if (function && *met == function)
            continue;
        if (!has_or_add(layout->internals, &layout->internal_count, SS_LUA_INTERNALS, function) &&
            ss_lua_is_api(layout, function)) {
            layout->internal_count--;
            return;
        }
        *met = function;
    }
}

static bool look(stacksplice_walk *walk)
{
    lua_State *L = pthread_equal(sample.thread, pthread_self()) ? sample.visited : NULL;
    lua_Debug activation;
    uint32_t row;

    if (!L)
        return false;
    stacksplice_walk_refuse(walk); /* else the next one like it would be repeated */
    (void)stacksplice_walk_splice(walk, 0, walk->frame_count); /* nobody wants the elements */
    sample.frameless = !walk->frame_count;
    if (walk->frame_count < 2 || !lua_getstack(L, 0, &activation))
        return true;
    row = row_of_site(walk->frames[0].ip, sample.hook != NULL);
    if (row == SS_LUA_SITES) {
        sample.overflow = true;
        return true;
    }
    sample.hook_at[row] = (uint32_t)((uintptr_t)sample.hook - walk->frames[0].sp);
    keep_candidates(walk, row, (uintptr_t)L, (uintptr_t)activation.i_ci);
    learn_internals(sample.layout, walk);
    return true;
}

/* Called by the functions that Lua calls with L, with their frame. */
static void visit(lua_State *L, const lua_Debug *hook, const void *above)
{
    uint32_t captured;

    sample.visited = L;
    sample.hook = hook;
    if (FAILED(stacksplice_capture_above(above, 0, NULL, &captured, NULL)))
        sample.starved = true;
    sample.visited = NULL;
}

/* ---- Functions that Lua calls ------------------------------------------------------------------*/

PROBE int probe(lua_State *L)
{
    visit(L, NULL, SS_LUA_HERE());
    KEEP_FRAME();
    return 0;
}

/* For metamethods that must return a number, a string or a boolean. */
PROBE int probe_true(lua_State *L)
{
    visit(L, NULL, SS_LUA_HERE());
    lua_pushinteger(L, 1);
    return 1;
}

#if SS_LUA_TELLS_CONTINUATIONS
PROBE int probe_continuation(lua_State *L, int status, lua_KContext context)
{
    (void)status;
    (void)context;
    visit(L, NULL, SS_LUA_HERE());
    KEEP_FRAME();
    return 0;
}
#endif

PROBE void probe_hook(lua_State *L, lua_Debug *activation)
{
    compare_hooks(L, false);
    visit(L, activation, SS_LUA_HERE());
    KEEP_FRAME();
}

PROBE int set_hook(lua_State *L)
{
    int count = (int)luaL_checkinteger(L, 1);

    lua_sethook(L, probe_hook, LUA_MASKCOUNT | LUA_MASKLINE | LUA_MASKCALL | LUA_MASKRET, count);
    return 0;
}

PROBE int clear_hook(lua_State *L)
{
    lua_sethook(L, NULL, 0, 0);
    return 0;
}

/* ---- Calls into Lua ---------------------------------------------------------------------------*/

/*
 * ss_lua_with_filler calls each of these.  Each passes its arguments, already on Lua's stack, to
 * one API function, so that only Lua puts L in a register that outlives a call.  Those with a
 * continuation may yield; the continuation examines its caller too.
 */
#if SS_LUA_TELLS_CONTINUATIONS
#define CONTINUATION probe_continuation
#else
#define CONTINUATION probe
#endif
#if SS_LUA_CONTINUES /* and has lua_arith */
#define ADD(L) lua_arith(L, LUA_OPADD)
#define YIELD(L) lua_yieldk(L, 0, 0, CONTINUATION)
#else
#define ADD(L) (void)(L)
#define YIELD(L) return lua_yield(L, 0)
#endif
#define BODIES(X)                                    \
    X(call, lua_call(L, 0, 0))                       \
    X(callk, lua_callk(L, 0, 0, 0, CONTINUATION))    \
    X(pcall_c, (void)lua_pcall(L, 0, 0, 0))          \
    X(fail, lua_error(L))                            \
    X(get, lua_gettable(L, 1))                       \
    X(set, lua_settable(L, 1))                       \
    X(add, ADD(L))                                   \
    X(compare, (void)lua_compare(L, 1, 2, LUA_OPLT)) \
    X(concat, lua_concat(L, 2))                      \
    X(collect, lua_gc(L, LUA_GCCOLLECT, 0))          \
    X(yieldk, YIELD(L))

#define BODY(name, call)                \
    PROBE int body_##name(lua_State *L) \
    {                                   \
        call;                           \
        KEEP_FRAME();                   \
        return 0;                       \
    }
BODIES(BODY)

PROBE int pcall_yieldable(lua_State *L)
{
    int status = lua_pcallk(L, 0, 0, 0, 0, CONTINUATION);

    KEEP_FRAME();
    return status == LUA_OK ? 0 : lua_error(L);
}

PROBE int resume_plainly(lua_State *thread)
{
    int results = 0;

    (void)lua_resume(thread, NULL, 0, &results);
    KEEP_FRAME();
    return 0;
}

/* Overwrite what earlier calls left on the stack: it is no value of Lua's. */
static __attribute__((noinline)) void scribble(void)
{
    uintptr_t below[512];

    memset(below, 0x53, sizeof below);
    __asm__ volatile("" : : "r"(below) : "memory");
}

static int run_with_filler(lua_CFunction body, lua_State *L)
{
    int results;

    scribble();
    results = ss_lua_with_filler(body, L);
    KEEP_FRAME();
    return results;
}

/* What the scripts call: the body is the upvalue. */
static int run_body(lua_State *L)
{
    const lua_CFunction *body = (const lua_CFunction *)lua_touserdata(L, lua_upvalueindex(1));

    return run_with_filler(*body, L);
}

static int resume_new_thread(lua_State *L)
{
    lua_State *thread = lua_newthread(L);

    lua_pushvalue(L, 1);
    lua_xmove(L, thread, 1);
    return run_with_filler(resume_plainly, thread);
}

/* ---- The private state -------------------------------------------------------------------------*/

static const luaL_Reg probes[] = {
    {"C", probe},       {"T", probe_true},         {"resume", resume_new_thread},
    {"hook", set_hook}, {"unhook", clear_hook},    {"info", compare_activations},
    {"pc", compare_pc}, {"handled", call_handled}, {"open", compare_hooks_on},
    {NULL, NULL},
};

#define ROW(name, call) {#name, body_##name},
static const luaL_Reg bodies[] = {BODIES(ROW){"pcallk", pcall_yieldable}, {NULL, NULL}};

static void open_libraries(lua_State *L)
{
    /* Not static: the addresses may be found at run time. */
    const luaL_Reg libraries[] = {
        {LUA_GNAME, luaopen_base},
#if SS_LUA_OPENS_COROUTINES
        {LUA_COLIBNAME, luaopen_coroutine},
#endif
        {LUA_TABLIBNAME, luaopen_table},
        {LUA_STRLIBNAME, luaopen_string},
        {NULL, NULL},
    };

    for (const luaL_Reg *library = libraries; library->name; library++) {
        luaL_requiref(L, library->name, library->func, 1);
        lua_pop(L, 1);
    }
}

static int open_state(lua_State *L)
{
    open_libraries(L);
    for (const luaL_Reg *each = bodies; each->name; each++) {
        lua_pushlightuserdata(L, (void *)(uintptr_t)&each->func);
        lua_pushcclosure(L, run_body, 1);
        lua_setglobal(L, each->name);
    }
    return 0;
}

/* Make the probes globals: closures, or light functions, which some builds call from other
   instructions. */
static void set_probes(lua_State *L, bool upvalues)
{
    if (sample.has_probes && sample.upvalues == upvalues)
        return;
    sample.has_probes = true;
    sample.upvalues = upvalues;
    lua_pushglobaltable(L);
    if (upvalues)
        lua_pushboolean(L, 1);
    luaL_setfuncs(L, probes, upvalues);
    lua_pop(L, 1);
}

/* Run the scripts on L above FIRST in THREAD. */
PROBE void run_in(lua_State *L, int first, lua_State *thread, bool upvalues)
{
    set_probes(L, upvalues);
    for (int i = first + 1; i <= lua_gettop(L) && !sample.starved; i++) {
        (void)lua_gc(L, LUA_GCSTOP, 0); /* to collect restarts it in 5.1 */
        lua_pushvalue(L, i);
        lua_xmove(L, thread, 1);
        (void)lua_pcall(thread, 0, 0, 0);
        lua_settop(thread, 0);
        KEEP_FRAME();
    }
}

enum { TOGETHER = 8 }; /* fit into the stack that a C function has */

/* Compile the next scripts from *TEXT on. */
static void compile(lua_State *L, const char *const **text)
{
    for (int i = 0; i < TOGETHER && **text && !sample.starved; i++, (*text)++)
        if (luaL_loadbufferx(L, **text, strlen(**text), "=calibration", "t") != LUA_OK)
            lua_pop(L, 1);
}

/*
 * Each script runs in two coroutines, which call the probes in two ways.  To make the probes anew takes as
 * long as a script, so a few scripts run in one coroutine and then in the other.  Not all of them:
 * each collection would mark what they consist of.  The collector stands still, as it would take a
 * fifth of the time; scripts that want it start it.
 */
static int run_scripts(lua_State *L)
{
    lua_State *first = lua_newthread(L), *second = lua_newthread(L);
    const char *const *text = ss_lua_snippets;
    int top = lua_gettop(L);
    bool upvalues = true;

    (void)lua_gc(L, LUA_GCSTOP, 0);
    (void)open_state(L);
    while (*text && !sample.starved) {
        compile(L, &text);
        run_in(L, top, upvalues ? first : second, upvalues);
        upvalues = !upvalues;
        run_in(L, top, upvalues ? first : second, upvalues);
        lua_settop(L, top);
    }
    return 0;
}

/* False when memory ran out. */
static bool run_state(void)
{
#if SS_LUA_SEEDS_STATES
    lua_State *L = lua_newstate(allocate, NULL, 1);
#else
    lua_State *L = lua_newstate(allocate, NULL);
#endif

    if (!L)
        return false;
    sample.has_probes = false;
    lua_pushcfunction(L, run_scripts);
    (void)lua_pcall(L, 0, 0, 0);
    lua_close(L);
    return !sample.starved;
}

/* ---- What was learnt --------------------------------------------------------------------------*/

static ss_lua_place place_of(const candidates *kept)
{
    if (kept->registers)
        return (ss_lua_place){SS_LUA_REGISTER, callee_saved[__builtin_ctz(kept->registers)]};
    for (uint32_t i = 0; i < SLOTS; i++)
        if (kept->slots[i / 64] >> i % 64 & 1)
            return (ss_lua_place){SS_LUA_SLOT, i * (uint32_t)sizeof(uintptr_t)};
    return (ss_lua_place){SS_LUA_NOWHERE, 0};
}

/* Require two visits: one could agree by accident.  A site without both places is useless. */
static void finish(ss_lua_layout *layout)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < layout->site_count; i++) {
        ss_lua_site site = layout->sites[i];

        site.state = place_of(&sample.state[i]);
        if (!SS_LUA_BY_ORDER)
            site.ci = place_of(&sample.ci[i]);
        else if (site.hook)
            site.ci = (ss_lua_place){SS_LUA_DEBUG, sample.hook_at[i]};
        if (sample.visits[0][i] + sample.visits[1][i] >= 2 && site.state.kind != SS_LUA_NOWHERE &&
            (SS_LUA_BY_ORDER || site.ci.kind != SS_LUA_NOWHERE))
            layout->sites[kept++] = site;
    }
    layout->site_count = kept;
    layout->knows_state = sample.state_compared && !sample.state_contradicted;
    if (sample.overflow)
        layout->failure = "too many call sites in this copy of Lua";
    else if (kept == 0 && !sample.frameless) /* else only the running coroutine is read, by none */
        layout->failure = "no call sites found in this copy of Lua";
    else if (sample.contradicted || !sample.compared || !sample.pc_compared)
        layout->failure = "this copy of Lua keeps its calls in another way than its version does";
}

static bool are_seen_by_both(void)
{
    for (uint32_t i = 0; i < sample.layout->site_count; i++)
        if (!sample.visits[0][i] || !sample.visits[1][i])
            return false;
    return true;
}

/*
 * Two coroutines see every site; the second removes what agreed with the first one by accident.  They
 * call the probes in two ways, so a site of one way alone needs another run.
 */
static bool run_enough(void)
{
    int runs = 0;

    do {
        sample.again = false;
        if (!run_state())
            return false;
        runs++;
    } while (sample.again || (runs < 2 && !are_seen_by_both())); /* a site's registers fail once */
    return true;
}

bool ss_lua_sample(ss_lua_layout *layout)
{
    bool done;

    memset(&sample, 0, sizeof sample);
    sample.layout = layout;
    sample.thread = pthread_self();
    atomic_store(&ss_lua_the_shared->look, look);
    done = run_enough();
    free_pool();
    atomic_store(&ss_lua_the_shared->look, NULL);
    if (done)
        finish(layout);
    return done;
}
