/*
 * The frames that __traceback__ has and the stack of the exception's error lacks.
 *
 * The stack is that of the moment when the error was made.  What the exception passes later stands
 * in its traceback only: the one who asked an executor, a future or a greenlet for the result, or
 * raised again what was kept.  Here the two are aligned like two versions of a text: what they
 * share stays in the order that both have, and what only the traceback has goes between.
 */
#include "traceback/traceback.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_CELLS = 1 << 20, /* of the table by which two lists are aligned */
    MOST_RELATED = 256,   /* exceptions behind one */
    MOST_CALLERS = 64     /* of the outermost frame of a traceback */
};

/* ---- What is compared -------------------------------------------------------------------------*/

/* An element of the stack, or an entry of the traceback. */
typedef struct item {
    sspy_facts facts;
    PyTracebackObject *entry; /* counted; NULL in the stack */
    sspy_entry_kind kind;     /* of an entry */
    int32_t partner;          /* of an entry: its place in the stack, or -1 */
} item;

/* The outermost first. */
typedef struct items {
    item *all; /* malloc */
    uint32_t count;
} items;

static bool is_same(const item *a, const item *b)
{
    return a->facts.element == b->facts.element ||
           (a->facts.line && a->facts.line == b->facts.line);
}

static items read_stack(sspy_state *state, sspy_elements stack)
{
    items read = {malloc((stack.count + 1) * sizeof *read.all), 0};

    for (; read.all && read.count < stack.count; read.count++)
        read.all[read.count] =
            (item){.facts = sspy_facts_of(state, stack.frames[stack.count - 1 - read.count])};
    return read;
}

/* Whether STACK has the frames of Python from HEAD on, in their order, and each that was called by the
   one before it next to that one: what stands further inward is another call of the same function. */
static bool has_all(sspy_state *state, sspy_elements stack, const PyTracebackObject *head)
{
    const PyTracebackObject *before = NULL;
    uint32_t left = stack.count;

    for (const PyTracebackObject *entry = head; entry; before = entry, entry = entry->tb_next) {
        bool next_to = before && sspy_called_next(before);
        uintptr_t passed, live = 0;

        if (sspy_kind_of(entry) != SSPY_ENTRY_OF_PYTHON)
            continue;
        passed = sspy_element_of(entry, STACKSPLICE_TRUST_TRACEBACK);
        while (left && stack.frames[left - 1] != passed) {
            if (!live)
                live = sspy_element_of(entry, STACKSPLICE_TRUST_EXACT);
            if (stack.frames[left - 1] == live)
                break;
            if (next_to && sspy_facts_of(state, stack.frames[left - 1]).is_python)
                return false;
            left--;
        }
        if (!left--)
            return false;
    }
    return true;
}

static void drop(items *read, uint32_t from)
{
    while (read->count > from)
        Py_XDECREF(read->all[--read->count].entry);
}

/* Of the entries from BEGIN on, between two frames of Python, keep those of other languages: the entries
   of a bridge say nothing that these do not. */
static void drop_bridge(items *read, uint32_t begin)
{
    items kept = {read->all, begin};

    for (uint32_t i = begin; i < read->count; i++)
        if (read->all[i].kind == SSPY_ENTRY_MADE)
            Py_DECREF(read->all[i].entry);
        else
            kept.all[kept.count++] = read->all[i];
    read->count = kept.count;
}

/* Nothing without memory: a place that has no token is not known. */
static items read_traceback(sspy_state *state, PyTracebackObject *head)
{
    items read = {NULL, 0};
    size_t most = 1;
    uint32_t begin = 0;
    bool known = true,
         others = true; /* outside of Python's frames is a bridge that EXC passes now */

    for (const PyTracebackObject *entry = head; entry; entry = entry->tb_next)
        most++;
    read.all = most <= MOST_CELLS ? malloc(most * sizeof *read.all) : NULL;
    for (PyTracebackObject *entry = head; read.all && entry; entry = entry->tb_next) {
        uintptr_t element = sspy_element_of(entry, STACKSPLICE_TRUST_TRACEBACK);
        sspy_entry_kind kind = sspy_kind_of(entry);

        if (!element)
            continue; /* another entry has it */
        if (kind == SSPY_ENTRY_OF_PYTHON && others)
            drop_bridge(&read, begin);
        read.all[read.count] = (item){sspy_facts_of(state, element),
                                      (PyTracebackObject *)Py_NewRef((PyObject *)entry), kind, -1};
        others = kind != SSPY_ENTRY_OF_PYTHON && (others || kind == SSPY_ENTRY_OF_OTHERS);
        known &= kind != SSPY_ENTRY_OF_PYTHON || read.all[read.count].facts.line;
        read.count++;
        if (kind == SSPY_ENTRY_OF_PYTHON)
            begin = read.count;
    }
    if (others)
        drop_bridge(&read, begin);
    if (!known)
        drop(&read, 0);
    return read;
}

/* ---- Aligning ---------------------------------------------------------------------------------*/

/* Whether the entry before AT called it. */
static bool is_called(const items *entries, size_t at)
{
    const item *all = entries->all;

    return at && all[at - 1].kind == SSPY_ENTRY_OF_PYTHON &&
           all[at - 1].entry->tb_next == all[at].entry && sspy_called_next(all[at - 1].entry);
}

/* The frame of Python outside of AT that called it, plus one; 0: none, or it is not known. */
static size_t caller_of(const items *stack, size_t at)
{
    while (at && !stack->all[at - 1].facts.is_python && !stack->all[at - 1].facts.is_gap)
        at--;
    return at && stack->all[at - 1].facts.is_python ? at : 0;
}

/* How many of the outermost belong to a thread that waited for the others. */
static size_t count_waiting(const items *list)
{
    size_t at = list->count;

    while (at && !list->all[at - 1].facts.joins)
        at--;
    return at ? at - 1 : 0;
}

/* Set in MAY_BE, a table of WIDTH, whether an entry can be the call that the element of the stack is:
   of the same thread and of the same function, and so are their callers.  Where Python's code passed a
   line twice, the lines of a caller may differ. */
static void compare_calls(const items *entries, const items *stack, size_t width, bool *may_be)
{
    size_t waiting = count_waiting(entries), stack_waiting = count_waiting(stack);

    for (size_t a = 1; a <= entries->count; a++) {
        const item *entry = &entries->all[a - 1];
        bool called = entry->kind == SSPY_ENTRY_OF_PYTHON && is_called(entries, a - 1);

        for (size_t b = 1; b <= stack->count; b++) {
            const item *element = &stack->all[b - 1];
            size_t caller = called && element->facts.is_python ? caller_of(stack, b - 1) : 0;

            if (waiting && (a <= waiting) != (b <= stack_waiting))
                continue;
            may_be[a * width + b] = entry->kind != SSPY_ENTRY_OF_PYTHON ||
                                    (entry->facts.function == element->facts.function &&
                                     (!caller || may_be[(a - 1) * width + caller]));
        }
    }
}

/* The first frame of Python in LIST from AT on; its end if there is none. */
static size_t find_python(const items *list, size_t at)
{
    while (at < list->count && !list->all[at].facts.is_python)
        at++;
    return at;
}

/* Whether the outermost frames of Python in STACK are those of ENTRIES from BEGIN to END. */
static bool begins_with(const items *stack, const items *entries, size_t begin, size_t end)
{
    size_t at = find_python(stack, 0);

    while (begin < end && at < stack->count && is_same(&entries->all[begin], &stack->all[at])) {
        begin++;
        at = find_python(stack, at + 1);
    }
    return begin == end;
}

/* Whether the entry before AT is of the frame that called it, or of its own. */
static bool continues(const items *entries, size_t at)
{
    return is_called(entries, at) ||
           (at && entries->all[at - 1].entry->tb_frame == entries->all[at].entry->tb_frame);
}

/* In a stack of another thread, the frames of Python that wait are there only if they were put there
   before, as its outermost: MAY_BE is that for them. */
static void match_newest(const items *entries, const items *stack, size_t width, bool *may_be)
{
    size_t begin = 0, end = 0, at = find_python(stack, 0);

    while (end < entries->count && entries->all[end].kind == SSPY_ENTRY_OF_PYTHON &&
           (!end || continues(entries, end)))
        end++;
    memset(may_be + width, false, end * width * sizeof *may_be);
    while (begin < end && !begins_with(stack, entries, begin, end))
        begin++;
    for (; begin < end; begin++, at = find_python(stack, at + 1))
        may_be[(begin + 1) * width + at + 1] = true;
}

/* Set the partners of ENTRIES in STACK: as many as there can be, the innermost of those that are
   alike.  False without memory, or if there are too many. */
static bool align(const items *entries, const items *stack, bool other_thread)
{
    size_t width = stack->count + (size_t)1, cells = (entries->count + (size_t)1) * width;
    /* How many are shared by so many outer ones of both. */
    uint16_t *shared = cells <= MOST_CELLS ? calloc(cells, sizeof *shared) : NULL;
    bool *alike = shared ? calloc(cells, sizeof *alike) : NULL;
    uint32_t i = entries->count, j = stack->count;

    if (!alike) {
        free(shared);
        return false;
    }
    compare_calls(entries, stack, width, alike);
    if (other_thread)
        match_newest(entries, stack, width, alike);
    for (size_t a = 1; a <= entries->count; a++) {
        for (size_t b = 1; b <= stack->count; b++) {
            uint16_t outer = shared[(a - 1) * width + b], without = shared[a * width + b - 1];

            alike[a * width + b] &= is_same(&entries->all[a - 1], &stack->all[b - 1]);
            shared[a * width + b] = alike[a * width + b]
                                        ? (uint16_t)(shared[(a - 1) * width + b - 1] + 1)
                                    : outer > without ? outer
                                                      : without;
        }
    }
    while (i && j) {
        if (alike[i * width + j])
            entries->all[--i].partner = (int32_t)--j;
        else if (shared[(i - 1) * width + j] >= shared[i * width + j - 1])
            i--;
        else
            j--;
    }
    free(alike);
    free(shared);
    return true;
}

/* ---- The longer stack -------------------------------------------------------------------------*/

/* Entries without a partner. */
typedef struct run {
    uint32_t begin, end;
    uint32_t last;        /* where those end that go into the stack: after a frame of a script */
    uint32_t from, until; /* the part of the stack in which they may stand */
} run;

typedef struct merge {
    sspy_state *state;
    const items *entries, *stack;
    bool other_thread; /* the outermost entry is live in another thread than that of the error */
    bool joined;       /* the stack tells so already */
    uintptr_t *out;    /* malloc */
    uint32_t count;
    uint32_t copied; /* elements of the stack */
    bool is_cut;     /* frames were left out of the stack */
    bool longer;
} merge;

static const item *entry_at(const merge *m, uint32_t at)
{
    return &m->entries->all[at];
}

static void put(merge *m, uintptr_t element)
{
    m->out[m->count++] = element;
}

/* Whether AT is a frame of Python, or one of another language that a border put there. */
static bool is_frame(const item *at)
{
    return at->kind == SSPY_ENTRY_OF_PYTHON ||
           (at->kind == SSPY_ENTRY_OF_OTHERS && !at->facts.is_gap);
}

/* The seam between ENTRY and the next one in the traceback; 0: none is known. */
static uintptr_t seam_inside(const PyTracebackObject *entry)
{
    uintptr_t seam;

    if (!entry->tb_next)
        return 0;
    if (entry->tb_next->tb_frame == entry->tb_frame)
        return sspy_foreign_frame(entry->tb_frame, NULL) ? 0 : sspy_seam_gap(SSPY_RAISED_AGAIN);
    seam = sspy_seam_inside(entry);
    return seam == sspy_mark() ? 0 : seam;
}

/* What stands between the last frame of R and the next entry; 0: the one has called the other. */
static uintptr_t seam_of(const merge *m, const run *r)
{
    const item *last = entry_at(m, r->last - 1);
    bool joins = !r->begin && m->other_thread && !m->joined;
    bool is_next = r->last == r->end;
    uintptr_t seam;

    for (uint32_t i = r->last; i < r->end; i++)
        if (entry_at(m, i)->facts.is_gap && (!joins || entry_at(m, i)->facts.awaits))
            return entry_at(m, i)->facts.element;
    if (joins)
        return sspy_seam_gap(SSPY_OTHER_THREAD);
    /* Python called the other language at this place, or was called by it. */
    if (is_next && r->end < m->entries->count &&
        (last->kind == SSPY_ENTRY_OF_OTHERS || entry_at(m, r->end)->kind == SSPY_ENTRY_OF_OTHERS))
        return 0;
    if (is_next && sspy_called_next(last->entry))
        return 0;
    seam = seam_inside(last->entry);
    /* What called the next one may be among the frames that were left out. */
    return seam || (m->is_cut && r->begin) ? seam : sspy_seam_gap(SSPY_RAISED_AGAIN);
}

/* The function of FRAME, which runs or ran, as elements have it. */
static uint64_t function_of(const merge *m, PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    uintptr_t token = sspy_token_known(code, PyFrame_GetLasti(frame), PyFrame_GetLineNumber(frame),
                                       STACKSPLICE_TRUST_TRACEBACK);

    Py_DECREF(code);
    return sspy_facts_of(m->state, token).function;
}

/* Where R goes if there is a seam inside of it: inside of the innermost call of the function that called
   it, or of that one's caller if the stack does not have it; else outside of another call of its outermost
   function, or of the end of a greenlet, or as far outward as can be. */
static uint32_t place_for(const merge *m, const run *r)
{
    PyFrameObject *caller = r->begin ? NULL : PyFrame_GetBack(entry_at(m, 0)->entry->tb_frame);
    uint64_t function = entry_at(m, r->begin)->facts.function;
    uint32_t at = r->from;

    for (uint32_t steps = 0; caller && at == r->from && steps < MOST_CALLERS; steps++) {
        PyFrameObject *next = PyFrame_GetBack(caller);
        uint64_t calls = function_of(m, caller);

        at = r->until;
        while (at > r->from && (!calls || m->stack->all[at - 1].facts.function != calls))
            at--;
        Py_DECREF(caller);
        caller = next;
    }
    Py_XDECREF(caller);
    if (at > r->from)
        return at;
    while (at < m->stack->count && (!function || m->stack->all[at].facts.function != function))
        at++;
    if (at <= r->until && at < m->stack->count)
        return at;
    at = r->until;
    while (at > r->from && !m->stack->all[at - 1].facts.ends)
        at--;
    return at > r->from ? at - 1 : r->from;
}

static void copy_stack(merge *m, uint32_t end)
{
    while (m->copied < end)
        put(m, m->stack->all[m->copied++].facts.element);
}

static void put_entries(merge *m, uint32_t begin, uint32_t end)
{
    for (uint32_t i = begin; i < end; i++) {
        uintptr_t seam = i + 1 < end ? seam_inside(entry_at(m, i)->entry) : 0;

        put(m, entry_at(m, i)->facts.element);
        if (seam && !entry_at(m, i + 1)->facts.is_gap)
            put(m, seam);
    }
    m->longer |= end > begin;
}

/* Whether a native frame is the last of the stack where R may stand. */
static bool has_native_at(const merge *m, const run *r)
{
    return r->end < m->entries->count && r->until > r->from && !(m->other_thread && !r->begin) &&
           !stacksplice_is_token(m->stack->all[r->until - 1].facts.element);
}

/* The entries from BEGIN to END as a run; false if they are none that the stack lacks. */
static bool run_of(const merge *m, uint32_t begin, uint32_t end, run *r)
{
    *r = (run){begin, end, end, 0, m->stack->count};
    if (begin)
        r->from = (uint32_t)entry_at(m, begin - 1)->partner + 1;
    if (end < m->entries->count)
        r->until = (uint32_t)entry_at(m, end)->partner;
    /* Native frames beside those that the stack has there are the same, at another place of theirs. */
    while (r->last > begin && (!is_frame(entry_at(m, r->last - 1)) ||
                               (has_native_at(m, r) &&
                                !stacksplice_is_token(entry_at(m, r->last - 1)->facts.element))))
        r->last--;
    return r->last > begin;
}

/* ---- All together -----------------------------------------------------------------------------*/

static void put_part(merge *m, const run *r)
{
    uintptr_t seam = seam_of(m, r);

    /* A frame that called the next one stood next to it.  If it does not, it is among those that were
       left out, and what it is aligned with is another call of the same function. */
    if (m->is_cut && !seam)
        return;
    if (!r->begin && m->other_thread)
        copy_stack(m, r->from); /* this thread's frames, which run: outside of all others */
    else
        copy_stack(m, seam ? place_for(m, r) : r->until);
    put_entries(m, r->begin, r->last);
    if (seam)
        put(m, seam);
}

/* Whether the outermost frame of R runs a loop, which the stack has at another line: the tasks that R has
   inside of it were run by what the stack has there. */
static bool runs_tasks(const merge *m, const run *r)
{
    uint32_t at = (uint32_t)find_python(m->stack, r->from);
    PyCodeObject *code;

    if (r->last < r->begin + 2 || at >= r->until ||
        m->stack->all[at].facts.function != entry_at(m, r->begin)->facts.function)
        return false;
    code = PyFrame_GetCode(entry_at(m, r->begin + 1)->entry->tb_frame);
    Py_DECREF(code); /* the frame has it */
    return code->co_flags & CO_COROUTINE;
}

static void put_run(merge *m, run r)
{
    run outer = r;

    if (runs_tasks(m, &r)) {
        outer.last = outer.end = ++r.begin;
        put_part(m, &outer);
        r.from = r.until;
    }
    put_part(m, &r);
}

static void merge_all(merge *m)
{
    uint32_t begin = 0;
    run r;

    for (uint32_t i = 0; i <= m->entries->count; i++) {
        if (i < m->entries->count && entry_at(m, i)->partner < 0)
            continue;
        if (run_of(m, begin, i, &r))
            put_run(m, r);
        begin = i + 1;
    }
    copy_stack(m, m->stack->count);
    for (uint32_t i = 0; i < m->count / 2; i++) {
        uintptr_t swapped = m->out[i];

        m->out[i] = m->out[m->count - 1 - i];
        m->out[m->count - 1 - i] = swapped;
    }
}

/* Whether the exception PASSES this thread, or HEAD's frame runs in it, and ERROR is of another one. */
static bool is_other_thread(IScriptErrorInfo *error, const PyTracebackObject *head, bool passes)
{
    uint64_t thread = 0;

    return SUCCEEDED(stacksplice_error_thread((IUnknown *)error, &thread)) &&
           thread != PyThread_get_thread_native_id() &&
           (passes || sspy_frame_live(head->tb_frame, sspy_chain_has_owned()));
}

static void lengthen(sspy_state *state, IScriptErrorInfo *error, sspy_elements taken,
                     PyTracebackObject *head, bool other_thread)
{
    items stack = read_stack(state, taken), entries = read_traceback(state, head);
    uint32_t limit = stacksplice_max_frames();
    merge m = {.state = state,
               .entries = &entries,
               .stack = &stack,
               .is_cut = stacksplice_frames_left_out(taken.frames, taken.count) > 0,
               .other_thread = other_thread};

    for (uint32_t i = 0; i < stack.count; i++)
        m.joined |= stack.all[i].facts.joins;
    if (stack.all && entries.all && align(&entries, &stack, other_thread)) {
        m.out = malloc((stack.count + 2 * (size_t)entries.count + 1) * sizeof *m.out);
        if (m.out)
            merge_all(&m);
        if (m.longer) {
            m.count = stacksplice_copy_ends(m.out, m.count, limit, m.out);
            (void)stacksplice_error_lengthen((IUnknown *)error, m.out, m.count);
        }
        free(m.out);
    }
    drop(&entries, 0);
    free(entries.all);
    free(stack.all);
}

static void lengthen_one(sspy_state *state, PyObject *exc, IScriptErrorInfo *error, bool passes)
{
    PyTracebackObject *head = (PyTracebackObject *)sspy_traceback_of(exc);
    bool other_thread;
    sspy_stack_copy copy;
    sspy_elements stack;

    if (!head)
        return;
    other_thread = is_other_thread(error, head, passes);
    stack = sspy_shown(error, &copy);
    if (stack.count && (other_thread || !has_all(state, stack, head)))
        lengthen(state, error, stack, head, other_thread);
    free(copy.far);
    Py_DECREF(head);
}

/* Every one of them has its own traceback. */
static void lengthen_behind(sspy_state *state, PyObject *exc, uint32_t depth, uint32_t *left);

static void lengthen_related(sspy_state *state, PyObject *exc, uint32_t depth, uint32_t *left)
{
    sspy_ties *ties;

    if (!exc || !PyExceptionInstance_Check(exc) || !*left || depth > SSPY_MAX_STEPS)
        return;
    --*left;
    ties = sspy_ties_of(state->interp, exc);
    if (ties && ties->core.error)
        lengthen_one(state, exc, ties->core.error, false);
    lengthen_behind(state, exc, depth + 1, left);
}

static void lengthen_behind(sspy_state *state, PyObject *exc, uint32_t depth, uint32_t *left)
{
    PyObject *cause = PyException_GetCause(exc), *context = PyException_GetContext(exc);
    PyObject *members = Py_XNewRef(sspy_group_members(exc));

    lengthen_related(state, cause, depth, left);
    if (context != cause)
        lengthen_related(state, context, depth, left);
    for (Py_ssize_t i = 0; members && i < PyTuple_GET_SIZE(members); i++)
        lengthen_related(state, PyTuple_GET_ITEM(members, i), depth, left);
    Py_XDECREF(cause);
    Py_XDECREF(context);
    Py_XDECREF(members);
}

void sspy_lengthen(sspy_state *state, PyObject *exc, IScriptErrorInfo *error, sspy_lengthening why)
{
    uint32_t left = MOST_RELATED;
    PyObject *pending = sspy_take_pending();

    lengthen_one(state, exc, error, why == SSPY_PASSING);
    if (why == SSPY_READ_ALL)
        lengthen_behind(state, exc, 0, &left);
    PyErr_Clear(); /* without memory the stack stays as it is */
    sspy_set_pending(pending);
}
