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
    MOST_CELLS = 1 << 25,   /* of the table by which two lists are aligned, four to a byte */
    MOST_ENTRIES = 1 << 20, /* of a traceback */
    MOST_CALLERS = 64       /* of the outermost frame of a traceback */
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
   one before it next to that one: what stands further inward is another call of the same function, or a
   later line of the same call, which was put there before. */
static bool has_all(sspy_state *state, sspy_elements stack, const PyTracebackObject *head)
{
    const PyTracebackObject *before = NULL;
    uint32_t left = stack.count;

    for (const PyTracebackObject *entry = head; entry; before = entry, entry = entry->tb_next) {
        bool next_to = before && sspy_called_next(before), is_later = false;
        uintptr_t passed, live = 0;

        if (sspy_kind_of(entry) != SSPY_ENTRY_OF_PYTHON)
            continue;
        passed = sspy_element_of(entry, STACKSPLICE_TRUST_TRACEBACK);
        while (left && stack.frames[left - 1] != passed) {
            if (!live)
                live = sspy_element_of(entry, STACKSPLICE_TRUST_EXACT);
            if (stack.frames[left - 1] == live)
                break;
            if (next_to && sspy_facts_of(state, stack.frames[left - 1]).is_python) {
                is_later = sspy_facts_of(state, stack.frames[left - 1]).function ==
                           sspy_facts_of(state, passed).function;
                if (!is_later)
                    return false;
            }
            left--;
        }
        if (!left || (is_later && stack.frames[left - 1] != passed))
            return false;
        left--;
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

/* The COUNT entries from HEAD on.  Nothing without memory: a place that has no token is not known. */
static items read_traceback(sspy_state *state, PyTracebackObject *head, size_t count)
{
    items read = {malloc((count + 1) * sizeof *read.all), 0};
    uint32_t begin = 0;
    bool known = true,
         others = true; /* outside of Python's frames is a bridge that EXC passes now */

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
    if (!known) {
        drop(&read, 0);
        free(read.all);
        read.all = NULL;
    }
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

/* How many of the outermost belong to a thread that waited for the others. */
static uint32_t count_waiting(const items *list)
{
    uint32_t at = list->count;

    while (at && !list->all[at - 1].facts.joins)
        at--;
    return at ? at - 1 : 0;
}

/* An element of the stack that an entry can be: a frame of Python, or one of an entry of others. */
typedef struct column {
    uint32_t at; /* in the stack */
    uint32_t
        caller;     /* the number, from 1 on, of the frame of Python that called it; 0: not known */
    bool is_later;  /* it may be a later line of that frame, put there before: */
    uint32_t outer; /* then OUTER, or 0, called both */
} column;

enum { ANY = UINT32_MAX };

/* Of the first entries and columns a table tells how many they share, where the outermost are as many as
   there are rows and columns before.  Of a cell only what the way back needs is kept. */
typedef struct table {
    const items *entries, *stack;
    column *columns;
    uint32_t width; /* columns */
    uint32_t waiting, stack_waiting;
    uint32_t *only; /* by entry: the number of the one column that it can be, 0: none, or ANY */
    unsigned char *cells;
} table;

enum { ALIKE = 1, OUTER = 2 /* as many are shared without the entry */ };

static unsigned cell_at(const table *t, size_t row, size_t number)
{
    size_t cell = row * t->width + number;

    return t->cells[cell / 4] >> cell % 4 * 2 & 3;
}

static void put_cell(table *t, size_t row, size_t number, unsigned value)
{
    size_t cell = row * t->width + number;

    t->cells[cell / 4] |= (unsigned char)(value << cell % 4 * 2);
}

/* Whether an entry that is none of Python's is ELEMENT. */
static bool is_of_others(const items *entries, const item *element)
{
    for (uint32_t i = 0; i < entries->count; i++)
        if (entries->all[i].kind != SSPY_ENTRY_OF_PYTHON && is_same(&entries->all[i], element))
            return true;
    return false;
}

static bool has_other_entries(const items *entries)
{
    uint32_t i = 0;

    while (i < entries->count && entries->all[i].kind == SSPY_ENTRY_OF_PYTHON)
        i++;
    return i < entries->count;
}

/* The column of the element AT, before which CALLER is the last of Python. */
static column column_of(const table *t, uint32_t at, uint32_t caller)
{
    const sspy_facts *facts = &t->stack->all[at].facts;
    const column *before = caller ? &t->columns[caller - 1] : NULL;
    column c = {.at = at, .caller = caller};

    if (before && facts->is_passed && t->stack->all[before->at].facts.function == facts->function) {
        c.is_later = true;
        c.outer = before->is_later ? before->outer : before->caller;
    }
    return c;
}

static void set_columns(table *t)
{
    bool others = has_other_entries(t->entries);
    uint32_t caller = 0;

    for (uint32_t i = 0; i < t->stack->count; i++) {
        const item *element = &t->stack->all[i];
        const sspy_facts *facts = &element->facts;

        if (facts->is_python || (others && is_of_others(t->entries, element)))
            t->columns[t->width++] = column_of(t, i, caller);
        if (facts->is_python)
            caller = t->width;
        else if (facts->is_gap)
            caller = 0;
    }
}

/* Whether the thread of ENTRY is that of the column, one of two that waits for the other. */
static bool is_same_thread(const table *t, uint32_t entry, const column *c)
{
    return !t->waiting || (entry < t->waiting) == (c->at < t->stack_waiting);
}

static bool is_same_function(const table *t, uint32_t entry, const column *c)
{
    return t->entries->all[entry].facts.function == t->stack->all[c->at].facts.function;
}

/* The number of the column that ENTRY's caller must be if ENTRY is C; 0: it can be any. */
static uint32_t caller_for(const table *t, uint32_t entry, const column *c)
{
    if (!t->stack->all[c->at].facts.is_python || !is_called(t->entries, entry))
        return 0;
    return c->is_later && !is_same_function(t, entry - 1, &t->columns[c->caller - 1]) ? c->outer
                                                                                      : c->caller;
}

/* Whether ENTRY can be the call that the column of that NUMBER is: of the same thread and of the same
   function, and so are their callers.  Where Python's code passed a line twice, the lines of a caller may
   differ. */
static bool can_be(const table *t, uint32_t entry, uint32_t number)
{
    do {
        const column *c = &t->columns[number - 1];

        if (!is_same_thread(t, entry, c))
            return false;
        if (t->entries->all[entry].kind != SSPY_ENTRY_OF_PYTHON)
            return true;
        if (!is_same_function(t, entry, c))
            return false;
        number = caller_for(t, entry, c);
        entry--; /* which is that caller, if there is one */
    } while (number);
    return true;
}

/* The first frame of Python in LIST from AT on; its end if there is none. */
static size_t find_python(const items *list, size_t at)
{
    while (at < list->count && !list->all[at].facts.is_python)
        at++;
    return at;
}

/* The first column of Python from AT on; the width if there is none. */
static uint32_t next_python(const table *t, uint32_t at)
{
    while (at < t->width && !t->stack->all[t->columns[at].at].facts.is_python)
        at++;
    return at;
}

/* Whether the outermost frames of Python in the stack are those of the entries from BEGIN to END. */
static bool begins_with(const table *t, uint32_t begin, uint32_t end)
{
    uint32_t at = next_python(t, 0);

    while (begin < end && at < t->width &&
           is_same(&t->entries->all[begin], &t->stack->all[t->columns[at].at])) {
        begin++;
        at = next_python(t, at + 1);
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
   before, as its outermost. */
static void match_newest(table *t)
{
    const items *entries = t->entries;
    uint32_t begin = 0, end = 0, at = next_python(t, 0);

    while (end < entries->count && entries->all[end].kind == SSPY_ENTRY_OF_PYTHON &&
           (!end || continues(entries, end)))
        t->only[end++] = 0;
    while (begin < end && !begins_with(t, begin, end))
        begin++;
    for (; begin < end; begin++, at = next_python(t, at + 1))
        t->only[begin] = at + 1;
}

/* Whether ENTRY is that column, if it CAN be. */
static bool is_alike(const table *t, uint32_t entry, uint32_t number, bool can)
{
    return can && (t->only[entry] == ANY || t->only[entry] == number) &&
           is_same(&t->entries->all[entry], &t->stack->all[t->columns[number - 1].at]);
}

/* Of the COUNT innermost of ROWS entries and of the columns, which are alike: how many can be each other. */
static uint32_t count_fitting(const table *t, uint32_t rows, uint32_t count)
{
    uint32_t at = 0;

    while (at < count && can_be(t, rows - 1 - at, t->width - at)) {
        /* So can its callers, of which that asked. */
        while (at + 1 < count &&
               caller_for(t, rows - 1 - at, &t->columns[t->width - 1 - at]) == t->width - 1 - at)
            at++;
        at++;
    }
    return at;
}

/* Make partners of the innermost of ROWS entries and of the columns as long as they are alike, which is
   where the way back would begin.  Returns how many entries are left. */
static uint32_t take_inner(table *t, uint32_t rows)
{
    uint32_t most = rows < t->width ? rows : t->width, count = 0;

    while (count < most && is_alike(t, rows - 1 - count, t->width - count, true))
        count++;
    for (count = count_fitting(t, rows, count); count; count--)
        t->entries->all[--rows].partner = (int32_t)t->columns[--t->width].at;
    return rows;
}

/* Whether an entry that can be the columns of COULD can have called C. */
static bool can_call(const column *c, const bool *could)
{
    return !c->caller || could[c->caller - 1] ||
           (c->is_later && (!c->outer || could[c->outer - 1]));
}

/* Fill the row of ENTRY: SHARED is that of before, and becomes this one's; so is CAN. */
static void fill_row(table *t, uint32_t entry, uint32_t *shared, const bool *could, bool *can)
{
    uint32_t diagonal = 0, inner = 0; /* of the row before; of this one */
    bool of_python = t->entries->all[entry].kind == SSPY_ENTRY_OF_PYTHON;
    bool called = of_python && is_called(t->entries, entry);

    for (uint32_t i = 0; i < t->width; i++) {
        const column *c = &t->columns[i];
        uint32_t outer = shared[i];
        bool is_python = t->stack->all[c->at].facts.is_python;

        can[i] = is_same_thread(t, entry, c) &&
                 (!of_python ||
                  (is_same_function(t, entry, c) && (!called || !is_python || can_call(c, could))));
        if (is_alike(t, entry, i + 1, can[i])) {
            put_cell(t, entry, i, ALIKE);
            inner = diagonal + 1;
        } else if (outer >= inner) {
            put_cell(t, entry, i, OUTER);
            inner = outer;
        }
        diagonal = outer;
        shared[i] = inner;
    }
}

/* Set the partners of the outermost ROWS entries: as many as there can be, the innermost of those that
   are alike.  False without memory. */
static bool align_outer(table *t, uint32_t rows)
{
    uint32_t *shared = calloc(t->width + (size_t)1, sizeof *shared), number = t->width;
    bool *can = calloc(2 * (size_t)t->width + 1, sizeof *can);
    bool done;

    t->cells = calloc((size_t)rows * t->width / 4 + 1, 1);
    done = shared && can && t->cells;
    for (uint32_t i = 0; done && i < rows; i++)
        fill_row(t, i, shared, can + (i & 1 ? 0 : t->width), can + (i & 1 ? t->width : 0));
    while (done && rows && number) {
        unsigned cell = cell_at(t, rows - 1, number - 1);

        if (cell & ALIKE)
            t->entries->all[--rows].partner = (int32_t)t->columns[--number].at;
        else if (cell & OUTER)
            rows--;
        else
            number--;
    }
    free(shared);
    free(can);
    free(t->cells);
    return done;
}

typedef enum aligned { ALIGNED, NO_MEMORY, TOO_MANY } aligned;

static aligned align(const items *entries, const items *stack, bool other_thread)
{
    table t = {.entries = entries,
               .stack = stack,
               .columns = malloc((stack->count + (size_t)1) * sizeof *t.columns),
               .waiting = count_waiting(entries),
               .stack_waiting = count_waiting(stack),
               .only = malloc((entries->count + (size_t)1) * sizeof *t.only)};
    aligned result = NO_MEMORY;
    uint32_t rows;

    if (t.columns && t.only) {
        set_columns(&t);
        memset(t.only, 0xff, entries->count * sizeof *t.only); /* ANY */
        if (other_thread)
            match_newest(&t);
        rows = take_inner(&t, entries->count);
        if ((size_t)rows * t.width > MOST_CELLS)
            result = TOO_MANY;
        else if (align_outer(&t, rows))
            result = ALIGNED;
    }
    free(t.columns);
    free(t.only);
    return result;
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

/* The entry after R, if only functions of C code are between: they do not tell who called whom. */
static const item *next_to(const merge *m, const run *r)
{
    uint32_t at = r->last;

    while (at < r->end && entry_at(m, at)->kind == SSPY_ENTRY_MADE)
        at++;
    return at == r->end && at < m->entries->count ? entry_at(m, at) : NULL;
}

static bool has_called(const item *outer, const item *inner)
{
    PyFrameObject *back = sspy_frame_back(inner->entry->tb_frame);

    Py_XDECREF(back);
    return back == outer->entry->tb_frame;
}

/* What stands between the last frame of R and the next entry; 0: the one has called the other.
   The stack is that of a moment when the next one ran, and was whole, or tells where it is not: who is not
   in it raised again what had been caught or kept. */
static uintptr_t seam_of(const merge *m, const run *r)
{
    const item *last = entry_at(m, r->last - 1), *next = next_to(m, r);
    bool joins = !r->begin && m->other_thread && !m->joined;
    uintptr_t seam;

    for (uint32_t i = r->last; i < r->end; i++)
        if (entry_at(m, i)->facts.is_gap && (!joins || entry_at(m, i)->facts.awaits))
            return entry_at(m, i)->facts.element;
    if (joins)
        return sspy_seam_gap(SSPY_OTHER_THREAD);
    /* Python called the other language at this place, or was called by it. */
    if (next && (last->kind == SSPY_ENTRY_OF_OTHERS || next->kind == SSPY_ENTRY_OF_OTHERS ||
                 has_called(last, next)))
        return 0;
    seam = seam_inside(last->entry);
    /* What called the next one may be among the frames that were left out. */
    return seam || (m->is_cut && r->begin) ? seam : sspy_seam_gap(SSPY_RAISED_AGAIN);
}

/* The function of FRAME, which runs or ran, as elements have it. */
static uint64_t function_of(const merge *m, PyFrameObject *frame)
{
    PyCodeObject *code;
    uintptr_t token;

    if (!sspy_frame_is_steady(frame))
        return 0;
    code = PyFrame_GetCode(frame);
    token = sspy_token_known(code, PyFrame_GetLasti(frame), PyFrame_GetLineNumber(frame),
                             STACKSPLICE_TRUST_TRACEBACK);
    Py_DECREF(code);
    return sspy_facts_of(m->state, token).function;
}

/* Where R goes if there is a seam inside of it: inside of the innermost call of the function that called
   it, or of that one's caller if the stack does not have it; else outside of another call of its outermost
   function, or of the end of a greenlet, or as far outward as can be. */
static uint32_t place_for(const merge *m, const run *r)
{
    PyFrameObject *caller = r->begin ? NULL : sspy_frame_back(entry_at(m, 0)->entry->tb_frame);
    uint64_t function = entry_at(m, r->begin)->facts.function;
    uint32_t at = r->from;

    for (uint32_t steps = 0; caller && at == r->from && steps < MOST_CALLERS; steps++) {
        PyFrameObject *next = sspy_frame_back(caller);
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

/* ---- Runs into the stack ----------------------------------------------------------------------*/

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

/* Say at the outer end of STACK, which is ERROR's, that what its exception passed later is not shown. */
static HRESULT put_gap(IScriptErrorInfo *error, sspy_elements stack)
{
    uintptr_t gap = sspy_gap(SSPY_TOO_MANY_ENTRIES), *out;
    HRESULT hr = E_OUTOFMEMORY;

    if (stack.frames[stack.count - 1] == gap)
        return S_OK;
    out = malloc((stack.count + (size_t)1) * sizeof *out);
    if (out) {
        memcpy(out, stack.frames, stack.count * sizeof *out);
        out[stack.count] = gap;
        hr = stacksplice_error_lengthen((IUnknown *)error, out, stack.count + 1);
    }
    free(out);
    return hr;
}

/* Merge the entries into the stack of M, TAKEN from ERROR, and give it to that if it has become another. */
static HRESULT put_merged(merge *m, IScriptErrorInfo *error, sspy_elements taken)
{
    HRESULT hr = S_OK;

    m->out = malloc((m->stack->count + 2 * (size_t)m->entries->count + 1) * sizeof *m->out);
    if (!m->out)
        return E_OUTOFMEMORY;
    merge_all(m);
    if (m->longer) {
        m->count = stacksplice_copy_ends(m->out, m->count, stacksplice_max_frames(), m->out);
        if (m->count != taken.count || memcmp(m->out, taken.frames, m->count * sizeof *m->out) != 0)
            hr = stacksplice_error_lengthen((IUnknown *)error, m->out, m->count);
    }
    free(m->out);
    return hr;
}

static size_t count_entries(const PyTracebackObject *head)
{
    size_t count = 0;

    for (; head; head = head->tb_next)
        count++;
    return count;
}

/* E_OUTOFMEMORY: a later call may do it. */
static HRESULT lengthen(sspy_state *state, IScriptErrorInfo *error, sspy_elements taken,
                        PyTracebackObject *head, bool other_thread)
{
    size_t count = count_entries(head);
    items stack, entries;
    merge m = {.state = state,
               .entries = &entries,
               .stack = &stack,
               .is_cut = stacksplice_frames_left_out(taken.frames, taken.count) > 0,
               .other_thread = other_thread};
    aligned how = NO_MEMORY;
    HRESULT hr = E_OUTOFMEMORY;

    if (count > MOST_ENTRIES)
        return put_gap(error, taken);
    stack = read_stack(state, taken);
    entries = read_traceback(state, head, count);
    for (uint32_t i = 0; i < stack.count; i++)
        m.joined |= stack.all[i].facts.joins;
    if (stack.all && entries.all)
        how = align(&entries, &stack, other_thread);
    if (how == ALIGNED)
        hr = put_merged(&m, error, taken);
    else if (how == TOO_MANY)
        hr = put_gap(error, taken);
    drop(&entries, 0);
    free(entries.all);
    free(stack.all);
    return hr;
}

static HRESULT lengthen_one(sspy_state *state, PyObject *exc, IScriptErrorInfo *error, bool passes)
{
    PyTracebackObject *head = (PyTracebackObject *)sspy_traceback_of(exc);
    HRESULT hr = S_OK;
    bool other_thread;
    sspy_stack_copy copy;
    sspy_elements stack;

    if (!head)
        return S_OK;
    other_thread = is_other_thread(error, head, passes);
    stack = sspy_shown(error, &copy);
    if (stack.count && (other_thread || !has_all(state, stack, head)))
        hr = lengthen(state, error, stack, head, other_thread);
    free(copy.far);
    Py_DECREF(head);
    return hr;
}

/* ---- What is lost -----------------------------------------------------------------------------*/

/* Lines of frames, as facts have them: some more than once. */
typedef struct lines {
    uint64_t *all; /* malloc */
    size_t count;
} lines;

static int by_number(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

static void add_line(lines *l, uint64_t line)
{
    if (line)
        l->all[l->count++] = line;
}

/* Those of Python's frames in STACK. */
static lines lines_of_stack(sspy_state *state, sspy_elements stack, bool *has_others)
{
    lines read = {malloc((stack.count + (size_t)1) * sizeof *read.all), 0};

    for (uint32_t i = 0; read.all && i < stack.count; i++) {
        sspy_facts facts = sspy_facts_of(state, stack.frames[i]);

        *has_others |= facts.line && !facts.is_python;
        add_line(&read, facts.is_python ? facts.line : 0);
    }
    return read;
}

/* Those of the entries from HEAD on that Python's own text shows for frames of Python, and WITH_MADE also
   those of C code: of a bridge to another language they say nothing that its frames do not. */
static lines lines_of_entries(sspy_state *state, const PyTracebackObject *head, bool with_made)
{
    lines read = {malloc((count_entries(head) + 1) * sizeof *read.all), 0};

    for (const PyTracebackObject *entry = head; read.all && entry; entry = entry->tb_next) {
        sspy_entry_kind kind = sspy_kind_of(entry);

        if (kind == SSPY_ENTRY_OF_PYTHON || (kind == SSPY_ENTRY_MADE && with_made))
            add_line(
                &read,
                sspy_facts_of(state, sspy_element_of(entry, STACKSPLICE_TRUST_TRACEBACK)).line);
    }
    return read;
}

/* How many of ENTRIES are not among TOLD, each of which stands for one. */
static size_t count_lost(lines *entries, lines *told)
{
    size_t lost = 0, at = 0;

    qsort(entries->all, entries->count, sizeof *entries->all, by_number);
    qsort(told->all, told->count, sizeof *told->all, by_number);
    for (size_t i = 0; i < entries->count; i++) {
        while (at < told->count && told->all[at] < entries->all[i])
            at++;
        if (at < told->count && told->all[at] == entries->all[i])
            at++;
        else
            lost++;
    }
    return lost;
}

bool sspy_loses_entries(sspy_state *state, PyObject *exc, IScriptErrorInfo *error)
{
    PyTracebackObject *head = (PyTracebackObject *)sspy_traceback_of(exc);
    PyObject *pending = sspy_take_pending();
    sspy_stack_copy copy;
    sspy_elements stack = sspy_shown(error, &copy);
    bool has_others = false, loses = true; /* without memory Python's own text is right */
    lines told = lines_of_stack(state, stack, &has_others);
    lines entries = lines_of_entries(state, head, !has_others);

    if (told.all && entries.all)
        loses =
            count_lost(&entries, &told) > stacksplice_frames_left_out(stack.frames, stack.count);
    free(told.all);
    free(entries.all);
    free(copy.far);
    Py_XDECREF(head);
    PyErr_Clear();
    sspy_set_pending(pending);
    return loses;
}

/* ---- All together -----------------------------------------------------------------------------*/

int sspy_lengthen(sspy_state *state, PyObject *exc, IScriptErrorInfo *error, bool passes)
{
    PyObject *pending = sspy_take_pending();
    HRESULT hr = lengthen_one(state, exc, error, passes);

    PyErr_Clear();
    sspy_set_pending(pending);
    return hr == E_OUTOFMEMORY ? -1 : 0;
}
