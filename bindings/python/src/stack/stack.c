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
#include "frames/token_cache.h"

#include <opcode.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- Captures ----------------------------------------------------------------------------------*/

/* Captures of the live stack, and the buffer in which we assemble a stack. */

int sspy_room_begin(sspy_room *room, uint32_t limit)
{
    room->limit = limit;
    room->is_whole = true;
    room->has_no_loop = false; /* not known */
    room->frames = limit <= SSPY_NEAR_FRAMES
                       ? room->near
                       : malloc(SSPY_ROOM((size_t)limit) * sizeof *room->frames);
    if (!room->frames)
        PyErr_NoMemory();
    return room->frames ? 0 : -1;
}

void sspy_room_end(sspy_room *room)
{
    if (room->frames != room->near)
        free(room->frames);
}

static uint32_t capture_live(const void *above, uintptr_t behind, uint32_t max, uintptr_t *frames)
{
    sspy_interp *interp = sspy_interp_current();
    stacksplice_section section = sspy_enter(interp);
    uint32_t count = 0;

    (void)stacksplice_capture_ends(above, behind, max, frames, &count);
    sspy_leave(section);
    return count;
}

/* The same with the tokens of WANTED, without what is inside of its innermost frame (our own call).
   If none of its frames is on the stack, returns the whole stack rather than nothing. */
static uint32_t capture_from(const void *above, sspy_replacement *wanted, uint32_t max,
                             uintptr_t *frames)
{
    uint32_t count;

    wanted->mark = sspy_mark();
    sspy_replace(wanted);
    count = capture_live(above, wanted->mark, max, frames);
    sspy_replace(NULL);
    return count;
}

uint32_t sspy_capture(const void *above, uint32_t max, uintptr_t *frames)
{
    sspy_replaced_frame top = {sspy_frame_top(), 0};
    sspy_replacement wanted = {.frames = &top, .count = 1};

    return above ? capture_live(above, 0, max, frames)
                 : capture_from(__builtin_frame_address(0), &wanted, max, frames);
}

/* ---- Tasks that await --------------------------------------------------------------------------*/

/*
 * The tasks that await the running one.  Suspended coroutines are on no native stack.  The Python
 * file _awaiting.py finds them in asyncio's own records; this file makes tokens of them.
 *
 * Outside of asyncio an error costs one lookup in sys.modules; while a loop runs in its thread, a
 * search.
 */

/* The token of ITEM.  A str is the reason of a gap; a tuple of a str that of a seam; a tuple of a
   code object and a number a place.  0 with an exception. */
static uintptr_t token_of(PyObject *item)
{
    PyObject *first = PyTuple_Check(item) ? PyTuple_GetItem(item, 0) : NULL;
    const char *reason;
    PyObject *code;
    int lasti;

    if (!first || PyUnicode_Check(first)) {
        reason = PyUnicode_AsUTF8(first ? first : item);
        if (!reason)
            return 0;
        return first ? sspy_seam_gap(reason) : sspy_gap(reason);
    }
    if (!PyArg_ParseTuple(item, "O!i", &PyCode_Type, &code, &lasti))
        return 0;
    return sspy_token_known((PyCodeObject *)code, lasti, 0, STACKSPLICE_TRUST_EXACT);
}

static void reverse(uintptr_t *tokens, uint32_t count)
{
    for (uint32_t i = 0; i < count / 2; i++) {
        uintptr_t swapped = tokens[i];

        tokens[i] = tokens[count - 1 - i];
        tokens[count - 1 - i] = swapped;
    }
}

/* Where the tasks go into the COUNT of FRAMES: outside of the frame at PLACE, with which the running task
   begins; None: that is not known. */
static uint32_t place_of_tasks(sspy_state *state, PyObject *place, const uintptr_t *frames,
                               uint32_t count)
{
    uint64_t function = place == Py_None ? 0 : sspy_facts_of(state, token_of(place)).function;
    uint32_t at = count;

    while (at && function && sspy_facts_of(state, frames[at - 1]).function != function)
        at--;
    return at && function ? at : count;
}

/* Move the elements from BEGIN to END to AT, with the gap behind them. */
static void move_tasks(uintptr_t *frames, uint32_t at, uint32_t begin, uint32_t *end)
{
    frames[(*end)++] = sspy_gap(SSPY_RUN_BY_LOOP);
    reverse(frames + at, begin - at);
    reverse(frames + begin, *end - begin);
    reverse(frames + at, *end - at);
}

static int put_awaiting(sspy_state *state, uint32_t max, uintptr_t *frames, uint32_t *count)
{
    PyObject *module = PyImport_ImportModule("stacksplice._errors.awaiting");
    PyObject *list = module ? PyObject_CallMethod(module, "awaited_by", NULL) : NULL;
    PyObject *items = list ? PySequence_Fast(list, "awaited_by() must return a list") : NULL;
    Py_ssize_t size = items ? PySequence_Fast_GET_SIZE(items) : 0;
    Py_ssize_t left_out = size - 1 > max ? size - 1 - max : 0;
    uint32_t begin = *count, at = begin;
    int result = items ? 0 : -1;

    if (size)
        at = place_of_tasks(state, PySequence_Fast_GET_ITEM(items, 0), frames, begin);
    result = PyErr_Occurred() ? -1 : result;
    for (Py_ssize_t i = 1; !result && i < size; i++) {
        if (left_out && i == max / 2) {
            frames[(*count)++] = stacksplice_left_out((uint32_t)left_out);
            i += left_out;
        }
        frames[*count] = token_of(PySequence_Fast_GET_ITEM(items, i));
        *count += frames[*count] != 0;
        result = PyErr_Occurred() ? -1 : 0;
    }
    if (!result && at < begin)
        move_tasks(frames, at, begin, count);
    Py_XDECREF(items);
    Py_XDECREF(list);
    Py_XDECREF(module);
    return result;
}

int sspy_loop_runs(sspy_state *state)
{
    PyObject *events, *loop;

    if (!Py_IsInitialized()) /* or is finalized: it has no loop then, and at its end no modules */
        return 0;
    events = PyImport_GetModule(state->asyncio_key);
    if (!events)
        return PyErr_Occurred() ? -1 : 0;
    loop = PyObject_CallMethodNoArgs(events, state->running_loop_key);
    Py_DECREF(events);
    Py_XDECREF(loop);
    return loop ? loop != Py_None : -1;
}

/* put_awaiting(); tracers, profilers and sys.monitoring do not see the code that it runs. */
static int put_unseen(sspy_state *state, uint32_t max, uintptr_t *frames, uint32_t *count)
{
    PyThreadState *thread = PyThreadState_Get();
    int result;

    PyThreadState_EnterTracing(thread);
    result = put_awaiting(state, max, frames, count);
    PyThreadState_LeaveTracing(thread);
    return result;
}

int sspy_awaited_by(sspy_state *state, uint32_t max, uintptr_t *frames, uint32_t *count)
{
    int runs = sspy_loop_runs(state);

    return runs > 0 ? put_unseen(state, max, frames, count) : runs;
}

void sspy_clear_but_interrupts(void)
{
    if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_KeyboardInterrupt))
        PyErr_SetInterrupt(); /* raise it again when we are done */
    PyErr_Clear();
}

void sspy_append_awaiting(sspy_state *state, sspy_room *room, uint32_t *count)
{
    int result = sspy_loop_runs(state);

    room->has_no_loop = result == 0;
    if (result > 0)
        result = put_unseen(state, room->limit, room->frames, count);
    if (!result)
        return;
    sspy_clear_but_interrupts();
    room->frames[(*count)++] = sspy_gap("awaiting task unknown: the search failed");
}

/* ---- Foreign frame ---------------------------------------------------------------------------*/

/*
 * Frame objects for frames of other languages: their globals mark them, and hold their stack
 * element.
 */

#define ELEMENT_KEY "__stacksplice__"
#define ELEMENT_NAME "stacksplice.element"

/* The address 1 is no element: it stands for a function that was inlined into the next one. */
static void *const inlined_part = (void *)1;

bool sspy_foreign_frame(PyFrameObject *frame, uintptr_t *element)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    bool other = !sspy_may_be_foreign(code);
    PyObject *globals, *capsule;
    void *found = NULL;

    Py_DECREF(code);
    if (other)
        return false;
    globals = PyFrame_GetGlobals(frame);
    capsule = PyDict_GetItemString(globals, ELEMENT_KEY);
    if (capsule && PyCapsule_IsValid(capsule, ELEMENT_NAME))
        found = PyCapsule_GetPointer(capsule, ELEMENT_NAME);
    Py_DECREF(globals);
    if (element)
        *element = found == inlined_part ? 0 : (uintptr_t)found;
    return found != NULL;
}

static int set_item(PyObject *dict, const char *key, PyObject *value)
{
    int failed = !value || PyDict_SetItemString(dict, key, value);

    Py_XDECREF(value);
    return failed;
}

PyObject *sspy_foreign_globals(const stacksplice_frame *frame, PyObject *file)
{
    void *element = frame->inlined ? inlined_part : (void *)frame->address;
    PyObject *globals = PyDict_New();

    if (globals && (set_item(globals, "__name__", PyUnicode_FromString(frame->language)) ||
                    (file && set_item(globals, "__file__", Py_NewRef(file))) ||
                    set_item(globals, ELEMENT_KEY, PyCapsule_New(element, ELEMENT_NAME, NULL))))
        Py_CLEAR(globals);
    return globals;
}

/* ---- Where two stacks meet ---------------------------------------------------------------------*/

/*
 * Where two stacks meet in one traceback.
 *
 * A future keeps the exception that a task or a thread ended with, and raises it again in the code
 * that waits for it.  The traceback then continues as if the one had called the other.  A frame
 * remembers its caller even after its end.  If two neighbours both record their callers, and
 * neither is among the callers of the other, they are of different stacks.  Of these frames we
 * assume nothing:
 *
 *  - a generator's or coroutine's that has forgotten its caller (CPython 3.11, 3.14 and newer);
 *  - one that never ran: C code made it so that its own functions are in the traceback (Cython,
 *    PyO3).  Like the outermost frame of a thread it has no caller, but it did no step either.  Or one
 *    that ran to its end, which no exception leaves: with the stable ABI C code makes them so;
 *  - one that ran only to raise: Python code gave the body of a module the name of a function, for
 *    the same purpose (jinja2, tblib).  Its caller is the code that made it.
 */

static bool is_coroutine(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    bool coroutine = code->co_flags & (CO_COROUTINE | CO_ITERABLE_COROUTINE | CO_ASYNC_GENERATOR);

    Py_DECREF(code);
    return coroutine;
}

/* Whether the next frame has ended and keeps that of ENTRY as its caller, as nearly all do. */
static inline bool keeps_caller(const PyTracebackObject *entry)
{
    return entry->tb_next && sspy_frame_kept_back(entry->tb_next->tb_frame) == entry->tb_frame;
}

bool sspy_called_next(const PyTracebackObject *entry)
{
    PyFrameObject *back;

    if (!entry->tb_next)
        return false;
    /* What another thread runs cannot be asked: there one entry is taken to have called the next. */
    if (!sspy_frame_is_steady(entry->tb_next->tb_frame))
        return !sspy_frame_is_steady(entry->tb_frame);
    if (keeps_caller(entry))
        return true;
    back = PyFrame_GetBack(entry->tb_next->tb_frame);
    Py_XDECREF(back);
    return back == entry->tb_frame;
}

/* The code of a module's body, or of exec(), is called <module> unless it was renamed.  A class
   body has its own name, and hardly ever raises an exception that others kept. */
static bool is_renamed_body(const PyCodeObject *code)
{
    return !(code->co_flags & (CO_OPTIMIZED | CO_NEWLOCALS)) &&
           PyUnicode_CompareWithASCIIString(code->co_name, "<module>") != 0;
}

/* A new frame is at or just after its first instruction.  A frame that raised is further on, unless
   its very first step failed. */
static bool has_run(PyFrameObject *frame, const PyCodeObject *code)
{
    return PyFrame_GetLasti(frame) > (code->_co_firsttraceable + 1) * SSPY_CODE_UNIT;
}

static bool is_return(unsigned char opcode)
{
#ifdef RETURN_CONST
    if (opcode == RETURN_CONST)
        return true;
#endif
    return opcode == RETURN_VALUE;
}

/* Whether FRAME, of a renamed body, has returned: an exception never left it.  C code that is limited to
   the stable ABI gets a frame for its own function by running one, as Cython does.  Only of such code are
   the instructions copied, as they are without tools that watch them. */
static bool has_returned(PyFrameObject *frame, PyCodeObject *code)
{
    PyObject *instructions = PyCode_GetCode(code);
    int at = PyFrame_GetLasti(frame);
    bool returned = instructions && at >= 0 && at < PyBytes_GET_SIZE(instructions) &&
                    is_return((unsigned char)PyBytes_AS_STRING(instructions)[at]);

    if (!instructions)
        PyErr_Clear();
    Py_XDECREF(instructions);
    return returned;
}

bool sspy_entry_is_made(const PyTracebackObject *entry)
{
    PyCodeObject *code;
    bool made;

    if (!sspy_frame_is_steady(entry->tb_frame))
        return false; /* it runs in another thread */
    code = PyFrame_GetCode(entry->tb_frame);
    made = !has_run(entry->tb_frame, code) ||
           (is_renamed_body(code) && has_returned(entry->tb_frame, code));
    Py_DECREF(code);
    return made;
}

sspy_entry_kind sspy_kind_of(const PyTracebackObject *entry)
{
    if (sspy_foreign_frame(entry->tb_frame, NULL))
        return SSPY_ENTRY_OF_OTHERS;
    return sspy_entry_is_made(entry) ? SSPY_ENTRY_MADE : SSPY_ENTRY_OF_PYTHON;
}

uintptr_t sspy_element_of(const PyTracebackObject *entry, stacksplice_trust trust)
{
    PyCodeObject *code = PyFrame_GetCode(entry->tb_frame);
    uintptr_t element;

    if (!sspy_may_be_foreign(code) || !sspy_foreign_frame(entry->tb_frame, &element))
        element = sspy_token_known(code, entry->tb_lasti, entry->tb_lineno, trust);
    Py_DECREF(code);
    return element;
}

/* Whether FRAME records its caller, or that it has none.  Without memory the answer is false, and
   an exception is set. */
static bool tells_caller(PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyFrameObject *back = PyFrame_GetBack(frame);
    bool forgets = code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);
    bool tells =
        !is_renamed_body(code) && (back || (!PyErr_Occurred() && !forgets && has_run(frame, code)));

    Py_XDECREF(back);
    Py_DECREF(code);
    return tells;
}

/* Whether OUTER is among the callers of INNER.  Without memory an exception is set. */
static bool is_below(PyFrameObject *inner, const PyFrameObject *outer)
{
    PyFrameObject *back = sspy_frame_back(inner);

    while (back && back != outer) {
        PyFrameObject *next = sspy_frame_back(back);

        Py_DECREF(back);
        back = next;
    }
    Py_XDECREF(back);
    return back != NULL;
}

/* Whether both frames record their callers, and are on different stacks.  A frame that raises again
   what its caller has caught is on that caller's stack.  Without memory nothing is known, and nothing of
   what another thread runs. */
static bool are_apart(PyFrameObject *inner, PyFrameObject *outer)
{
    bool apart = sspy_frame_is_steady(inner) && sspy_frame_is_steady(outer) &&
                 tells_caller(inner) && tells_caller(outer) && !is_below(inner, outer) &&
                 !is_below(outer, inner) && !PyErr_Occurred();

    PyErr_Clear();
    return apart;
}

/* Whether nothing speaks against it that the frame of ENTRY called that of INNER. */
static bool called_inner(const PyTracebackObject *entry, const PyTracebackObject *inner)
{
    PyCodeObject *code = PyFrame_GetCode(inner->tb_frame);
    PyFrameObject *back = sspy_frame_back(inner->tb_frame);
    /* A coroutine may have forgotten its caller, which is the one in the traceback then. */
    bool forgot = !back && code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR);

    PyErr_Clear();
    Py_XDECREF(back);
    Py_DECREF(code);
    return forgot || back == entry->tb_frame;
}

uintptr_t sspy_seam_inside(const PyTracebackObject *entry)
{
    PyFrameObject *inner = entry->tb_next ? entry->tb_next->tb_frame : NULL;

    if (!inner || sspy_called_next(entry))
        return 0;
    PyErr_Clear();
    /* Frames that stand for those of other languages have no callers, and their traceback does not
       show the glue through which they call Python. */
    if (sspy_foreign_frame(inner, NULL))
        return 0;
    if (sspy_foreign_frame(entry->tb_frame, NULL))
        return sspy_mark();
    if (!are_apart(inner, entry->tb_frame))
        return 0;
    return sspy_seam_gap(is_coroutine(inner) && is_coroutine(entry->tb_frame) ? SSPY_AWAITED
                                                                              : SSPY_RAISED_AGAIN);
}

/* ---- What exceptions left ----------------------------------------------------------------------*/

/*
 * The native frames of Python's own code that exceptions left in this thread, on their way outward
 * from one loop of the interpreter to the next.  A traceback has nothing of them.
 *
 * The addresses of exceptions and entries that are gone are used again.  So the notes of an
 * exception end when a new one at its address leaves its first frame.
 */

enum { NOTES = 128 /* a stack of the largest usual size has fewer loops */ };

/* What EXC left when HEAD was its whole traceback. */
typedef struct note {
    const PyObject *exc; /* compared only, as HEAD is */
    const void *head;
    uint64_t number; /* of notes in this thread */
    uint32_t count;
    uint32_t lost; /* native frames that EXC left before, whose notes had to go */
    uint8_t next;  /* in its chain, or of the free ones, as a place in ALL from 1 on; 0: none */
    uintptr_t frames[SSPY_LEFT_FRAMES];
} note;

/* Of all exceptions on their way in this thread, and of some that were handled: so of each exception
   only those in the chain of its address are looked at. */
typedef struct notes {
    uint64_t made;
    uint8_t used, free, first[SSPY_LEFT_CHAINS];
    note all[NOTES];
} notes;

_Thread_local uint64_t sspy_left_chains;
static _Thread_local notes *mine; /* NULL until the thread needs them */
static pthread_key_t notes_key;   /* frees them at the thread's end */
static pthread_once_t notes_key_made = PTHREAD_ONCE_INIT;
static bool has_notes_key;

static void end_notes(void *all)
{
    free(all);
    mine = NULL;
    sspy_left_chains = 0;
}

static void make_notes_key(void)
{
    has_notes_key = pthread_key_create(&notes_key, end_notes) == 0;
}

static notes *new_notes(void)
{
    notes *all;

    (void)pthread_once(&notes_key_made, make_notes_key);
    all = has_notes_key ? malloc(sizeof *all) : NULL;
    if (all && pthread_setspecific(notes_key, all)) {
        free(all);
        all = NULL;
    }
    if (all)
        memset(all, 0, offsetof(notes, all));
    return all;
}

static note *note_at(uint8_t place)
{
    return place ? &mine->all[place - 1] : NULL;
}

static note *chain_of(const PyObject *exc)
{
    return mine ? note_at(mine->first[sspy_left_chain(exc)]) : NULL;
}

/* Take those of EXC from its chain, or only the one that is not NULL. */
static inline void unlink_notes(const PyObject *exc, const note *only)
{
    uint8_t *place = &mine->first[sspy_left_chain(exc)];

    while (*place) {
        note *each = note_at(*place);
        uint8_t taken = *place;

        if (each->exc != exc || (only && each != only)) {
            place = &each->next;
            continue;
        }
        *place = each->next;
        each->next = mine->free;
        mine->free = taken;
    }
}

/* Free the oldest of all notes: the first that is left of its exception tells of the loss. */
static void lose_oldest(void)
{
    note *oldest = mine->all, *first = NULL;

    for (uint32_t i = 1; i < NOTES; i++)
        if (mine->all[i].number < oldest->number)
            oldest = &mine->all[i];
    unlink_notes(oldest->exc, oldest);
    for (note *each = chain_of(oldest->exc); each; each = note_at(each->next))
        if (each->exc == oldest->exc && (!first || each->number < first->number))
            first = each;
    if (first)
        first->lost += oldest->lost + oldest->count;
}

/* The place of a free note; 0 without memory. */
static uint8_t take_place(void)
{
    uint8_t place;

    if (!mine && (mine = new_notes()) == NULL)
        return 0;
    if (!mine->free && mine->used < NOTES)
        return ++mine->used;
    if (!mine->free)
        lose_oldest();
    place = mine->free;
    mine->free = note_at(place)->next;
    return place;
}

void sspy_keep_left(PyObject *exc, const uintptr_t *frames, uint32_t count)
{
    uint8_t place = take_place(), *first;
    note *here;

    if (!place)
        return;
    here = note_at(place);
    first = &mine->first[sspy_left_chain(exc)];
    here->exc = exc;
    here->head = ((PyBaseExceptionObject *)exc)->traceback;
    here->number = mine->made++;
    here->count = count;
    here->lost = 0;
    here->next = *first;
    *first = place;
    memcpy(here->frames, frames, count * sizeof *frames);
    sspy_left_chains |= UINT64_C(1) << sspy_left_chain(exc);
}

void sspy_forget_left(const PyObject *exc)
{
    unlink_notes(exc, NULL);
    if (!chain_of(exc))
        sspy_left_chains &= ~(UINT64_C(1) << sspy_left_chain(exc));
}

/* What EXC left when its traceback began with HEAD; NULL: nothing is known. */
static const note *left_at(const PyObject *exc, const PyTracebackObject *head)
{
    const note *each = chain_of(exc);

    while (each && (each->head != head || each->exc != exc))
        each = note_at(each->next);
    return each;
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
    bool repeats;      /* a frame has several entries, of which the stack has the innermost */
    PyObject *leaving; /* the exception, at a border; else NULL */
    bool has_table;    /* sspy_cache_is_ready() */
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

/* The entries from that of C inward. */
static size_t count_entries(cursor c)
{
    size_t entries = 0;

    for (; c.entry; next_entry(&c))
        entries++;
    return entries;
}

/* If a frame has several entries, the last one counts, which is the innermost. -1 with a MemoryError. */
static int add_live(passed_frames *passed, const void *data, const cursor *at)
{
    PyTracebackObject *entry = at->entry;
    uint32_t i = 0;

    if (!passed->live)
        passed->live = malloc(count_entries(*at) * sizeof *passed->live);
    if (!passed->live) {
        PyErr_NoMemory();
        return -1;
    }
    while (i < passed->live_count && passed->live[i].data != data)
        i++;
    passed->live[i] =
        (sspy_replaced_frame){data, sspy_element_of(entry, STACKSPLICE_TRUST_TRACEBACK)};
    passed->repeats |= i < passed->live_count;
    passed->live_count += i == passed->live_count;
    return 0;
}

static void shorten_ended(passed_frames *passed)
{
    passed->ended_count =
        stacksplice_copy_ends(passed->ended, passed->ended_count, passed->most, passed->ended);
}

static inline void add_token(passed_frames *passed, uintptr_t token)
{
    if (passed->ended_count == 2 * passed->most)
        shorten_ended(passed);
    passed->ended[passed->ended_count++] = token;
}

/* sspy_element_of(), by way of the table: what is the same for all entries is not asked for each. */
static uintptr_t ended_element(passed_frames *passed, const PyTracebackObject *entry)
{
    PyCodeObject *code = PyFrame_GetCode(entry->tb_frame);
    uintptr_t key = 0, token;

    if (passed->has_table && !sspy_may_be_foreign(code))
        key = sspy_key_of(code, entry->tb_lasti, STACKSPLICE_TRUST_TRACEBACK);
    Py_DECREF(code);
    token = key ? sspy_cache_find(key, entry->tb_lineno > 0 ? (uint32_t)entry->tb_lineno : 0) : 0;
    if (token)
        return token;
    token = sspy_element_of(entry, STACKSPLICE_TRUST_TRACEBACK);
    passed->has_table = sspy_cache_is_ready();
    return token;
}

static void add_ended(passed_frames *passed, const PyTracebackObject *entry)
{
    uintptr_t token = ended_element(passed, entry);

    if (!token)
        return;
    add_token(passed, token);
    passed->after_seam = false;
}

/* A seam belongs between frames: one is enough where several meet. */
static void add_seam(passed_frames *passed, const PyTracebackObject *entry)
{
    uintptr_t seam;

    if (passed->after_seam || keeps_caller(entry))
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
    const note *left;

    if (passed->lost)
        add_token(passed, stacksplice_left_out(passed->lost));
    passed->lost = 0;
    while (inner && sspy_entry_is_made(inner))
        inner = inner->tb_next;
    if (!inner || sspy_frame_live(inner->tb_frame, owned))
        return;
    left = left_at(passed->leaving, inner);
    for (uint32_t i = left ? left->count : 0; i > 0; i--)
        add_token(passed, left->frames[i - 1]);
    if (left) {
        passed->after_seam = false;
        passed->lost = left->lost;
    }
    add_seam(passed, entry);
    if (!left && !passed->after_seam && !called_inner(entry, inner))
        add_token(passed, sspy_mark());
}

/* -1 with a MemoryError. */
static int read_path(const path *p, passed_frames *passed)
{
    bool owned = sspy_chain_has_owned();
    bool tells_end = !owned && !sspy_layout_reason(); /* who owns a frame's data */
    cursor c;

    passed->has_table = sspy_cache_is_ready();
    for (PyTracebackObject *entry = first_entry(&c, p); entry; entry = next_entry(&c)) {
        const void *data;

        /* At a border, entries of C code wait for sspy_place_made. */
        passed->repeats |= is_repeated(entry);
        if (is_repeated(entry) || (passed->leaving && sspy_entry_is_made(entry)))
            continue;
        data = tells_end && sspy_frame_has_ended(entry->tb_frame)
                   ? NULL
                   : sspy_frame_live(entry->tb_frame, owned);
        if (data && add_live(passed, data, &c))
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
    return ties ? sspy_ties_set_raised(ties, room->frames, count) : -1;
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

    room->is_whole = !passed.repeats;
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
            *count += wanted.count ? capture_from(__builtin_frame_address(0), &wanted, room->limit,
                                                  frames + *count)
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
