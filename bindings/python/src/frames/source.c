/*
 * The frame source: which native frames are CPython's evaluation loop, and which Python frames
 * they stand for.
 *
 * Each activation of the loop keeps an object (a marker) on the C stack, chained from the thread
 * state.  The native frame that owns the marker's address is that activation.  One stack can hold
 * activations of several thread states (sub-interpreters): all chains whose markers lie on it are
 * followed side by side, in the order of their markers' addresses.
 */
#include "frames/greenlet.h"
#include "frames/layout.h"
#include "frames/token_cache.h"

#include <pthread.h>
#include <unistd.h>

enum {
    MAX_THREAD_STATES = 16,
    MAX_STEPS = 1 << 20, /* of one frame chain: a chain that is longer is no chain */
    BATCH = 64,
    MAX_LEARNED = 256 /* places that are put into the table of tokens in one go */
};

/* One activation of the loop: its frames are FIRST and outward until END.  ADDRESS 0: none. */
typedef struct marker {
    uintptr_t address, first, end;
} marker;

/* The markers of one thread state, the innermost first. */
typedef struct chain {
    PyInterpreterState *interp;
    uintptr_t next;  /* the next _PyCFrame; from 3.13 on the frame to go on from */
    uintptr_t first; /* 3.13 on: the first frame behind the marker before */
    marker now;
} chain;

/* Set by sspy_place. */
static _Thread_local const sspy_placement *placement;
/* A capture met a frame of the home interpreter that the table of tokens does not know. */
static _Thread_local bool missed;

static const char no_native_frames[] =
    "without native frames, order relative to other languages unknown";

/* Whether *TOKEN is that of the gap, and not one that says why there is none. */
static bool intern_gap(const char *why, uintptr_t *token)
{
    stacksplice_token_info info = {.size = sizeof info,
                                   .kind = STACKSPLICE_FRAME_GAP,
                                   .trust = STACKSPLICE_TRUST_EXACT,
                                   .language = "python",
                                   .reason = why};

    return stacksplice_intern(&info, token) == S_OK;
}

static uintptr_t gap_token(const char *why)
{
    uintptr_t token = 0;

    (void)intern_gap(why, &token);
    return token;
}

uintptr_t sspy_mark(void)
{
    static _Thread_local struct {
        uintptr_t token;
        uint32_t epoch;
    } known; /* asked for anew in each epoch of the core, so that it is not dropped */
    uint32_t epoch = stacksplice_token_epoch();
    uintptr_t token = known.token;

    if (token && known.epoch == epoch)
        return token;
    /* Without memory the token says that; the next one is the right one again. */
    known.token = intern_gap(STACKSPLICE_GAP_RETURNED, &token) ? token : 0;
    known.epoch = epoch;
    return token;
}

/* ---- Thread states ----------------------------------------------------------------------------*/

/*
 * Whether CURRENT is this thread's and running; MINE is the one this thread began with.  Before
 * 3.12 the current thread state is global: it is ours only if a section of ours says so, or if it
 * belongs to this thread.  PyGILState_Check is no proof: with sub-interpreters it always says yes.
 */
static bool holds_lock(PyThreadState *current, PyThreadState *mine)
{
#if SSPY_CURRENT_IS_THREAD_LOCAL
    (void)mine;
    return current != NULL;
#else
    if (!current)
        return false;
    /* Nobody else makes this thread's own state the current one. */
    if (current == mine || sspy_section_interp())
        return true;
    /* Only the holder of the lock can be current, and it is alive while it holds it; it could let
       go and die between these reads only if it were another thread. */
    return PyGILState_Check() && current->thread_id == (unsigned long)pthread_self() &&
           current->native_thread_id == (unsigned long)gettid();
#endif
}

static bool on_stack(const stacksplice_walk *walk, uintptr_t address)
{
    return address >= walk->stack_low && address < walk->stack_high &&
           address % sizeof(void *) == 0;
}

/* Whether the newest marker of THREAD_STATE, which does not run, lies on our stack. */
static bool is_dormant_here(const stacksplice_walk *walk, PyThreadState *thread_state)
{
    uintptr_t head = sspy_word((uintptr_t)thread_state, sspy_layout_now()->head);

    if (sspy_layout_now()->cframe)
        return on_stack(walk, head);
    if (thread_state->thread_id != (unsigned long)pthread_self())
        return false;
    for (int steps = 0; head && steps < MAX_STEPS; steps++) {
        if (sspy_frame_owner(head) >= SSPY_FRAME_OF_C)
            return on_stack(walk, head);
        head = sspy_frame_previous(head);
    }
    return false;
}

static uint32_t add_thread_state(PyThreadState **states, uint32_t count, PyThreadState *state)
{
    for (uint32_t i = 0; i < count; i++)
        if (states[i] == state)
            return count;
    if (state && count < MAX_THREAD_STATES)
        states[count++] = state;
    return count;
}

/* Whether INTERP runs under the lock that CURRENT's interpreter holds: only then its list of thread
   states stands still.  In 3.11 there is one lock. */
static bool shares_lock(PyInterpreterState *interp, PyThreadState *current)
{
    uint32_t offset = sspy_layout_now()->interpreter_lock;

    return !offset ||
           sspy_word((uintptr_t)interp, offset) == sspy_word((uintptr_t)current->interp, offset);
}

static uint32_t add_dormant(const stacksplice_walk *walk, PyInterpreterState *interp,
                            PyThreadState **states, uint32_t count)
{
    for (PyThreadState *t = PyInterpreterState_ThreadHead(interp); t; t = t->next)
        if (is_dormant_here(walk, t))
            count = add_thread_state(states, count, t);
    return count;
}

/* Every thread state that has frames on this stack. */
static uint32_t find_thread_states(const stacksplice_walk *walk, PyThreadState **states)
{
    PyThreadState *current = sspy_current_thread_state();
    PyThreadState *mine = PyGILState_GetThisThreadState();
    uint32_t count = add_thread_state(states, 0, mine);

    if (!holds_lock(current, mine))
        return count;
    count = add_thread_state(states, count, current);
    for (PyInterpreterState *i = PyInterpreterState_Head(); i; i = PyInterpreterState_Next(i))
        if (shares_lock(i, current))
            count = add_dormant(walk, i, states, count);
    return count;
}

/* ---- Markers ----------------------------------------------------------------------------------*/

/* 3.11, 3.12: a chain of _PyCFrames on the C stack, each naming its newest frame. */
static void next_cframe(chain *c, const stacksplice_walk *walk)
{
    uintptr_t last = c->now.address, cframe = c->next;

    c->now.address = 0;
    /* Markers inside of the part that is looked at come first: they may be skipped, not read. */
    while (cframe && cframe > last && cframe < walk->stack_high && cframe % sizeof(void *) == 0) {
        last = cframe;
        cframe = sspy_word(cframe, sspy_layout_now()->cframe_previous);
        if (last >= walk->stack_low) {
            c->now = (marker){last, sspy_word(last, sspy_layout_now()->cframe_current), 0};
            /* Its frames end where those of the next loop begin: the newest frame there called.
               That loop may run on another stack of the thread, or be the thread state's own base.
             */
            if (cframe > last || (cframe && !on_stack(walk, cframe)))
                c->now.end = sspy_word(cframe, sspy_layout_now()->cframe_current);
            break;
        }
    }
    c->next = cframe;
}

/* 3.13 on: entry frames on the C stack stand in the frame chain itself. */
static void next_entry_frame(chain *c, const stacksplice_walk *walk)
{
    uintptr_t last = c->now.address, frame = c->next;

    c->now.address = 0;
    for (int steps = 0; frame && !c->now.address && steps < MAX_STEPS; steps++) {
        uintptr_t previous = sspy_frame_previous(frame);

        if (sspy_frame_owner(frame) >= SSPY_FRAME_OF_C) {
            /* A chain whose markers do not lie further and further out is no chain. */
            if (frame > last && on_stack(walk, frame))
                c->now = (marker){frame, c->first, frame};
            c->first = previous;
        }
        frame = previous;
    }
    c->next = frame;
}

static void next_marker(chain *c, const stacksplice_walk *walk)
{
    if (sspy_layout_now()->cframe)
        next_cframe(c, walk);
    else
        next_entry_frame(c, walk);
}

static uint32_t begin_chains(const stacksplice_walk *walk, chain *chains)
{
    PyThreadState *states[MAX_THREAD_STATES];
    uint32_t count = find_thread_states(walk, states);

    for (uint32_t i = 0; i < count; i++) {
        chains[i].interp = states[i]->interp;
        chains[i].next = chains[i].first = sspy_word((uintptr_t)states[i], sspy_layout_now()->head);
        chains[i].now.address = 0;
        next_marker(&chains[i], walk);
    }
    return count;
}

/* The chain whose marker comes next, or NULL. */
static chain *innermost(chain *chains, uint32_t count)
{
    chain *best = NULL;

    for (uint32_t i = 0; i < count; i++)
        if (chains[i].now.address && (!best || chains[i].now.address < best->now.address))
            best = &chains[i];
    return best;
}

/* ---- Splicing ---------------------------------------------------------------------------------*/

/* FRAME among the frames of WHAT, or NULL. */
static const sspy_placed_frame *find_placed(const sspy_placement *what, uintptr_t frame)
{
    for (uint32_t i = 0; i < what->count; i++)
        if (what->frames[i].data == (const void *)frame)
            return &what->frames[i];
    return NULL;
}

/* Tokens on their way into a splice. */
typedef struct batch {
    stacksplice_walk *walk;
    uint32_t count;
    uintptr_t tokens[BATCH];
} batch;

static bool flush(batch *b)
{
    uint32_t count = b->count;

    b->count = 0;
    return !count || stacksplice_walk_push_all(b->walk, b->tokens, count);
}

/* TOKEN 0: nothing to show. */
static bool push(batch *b, uintptr_t token)
{
    b->tokens[b->count] = token;
    b->count += token != 0;
    return b->count < BATCH || flush(b);
}

/* The token of a live FRAME that the table does not know; 0: it is no frame that Python shows. */
static SSPY_NOINLINE uintptr_t unknown_token(uintptr_t frame, PyInterpreterState *interp, bool home)
{
    PyCodeObject *code = sspy_frame_code(frame);

    if (!code)
        return 0;
    missed |= home;
    return sspy_token(code, sspy_frame_lasti(frame, code), 0, STACKSPLICE_TRUST_EXACT, interp);
}

/* *TOKEN, if it is set, is that of FRAME, as WANTED has it. */
static SSPY_NOINLINE bool push_placed(batch *b, const sspy_placement *wanted, uintptr_t frame,
                                      uintptr_t *token)
{
    const sspy_placed_frame *placed = find_placed(wanted, frame);

    if (!placed)
        return true;
    *token = placed->token;
    if (placed->data != wanted->innermost)
        return true;
    /* What comes before the mark is cut off: a gap that holds for what follows is repeated. */
    return push(b, wanted->mark) && (b->walk->frame_count || push(b, gap_token(no_native_frames)));
}

/* The frames of one activation, innermost first, as WANTED (or NULL) has them. */
static bool push_run(stacksplice_walk *walk, const marker *m, PyInterpreterState *interp,
                     const sspy_placement *wanted)
{
    const sspy_layout layout = *sspy_layout_now();
    bool home = interp == atomic_load_explicit(&sspy_cache_home, memory_order_relaxed);
    bool cached = home && sspy_cache_is_true();
    uintptr_t frame = m->first;
    batch b;

    b.walk = walk;
    b.count = 0;
    for (int steps = 0; frame && frame != m->end && steps < MAX_STEPS; steps++) {
        uintptr_t token = 0;

        if (*(const unsigned char *)(frame + layout.frame_owner) >= SSPY_FRAME_OF_C)
            break;
        if (wanted && !push_placed(&b, wanted, frame, &token))
            return false;
        if (!token && cached)
            token = sspy_cache_find(sspy_word(frame, layout.frame_instruction), 0);
        if (!token)
            token = unknown_token(frame, interp, home);
        if (!push(&b, token))
            return false;
        frame = sspy_word(frame, layout.frame_previous);
    }
    return flush(&b);
}

/*
 * The native frame that ADDRESS lies in, from FRAME outward; frame_count when there is none.  Frame
 * FRAME is on the stack that is looked at, so that the others lie further and further out.  Nobody
 * knows where the last frame of a truncated walk ends, so nothing is in it.
 */
static uint32_t frame_of(const stacksplice_walk *walk, uint32_t frame, uintptr_t address)
{
    const stacksplice_native_frame *frames = walk->frames;
    uint32_t count = walk->frame_count;

    while (frame + 8 < count && frames[frame + 8].sp <= address)
        frame += 8;
    while (frame + 1 < count && frames[frame + 1].sp <= address)
        frame++;
    if (frame + 1 == count && (walk->truncated || address >= walk->stack_high))
        frame++;
    return frame;
}

/* The first frame on the stack that is looked at: those of a signal handler may be on another. */
static uint32_t first_frame(const stacksplice_walk *walk)
{
    uint32_t frame = 0;

    while (frame < walk->frame_count &&
           (walk->frames[frame].sp < walk->stack_low || walk->frames[frame].sp >= walk->stack_high))
        frame++;
    return frame;
}

/* What lies outside of a greenlet's base is left over there, also for other sources. */
static void cut_at_base(stacksplice_walk *walk, uint32_t first, uintptr_t outermost)
{
    uint32_t base = sspy_greenlet_base(walk, first, outermost);

    if (base + 1 < walk->frame_count)
        (void)stacksplice_walk_end(walk, base + 1, gap_token("end of this greenlet's own stack"));
}

static void splice_markers(stacksplice_walk *walk, chain *chains, uint32_t count)
{
    const sspy_placement *wanted = placement;
    uintptr_t outermost = 0;
    uint32_t frame = first_frame(walk);

    for (chain *c; (c = innermost(chains, count)) != NULL; next_marker(c, walk)) {
        /* greenlet chains a _PyCFrame of its own, which no loop stands behind. */
        if (!c->now.first || c->now.first == c->now.end)
            continue;
        frame = frame_of(walk, frame, c->now.address);
        if (!stacksplice_walk_splice(walk, frame, frame < walk->frame_count) ||
            !push_run(walk, &c->now, c->interp, wanted))
            return;
        outermost = c->now.address;
    }
    cut_at_base(walk, frame, outermost);
}

static void push_gap(stacksplice_walk *walk, const char *why)
{
    if (stacksplice_walk_splice(walk, walk->frame_count, 0))
        (void)stacksplice_walk_push(walk, gap_token(why));
}

static void collect(stacksplice_walk *walk, void *data)
{
    chain chains[MAX_THREAD_STATES];
    const char *why = sspy_layout_reason();
    uint32_t count;

    (void)data;
    if (why) {
        /* Only a thread that runs Python has frames to miss. */
        if (PyGILState_GetThisThreadState())
            push_gap(walk, why);
        return;
    }
    count = begin_chains(walk, chains);
    if (!walk->frame_count && innermost(chains, count))
        push_gap(walk, no_native_frames);
    splice_markers(walk, chains, count);
}

HRESULT sspy_source_register(void)
{
    stacksplice_source source = {.size = sizeof source,
                                 .version = STACKSPLICE_SOURCE_VERSION,
                                 .language = "python",
                                 .identity = (const void *)&PyType_Type,
                                 .collect = collect,
                                 .ends_walks = 1};

    return stacksplice_add_source(&source);
}

/* ---- Learning ---------------------------------------------------------------------------------*/

/* What a capture missed is looked for anew on the chain as it is now: only what is live there is
   known to be alive. */
static void learn(PyThreadState *state)
{
    uintptr_t frame = sspy_frame_current(state);
    int learned = 0;

    (void)sspy_cache_renew();
    for (int steps = 0; frame && learned < MAX_LEARNED && steps < MAX_STEPS; steps++) {
        PyCodeObject *code = sspy_frame_code(frame);

        if (code && !sspy_cache_find(sspy_word(frame, sspy_layout_now()->frame_instruction), 0)) {
            (void)sspy_token_known(code, sspy_frame_lasti(frame, code), 0, STACKSPLICE_TRUST_EXACT);
            learned++;
        }
        frame = sspy_frame_previous(frame);
    }
}

void sspy_frames_learn(void)
{
    PyThreadState *state;

    if (!missed)
        return;
    missed = false;
    state = PyThreadState_Get();
    if (state->interp == atomic_load(&sspy_cache_home))
        learn(state);
}

/* ---- For building an exception's stack --------------------------------------------------------*/

static uintptr_t next_shown(uintptr_t frame)
{
    for (int steps = 0; frame && steps < MAX_STEPS; steps++) {
        if (sspy_frame_code(frame))
            return frame;
        frame = sspy_frame_previous(frame);
    }
    return 0;
}

const void *sspy_frame_top(void)
{
    if (sspy_layout_reason())
        return NULL;
    return (const void *)next_shown(sspy_frame_current(PyThreadState_Get()));
}

bool sspy_chain_has_owned(void)
{
    uintptr_t live;

    if (sspy_layout_reason())
        return false;
    live = sspy_frame_current(PyThreadState_Get());
    for (int steps = 0; live && steps < MAX_STEPS; steps++) {
        if (sspy_frame_owner(live) == SSPY_FRAME_OBJECT)
            return true;
        live = sspy_frame_previous(live);
    }
    return false;
}

const void *sspy_frame_live(PyFrameObject *frame, bool owned)
{
    uintptr_t data, live;

    if (sspy_layout_reason())
        return NULL;
    data = sspy_frame_data(frame);
    /* What has ended was copied into its frame object. */
    if (!owned && sspy_frame_owner(data) == SSPY_FRAME_OBJECT)
        return NULL;
    live = sspy_frame_current(PyThreadState_Get());
    for (int steps = 0; live && steps < MAX_STEPS; steps++) {
        if (live == data)
            return (const void *)data;
        live = sspy_frame_previous(live);
    }
    return NULL;
}

void sspy_place(sspy_placement *wanted)
{
    uintptr_t live;

    placement = wanted;
    if (!wanted)
        return;
    wanted->innermost = NULL;
    if (!wanted->count || sspy_layout_reason())
        return;
    live = sspy_frame_current(PyThreadState_Get());
    for (int steps = 0; live && !wanted->innermost && steps < MAX_STEPS; steps++) {
        if (find_placed(wanted, live))
            wanted->innermost = (const void *)live;
        live = sspy_frame_previous(live);
    }
}
