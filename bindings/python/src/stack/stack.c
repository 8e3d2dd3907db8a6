/*
 * The combined stack of an exception, from its traceback and the live stack.
 *
 * An exception that was unwound to the border has frames in its traceback, which we trust.  One gap
 * frame follows, sspy_mark(), and then the live stack from the catching frame outward.  A live
 * frame that is also in the traceback has the line where the exception passed.
 *
 * The traceback of a cause, or of a member of a group, ends where it was caught.  The callers of
 * that frame come from the traceback of the exception that it belongs to, if the frame is in it, or
 * from the live stack, if it is there.  Otherwise they are unknown, and a gap says so.
 */
#include "stack/stack.h"

#include <stdlib.h>
#include <string.h>

static void reverse(uintptr_t *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count / 2; i++) {
        uintptr_t swapped = tokens[i];

        tokens[i] = tokens[count - 1 - i];
        tokens[count - 1 - i] = swapped;
    }
}

/* ---- Tracebacks -------------------------------------------------------------------------------*/

enum { MAX_SEGMENTS = 8 };

/* Entries of a traceback from FIRST on, up to the one of the frame UNTIL (NULL: all). */
typedef struct segment {
    PyTracebackObject *first; /* counted */
    const PyFrameObject *until;
} segment;

/* The path of an exception outward: its own traceback first, then parts of those around it. */
typedef struct path {
    segment segments[MAX_SEGMENTS];
    uint32_t count;
    bool arrives; /* the path goes on to the border */
} path;

typedef struct cursor {
    const path *p;
    uint32_t segment; /* the outermost is the last one */
    PyTracebackObject *entry;
} cursor;

/* The entry of C, or the first of the next segment that has one; NULL after the innermost. */
static PyTracebackObject *settle(cursor *c)
{
    while (!c->entry || c->entry->tb_frame == c->p->segments[c->segment].until) {
        if (c->segment == 0)
            return c->entry = NULL;
        c->entry = c->p->segments[--c->segment].first;
    }
    return c->entry;
}

static PyTracebackObject *first_entry(cursor *c, const path *p)
{
    *c = (cursor){p, p->count - 1, p->segments[p->count - 1].first};
    return settle(c);
}

static PyTracebackObject *next_entry(cursor *c)
{
    c->entry = c->entry->tb_next;
    return settle(c);
}

static bool has_frame(const PyTracebackObject *entry, const PyFrameObject *frame)
{
    while (entry && entry->tb_frame != frame)
        entry = entry->tb_next;
    return entry != NULL;
}

/* A generator may have been resumed by other callers since. */
static bool is_generator(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    bool generator = code->co_flags & (CO_GENERATOR | CO_ASYNC_GENERATOR);

    Py_DECREF(code);
    return generator;
}

/* Collect EXC's traceback, and the parts of the tracebacks of OUTER with the callers of its
   outermost frame. */
static void begin_path(path *p, PyObject *exc, const sspy_step *outer)
{
    PyTracebackObject *first = (PyTracebackObject *)sspy_traceback_of(exc);

    p->segments[0] = (segment){first, NULL};
    p->count = 1;
    p->arrives = !outer;
    while (first && outer && p->count < MAX_SEGMENTS && !is_generator(first->tb_frame)) {
        PyTracebackObject *around = (PyTracebackObject *)sspy_traceback_of(outer->exc);

        if (has_frame(around, first->tb_frame)) {
            p->segments[p->count++] = (segment){around, first->tb_frame};
            p->arrives = !outer->outer;
            first = around;
        } else {
            Py_XDECREF(around);
        }
        outer = outer->outer;
    }
}

static void end_path(path *p)
{
    while (p->count)
        Py_XDECREF(p->segments[--p->count].first);
}

/* A traceback, split into frames that have ended and frames that are live. */
typedef struct passed_frames {
    uintptr_t *ended;          /* tokens, innermost first when all are read; borrowed */
    uint32_t most;             /* of them; there is room for twice as many */
    sspy_replaced_frame *live; /* malloc; each frame once */
    uint32_t ended_count, live_count;
    bool after_seam;   /* the last of ENDED is a seam */
    PyObject *leaving; /* the exception, at a border; else NULL */
    uint32_t lost;     /* native frames inside of the next entry that are not known any more */
} passed_frames;

/* An exception that is raised again where it was caught has two entries of one frame.  The inner
   entry is the place of the raise, and a stack has each frame once.  Calls of other languages from
   one place share a frame object. */
static bool is_repeated(const PyTracebackObject *entry)
{
    return entry->tb_next && entry->tb_next->tb_frame == entry->tb_frame &&
           !sspy_foreign_frame(entry->tb_frame, NULL);
}

/* If a frame has several entries, the last one counts, which is the innermost.  There are at most
   ENTRIES in all. -1 with a MemoryError. */
static int add_live(passed_frames *passed, const void *data, PyTracebackObject *entry,
                    size_t entries)
{
    uint32_t i = 0;

    if (!passed->live)
        passed->live = malloc(entries * sizeof *passed->live);
    if (!passed->live) {
        PyErr_NoMemory();
        return -1;
    }
    while (i < passed->live_count && passed->live[i].data != data)
        i++;
    passed->live[i] =
        (sspy_replaced_frame){data, sspy_element_of(entry, STACKSPLICE_TRUST_TRACEBACK)};
    passed->live_count += i == passed->live_count;
    return 0;
}

static void shorten_ended(passed_frames *passed)
{
    passed->ended_count =
        stacksplice_copy_ends(passed->ended, passed->ended_count, passed->most, passed->ended);
}

static void add_token(passed_frames *passed, uintptr_t token)
{
    if (passed->ended_count == 2 * passed->most)
        shorten_ended(passed);
    passed->ended[passed->ended_count++] = token;
}

static void add_ended(passed_frames *passed, PyTracebackObject *entry)
{
    uintptr_t token = sspy_element_of(entry, STACKSPLICE_TRUST_TRACEBACK);

    if (!token)
        return;
    add_token(passed, token);
    passed->after_seam = false;
}

/* A seam belongs between frames: one is enough where several meet. */
static void add_seam(passed_frames *passed, const PyTracebackObject *entry)
{
    uintptr_t seam;

    if (passed->after_seam)
        return;
    seam = sspy_seam_inside(entry);
    if (!seam)
        return;
    add_token(passed, seam);
    passed->after_seam = true;
}

/* At a border: what ended between ENTRY and the next inner frame.  These are the native frames that
   were noted then, or a seam, or the mark where something is missing. */
static void add_left(passed_frames *passed, const PyTracebackObject *entry, bool owned)
{
    const PyTracebackObject *inner = entry->tb_next;
    const uintptr_t *frames;
    uint32_t count;

    if (passed->lost)
        add_token(passed, stacksplice_left_out(passed->lost));
    passed->lost = 0;
    while (inner && sspy_entry_is_made(inner))
        inner = inner->tb_next;
    if (!inner || sspy_frame_live(inner->tb_frame, owned))
        return;
    count = sspy_left_at(passed->leaving, inner, &frames, &passed->lost);
    for (uint32_t i = count; i > 0; i--)
        add_token(passed, frames[i - 1]);
    if (count)
        passed->after_seam = false;
    add_seam(passed, entry);
    if (!count && !passed->after_seam && !sspy_called_inner(entry, inner))
        add_token(passed, sspy_mark());
}

static size_t count_entries(const path *p)
{
    size_t entries = 0;
    cursor c;

    for (PyTracebackObject *entry = first_entry(&c, p); entry; entry = next_entry(&c))
        entries++;
    return entries;
}

/* -1 with a MemoryError. */
static int read_path(const path *p, passed_frames *passed)
{
    bool owned = sspy_chain_has_owned();
    size_t entries = count_entries(p);
    cursor c;

    for (PyTracebackObject *entry = first_entry(&c, p); entry; entry = next_entry(&c)) {
        const void *data;

        /* At a border, entries of C code wait for sspy_place_made. */
        if (is_repeated(entry) || (passed->leaving && sspy_entry_is_made(entry)))
            continue;
        data = sspy_frame_live(entry->tb_frame, owned);
        if (data && add_live(passed, data, entry, entries))
            return -1;
        if (!data)
            add_ended(passed, entry);
        if (passed->leaving)
            add_left(passed, entry, owned);
        else
            add_seam(passed, entry);
    }
    passed->ended_count -= passed->after_seam; /* nothing that ended is inside of it */
    shorten_ended(passed);
    reverse(passed->ended, passed->ended_count);
    return 0;
}

/* Store the frames of P that have ended, with the mark behind them, in ROOM. -1 with a
   MemoryError. */
static int ended_part(const path *p, sspy_room *room, uint32_t *count)
{
    passed_frames passed = {.ended = room->frames, .most = room->limit + 2};
    int failed = read_path(p, &passed);

    *count = passed.ended_count;
    if (*count)
        room->frames[(*count)++] = sspy_mark();
    free(passed.live);
    return failed;
}

int sspy_keep_raised(sspy_interp *interp, PyObject *exc, sspy_room *room, uint32_t count)
{
    sspy_ties *ties;

    count = stacksplice_copy_ends(room->frames, count, room->limit, room->frames);
    ties = sspy_ties_make(interp, exc);
    if (!ties || !count || ties->raised)
        return ties ? 0 : -1;
    ties->raised = malloc(count * sizeof *ties->raised);
    if (!ties->raised) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(ties->raised, room->frames, count * sizeof *ties->raised);
    ties->raised_count = count;
    ties->raised_epoch = stacksplice_code_epoch();
    return 0;
}

int sspy_raised_at(sspy_state *state, PyObject *exc, const uintptr_t *frames, uint32_t count)
{
    sspy_ties *ties = sspy_ties_of(state->interp, exc);
    uint32_t ended = 0;
    sspy_room room;
    path p;
    int failed;

    if (sspy_ties_have_stack(ties))
        return 0;
    if (sspy_room_begin(&room, stacksplice_max_frames()))
        return -1;
    begin_path(&p, exc, NULL);
    failed = ended_part(&p, &room, &ended);
    end_path(&p);
    if (count > room.limit)
        count = stacksplice_copy_ends(frames, count, room.limit, room.frames + ended);
    else
        memcpy(room.frames + ended, frames, count * sizeof *frames);
    if (!failed)
        failed = sspy_keep_raised(state->interp, exc, &room, ended + count);
    sspy_room_end(&room);
    return failed;
}

static int stack_of(sspy_state *state, PyObject *exc, const path *p, const void *above,
                    bool at_border, sspy_room *room, uint32_t *count)
{
    uintptr_t *frames = room->frames;
    /* The inner end keeps as many as the inner end of the whole stack. */
    passed_frames passed = {
        .ended = frames, .most = room->limit + 2, .leaving = at_border ? exc : NULL};
    int failed = read_path(p, &passed);

    if (!failed) {
        sspy_replacement wanted = {.frames = passed.live, .count = passed.live_count};

        *count = passed.ended_count;
        if (!p->arrives && !wanted.count) {
            /* The callers of these frames are unknown. */
            frames[*count] = sspy_gap(*count ? SSPY_CAUGHT_BEFORE : SSPY_NEVER_RAISED);
            *count += 1;
        } else {
            if (*count && !at_border)
                frames[(*count)++] = sspy_mark();
            *count += wanted.count ? sspy_capture_from(__builtin_frame_address(0), &wanted,
                                                       room->limit, frames + *count)
                                   : sspy_capture(above, room->limit, frames + *count);
            sspy_append_awaiting(state, room, count);
        }
        *count = stacksplice_copy_ends(frames, *count, room->limit, frames);
    }
    free(passed.live);
    return failed;
}

int sspy_stack_of(sspy_state *state, PyObject *exc, const sspy_step *outer, const void *above,
                  sspy_room *room, uint32_t *count)
{
    path p;
    int failed;

    begin_path(&p, exc, outer);
    failed = stack_of(state, exc, &p, above, false, room, count);
    end_path(&p);
    return failed;
}

int sspy_stack_at_border(sspy_state *state, PyObject *exc, sspy_room *room, uint32_t *count)
{
    path p;
    int failed;

    begin_path(&p, exc, NULL);
    failed = stack_of(state, exc, &p, NULL, true, room, count);
    end_path(&p);
    return failed;
}
