/*
 * The frame source: which native frames are CPython's evaluation loop, and which Python frames
 * they stand for.
 *
 * Each activation of the loop keeps an object (a marker) on the C stack, chained from the thread
 * state.  The native frame that owns the marker's address is that activation.  One stack can hold
 * activations of several thread states (sub-interpreters): all chains whose markers lie on it are
 * collected and sorted by address.
 */
#include "layout.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    NEAR_MARKERS = 256, /* kept on the stack; more are allocated, which almost never happens */
    MAX_THREAD_STATES = 16,
    MAX_STEPS = 1 << 20 /* of one frame chain: a chain that is longer is no chain */
};

/* One activation of the loop: its frames are FIRST and outward until END. */
typedef struct marker {
    uintptr_t address, first, end;
    PyInterpreterState *interp;
} marker;

typedef struct marker_list {
    marker *items; /* NEAR, or allocated with malloc: never inside the interpreter */
    uint32_t count, capacity;
    uintptr_t low, high; /* the stack in use */
    bool out_of_memory;  /* there were more */
    marker near[NEAR_MARKERS];
} marker_list;

/* Set by sspy_place. */
static _Thread_local const sspy_placement *placement;

static const char no_native_frames[] =
    "without native frames, their place among other languages' is not known";

static uintptr_t gap_token(const char *why)
{
    stacksplice_token_info info = {.size = sizeof info,
                                   .kind = STACKSPLICE_FRAME_GAP,
                                   .trust = STACKSPLICE_TRUST_EXACT,
                                   .language = "python",
                                   .reason = why};
    uintptr_t token = 0;

    (void)stacksplice_intern(&info, &token);
    return token;
}

uintptr_t sspy_mark(void)
{
    return gap_token("unwound");
}

/* ---- Thread states ----------------------------------------------------------------------------*/

/*
 * Whether CURRENT is this thread's and running.  Before 3.12 the current thread state is global: it
 * is ours only if a section of ours says so, or if it belongs to this thread.  PyGILState_Check is
 * no proof: with sub-interpreters it always says yes.
 */
static bool holds_lock(PyThreadState *current)
{
#if SSPY_CURRENT_IS_THREAD_LOCAL
    return current != NULL;
#else
    if (!current)
        return false;
    if (sspy_section_interp())
        return true;
    /* Only the holder of the lock can be current, and it is alive while it holds it; it could let
       go and die between these reads only if it were another thread. */
    return PyGILState_Check() && current->thread_id == (unsigned long)pthread_self() &&
           current->native_thread_id == (unsigned long)gettid();
#endif
}

static bool on_stack(const marker_list *list, uintptr_t address)
{
    return address >= list->low && address < list->high && address % sizeof(void *) == 0;
}

/* Whether the newest marker of THREAD_STATE, which does not run, lies on our stack. */
static bool is_dormant_here(const marker_list *list, PyThreadState *thread_state)
{
    uintptr_t head = sspy_word((uintptr_t)thread_state, sspy_layout_now.head);

    if (sspy_layout_now.cframe)
        return on_stack(list, head);
    if (thread_state->thread_id != (unsigned long)pthread_self())
        return false;
    for (int steps = 0; head && steps < MAX_STEPS; steps++) {
        if (sspy_frame_owner(head) >= SSPY_FRAME_OF_C)
            return on_stack(list, head);
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
   states stands still.  3.12 does not tell; there all are looked at. */
static bool shares_lock(PyInterpreterState *interp, PyThreadState *current)
{
    uint32_t offset = sspy_layout_now.interpreter_lock;

    return !offset ||
           sspy_word((uintptr_t)interp, offset) == sspy_word((uintptr_t)current->interp, offset);
}

static uint32_t add_dormant(const marker_list *list, PyInterpreterState *interp,
                            PyThreadState **states, uint32_t count)
{
    for (PyThreadState *t = PyInterpreterState_ThreadHead(interp); t; t = PyThreadState_Next(t))
        if (is_dormant_here(list, t))
            count = add_thread_state(states, count, t);
    return count;
}

/* Every thread state that has frames on this stack. */
static uint32_t find_thread_states(const marker_list *list, PyThreadState **states)
{
    PyThreadState *current = sspy_current_thread_state();
    bool held = holds_lock(current);
    uint32_t count = add_thread_state(states, 0, PyGILState_GetThisThreadState());

    if (!held)
        return count;
    count = add_thread_state(states, count, current);
    for (PyInterpreterState *i = PyInterpreterState_Head(); i; i = PyInterpreterState_Next(i))
        if (shares_lock(i, current))
            count = add_dormant(list, i, states, count);
    return count;
}

/* ---- Markers ----------------------------------------------------------------------------------*/

static bool make_room(marker_list *list)
{
    uint32_t capacity = list->capacity * 4;
    marker *grown = malloc(capacity * sizeof *grown);

    if (!grown) {
        list->out_of_memory = true;
        return false;
    }
    memcpy(grown, list->items, list->count * sizeof *grown);
    if (list->items != list->near)
        free(list->items);
    list->items = grown;
    list->capacity = capacity;
    return true;
}

static void add_marker(marker_list *list, uintptr_t address, uintptr_t first, uintptr_t end,
                       PyInterpreterState *interp)
{
    if (on_stack(list, address) && (list->count < list->capacity || make_room(list)))
        list->items[list->count++] = (marker){address, first, end, interp};
}

/* 3.11, 3.12: a chain of _PyCFrames on the C stack, each naming its newest frame. */
static void collect_cframes(marker_list *list, PyThreadState *state)
{
    uintptr_t cframe = sspy_word((uintptr_t)state, sspy_layout_now.head);
    uintptr_t last = 0;

    /* Markers inside of the part that is looked at come first: they may be skipped, not read. */
    while (cframe && cframe > last && cframe < list->high && cframe % sizeof(void *) == 0) {
        last = cframe;
        add_marker(list, cframe, sspy_word(cframe, sspy_layout_now.cframe_current), 0,
                   state->interp);
        cframe = sspy_word(cframe, sspy_layout_now.cframe_previous);
    }
}

/* 3.13 on: entry frames on the C stack stand in the frame chain itself. */
static void collect_entry_frames(marker_list *list, PyThreadState *state)
{
    uintptr_t frame = sspy_word((uintptr_t)state, sspy_layout_now.head);
    uintptr_t first = frame, last = 0;

    for (int steps = 0; frame && steps < MAX_STEPS; steps++) {
        uintptr_t previous = sspy_frame_previous(frame);

        if (sspy_frame_owner(frame) >= SSPY_FRAME_OF_C) {
            if (frame > last)
                add_marker(list, frame, first, frame, state->interp);
            last = frame;
            first = previous;
        }
        frame = previous;
    }
}

static int compare_markers(const void *a, const void *b)
{
    uintptr_t x = ((const marker *)a)->address, y = ((const marker *)b)->address;

    return x < y ? -1 : x > y;
}

static void collect_markers(marker_list *list)
{
    PyThreadState *states[MAX_THREAD_STATES];
    uint32_t count = find_thread_states(list, states);

    for (uint32_t i = 0; i < count; i++) {
        if (sspy_layout_now.cframe)
            collect_cframes(list, states[i]);
        else
            collect_entry_frames(list, states[i]);
    }
    qsort(list->items, list->count, sizeof *list->items, compare_markers);
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

static bool push_frame(stacksplice_walk *walk, uintptr_t frame, PyInterpreterState *interp)
{
    PyCodeObject *code = sspy_frame_code(frame);
    const sspy_placed_frame *placed;

    if (!code)
        return true;
    placed = placement ? find_placed(placement, frame) : NULL;
    /* What comes before the mark is cut off: a gap that holds for what follows is repeated. */
    if (placed && placed->data == placement->innermost &&
        (!stacksplice_walk_push(walk, sspy_mark()) ||
         (!walk->frame_count && !stacksplice_walk_push(walk, gap_token(no_native_frames)))))
        return false;
    if (placed && placed->token)
        return stacksplice_walk_push(walk, placed->token) != 0;
    return stacksplice_walk_push(walk, sspy_token(code, sspy_frame_lasti(frame, code), 0,
                                                  STACKSPLICE_TRUST_EXACT, interp)) != 0;
}

/* The frames of one activation, innermost first. */
static bool push_run(stacksplice_walk *walk, const marker *m)
{
    uintptr_t frame = m->first;

    for (int steps = 0; frame && frame != m->end && steps < MAX_STEPS; steps++) {
        if (!push_frame(walk, frame, m->interp))
            return false;
        if (sspy_layout_now.is_entry && *(const bool *)(frame + sspy_layout_now.frame_is_entry))
            return true;
        frame = sspy_frame_previous(frame);
        if (frame && sspy_frame_owner(frame) >= SSPY_FRAME_OF_C)
            return true;
    }
    return true;
}

/* Whether M is below the end of native frame I.  Nobody knows where the last frame of a truncated
   walk ends, so nothing is in it. */
static bool frame_reaches(const stacksplice_walk *walk, uint32_t i, const marker *m)
{
    if (i + 1 < walk->frame_count)
        return m->address < walk->frames[i + 1].sp;
    return !walk->truncated && m->address < walk->stack_high;
}

static void splice_markers(stacksplice_walk *walk, const marker_list *list)
{
    uint32_t frame = 0;

    for (uint32_t i = 0; i < list->count; i++) {
        const marker *m = &list->items[i];

        /* greenlet chains a _PyCFrame of its own, which no loop stands behind. */
        if (!m->first || m->first == m->end)
            continue;
        while (frame < walk->frame_count && !frame_reaches(walk, frame, m))
            frame++;
        if (!stacksplice_walk_splice(walk, frame, frame < walk->frame_count) || !push_run(walk, m))
            return;
    }
}

static void push_gap(stacksplice_walk *walk, const char *why)
{
    if (stacksplice_walk_splice(walk, walk->frame_count, 0))
        (void)stacksplice_walk_push(walk, gap_token(why));
}

static void collect(stacksplice_walk *walk, void *data)
{
    marker_list list;
    const char *why = sspy_layout_reason();

    (void)data;
    if (why) {
        /* Only a thread that runs Python has frames to miss. */
        if (PyGILState_GetThisThreadState())
            push_gap(walk, why);
        return;
    }
    list.items = list.near;
    list.count = 0;
    list.capacity = NEAR_MARKERS;
    list.low = walk->stack_low;
    list.high = walk->stack_high;
    list.out_of_memory = false;
    collect_markers(&list);
    if (!walk->frame_count && list.count)
        push_gap(walk, no_native_frames);
    splice_markers(walk, &list);
    if (list.out_of_memory)
        push_gap(walk, "python frames missing: out of memory");
    if (list.items != list.near)
        free(list.items);
}

HRESULT sspy_source_register(void)
{
    stacksplice_source source = {.size = sizeof source,
                                 .version = STACKSPLICE_SOURCE_VERSION,
                                 .language = "python",
                                 .identity = (const void *)&PyType_Type,
                                 .collect = collect};

    return stacksplice_add_source(&source);
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
