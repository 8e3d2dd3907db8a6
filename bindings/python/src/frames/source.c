/*
 * The frame source: it finds the native frames of CPython's evaluation loop, and their Python
 * frames.
 *
 * Each activation of the loop keeps an object (a marker) on the C stack, chained from the thread
 * state.  The native frame that contains the marker's address is that activation.  One stack can
 * hold activations of several thread states (sub-interpreters).  The source follows all chains with
 * markers on the stack side by side, in the order of the markers' addresses.
 */
#include "frames/token_cache.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { MAX_THREAD_STATES = 16 };

static bool is_on_stack(const stacksplice_walk *walk, uintptr_t address)
{
    return address >= walk->stack_low && address < walk->stack_high &&
           address % sizeof(void *) == 0;
}

/* Report to the core that WALK, if it is recorded, depends on the aligned word with ADDRESS in it. */
static inline void report_word(stacksplice_walk *walk, uintptr_t address)
{
    if (!walk->recorded)
        return;
    address -= address % sizeof(uintptr_t);
    stacksplice_walk_read(walk, address, *(const uintptr_t *)address);
}

/* ---- Thread states -----------------------------------------------------------------------------*/

/* The thread states that have frames on one stack. */

/*
 * Whether CURRENT is this thread's and running; MINE is the state this thread began with.  Before
 * 3.12 the current thread state is global.  It is ours only if one of our sections says so, or if
 * it belongs to this thread.  PyGILState_Check proves nothing: with sub-interpreters it always
 * returns 1.
 */
static bool holds_lock(PyThreadState *current, PyThreadState *mine)
{
#if SSPY_CURRENT_IS_THREAD_LOCAL
    (void)mine;
    return current != NULL;
#else
    if (!current)
        return false;
    /* No other thread makes this thread's own state the current one. */
    if (current == mine || sspy_is_in_section())
        return true;
    /* Only the holder of the lock can be current, and it is alive while it holds the lock.  It
       could release the lock and die between these reads only if it were another thread. */
    return PyGILState_Check() && current->thread_id == (unsigned long)pthread_self() &&
           current->native_thread_id == (unsigned long)gettid();
#endif
}

/* Whether the newest marker of THREAD_STATE, which does not run, lies on our stack. */
static bool is_dormant_here(const stacksplice_walk *walk, PyThreadState *thread_state)
{
    uintptr_t head = sspy_word((uintptr_t)thread_state, sspy_layout_now()->thread_head);

    if (sspy_layout_now()->cframe)
        return is_on_stack(walk, head);
    if (thread_state->thread_id != (unsigned long)pthread_self())
        return false;
    head = sspy_entry_frame(head);
    return head && is_on_stack(walk, head);
}

/* Thread states with frames on a stack: of too many those whose newest marker is further in. */
typedef struct thread_list {
    PyThreadState *all[MAX_THREAD_STATES];
    uint32_t count;
    uintptr_t missing; /* the innermost marker of the others; 0: there are none */
} thread_list;

static uintptr_t newest_marker(PyThreadState *thread_state)
{
    uintptr_t head = sspy_word((uintptr_t)thread_state, sspy_layout_now()->thread_head);

    return sspy_layout_now()->cframe ? head : sspy_entry_frame(head);
}

/* Leave out the one whose newest marker is further out than those of the others and of STATE. */
static __attribute__((noinline)) void exchange_outermost(thread_list *list, PyThreadState *state)
{
    uintptr_t address;

    for (uint32_t i = 0; i < MAX_THREAD_STATES; i++)
        if (newest_marker(list->all[i]) > newest_marker(state)) {
            PyThreadState *outer = list->all[i];

            list->all[i] = state;
            state = outer;
        }
    address = newest_marker(state);
    if (!list->missing || address < list->missing)
        list->missing = address;
}

static void add_thread_state(thread_list *list, PyThreadState *state)
{
    for (uint32_t i = 0; i < list->count; i++)
        if (list->all[i] == state)
            return;
    if (state && list->count < MAX_THREAD_STATES)
        list->all[list->count++] = state;
    else if (state)
        exchange_outermost(list, state);
}

/* Whether INTERP runs under the lock that CURRENT's interpreter holds.  Only then its list of
   thread states cannot change.  In 3.11 there is one lock. */
static bool shares_lock(PyInterpreterState *interp, PyThreadState *current)
{
    uint32_t offset = sspy_layout_now()->interpreter_lock;

    return !offset ||
           sspy_word((uintptr_t)interp, offset) == sspy_word((uintptr_t)current->interp, offset);
}

static void add_dormant(const stacksplice_walk *walk, PyInterpreterState *interp, thread_list *list)
{
    for (PyThreadState *t = PyInterpreterState_ThreadHead(interp); t; t = t->next)
        if (is_dormant_here(walk, t))
            add_thread_state(list, t);
}

/* Whether frames of an interpreter that is not read may be on this stack. */
static bool has_unread_interpreters(void)
{
    return SSPY_IS_FREE_THREADED && PyInterpreterState_Head() != PyInterpreterState_Main();
}

/* Put the thread states that have frames on this stack into LIST. */
static void thread_states(const stacksplice_walk *walk, thread_list *list)
{
    PyThreadState *current = sspy_current_thread_state();
    PyThreadState *mine = PyGILState_GetThisThreadState();

    list->count = 0;
    list->missing = 0;
    add_thread_state(list, mine);
    if (!holds_lock(current, mine))
        return;
    add_thread_state(list, current);
    if (SSPY_IS_FREE_THREADED)
        return; /* the lists change at any time: splice_unknown_loops */
    for (PyInterpreterState *i = PyInterpreterState_Head(); i; i = PyInterpreterState_Next(i))
        if (shares_lock(i, current))
            add_dormant(walk, i, list);
}

/* ---- Live frames -------------------------------------------------------------------------------*/

/*
 * The live frames of the current thread state: which frames of a traceback still run, what captures
 * show in their place, and what the table of tokens learns.
 */

enum {
    MAX_LEARNED = 256 /* places put into the table of tokens at once */
};

/* What captures of this thread apply, or NULL. */
static _Thread_local const sspy_replacement *replacement;
static _Thread_local bool missed;

static _Atomic(bool) is_asked;         /* the interpreter will call learn_between */
static _Atomic(unsigned long) learner; /* the thread that it did so in; 0: not yet */

static uintptr_t next_shown(uintptr_t frame)
{
    for (int steps = 0; frame && steps < SSPY_MAX_CHAIN; steps++) {
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

sspy_call sspy_call_now(PyThreadState *thread)
{
    sspy_call call = {NULL, 0};
    uintptr_t frame;

    if (!thread || sspy_layout_reason())
        return call;
    frame = next_shown(sspy_frame_current(thread));
    if (frame)
        call = (sspy_call){(const void *)frame,
                           sspy_word(frame, sspy_layout_now()->frame_instruction)};
    return call;
}

bool sspy_chain_has_owned(void)
{
    uintptr_t live;

    if (sspy_layout_reason())
        return false;
    live = sspy_frame_current(PyThreadState_Get());
    for (int steps = 0; live && steps < SSPY_MAX_CHAIN; steps++) {
        if (sspy_frame_owner(live) == SSPY_FRAME_OBJECT)
            return true;
        live = sspy_frame_previous(live);
    }
    return false;
}

const void *sspy_loop_marker(void)
{
    uintptr_t at;

    if (sspy_layout_reason())
        return NULL;
    at = sspy_word((uintptr_t)PyThreadState_Get(), sspy_layout_now()->thread_head);
    return (const void *)(sspy_layout_now()->cframe ? at : sspy_entry_frame(at));
}

const void *sspy_frame_live(PyFrameObject *frame, bool owned)
{
    uintptr_t data, live;

    if (sspy_layout_reason() || (!owned && sspy_frame_has_ended(frame)))
        return NULL;
    data = sspy_frame_data(frame);
    live = sspy_frame_current(PyThreadState_Get());
    for (int steps = 0; live && steps < SSPY_MAX_CHAIN; steps++) {
        if (live == data)
            return (const void *)data;
        live = sspy_frame_previous(live);
    }
    return NULL;
}

#if SSPY_IS_FREE_THREADED
bool sspy_frame_is_steady(PyFrameObject *frame)
{
    sspy_critical section;
    uintptr_t data;

    /* The thread that ends a frame keeps its data in such a section: now it has, or has not begun. */
    SSPY_CRITICAL_BEGIN(&section, (PyObject *)frame);
    data = sspy_frame_data(frame);
    SSPY_CRITICAL_END(&section);
    if (data - (uintptr_t)frame < (size_t)PyFrame_Type.tp_basicsize)
        return true; /* it has ended, and keeps its data itself */
    for (const _PyStackChunk *chunk = PyThreadState_Get()->datastack_chunk; chunk;
         chunk = chunk->previous)
        if (data - (uintptr_t)chunk < chunk->size)
            return true;
    return sspy_frame_live(frame, true) != NULL; /* a generator's */
}
#endif

/* FRAME among the frames of WANTED, or NULL. */
static const sspy_replaced_frame *find_replaced(const sspy_replacement *wanted, uintptr_t frame)
{
    for (uint32_t i = 0; i < wanted->count; i++)
        if (wanted->frames[i].data == (const void *)frame)
            return &wanted->frames[i];
    return NULL;
}

void sspy_replace(sspy_replacement *wanted)
{
    uintptr_t live;

    replacement = wanted;
    if (!wanted)
        return;
    wanted->innermost = NULL;
    if (!wanted->count || sspy_layout_reason())
        return;
    live = sspy_frame_current(PyThreadState_Get());
    for (int steps = 0; live && !wanted->innermost && steps < SSPY_MAX_CHAIN; steps++) {
        if (find_replaced(wanted, live))
            wanted->innermost = (const void *)live;
        live = sspy_frame_previous(live);
    }
}

/* ---- Learning ---------------------------------------------------------------------------------*/

/* Look for what a capture missed on the current chain: only frames that are live now are known to
   be alive. */
static void learn(PyThreadState *state)
{
    uintptr_t frame = sspy_frame_current(state);
    int learned = 0;

    (void)sspy_cache_renew();
    for (int steps = 0; frame && learned < MAX_LEARNED && steps < SSPY_MAX_CHAIN; steps++) {
        PyCodeObject *code = sspy_frame_code(frame);

        if (code && !sspy_cache_find(sspy_frame_place(frame), 0)) {
            (void)sspy_token_known(code, sspy_frame_lasti(frame, code), 0, STACKSPLICE_TRUST_EXACT);
            learned++;
        }
        frame = sspy_frame_previous(frame);
    }
}

/* Add those that are still live now.  Lock held, outside of any capture. */
static void learn_missed(void)
{
    PyThreadState *state;

    if (!missed)
        return;
    missed = false;
    state = PyThreadState_Get();
    if (state->interp == atomic_load(&sspy_cache_interp))
        learn(state);
}

/* Called by the interpreter in its main thread, between two instructions. */
static int learn_between(void *Py_UNUSED(data))
{
    atomic_store(&is_asked, false);
    atomic_store(&learner, PyThread_get_thread_ident());
    learn_missed();
    return 0;
}

/* Py_AddPendingCall takes a lock, which the code that a signal interrupted may hold. */
static bool is_in_handler(const stacksplice_walk *walk)
{
    for (uint32_t i = 0; i < walk->frame_count; i++)
        if (walk->frames[i].flags & STACKSPLICE_NATIVE_SIGNAL)
            return true;
    return !walk->frame_count || walk->truncated;
}

/* A capture of this thread met a frame of the main interpreter that is not in the table of tokens.
   It goes there as soon as the thread leaves a section; in a program that only captures, when the
   main thread's interpreter goes on. */
static void learn_later(const stacksplice_walk *walk)
{
    unsigned long wanted = atomic_load(&learner);

    if (missed)
        return;
    missed = true;
    /* Only the main thread has its frames still on its stack then; the first call finds out which
       thread that is. */
    if ((!wanted || wanted == PyThread_get_thread_ident()) && !is_in_handler(walk) &&
        !atomic_exchange(&is_asked, true) && Py_AddPendingCall(learn_between, NULL))
        atomic_store(&is_asked, false);
}

/* ---- What a capture depends on -----------------------------------------------------------------*/

/*
 * What Python's part of a capture depends on, so that the core can repeat it (source.h), besides the
 * words of the chains that source.c reads.
 *
 * A token follows, if nobody watches its code, from the words of the code object and of its names,
 * where the place of the instruction is found, and what tokens.c compares.
 */

enum { MOST_REPLACED = 16 /* a capture with more replaced frames is not repeated */ };

enum { BYTES, LENGTH, VALUE };

static uintptr_t few_bytes(uintptr_t address, size_t length)
{
    uintptr_t value = 0;

    memcpy(&value, (const void *)address, length);
    return value;
}

static int are_same_bytes(const uintptr_t *data)
{
    return few_bytes(data[BYTES], data[LENGTH]) == data[VALUE];
}

/* Report LENGTH bytes from the aligned address DATA on, where an object has ROOM bytes.  Its end
   may be no word. */
static void report_bytes(stacksplice_walk *walk, const void *data, size_t length, size_t room)
{
    uintptr_t at = (uintptr_t)data, end = at + length, last = at + room - room % sizeof(uintptr_t);

    for (; at < end && at < last; at += sizeof(uintptr_t))
        report_word(walk, at);
    if (at < end)
        stacksplice_walk_check(
            walk, are_same_bytes,
            (uintptr_t[STACKSPLICE_CHECK_WORDS]){
                [BYTES] = at, [LENGTH] = end - at, [VALUE] = few_bytes(at, end - at)});
}

/* Report the text behind *PLACE.  Nearly all names have their hash, of 64 bits. */
static void report_text(stacksplice_walk *walk, PyObject *const *place)
{
    const PyASCIIObject *text = (const PyASCIIObject *)*place;
    size_t length;

    report_word(walk, (uintptr_t)place);
    if (!text || !PyUnicode_Check(*place) || !PyUnicode_IS_COMPACT(*place)) {
        stacksplice_walk_refuse(walk);
        return;
    }
    if (text->hash != -1) {
        report_word(walk, (uintptr_t)&text->hash);
        return;
    }
    report_word(walk, (uintptr_t)&text->length);
    report_word(walk, (uintptr_t)&text->state);
    length = (size_t)PyUnicode_GET_LENGTH(*place) * PyUnicode_KIND(*place);
    report_bytes(walk, PyUnicode_DATA(*place), length, length);
}

enum { INTERP, ID };

static int is_same_interpreter(const uintptr_t *data)
{
    return (uintptr_t)PyInterpreterState_GetID((PyInterpreterState *)data[INTERP]) == data[ID];
}

/* All that the token of FRAME is made of, when nobody tells the death of its code.  The frame keeps
   its code alive, which keeps the rest. */
static void report_code(stacksplice_walk *walk, uintptr_t frame, PyInterpreterState *interp)
{
    PyCodeObject *code = sspy_frame_code(frame);
    sspy_position position;
    const PyVarObject *table;

    if (!code) {
        stacksplice_walk_refuse(walk);
        return;
    }
    position = sspy_position_of(code, sspy_frame_lasti(frame, code));
    report_word(walk, frame + sspy_layout_now()->frame_code);
    report_text(walk, &code->co_filename);
    report_text(walk, &code->co_name);
    report_text(walk, &code->co_qualname);
    report_word(walk, (uintptr_t)&code->co_firstlineno);
    table = (const PyVarObject *)code->co_linetable;
    report_word(walk, (uintptr_t)&code->co_linetable);
    report_word(walk, (uintptr_t)&table->ob_size);
    report_bytes(walk, PyBytes_AS_STRING(code->co_linetable), position.prefix,
                 (size_t)table->ob_size);
    stacksplice_walk_check(
        walk, is_same_interpreter,
        (uintptr_t[STACKSPLICE_CHECK_WORDS]){
            [INTERP] = (uintptr_t)interp, [ID] = (uintptr_t)PyInterpreterState_GetID(interp)});
}

/* ---- Conditions that are not in words of a chain ----------------------------------------------*/

enum { COUNT, INNERMOST, MARK };

/* Whether captures replace as many frames as then, if any, and put the same mark. */
static int is_same_replacement(const uintptr_t *data)
{
    const sspy_replacement *now = replacement;

    if (!now || !data[MARK])
        return !now && !data[MARK];
    return now->count == data[COUNT] && (uintptr_t)now->innermost == data[INNERMOST] &&
           now->mark == data[MARK];
}

enum { NUMBER, DATA, TOKEN };

/* Whether one of them is the same. */
static int is_same_replaced(const uintptr_t *data)
{
    const sspy_replacement *now = replacement;

    return now && data[NUMBER] < now->count &&
           (uintptr_t)now->frames[data[NUMBER]].data == data[DATA] &&
           now->frames[data[NUMBER]].token == data[TOKEN];
}

/* False when there are too many to check. */
static bool check_replacement(stacksplice_walk *walk)
{
    const sspy_replacement *now = replacement;
    uintptr_t data[STACKSPLICE_CHECK_WORDS] = {0};

    if (now) {
        data[COUNT] = now->count;
        data[INNERMOST] = (uintptr_t)now->innermost;
        data[MARK] = now->mark;
    }
    stacksplice_walk_check(walk, is_same_replacement, data);
    for (uint32_t i = 0; now && i < now->count && i < MOST_REPLACED; i++) {
        const uintptr_t one[STACKSPLICE_CHECK_WORDS] = {i, (uintptr_t)now->frames[i].data,
                                                        now->frames[i].token};

        stacksplice_walk_check(walk, is_same_replaced, one);
    }
    return !now || now->count <= MOST_REPLACED;
}

enum { STATE, LOW, HIGH, DEATHS };

/* The thread state with frames on the stack of WALK, or 0; false when there are several. */
static bool only_state(const stacksplice_walk *walk, uintptr_t *state)
{
    thread_list list;

    thread_states(walk, &list);
    *state = list.count ? (uintptr_t)list.all[0] : 0;
    return list.count < 2;
}

/* Whether the chains begin where they began, and each known instruction is still the same code. */
static int is_same_thread(const uintptr_t *data)
{
    const stacksplice_walk walk = {.stack_low = data[LOW], .stack_high = data[HIGH]};
    uintptr_t state;

    return only_state(&walk, &state) && state == data[STATE] &&
           atomic_load_explicit(&sspy_cache_deaths, memory_order_acquire) == data[DEATHS];
}

/* Report what is in no word of a chain, before WALK is collected. */
static void report_conditions(stacksplice_walk *walk)
{
    uintptr_t data[STACKSPLICE_CHECK_WORDS] = {
        [LOW] = walk->stack_low,
        [HIGH] = walk->stack_high,
        [DEATHS] = atomic_load_explicit(&sspy_cache_deaths, memory_order_acquire)};
    PyThreadState *state;

    if (sspy_layout_reason() || !walk->frame_count || has_unread_interpreters() ||
        !only_state(walk, &data[STATE]) || !check_replacement(walk)) {
        stacksplice_walk_refuse(walk);
        return;
    }
    stacksplice_walk_check(walk, is_same_thread, data);
    state = (PyThreadState *)data[STATE];
    if (!state)
        return;
    report_word(walk, (uintptr_t)&state->interp);
    report_word(walk, (uintptr_t)state + sspy_layout_now()->thread_head);
}

/* ---- The source --------------------------------------------------------------------------------*/

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

/* What glibc's _dl_find_object (2.35 and later) fills; not all headers have it, so here is room. */
typedef struct found_object {
    unsigned long long flags;
    void *begin, *end;
    struct link_map *map;
    uint64_t rest[12];
} found_object;

static int (*find_object)(void *address, found_object *found); /* NULL: an older C library */

/* At load: dlsym allocates, so a capture in a signal handler could not. */
static __attribute__((constructor)) void look_up(void)
{
    void *function = dlsym(RTLD_DEFAULT, "_dl_find_object");

    memcpy(&find_object, &function, sizeof find_object);
}

bool sspy_find_binary(uintptr_t ip, sspy_binary *found)
{
    found_object object;
    Dl_info info;

    if (find_object) {
        if (find_object((void *)ip, &object) || !object.map)
            return false;
        *found = (sspy_binary){(uintptr_t)object.begin, (uintptr_t)object.end, object.map->l_name};
        return true;
    }
    if (!dladdr((const void *)ip, &info) || !info.dli_fname)
        return false;
    *found = (sspy_binary){(uintptr_t)info.dli_fbase, 0, info.dli_fname};
    return true;
}

static bool is_greenlet_code(uintptr_t ip)
{
    static const char module[] = "_greenlet.";
    sspy_binary binary;
    const char *slash;

    if (!sspy_find_binary(ip, &binary))
        return false;
    slash = strrchr(binary.path, '/');
    return !strncmp(slash ? slash + 1 : binary.path, module, sizeof module - 1);
}

/* Find the frame that began the running greenlet.  The search starts at FIRST, outside of
   OUTERMOST, the address of the loop's outermost activation (0: none).  Returns frame_count when
   there is none. */
static uint32_t greenlet_base(const stacksplice_walk *walk, uint32_t first, uintptr_t outermost)
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
static const char too_many_interpreters[] =
    "Python frames missing: this stack has frames of more than 16 interpreters";

/* ---- Markers ----------------------------------------------------------------------------------*/

/* What leads from FRAME to the next one. */
static void report_link(stacksplice_walk *walk, uintptr_t frame)
{
    report_word(walk, frame + sspy_layout_now()->frame_owner);
    report_word(walk, frame + sspy_layout_now()->frame_previous);
}

/* 3.11, 3.12: a chain of _PyCFrames on the C stack, each naming its newest frame. */
static void next_cframe(chain *c, stacksplice_walk *walk)
{
    const sspy_layout *layout = sspy_layout_now();
    uintptr_t last = c->now.address, cframe = c->next;

    c->now.address = 0;
    /* Markers inside the walked part come first: we may skip them, but not read them. */
    while (cframe && cframe > last && cframe < walk->stack_high && cframe % sizeof(void *) == 0) {
        report_word(walk, cframe + layout->cframe_previous);
        report_word(walk, cframe + layout->cframe_current);
        last = cframe;
        cframe = sspy_word(cframe, layout->cframe_previous);
        if (last >= walk->stack_low) {
            c->now = (marker){last, sspy_word(last, layout->cframe_current), 0};
            /* Its frames end where those of the next loop begin: the newest frame there made the
               call.  That loop may run on another stack of the thread, or be the thread state's own
               base. */
            if (cframe > last || (cframe && !is_on_stack(walk, cframe))) {
                report_word(walk, cframe + layout->cframe_current);
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
            if (frame > last && is_on_stack(walk, frame))
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

/* Returns their number.  *MISSING is the marker where frames of others begin; 0: there are none. */
static uint32_t begin_chains(stacksplice_walk *walk, chain *chains, uintptr_t *missing)
{
    thread_list list;

    thread_states(walk, &list);
    for (uint32_t i = 0; i < list.count; i++) {
        chains[i].interp = list.all[i]->interp;
        chains[i].next = chains[i].first =
            sspy_word((uintptr_t)list.all[i], sspy_layout_now()->thread_head);
        chains[i].now.address = 0;
        next_marker(&chains[i], walk);
    }
    *missing = list.missing;
    return list.count;
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
static inline bool push(batch *b, uintptr_t token)
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
        report_code(walk, frame, interp);
    if (!code)
        return 0;
    if (is_watched)
        learn_later(walk);
    return sspy_token(code, sspy_frame_lasti(frame, code), interp);
}

/* Set *TOKEN to the token that WANTED has for FRAME, if any; before the innermost push the mark. */
static __attribute__((noinline)) bool push_replaced(batch *b, const sspy_replacement *wanted,
                                                    uintptr_t frame, uintptr_t *token)
{
    const sspy_replaced_frame *replaced = find_replaced(wanted, frame);

    if (!replaced)
        return true;
    *token = replaced->token;
    if (replaced->data != wanted->innermost)
        return true;
    /* What comes before the mark is cut off.  Repeat a gap that also covers what follows. */
    return push(b, wanted->mark) && (b->walk->frame_count || push(b, sspy_gap(no_native_frames)));
}

/* For push_run, which knows whether WALK is RECORDED: most are not, and have no WANTED. */
static inline __attribute__((always_inline)) bool push_frames(stacksplice_walk *walk,
                                                              const marker *m,
                                                              PyInterpreterState *interp,
                                                              const sspy_replacement *wanted,
                                                              bool recorded)
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

        if (recorded && layout->cframe)
            report_link(walk, frame); /* else done on the way to the marker */
        if (*(const unsigned char *)(frame + owner) >= SSPY_FRAME_OF_C)
            break;
        if (recorded) {
            report_word(walk, frame + instruction);
#if SSPY_HAS_COPIES
            report_word(walk, frame + layout->frame_code);
            report_word(walk, frame + layout->frame_copy);
#endif
        }
        if (wanted && !push_replaced(&b, wanted, frame, &token))
            return false;
        if (!token && cached)
            token = sspy_cache_find(sspy_frame_place(frame), 0);
        if (!token)
            token = unknown_token(walk, frame, interp, is_watched);
        if (!push(&b, token))
            return false;
        frame = sspy_word(frame, previous);
    }
    return flush(&b);
}

/* Push the frames of one activation, innermost first, with the tokens of WANTED (or NULL). */
static bool push_run(stacksplice_walk *walk, const marker *m, PyInterpreterState *interp,
                     const sspy_replacement *wanted)
{
    return walk->recorded || wanted ? push_frames(walk, m, interp, wanted, true)
                                    : push_frames(walk, m, interp, NULL, false);
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
    uint32_t base = greenlet_base(walk, first, outermost);

    if (base + 1 < walk->frame_count)
        (void)stacksplice_walk_end(walk, base + 1, sspy_gap(SSPY_GREENLET_ENDS));
}

/*
 * Without a lock the thread states of other interpreters cannot be read, since any thread may end them.  So a
 * loop that one of them runs on this stack has no marker that we know, and its frames are a gap.
 */

static const char other_interpreter[] =
    "Python frames missing: another interpreter's, which a free-threaded build does not show";

/* Where the evaluation loop's code is; 0: not known. */
static uintptr_t loop_code, loop_code_end;

#if SSPY_IS_FREE_THREADED
static __attribute__((constructor)) void look_up_loop(void)
{
    void *loop = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
    ElfW(Sym) *symbol = NULL;
    Dl_info info;

    if (!loop || !dladdr1(loop, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol)
        return;
    loop_code = (uintptr_t)loop;
    loop_code_end = loop_code + symbol->st_size;
}
#endif

/* A gap at the first loop without a marker among the frames from FIRST until END. */
static bool splice_unknown_loops(stacksplice_walk *walk, uint32_t first, uint32_t end)
{
    if (!has_unread_interpreters() || !loop_code)
        return true;
    while (first < end && walk->frames[first].ip - 1 - loop_code >= loop_code_end - loop_code)
        first++;
    return first >= end || (stacksplice_walk_splice(walk, first, 1) &&
                            stacksplice_walk_push(walk, sspy_gap(other_interpreter)));
}

/* A gap where the loop with the marker at MISSING runs, whose frames are not read. */
static bool splice_missing(stacksplice_walk *walk, uint32_t *frame, uintptr_t missing)
{
    *frame = frame_of(walk, *frame, missing);
    return stacksplice_walk_splice(walk, *frame, *frame < walk->frame_count) &&
           stacksplice_walk_push(walk, sspy_gap(too_many_interpreters));
}

static void splice_markers(stacksplice_walk *walk, chain *chains, uint32_t count, uintptr_t missing)
{
    const sspy_replacement *wanted = replacement;
    uintptr_t outermost = 0;
    uint32_t frame = first_frame(walk), next = frame;

    for (chain *c; (c = innermost(chains, count)) != NULL; next_marker(c, walk)) {
        /* greenlet chains its own _PyCFrame, which belongs to no loop. */
        if (!c->now.first || c->now.first == c->now.end)
            continue;
        if (missing && missing < c->now.address) {
            if (!splice_missing(walk, &frame, missing))
                return;
            missing = 0;
        }
        frame = frame_of(walk, frame, c->now.address);
        if (!splice_unknown_loops(walk, next, frame) ||
            !stacksplice_walk_splice(walk, frame, frame < walk->frame_count) ||
            !push_run(walk, &c->now, c->interp, wanted))
            return;
        outermost = c->now.address;
        next = frame + 1;
    }
    if (!splice_unknown_loops(walk, next, walk->frame_count))
        return;
    /* Whether there are such loops cannot be seen. */
    if (has_unread_interpreters() && !loop_code &&
        !(stacksplice_walk_splice(walk, walk->frame_count, 0) &&
          stacksplice_walk_push(walk, sspy_gap(other_interpreter))))
        return;
    if (missing && !splice_missing(walk, &frame, missing))
        return;
    cut_at_base(walk, frame, outermost);
}

static void push_gap(stacksplice_walk *walk, const char *why)
{
    if (stacksplice_walk_splice(walk, walk->frame_count, 0))
        (void)stacksplice_walk_push(walk, sspy_gap(why));
}

static void splice(stacksplice_walk *walk)
{
    chain chains[MAX_THREAD_STATES];
    const char *why = sspy_layout_reason();
    uintptr_t missing;
    uint32_t count;

    if (why) {
        /* Only a thread that runs Python can miss frames. */
        if (PyGILState_GetThisThreadState())
            push_gap(walk, why);
        return;
    }
    count = begin_chains(walk, chains, &missing);
    if (!count && !missing)
        return; /* a thread that has never run Python has no greenlets, either */
    if (!walk->frame_count && innermost(chains, count))
        push_gap(walk, no_native_frames);
    splice_markers(walk, chains, count, missing);
}

static void collect(stacksplice_walk *walk, void *Py_UNUSED(data))
{
    if (walk->recorded) /* first: a walk that ends at a greenlet's base is shorter afterwards */
        report_conditions(walk);
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

    sspy_watch_sections(learn_missed, sspy_cache_end);
    return stacksplice_add_source(&source);
}
