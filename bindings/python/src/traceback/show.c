/*
 * Frames of other languages as entries of __traceback__.
 *
 * An element of a stack becomes a code object that never runs, with the file, function
 * and line of the frame.  An entry has a frame object of it, as for Cython's code.  We keep the
 * frame objects, so that a recurring stack resolves nothing and makes none: they have nothing of an
 * exception, and all entries of an element share them.  Glue and functions that are built into
 * scripts' languages become no entry, nor do gaps where only calls of native code are missing:
 * Python shows no entry for its own ones either.
 */
#include "traceback/traceback.h"

#include <dlfcn.h>
#include <frameobject.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The frames that an exception passed on its way to the receiving border and that its __traceback__ does
   not show yet. */
typedef struct passage {
    const uintptr_t *frames; /* innermost first; in COPY */
    uint32_t count;
    uintptr_t outermost; /* a gap that replaces the outermost of them; 0: that one stays */
    const char *seam;    /* why frames may be missing outside of them; NULL: none are */
    bool arrives;        /* they are all that there is: nothing was shown before */
    sspy_stack_copy copy;
} passage;

/* ---- Comparing two stacks ----------------------------------------------------------------------*/

static const char unknown_seam[] = "unknown frames in between";

/* ---- Script frames ----------------------------------------------------------------------------*/

/* Facts about one element, or about two. */
enum {
    IS_SCRIPT = 1,
    IS_HERE = 2,
    IS_SAME = 4,
    IS_SAME_LINE = 8,
    IS_SAME_PLACE = 16,
    IS_IN_FILE = 32,
    IS_SAME_FILE_LINE = 64 /* the names of the functions may differ */
};

typedef struct place {
    const stacksplice_frame *other; /* to compare with, or NULL */
    int64_t interpreter;
    unsigned facts;
} place;

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

/* Whether FRAME is a Python frame of the interpreter with that id. */
static bool is_of(const stacksplice_frame *frame, int64_t id)
{
    char name[40];

    if (strcmp(frame->language, "python"))
        return false;
    if (id <= 0)
        return !frame->interpreter;
    PyOS_snprintf(name, sizeof name, "interpreter %lld", (long long)id);
    return same_text(frame->interpreter, name);
}

static bool is_same(const stacksplice_frame *a, const stacksplice_frame *b)
{
    return same_text(a->language, b->language) && same_text(a->function, b->function) &&
           same_text(a->file, b->file) && same_text(a->interpreter, b->interpreter);
}

/* Facts about two frames of one function. */
static unsigned compare_places(const stacksplice_frame *a, const stacksplice_frame *b)
{
    if (a->line != b->line)
        return IS_SAME;
    if (a->column != b->column || a->end_line != b->end_line || a->end_column != b->end_column ||
        a->trust != b->trust)
        return IS_SAME | IS_SAME_LINE;
    return IS_SAME | IS_SAME_LINE | IS_SAME_PLACE;
}

static int look(const stacksplice_frame *frame, void *data)
{
    place *p = data;

    p->facts = 0;
    if (frame->kind != STACKSPLICE_FRAME_SCRIPT)
        return 0;
    p->facts = IS_SCRIPT;
    if (is_of(frame, p->interpreter))
        p->facts |= IS_HERE;
    if (frame->file && strcmp(frame->file, "[C]") != 0)
        p->facts |= IS_IN_FILE;
    if (p->other && is_same(frame, p->other))
        p->facts |= compare_places(frame, p->other);
    if (p->other && p->other->kind == frame->kind && frame->file && frame->line == p->other->line &&
        same_text(frame->language, p->other->language) && same_text(frame->file, p->other->file))
        p->facts |= IS_SAME_FILE_LINE;
    return 0;
}

/* Compares another element with FRAME, whose strings live as long as the callback. */
typedef struct comparison {
    uintptr_t element;
    place place;
    HRESULT result;
} comparison;

static int compare(const stacksplice_frame *frame, void *data)
{
    comparison *c = data;

    c->place.other = frame;
    c->result = stacksplice_resolve(c->element, look, &c->place);
    return 0;
}

static HRESULT find_out(comparison *c, uintptr_t other)
{
    HRESULT result;

    if (!other)
        return stacksplice_resolve(c->element, look, &c->place);
    result = stacksplice_resolve(other, compare, c);
    return FAILED(result) ? result : c->result;
}

/* What is known of a token, or of two. */
typedef struct known_place {
    uintptr_t element, other; /* 0: none */
    unsigned facts;
} known_place;

enum { KNOWN_PLACES = 64 }; /* a power of two */

/* The facts about ELEMENT, and about it and OTHER if that is not 0.  A token never changes its
   meaning, so they are found out once: reading names takes long. */
static unsigned facts_of(sspy_state *state, uintptr_t element, uintptr_t other)
{
    uint64_t hash = (element ^ other << 20) * UINT64_C(0x9E3779B97F4A7C15);
    known_place *all = sspy_record(state, SSPY_OF_MATCH, KNOWN_PLACES * sizeof *all);
    known_place *known = all ? &all[hash >> 32 & (KNOWN_PLACES - 1)] : NULL;
    comparison c = {.element = element, .place = {.interpreter = state->interp->id}};

    if (!stacksplice_is_token(element) || (other && !stacksplice_is_token(other)))
        return 0;
    if (known && known->element == element && known->other == other)
        return known->facts;
    if (SUCCEEDED(find_out(&c, other)) && known)
        *known = (known_place){element, other, c.place.facts};
    return c.place.facts;
}

/* ---- Of an error ------------------------------------------------------------------------------*/

typedef stacksplice_hresult read_stack(IUnknown *error, uint32_t max, uintptr_t *frames,
                                       uint32_t *count);

static sspy_elements copy_of(void *error, read_stack *read, sspy_stack_copy *copy)
{
    uintptr_t *frames = copy->near;
    uint32_t count = 0;

    copy->far = NULL;
    (void)read(error, 0, NULL, &count);
    if (count > SSPY_NEAR_FRAMES)
        frames = copy->far = malloc(count * sizeof *frames);
    if (!frames || !count || FAILED(read(error, count, frames, &count)))
        count = 0;
    return (sspy_elements){frames, count};
}

/* The stack with which ERROR, or a node, was made, and the one that reports show; COPY->far is
   released by the caller.  Empty without memory. */
static sspy_elements captured(void *error, sspy_stack_copy *copy)
{
    return copy_of(error, stacksplice_error_captured, copy);
}

sspy_elements sspy_shown(void *error, sspy_stack_copy *copy)
{
    return copy_of(error, stacksplice_error_stack, copy);
}

/* ---- The two stacks ---------------------------------------------------------------------------*/

/* A stack read from its outer end. */
typedef struct outer_end {
    sspy_elements rest; /* the elements not passed yet */
    uint32_t hidden;    /* frames that its outermost element replaces, if it is such a gap */
} outer_end;

static uint32_t hidden_at(sspy_elements rest)
{
    return rest.count ? stacksplice_frames_left_out(rest.frames + rest.count - 1, 1) : 0;
}

static outer_end outer_end_of(sspy_elements s)
{
    return (outer_end){s, hidden_at(s)};
}

static uintptr_t outermost(const outer_end *end)
{
    return end->rest.count ? end->rest.frames[end->rest.count - 1] : 0;
}

static void pass(outer_end *end, uint32_t frames)
{
    if (end->hidden > frames) {
        end->hidden -= frames;
        return;
    }
    end->rest.count--;
    end->hidden = hidden_at(end->rest);
}

/* How many outer elements are the same in both. */
static uint32_t count_equal(sspy_elements a, sspy_elements b)
{
    uint32_t most = a.count < b.count ? a.count : b.count, count = 0;

    while (count < most && a.frames[a.count - 1 - count] == b.frames[b.count - 1 - count])
        count++;
    return count;
}

/* Pass the equal outer elements of A and B; returns whether there were any.  A frame that was left
   out counts as the one that the other stack has there; the numbers in the gaps say which one. */
static bool pass_same(outer_end *a, outer_end *b)
{
    bool any = false;

    while (a->rest.count && b->rest.count) {
        uint32_t frames = 1;

        if (a->hidden && b->hidden)
            frames = a->hidden < b->hidden ? a->hidden : b->hidden;
        else if (!a->hidden && !b->hidden && outermost(a) != outermost(b))
            break;
        pass(a, frames);
        pass(b, frames);
        any = true;
    }
    return any;
}

/* HERE is the part that only the border's stack has.  Whether it has no script frame, or only its
   outermost frame is one, of the same function as ELEMENT.  That frame went on since, to its line
   in HERE. */
static bool is_border(sspy_state *state, sspy_elements here, uintptr_t element, bool *went_on)
{
    *went_on = false;
    if (stacksplice_frames_left_out(here.frames, here.count))
        return false;
    for (uint32_t i = 0; i < here.count; i++) {
        if (!(facts_of(state, here.frames[i], 0) & IS_SCRIPT))
            continue;
        if (i + 1 < here.count || !(facts_of(state, here.frames[i], element) & IS_SAME))
            return false;
        *went_on = true;
    }
    return true;
}

/* How many elements of TAKEN are inside of the border whose stack is HERE.  BETWEEN receives the
   reason if some are left out, and a seam where the two do not match. */
static uint32_t count_inside(sspy_state *state, sspy_elements taken, sspy_elements here,
                             passage *between)
{
    uint32_t equal = count_equal(taken, here);
    outer_end inside = outer_end_of((sspy_elements){taken.frames, taken.count - equal});
    outer_end border = outer_end_of((sspy_elements){here.frames, here.count - equal});
    bool same = pass_same(&inside, &border) || equal, went_on;

    if (inside.hidden)
        between->outermost = stacksplice_left_out(inside.hidden);
    if (is_border(state, border.rest, outermost(&inside), &went_on) && (same || went_on))
        return inside.rest.count - went_on;
    between->seam = unknown_seam;
    return inside.rest.count;
}

/* Whether both are script frames, of one function and with the same line. */
static bool same_line(sspy_state *state, uintptr_t a, uintptr_t b)
{
    return b && facts_of(state, a, b) & IS_SAME_LINE;
}

bool sspy_same_place(sspy_state *state, uintptr_t a, uintptr_t b)
{
    return a == b || (b && facts_of(state, a, b) & IS_SAME_PLACE);
}

bool sspy_same_file_line(sspy_state *state, uintptr_t a, uintptr_t b)
{
    return b && facts_of(state, a, b) & IS_SAME_FILE_LINE;
}

bool sspy_is_in_file(sspy_state *state, uintptr_t element)
{
    return facts_of(state, element, 0) & IS_IN_FILE;
}

bool sspy_is_frame_of(sspy_state *state, uintptr_t element)
{
    return facts_of(state, element, 0) & IS_HERE;
}

/* ---- What was passed ---------------------------------------------------------------------------*/

/*
 * The frames between the border that receives an exception and those that its __traceback__ shows.
 *
 * Two stacks are compared: the one captured when the exception left (at its origin, or by the first
 * language that received it since), and the current one.  Their outer ends are equal; what only the
 * first has is what has ended since.  Of that, the Python frames and everything inside of them are
 * in __traceback__. Where the two stacks do not match, a seam says so.
 */

/* The number of nodes of ERROR.  *FOUND becomes the node with NUMBER, counted from the newest as 0,
   with a reference, if there is one. */
static uint32_t find_node(IScriptErrorInfo *error, uint32_t from_newest,
                          ILanguageExceptionErrorInfo2 **found)
{
    ILanguageExceptionErrorInfo2 *info = sspy_query(error, &IID_ILanguageExceptionErrorInfo2);
    ILanguageExceptionErrorInfo2 *node = NULL, *older;
    uint32_t count = 0;

    if (info)
        (void)info->lpVtbl->GetPropagationContextHead(info, &node);
    sspy_unknown_release(info);
    for (; node; count++) {
        older = NULL;
        (void)node->lpVtbl->GetPreviousLanguageExceptionErrorInfo(node, &older);
        if (count == from_newest)
            *found = node;
        else
            sspy_unknown_release(node);
        node = older;
    }
    return count;
}

/* ---- What the traceback already shows ---------------------------------------------------------*/

/* Whether one of the adjacent entries of HEAD's frame is the place of ELEMENT. */
static bool is_at(sspy_state *state, const PyTracebackObject *head, uintptr_t element)
{
    for (const PyTracebackObject *entry = head; entry && entry->tb_frame == head->tb_frame;
         entry = entry->tb_next)
        if (same_line(state, sspy_element_of(entry, STACKSPLICE_TRUST_TRACEBACK), element))
            return true;
    return false;
}

/* The index after the outermost of the FRAMES that is ELEMENT; END when there is none. */
static uint32_t behind_element(sspy_elements frames, uintptr_t element)
{
    for (uint32_t i = frames.count; i > 0; i--)
        if (frames.frames[i - 1] == element)
            return i;
    return frames.count;
}

/* The index after the outermost Python frame of this interpreter. */
static uint32_t behind_python(sspy_state *state, sspy_elements frames)
{
    for (uint32_t i = frames.count; i > 0; i--)
        if (sspy_is_frame_of(state, frames.frames[i - 1]))
            return i;
    return 0;
}

/* How many of FRAMES, which end at the border, are inside of HEAD or are HEAD; HEAD may be NULL. */
static uint32_t shown(sspy_state *state, const PyTracebackObject *head, sspy_elements frames,
                      const char **seam)
{
    uintptr_t element;
    uint32_t begin;

    if (head && sspy_foreign_frame(head->tb_frame, &element))
        return behind_element(frames, element);
    begin = behind_python(state, frames);
    if (!begin || !head || is_at(state, head, frames.frames[begin - 1]))
        return begin;
    *seam = unknown_seam; /* raised again elsewhere: this stack does not match */
    return frames.count;
}

/* Whether the exception was caught in a frame that still runs, and is raised inside of it again. */
static bool is_caught_here(const PyTracebackObject *head)
{
    return head && !sspy_foreign_frame(head->tb_frame, NULL) &&
           sspy_frame_live(head->tb_frame, sspy_chain_has_owned());
}

/* ---- All together -----------------------------------------------------------------------------*/

static bool is_other_thread(void *taken, void *here)
{
    uint64_t a = 0, b = 0;

    return SUCCEEDED(stacksplice_error_thread(taken, &a)) &&
           SUCCEEDED(stacksplice_error_thread(here, &b)) && a != b;
}

/* The stack that was captured when EXC left Python, and its owner.  If another language has received
   EXC *SINCE it was last raised here, a node owns it, with a reference; else the origin, or if that is
   of another thread than NEWEST, the node of when Python received EXC last. */
static sspy_elements stack_at_exit(sspy_ties *ties, IScriptErrorInfo *error, uint32_t nodes,
                                   void *newest, passage *between,
                                   ILanguageExceptionErrorInfo2 **node, bool *since)
{
    uint32_t received = ties ? ties->received : 0;

    *since = received && received + 1 < nodes;
    if (*since || (received && is_other_thread(error, newest)))
        (void)find_node(error, nodes - received - *since, node);
    if (*node)
        return captured(*node, &between->copy);
    return captured(error, &between->copy);
}

/* Choose the frames of TAKEN, the stack of EXIT, that neither __traceback__ shows nor HERE has, the
   stack of NEWEST. */
static void choose(sspy_state *state, const PyTracebackObject *head, sspy_elements taken,
                   void *exit, sspy_elements here, void *newest, bool whole, passage *between)
{
    uint32_t begin = 0, end = count_inside(state, taken, here, between);

    if (is_other_thread(exit, newest)) {
        between->seam = NULL; /* the two stacks need not match */
        if (!whole)
            (void)shown(state, head, taken, &between->seam);
        if (!between->seam)
            between->seam = SSPY_OTHER_THREAD;
        between->outermost = 0;
        end = taken.count;
        begin = whole ? 0 : end;
    } else if (!whole) {
        begin = shown(state, head, (sspy_elements){taken.frames, end}, &between->seam);
    }
    between->frames = taken.frames + begin;
    between->count = end - begin;
}

static void find(sspy_state *state, sspy_ties *ties, IScriptErrorInfo *error,
                 IScriptErrorInfo *border, const PyTracebackObject *head, passage *between)
{
    ILanguageExceptionErrorInfo2 *newest = NULL, *node = NULL;
    uint32_t nodes = find_node(border, 0, &newest);
    bool is_new = ties && ties->core.foreign && !ties->received && !head;
    sspy_stack_copy copy;

    copy.far = NULL;
    /* Otherwise the error has no more room for nodes. */
    if (newest && (!ties || nodes > ties->received) && !is_caught_here(head)) {
        sspy_elements here = captured(newest, &copy);
        bool since;
        sspy_elements taken = stack_at_exit(ties, error, nodes, newest, between, &node, &since);

        between->arrives = is_new;
        choose(state, head, taken, node ? (void *)node : error, here, newest, is_new || since,
               between);
    }
    free(copy.far);
    if (ties && border == error)
        ties->received = nodes;
    sspy_unknown_release(node);
    sspy_unknown_release(newest);
}

/* Fill BETWEEN for EXC, the exception that stands for ERROR at the border.  The newest node of
   BORDER was captured there; BORDER is ERROR, or the error of which it is a cause or a member.
   Allocates nothing in the interpreter and leaves no exception set. */
static void between_find(sspy_state *state, PyObject *exc, IScriptErrorInfo *error,
                         IScriptErrorInfo *border, passage *between)
{
    PyObject *traceback = sspy_traceback_of(exc);
    const PyTracebackObject *head = (const PyTracebackObject *)traceback;
    stacksplice_section section = sspy_enter(state->interp);

    between->frames = between->copy.near;
    between->copy.far = NULL;
    between->outermost = 0;
    between->count = 0;
    between->seam = NULL;
    between->arrives = false;
    find(state, sspy_ties_of(state->interp, exc), error, border, head, between);
    if (!between->count && head && sspy_foreign_frame(head->tb_frame, NULL))
        between->seam = NULL; /* that seam was shown before, or nothing was passed since */
    sspy_leave(section);
    Py_XDECREF(traceback);
}

/* The oldest node of ERROR that was captured in the thread of NEWEST, with a reference; NULL: NEWEST
   itself is, or nothing is known. */
static ILanguageExceptionErrorInfo2 *arrival(IScriptErrorInfo *error, void *newest)
{
    ILanguageExceptionErrorInfo2 *info = sspy_query(error, &IID_ILanguageExceptionErrorInfo2);
    ILanguageExceptionErrorInfo2 *node = NULL, *older, *found = NULL;

    if (info)
        (void)info->lpVtbl->GetPropagationContextHead(info, &node);
    sspy_unknown_release(info);
    while (node) {
        older = NULL;
        (void)node->lpVtbl->GetPreviousLanguageExceptionErrorInfo(node, &older);
        if ((void *)node == newest || is_other_thread(node, newest)) {
            sspy_unknown_release(node);
        } else {
            sspy_unknown_release(found);
            found = node;
        }
        node = older;
    }
    return found;
}

/* Likewise for ERROR of another thread: what it passed in the border's thread. */
static void between_arrival(sspy_state *state, IScriptErrorInfo *error, IScriptErrorInfo *border,
                            passage *between)
{
    stacksplice_section section = sspy_enter(state->interp);
    ILanguageExceptionErrorInfo2 *newest = NULL, *first = NULL;
    sspy_stack_copy copy;

    *between = (passage){.frames = between->copy.near};
    if (find_node(border, 0, &newest))
        first = arrival(error, newest);
    if (first) {
        sspy_elements here = captured(newest, &copy);
        sspy_elements taken = captured(first, &between->copy);

        between->frames = taken.frames;
        between->count = count_inside(state, taken, here, between);
        free(copy.far);
    }
    sspy_unknown_release(first);
    sspy_unknown_release(newest);
    sspy_leave(section);
}

static void between_end(passage *between)
{
    free(between->copy.far);
}

/* ---- Entries -----------------------------------------------------------------------------------*/

enum {
    SHOWN_MAX = 100,  /* elements at once; half of them at each end */
    SETS = 128,       /* of elements in each interpreter's table */
    WAYS = 4,         /* those of a stack do not evict each other */
    FILE_BYTES = 4096 /* of a file's name with what is put around it */
};

typedef struct kept {
    uintptr_t element; /* 0: none */
    PyObject *frames;  /* a tuple of frame objects, innermost first */
} kept;

/* The table of results. */
typedef struct kept_frames {
    uint64_t unloads;      /* of code: after one, native elements may have another meaning */
    kept kept[SETS][WAYS]; /* each set the last used first */
} kept_frames;

/* ---- One frame --------------------------------------------------------------------------------*/

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

/* Write the file of FRAME to NAME; returns whether it is one to open.  Tools open what a code
   object calls its file, in any folder of sys.path, but not a name in <>.  So we put in <> what is
   no file, what may be another file, and what a script may have named so that one of the kernel's
   is read. */
static bool put_file(const stacksplice_frame *frame, char *name)
{
    const char *file = frame->file;
    /* A compiler's relative path starts where it ran, a script's starts here. */
    bool is_path = file && !frame->chunk &&
                   (*file == '/' || frame->kind == STACKSPLICE_FRAME_SCRIPT) &&
                   stacksplice_is_source_file(file);

    if (frame->kind == STACKSPLICE_FRAME_GAP) {
        (void)snprintf(name, FILE_BYTES, "<gap: %s>", frame->reason ? frame->reason : "unknown");
        return false;
    }
    if (is_path) {
        (void)snprintf(name, FILE_BYTES, "%s", file);
        return true;
    }
    if (file && ((*file == '<' && file[strlen(file) - 1] == '>') || (*file == '[' && frame->chunk)))
        (void)snprintf(name, FILE_BYTES, "%s", file); /* the language's text for what is no file */
    else if (file)
        (void)snprintf(name, FILE_BYTES, "<%s>", file);
    else if (frame->module && frame->function)
        (void)snprintf(name, FILE_BYTES, "<%s>", base_name(frame->module));
    else if (frame->module)
        (void)snprintf(name, FILE_BYTES, "<%s+0x%llx>", base_name(frame->module),
                       (unsigned long long)frame->module_offset);
    else
        (void)snprintf(name, FILE_BYTES, "<%s 0x%llx>", frame->language,
                       (unsigned long long)frame->address);
    return false;
}

static PyObject *function_text(const stacksplice_frame *frame)
{
    const char *function = frame->function ? frame->function : "???", *dot;

    if (frame->kind == STACKSPLICE_FRAME_GAP)
        function = "<frames missing>";
    /* Python's own entries have the last part of a qualified name. */
    dot = strcmp(frame->language, "python") ? NULL : strrchr(function, '.');
    if (dot)
        function = dot + 1;
    return PyUnicode_DecodeUTF8(function, (Py_ssize_t)strlen(function), "replace");
}

/* Append a frame object for FRAME to a list; -1 with an exception. */
static int append_frame(PyObject *list, const stacksplice_frame *frame)
{
    PyObject *object = NULL;
    PyObject *function = function_text(frame);
    const char *text = function ? PyUnicode_AsUTF8(function) : NULL;
    PyObject *code = NULL, *globals = NULL;
    char file[FILE_BYTES];
    bool opens = put_file(frame, file);
    int failed = -1;

    if (text)
        code = (PyObject *)PyCode_NewEmpty(file, text, (int)frame->line);
    if (code)
        globals = sspy_foreign_globals(frame, opens ? ((PyCodeObject *)code)->co_filename : NULL);
    if (globals)
        object = (PyObject *)PyFrame_New(PyThreadState_Get(), (PyCodeObject *)code, globals, NULL);
    if (object)
        failed = PyList_Append(list, object);
    Py_XDECREF(object);
    Py_XDECREF(function);
    Py_XDECREF(code);
    Py_XDECREF(globals);
    return failed;
}

/* ---- Results of elements ----------------------------------------------------------------------*/

/* A Python gap that no traceback of Python mentions.  A traceback never has the callers of its
   outermost frame, nor the C calls between two frames. */
static bool is_customary(const stacksplice_frame *gap)
{
    static const char *const reasons[] = {STACKSPLICE_GAP_RETURNED, SSPY_CAUGHT_BEFORE,
                                          SSPY_NEVER_RAISED};

    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (gap->reason && !strcmp(gap->reason, reasons[i]))
            return !strcmp(gap->language, "python");
    return false;
}

/* Lua's own frame for a C function: it has a native frame too, or is built in. */
static bool is_shown(const stacksplice_frame *frame)
{
    if (frame->kind == STACKSPLICE_FRAME_GAP)
        return !is_customary(frame);
    if (frame->kind == STACKSPLICE_FRAME_SCRIPT)
        return !frame->file || strcmp(frame->file, "[C]") != 0;
    return stacksplice_frame_role(frame) == STACKSPLICE_ROLE_OWN;
}

static int add_frame(const stacksplice_frame *frame, void *data)
{
    PyObject *list = data;

    return is_shown(frame) && append_frame(list, frame);
}

/* Whether the binary of ADDRESS alone is enough to hide it.  Then we read no debug information for
   it, which takes a millisecond for the interpreter's. */
static bool is_hidden_binary(uintptr_t address)
{
    stacksplice_frame frame = {.size = sizeof frame,
                               .kind = STACKSPLICE_FRAME_NATIVE,
                               .language = "native",
                               .function = "?"};
    Dl_info info;

    if (!dladdr((void *)(address - 1), &info))
        return false;
    frame.module = info.dli_fname;
    return stacksplice_frame_role(&frame) != STACKSPLICE_ROLE_OWN;
}

static PyObject *new_frames(uintptr_t element)
{
    PyObject *list, *frames = NULL;

    if (!stacksplice_is_token(element) && is_hidden_binary(element))
        return PyTuple_New(0);
    list = PyList_New(0);
    if (list && SUCCEEDED(stacksplice_resolve(element, add_frame, list)) && !PyErr_Occurred())
        frames = PyList_AsTuple(list);
    Py_XDECREF(list);
    return frames;
}

static void clear(kept_frames *all)
{
    for (size_t i = 0; all && i < SETS * WAYS; i++) {
        kept *one = &all->kept[i / WAYS][i % WAYS];

        one->element = 0;
        Py_CLEAR(one->frames);
    }
}

void sspy_kept_frames_clear(sspy_state *state)
{
    clear(state->records[SSPY_OF_ENTRIES]);
}

int sspy_kept_frames_traverse(sspy_state *state, visitproc visit, void *arg)
{
    kept_frames *all = state->records[SSPY_OF_ENTRIES];

    for (size_t i = 0; all && i < SETS * WAYS; i++)
        Py_VISIT(all->kept[i / WAYS][i % WAYS].frames);
    return 0;
}

/* The table of results, without entries that may be out of date; NULL without memory. */
static kept_frames *kept_frames_now(sspy_state *state)
{
    kept_frames *all = sspy_record(state, SSPY_OF_ENTRIES, sizeof *all);
    uint64_t unloads = stacksplice_unloads();

    if (all && unloads != all->unloads) {
        clear(all);
        all->unloads = unloads;
    }
    return all;
}

/* A new reference, or NULL with an exception. */
static PyObject *frames_of(kept_frames *all, uintptr_t element)
{
    uint64_t hash = element * UINT64_C(0x9E3779B97F4A7C15);
    kept *ways = all->kept[hash >> 32 & (SETS - 1)], found, evicted = {0, NULL};
    unsigned way = 0;

    while (way < WAYS - 1 && ways[way].element != element)
        way++;
    found = ways[way];
    if (found.element != element) {
        found = (kept){element, new_frames(element)};
        if (!found.frames)
            return NULL;
        way = WAYS - 1;
        evicted = ways[way];
    }
    memmove(ways + 1, ways, way * sizeof *ways);
    ways[0] = found;
    Py_INCREF(found.frames);
    Py_XDECREF(evicted.frames);
    return found.frames;
}

/* ---- Entries ----------------------------------------------------------------------------------*/

/* *TRACEBACK, which is NULL or owned, with an entry for FRAME before it; -1 with an exception. */
static int put_entry(PyObject **traceback, PyFrameObject *frame)
{
    /* Calling the type does just this, at twenty times the cost. */
    PyTracebackObject *entry = PyObject_GC_New(PyTracebackObject, &PyTraceBack_Type);
    PyCodeObject *code;

    if (!entry)
        return -1;
    code = PyFrame_GetCode(frame);
    entry->tb_next = (PyTracebackObject *)*traceback; /* moved */
    entry->tb_frame = (PyFrameObject *)Py_NewRef((PyObject *)frame);
    entry->tb_lasti = 0;
    entry->tb_lineno = code->co_firstlineno;
    Py_DECREF(code);
    PyObject_GC_Track(entry);
    *traceback = (PyObject *)entry;
    return 0;
}

/* Put the entries of ELEMENT before *TRACEBACK, which is NULL or owned; -1 with an exception. */
static int put_element(kept_frames *all, PyObject **traceback, uintptr_t element)
{
    PyObject *frames = frames_of(all, element);
    int failed = !frames;

    for (Py_ssize_t i = 0; !failed && i < PyTuple_GET_SIZE(frames); i++)
        failed = put_entry(traceback, (PyFrameObject *)PyTuple_GET_ITEM(frames, i));
    Py_XDECREF(frames);
    return failed;
}

/* ---- At a border -----------------------------------------------------------------------------*/

/* The frames between the border and an exception's __traceback__ go before it, for the exception that
   arrives and for those that arrive with it. */

/* Both ends of BETWEEN, or its inner end if its outermost frames were left out already. */
static uint32_t shown_of(const passage *between, uintptr_t *shown)
{
    uint32_t count = between->count - 1, inner = count < SHOWN_MAX ? count : SHOWN_MAX, left_out;

    if (!between->count || !between->outermost)
        return stacksplice_copy_ends(between->frames, between->count, SHOWN_MAX + 1, shown);
    memcpy(shown, between->frames, inner * sizeof *shown);
    left_out = stacksplice_frames_left_out(&between->outermost, 1) + (count - inner);
    shown[inner] = stacksplice_left_out(left_out);
    return inner + 1;
}

/* Put the elements of BETWEEN before *TRACEBACK; -1 with an exception. */
static int put_between(kept_frames *all, PyObject **traceback, const passage *between)
{
    uintptr_t shown[SHOWN_MAX + 1];
    uint32_t count = shown_of(between, shown);

    for (uint32_t i = 0; i < count; i++)
        if (put_element(all, traceback, shown[i]))
            return -1;
    return between->seam ? put_element(all, traceback, sspy_gap(between->seam)) : 0;
}

static void show(sspy_state *state, PyObject *exc, const passage *between)
{
    kept_frames *all = kept_frames_now(state);
    PyObject *traceback = sspy_traceback_of(exc);

    if (!all || put_between(all, &traceback, between) ||
        (traceback && PyException_SetTraceback(exc, traceback)))
        PyErr_Clear(); /* without memory the exception stays unchanged */
    Py_XDECREF(traceback);
}

static void show_one(sspy_state *state, PyObject *exc, IScriptErrorInfo *error,
                     IScriptErrorInfo *border)
{
    passage between;
    bool elsewhere;

    between_find(state, exc, error, border, &between);
    elsewhere = between.seam && (between.arrives || !strcmp(between.seam, SSPY_OTHER_THREAD));
    if (between.count || between.seam)
        show(state, exc, &between);
    between_end(&between);
    if (!elsewhere)
        return;
    between_arrival(state, error, border, &between);
    if (between.count)
        show(state, exc, &between);
    between_end(&between);
}

/* EXC's ties if EXC was made for an error born elsewhere and was never raised here; else NULL. */
static sspy_ties *newly_arrived(sspy_state *state, PyObject *exc)
{
    sspy_ties *ties = exc ? sspy_ties_of(state->interp, exc) : NULL;
    PyObject *traceback = exc ? sspy_traceback_of(exc) : NULL;
    bool is_new = ties && ties->core.foreign && !ties->received && !traceback;

    Py_XDECREF(traceback);
    return is_new ? ties : NULL;
}

static void show_related(sspy_state *state, PyObject *exc, IScriptErrorInfo *border, int depth);

/* EXC, which is borrowed and may be NULL, arrives with another exception at BORDER. */
static void show_arrived(sspy_state *state, PyObject *exc, IScriptErrorInfo *border, int depth)
{
    sspy_ties *ties = newly_arrived(state, exc);

    if (!ties || depth > SSPY_MAX_STEPS)
        return;
    show_one(state, exc, ties->core.error, border);
    show_related(state, exc, border, depth + 1);
}

static void show_related(sspy_state *state, PyObject *exc, IScriptErrorInfo *border, int depth)
{
    PyObject *cause = PyException_GetCause(exc), *members = sspy_group_members(exc);

    if (!cause)
        cause = PyException_GetContext(exc);
    show_arrived(state, cause, border, depth);
    Py_XDECREF(cause);
    Py_XINCREF(members);
    for (Py_ssize_t i = 0; members && i < PyTuple_GET_SIZE(members); i++)
        show_arrived(state, PyTuple_GET_ITEM(members, i), border, depth);
    Py_XDECREF(members);
}

void sspy_show_foreign(sspy_state *state, PyObject *exc, IScriptErrorInfo *error)
{
    bool is_new;

    if (!state->shows_foreign)
        return;
    is_new = newly_arrived(state, exc) != NULL;
    show_one(state, exc, error, error);
    if (is_new)
        show_related(state, exc, error, 0);
}

/* ---- Without a border -------------------------------------------------------------------------*/

/*
 * For bridges that know nothing of us: no border compares stacks here.  The frames that are inside of
 * the innermost live Python frame go into the traceback.
 */

/* Put the FRAMES inside of the innermost Python frame before *TRACEBACK; -1 with an exception. */
static int put_inner(sspy_state *state, PyObject **traceback, const uintptr_t *frames,
                     uint32_t count)
{
    kept_frames *all = kept_frames_now(state);
    uintptr_t shown[SHOWN_MAX + 1], returned = stacksplice_gap("lua", STACKSPLICE_GAP_RETURNED, 0);
    uint32_t inner = 0;

    if (!all)
        return -1;
    while (inner < count && !sspy_is_frame_of(state, frames[inner]))
        inner++;
    inner = stacksplice_copy_ends(frames, inner, SHOWN_MAX + 1, shown);
    for (uint32_t i = 0; i < inner; i++)
        /* Outward of what a coroutine left, only native frames are missing. */
        if (!(i && shown[i] == returned) && put_element(all, traceback, shown[i]))
            return -1;
    return 0;
}

/* A new entry with the contents of ENTRY; NULL with an exception. */
static PyObject *copy_entry(const PyTracebackObject *entry)
{
    PyTracebackObject *copy = PyObject_GC_New(PyTracebackObject, &PyTraceBack_Type);

    if (!copy)
        return NULL;
    copy->tb_next = (PyTracebackObject *)Py_XNewRef((PyObject *)entry->tb_next);
    copy->tb_frame = (PyFrameObject *)Py_XNewRef((PyObject *)entry->tb_frame);
    copy->tb_lasti = entry->tb_lasti;
    copy->tb_lineno = entry->tb_lineno;
    PyObject_GC_Track(copy);
    return (PyObject *)copy;
}

/* Make ENTRY equal to FROM. */
static void become(PyTracebackObject *entry, const PyTracebackObject *from)
{
    PyTracebackObject *next = entry->tb_next;
    PyFrameObject *frame = entry->tb_frame;

    entry->tb_next = (PyTracebackObject *)Py_XNewRef((PyObject *)from->tb_next);
    entry->tb_frame = (PyFrameObject *)Py_XNewRef((PyObject *)from->tb_frame);
    entry->tb_lasti = from->tb_lasti;
    entry->tb_lineno = from->tb_lineno;
    Py_XDECREF(next);
    Py_XDECREF(frame);
}

void sspy_show_live(sspy_state *state, PyTracebackObject *head, const void *above,
                    const uintptr_t *frames, uint32_t count)
{
    PyObject *traceback;
    sspy_room room;

    if (!state->shows_foreign || sspy_room_begin(&room, SSPY_NEAR_FRAMES)) {
        PyErr_Clear();
        return;
    }
    if (!frames) {
        count = sspy_capture(above, room.limit, room.frames);
        frames = room.frames;
    }
    traceback = copy_entry(head);
    if (traceback && !put_inner(state, &traceback, frames, count))
        become(head, (PyTracebackObject *)traceback);
    PyErr_Clear(); /* without memory the traceback stays as it is */
    Py_XDECREF(traceback);
    sspy_room_end(&room);
}

/* Make TRACEBACK (taken over) the inner end of EXC's. */
static void append(PyObject *exc, PyObject *traceback)
{
    PyTracebackObject *last = (PyTracebackObject *)sspy_traceback_of(exc);

    if (!last) {
        (void)PyException_SetTraceback(exc, traceback);
        Py_DECREF(traceback);
        return;
    }
    Py_DECREF(last); /* EXC holds it */
    while (last->tb_next)
        last = last->tb_next;
    last->tb_next = (PyTracebackObject *)traceback;
}

void sspy_show_error(sspy_state *state, PyObject *exc, IScriptErrorInfo *error)
{
    PyObject *traceback = NULL;
    sspy_stack_copy copy = {.far = NULL};
    sspy_elements stack = {NULL, 0};

    if (state->shows_foreign)
        stack = sspy_shown(error, &copy);
    if (stack.count && !put_inner(state, &traceback, stack.frames, stack.count) && traceback)
        append(exc, Py_NewRef(traceback));
    PyErr_Clear(); /* without memory the traceback stays as it is */
    Py_XDECREF(traceback);
    free(copy.far);
}
