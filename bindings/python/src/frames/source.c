/*
 * The frame source: it finds the native frames of CPython's evaluation loop, and their Python
 * frames.
 *
 * Each activation of the loop keeps an object (a marker) on the C stack, chained from the thread
 * state.  The native frame that contains the marker's address is that activation.  One stack can
 * hold activations of several thread states (sub-interpreters).  The source follows all chains with
 * markers on the stack side by side, in the order of the markers' addresses.
 */
#include "frames/frames.h"
#include "frames/live.h"
#include "frames/token_cache.h"

#include <dlfcn.h>
#include <link.h>
#include <string.h>

/* ---- Greenlet --------------------------------------------------------------------------------*/

/*
 * The base of a greenlet.
 *
 * A greenlet runs on the thread's own stack; the extension copies the parts of other greenlets away
 * and back.  Outside of the frame that began the running greenlet the stack holds old contents, so
 * the native frames found there are not its callers.  Python's own chain ends at the base.  The
 * first frame of the greenlet extension outside of that chain's outermost loop is the one that
 * began it.  Without greenlets no frame outside of that loop is the extension's.
 */

enum { KNOWN_FRAMES = 24 /* outside of the outermost loop, remembered to contain no base */ };

/* The last frames of this thread that had no base: the next capture mostly sees the same ones. */
static _Thread_local struct {
    uintptr_t outermost;
    uint32_t count;
    uintptr_t ips[KNOWN_FRAMES];
} without_base;

static bool is_known(const stacksplice_walk *walk, uint32_t first, uintptr_t outermost)
{
    uint32_t count = walk->frame_count - first;

    if (without_base.outermost != outermost || without_base.count != count)
        return false;
    for (uint32_t i = 0; i < count; i++)
        if (without_base.ips[i] != walk->frames[first + i].ip)
            return false;
    return true;
}

static void remember(const stacksplice_walk *walk, uint32_t first, uintptr_t outermost)
{
    uint32_t count = walk->frame_count - first;

    if (count > KNOWN_FRAMES)
        return;
    for (uint32_t i = 0; i < count; i++)
        without_base.ips[i] = walk->frames[first + i].ip;
    without_base.count = count;
    without_base.outermost = outermost;
}

/* The file that the code at IP came from, or NULL. */
static const char *file_of(uintptr_t ip)
{
#ifdef DLFO_STRUCT_HAS_EH_DBASE
    struct dl_find_object found;

    if (_dl_find_object((void *)ip, &found) || !found.dlfo_link_map)
        return NULL;
    return found.dlfo_link_map->l_name;
#else
    Dl_info found;

    return dladdr((const void *)ip, &found) ? found.dli_fname : NULL;
#endif
}

static bool is_greenlet_code(uintptr_t ip)
{
    static const char module[] = "_greenlet.";
    const char *file = file_of(ip);
    const char *slash = file ? strrchr(file, '/') : NULL;

    return file && strncmp(slash ? slash + 1 : file, module, sizeof module - 1) == 0;
}

/* Find the frame that began the running greenlet.  The search starts at FIRST, outside of
   OUTERMOST, the address of the loop's outermost activation (0: none).  Returns frame_count when
   there is none. */
static uint32_t sspy_greenlet_base(const stacksplice_walk *walk, uint32_t first,
                                   uintptr_t outermost)
{
    while (first < walk->frame_count && walk->frames[first].sp <= outermost)
        first++;
    if (first == walk->frame_count || is_known(walk, first, outermost))
        return walk->frame_count;
    for (uint32_t i = first; i < walk->frame_count; i++)
        if (is_greenlet_code(walk->frames[i].ip - 1))
            return i;
    remember(walk, first, outermost);
    return walk->frame_count;
}

/* ---- Source ----------------------------------------------------------------------------------*/

enum { BATCH = 64 };

/* One activation of the loop: its frames are FIRST and outward until END.  ADDRESS 0: none. */
typedef struct marker {
    uintptr_t address, first, end;
} marker;

/* The markers of one thread state, the innermost first. */
typedef struct chain {
    PyInterpreterState *interp;
    uintptr_t next;  /* the next _PyCFrame; from 3.13 on the next frame */
    uintptr_t first; /* 3.13 on: the first frame after the previous marker */
    marker now;
} chain;

static const char no_native_frames[] =
    "without native frames, order relative to other languages unknown";

/* ---- Markers ----------------------------------------------------------------------------------*/

/* What leads from FRAME to the next one. */
static void report_link(stacksplice_walk *walk, uintptr_t frame)
{
    sspy_report_word(walk, frame + sspy_layout_now()->frame_owner);
    sspy_report_word(walk, frame + sspy_layout_now()->frame_previous);
}

/* 3.11, 3.12: a chain of _PyCFrames on the C stack, each naming its newest frame. */
static void next_cframe(chain *c, stacksplice_walk *walk)
{
    const sspy_layout *layout = sspy_layout_now();
    uintptr_t last = c->now.address, cframe = c->next;

    c->now.address = 0;
    /* Markers inside the walked part come first: we may skip them, but not read them. */
    while (cframe && cframe > last && cframe < walk->stack_high && cframe % sizeof(void *) == 0) {
        sspy_report_word(walk, cframe + layout->cframe_previous);
        sspy_report_word(walk, cframe + layout->cframe_current);
        last = cframe;
        cframe = sspy_word(cframe, layout->cframe_previous);
        if (last >= walk->stack_low) {
            c->now = (marker){last, sspy_word(last, layout->cframe_current), 0};
            /* Its frames end where those of the next loop begin: the newest frame there made the
               call.  That loop may run on another stack of the thread, or be the thread state's own
               base. */
            if (cframe > last || (cframe && !sspy_is_on_stack(walk, cframe))) {
                sspy_report_word(walk, cframe + layout->cframe_current);
                c->now.end = sspy_word(cframe, layout->cframe_current);
            }
            break;
        }
    }
    c->next = cframe;
}

/* 3.13 on: the frame chain itself contains entry frames, which are on the C stack. */
static void next_entry_frame(chain *c, stacksplice_walk *walk)
{
    uintptr_t last = c->now.address, frame = c->next;

    c->now.address = 0;
    for (int steps = 0; frame && !c->now.address && steps < SSPY_MAX_CHAIN; steps++) {
        uintptr_t previous = sspy_frame_previous(frame);

        report_link(walk, frame);
        if (sspy_frame_owner(frame) >= SSPY_FRAME_OF_C) {
            /* In a valid chain each marker is further out than the one before. */
            if (frame > last && sspy_is_on_stack(walk, frame))
                c->now = (marker){frame, c->first, frame};
            c->first = previous;
        }
        frame = previous;
    }
    c->next = frame;
}

static void next_marker(chain *c, stacksplice_walk *walk)
{
    if (sspy_layout_now()->cframe)
        next_cframe(c, walk);
    else
        next_entry_frame(c, walk);
}

static uint32_t begin_chains(stacksplice_walk *walk, chain *chains)
{
    PyThreadState *states[SSPY_MAX_THREAD_STATES];
    uint32_t count = sspy_thread_states(walk, states);

    for (uint32_t i = 0; i < count; i++) {
        chains[i].interp = states[i]->interp;
        chains[i].next = chains[i].first =
            sspy_word((uintptr_t)states[i], sspy_layout_now()->thread_head);
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
static __attribute__((noinline)) uintptr_t unknown_token(stacksplice_walk *walk, uintptr_t frame,
                                                         PyInterpreterState *interp,
                                                         bool is_watched)
{
    PyCodeObject *code = sspy_frame_code(frame);

    if (walk->recorded)
        sspy_report_code(walk, frame, interp);
    if (!code)
        return 0;
    if (is_watched)
        sspy_learn_later(walk);
    return sspy_token(code, sspy_frame_lasti(frame, code), interp);
}

/* Set *TOKEN to the token that WANTED has for FRAME, if any; before the innermost push the mark. */
static __attribute__((noinline)) bool push_replaced(batch *b, const sspy_replacement *wanted,
                                                    uintptr_t frame, uintptr_t *token)
{
    const sspy_replaced_frame *replaced = sspy_find_replaced(wanted, frame);

    if (!replaced)
        return true;
    *token = replaced->token;
    if (replaced->data != wanted->innermost)
        return true;
    /* What comes before the mark is cut off.  Repeat a gap that also covers what follows. */
    return push(b, wanted->mark) && (b->walk->frame_count || push(b, sspy_gap(no_native_frames)));
}

/* Push the frames of one activation, innermost first, with the tokens of WANTED (or NULL). */
static bool push_run(stacksplice_walk *walk, const marker *m, PyInterpreterState *interp,
                     const sspy_replacement *wanted)
{
    const sspy_layout *layout = sspy_layout_now();
    uint32_t owner = layout->frame_owner, instruction = layout->frame_instruction;
    uint32_t previous = layout->frame_previous;
    bool is_watched = interp == atomic_load_explicit(&sspy_cache_interp, memory_order_relaxed);
    bool cached = is_watched && sspy_cache_is_true();
    uintptr_t frame = m->first;
    batch b;

    b.walk = walk;
    b.count = 0;
    for (int steps = 0; frame && frame != m->end && steps < SSPY_MAX_CHAIN; steps++) {
        uintptr_t token = 0;

        if (layout->cframe)
            report_link(walk, frame); /* else done on the way to the marker */
        if (*(const unsigned char *)(frame + owner) >= SSPY_FRAME_OF_C)
            break;
        sspy_report_word(walk, frame + instruction);
        if (wanted && !push_replaced(&b, wanted, frame, &token))
            return false;
        if (!token && cached)
            token = sspy_cache_find(sspy_word(frame, instruction), 0);
        if (!token)
            token = unknown_token(walk, frame, interp, is_watched);
        if (!push(&b, token))
            return false;
        frame = sspy_word(frame, previous);
    }
    return flush(&b);
}

/*
 * The native frame that contains ADDRESS, searched from FRAME outward; frame_count when there is
 * none.  FRAME is on the walked stack, so that the others are further and further out.  The end of
 * a truncated walk's last frame is unknown, so that frame contains nothing.
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

/* The first frame on the walked stack: a signal handler's frames may be on another one. */
static uint32_t first_frame(const stacksplice_walk *walk)
{
    uint32_t frame = 0;

    while (frame < walk->frame_count &&
           (walk->frames[frame].sp < walk->stack_low || walk->frames[frame].sp >= walk->stack_high))
        frame++;
    return frame;
}

/* Remove what is outside of a greenlet's base, for other sources too. */
static void cut_at_base(stacksplice_walk *walk, uint32_t first, uintptr_t outermost)
{
    uint32_t base = sspy_greenlet_base(walk, first, outermost);

    if (base + 1 < walk->frame_count)
        (void)stacksplice_walk_end(walk, base + 1, sspy_gap(SSPY_GREENLET_ENDS));
}

static void splice_markers(stacksplice_walk *walk, chain *chains, uint32_t count)
{
    const sspy_replacement *wanted = sspy_replacement_now();
    uintptr_t outermost = 0;
    uint32_t frame = first_frame(walk);

    for (chain *c; (c = innermost(chains, count)) != NULL; next_marker(c, walk)) {
        /* greenlet chains its own _PyCFrame, which belongs to no loop. */
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
        (void)stacksplice_walk_push(walk, sspy_gap(why));
}

static void splice(stacksplice_walk *walk)
{
    chain chains[SSPY_MAX_THREAD_STATES];
    const char *why = sspy_layout_reason();
    uint32_t count;

    if (why) {
        /* Only a thread that runs Python can miss frames. */
        if (PyGILState_GetThisThreadState())
            push_gap(walk, why);
        return;
    }
    count = begin_chains(walk, chains);
    if (!walk->frame_count && innermost(chains, count))
        push_gap(walk, no_native_frames);
    splice_markers(walk, chains, count);
}

static void collect(stacksplice_walk *walk, void *data)
{
    (void)data;
    if (walk->recorded) /* first: a walk that ends at a greenlet's base is shorter afterwards */
        sspy_report_conditions(walk);
    splice(walk);
}

HRESULT sspy_source_register(void)
{
    stacksplice_source source = {.size = sizeof source,
                                 .version = STACKSPLICE_SOURCE_VERSION,
                                 .language = "python",
                                 .identity = (const void *)&PyType_Type,
                                 .collect = collect,
                                 .ends_walks = 1,
                                 .reports = 1};

    sspy_watch_sections(sspy_learn, sspy_cache_end);
    return stacksplice_add_source(&source);
}
