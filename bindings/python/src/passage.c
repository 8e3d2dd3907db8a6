/*
 * Which frames lie between the border that receives an exception and what its __traceback__ shows.
 *
 * The stack that was taken when the exception left (of its origin, or of the first language that
 * received it since) and the one that is taken here end alike: what only the first one has is what
 * has ended since.  Of that, the Python frames and everything inside of them are in __traceback__.
 * Where the two stacks do not go together, a seam says so.
 */
#include "passage.h"

#include <string.h>

enum {
    CUT_MIN = 64,    /* a shorter stack was not cut */
    OVERLAP_MIN = 8, /* of two stacks of which one was cut */
    BORDER_MAX = 8   /* native frames of the border that receives */
};

static const char unknown_seam[] = "what lies between is not known";
static const char thread_seam[] = "another thread";
static const char cut_seam[] = "the stack was cut";

/* ---- Nodes ------------------------------------------------------------------------------------*/

/* The number of nodes of ERROR; *FOUND becomes the one with that number, the newest being 0, with a
   reference, if there is one. */
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

/* ---- Script frames ----------------------------------------------------------------------------*/

typedef struct place {
    const stacksplice_frame *other; /* to compare with, or NULL */
    int64_t interpreter;
    bool is_script, is_here, is_same, is_same_line;
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

static int look(const stacksplice_frame *frame, void *data)
{
    place *p = data;

    p->is_script = frame->kind == STACKSPLICE_FRAME_SCRIPT;
    p->is_here = p->is_script && is_of(frame, p->interpreter);
    if (p->other) {
        p->is_same = p->is_script && same_text(frame->language, p->other->language) &&
                     same_text(frame->function, p->other->function) &&
                     same_text(frame->file, p->other->file) &&
                     same_text(frame->interpreter, p->other->interpreter);
        p->is_same_line = p->is_same && frame->line == p->other->line;
    }
    return 0;
}

static place look_at(uintptr_t element, int64_t interpreter, const stacksplice_frame *other)
{
    place p = {.other = other, .interpreter = interpreter};

    if (sspy_is_token(element))
        (void)stacksplice_resolve(element, look, &p);
    return p;
}

/* Compares another element with FRAME, whose strings live as long as the call-back. */
typedef struct comparison {
    uintptr_t element;
    place result;
} comparison;

static int compare(const stacksplice_frame *frame, void *data)
{
    comparison *c = data;

    c->result = look_at(c->element, -1, frame);
    return 0;
}

static place compared(uintptr_t a, uintptr_t b)
{
    comparison c = {.element = a};

    if (sspy_is_token(a) && sspy_is_token(b))
        (void)stacksplice_resolve(b, compare, &c);
    return c.result;
}

/* ---- The two stacks ---------------------------------------------------------------------------*/

typedef struct stack {
    const uintptr_t *frames;
    uint32_t count;
} stack;

/* The outermost COUNT elements of HERE hold no script frame, or the outermost of them is one and
   the same function's as ELEMENT: the frame went on since, to the line it is at here. */
static bool is_border(stack here, uint32_t count, uintptr_t element, bool *went_on)
{
    *went_on = false;
    for (uint32_t i = 0; i < count; i++) {
        if (!look_at(here.frames[i], -1, NULL).is_script)
            continue;
        if (i + 1 < count || !compared(here.frames[i], element).is_same)
            return false;
        *went_on = true;
    }
    return true;
}

/* Where HERE[from...] goes on in TAKEN from START on, up to the end of either; or TAKEN.count. */
static uint32_t find_overlap(stack taken, uint32_t start, stack here, uint32_t from)
{
    for (uint32_t at = start; at < taken.count; at++) {
        uint32_t length = taken.count - at;

        if (length > here.count - from)
            length = here.count - from;
        if (length < OVERLAP_MIN)
            break;
        if (!memcmp(taken.frames + at, here.frames + from, length * sizeof *taken.frames))
            return at;
    }
    return taken.count;
}

/* The same where at least one of them was cut at its outer end. */
static uint32_t end_of_cut(stack taken, stack here, const char **seam)
{
    if (taken.count < CUT_MIN && here.count < CUT_MIN)
        return taken.count;
    for (uint32_t from = 0; from < here.count && from < BORDER_MAX; from++) {
        uint32_t end = find_overlap(taken, 0, here, from);

        if (end < taken.count) {
            /* Recursion overlaps at several places: the innermost is sure to have ended. */
            bool again = find_overlap(taken, end + 1, here, from) < taken.count;

            *seam = again ? cut_seam : NULL;
            return end;
        }
        if (look_at(here.frames[from], -1, NULL).is_script)
            break;
    }
    return taken.count;
}

/* How many elements of TAKEN lie inside of the border whose stack is HERE. */
static uint32_t end_of_passage(stack taken, stack here, const char **seam)
{
    uint32_t same = 0, end;
    bool went_on;

    *seam = NULL;
    while (same < taken.count && same < here.count &&
           taken.frames[taken.count - 1 - same] == here.frames[here.count - 1 - same])
        same++;
    if (is_border(here, here.count - same,
                  same < taken.count ? taken.frames[taken.count - 1 - same] : 0, &went_on) &&
        (same || went_on))
        return taken.count - same - went_on;
    *seam = unknown_seam;
    end = end_of_cut(taken, here, seam);
    return end < taken.count ? end : taken.count - same;
}

/* ---- What the traceback shows already ---------------------------------------------------------*/

/* Whether one of the entries of HEAD's frame, which stand together, is the place of ELEMENT. */
static bool is_at(const PyTracebackObject *head, uintptr_t element)
{
    for (const PyTracebackObject *entry = head; entry && entry->tb_frame == head->tb_frame;
         entry = entry->tb_next) {
        PyCodeObject *code = PyFrame_GetCode(entry->tb_frame);
        uintptr_t token =
            sspy_token_known(code, entry->tb_lasti, entry->tb_lineno, STACKSPLICE_TRUST_TRACEBACK);

        Py_DECREF(code);
        if (compared(token, element).is_same_line)
            return true;
    }
    return false;
}

/* Behind the outermost of the FRAMES that is ELEMENT; END when there is none. */
static uint32_t behind_element(stack frames, uintptr_t element)
{
    for (uint32_t i = frames.count; i > 0; i--)
        if (frames.frames[i - 1] == element)
            return i;
    return frames.count;
}

/* Behind the outermost Python frame of this interpreter. */
static uint32_t behind_python(stack frames, int64_t interpreter)
{
    for (uint32_t i = frames.count; i > 0; i--)
        if (look_at(frames.frames[i - 1], interpreter, NULL).is_here)
            return i;
    return 0;
}

/* How many of FRAMES, which end at the border, lie inside of HEAD or are HEAD; HEAD may be NULL. */
static uint32_t shown(sspy_state *state, const PyTracebackObject *head, stack frames,
                      const char **seam)
{
    uintptr_t element;
    uint32_t begin;

    if (head && sspy_foreign_frame(head->tb_frame, &element))
        return behind_element(frames, element);
    begin = behind_python(frames, state->interp->id);
    if (!begin || !head || is_at(head, frames.frames[begin - 1]))
        return begin;
    *seam = unknown_seam; /* it was raised anew elsewhere: this stack tells another story */
    return frames.count;
}

/* Whether the exception was caught in a frame that still runs, and is raised inside of it again. */
static bool is_caught_here(const PyTracebackObject *head)
{
    return head && !sspy_foreign_frame(head->tb_frame, NULL) &&
           sspy_frame_live(head->tb_frame, sspy_chain_has_owned());
}

/* ---- All together -----------------------------------------------------------------------------*/

static stack stack_of(void *record, uintptr_t *room)
{
    uint32_t count = 0;

    (void)stacksplice_error_stack(record, SSPY_MAX_FRAMES, room, &count);
    return (stack){room, count};
}

static bool is_other_thread(void *taken, void *here)
{
    uint64_t a = 0, b = 0;

    return SUCCEEDED(stacksplice_error_thread(taken, &a)) &&
           SUCCEEDED(stacksplice_error_thread(here, &b)) && a != b;
}

/* The stack that was taken when EXC left Python, and whose it is: a node's, with a reference, when
   another language has received it since it was raised here last; else that of the origin. */
static stack stack_at_exit(sspy_anchor *anchor, IScriptErrorInfo *error, uint32_t nodes,
                           sspy_passage *passage, ILanguageExceptionErrorInfo2 **node)
{
    uint32_t received = anchor ? anchor->received : 0;

    if (received && received + 1 < nodes)
        (void)find_node(error, nodes - 1 - received, node);
    if (*node)
        return stack_of(*node, passage->room);
    if (anchor && anchor->exception && !anchor->foreign)
        return (stack){anchor->exception->frames, anchor->exception->frame_count};
    return stack_of(error, passage->room);
}

/* What of TAKEN, the stack of EXIT, __traceback__ does not show and HERE, that of NEWEST, has not.
 */
static void choose(sspy_state *state, const PyTracebackObject *head, stack taken, void *exit,
                   stack here, void *newest, bool whole, sspy_passage *passage)
{
    uint32_t begin = 0, end = end_of_passage(taken, here, &passage->seam);

    if (is_other_thread(exit, newest)) {
        passage->seam = thread_seam;
        end = taken.count;
        begin = whole ? 0 : end;
    } else if (!whole) {
        begin = shown(state, head, (stack){taken.frames, end}, &passage->seam);
    }
    passage->frames = taken.frames + begin;
    passage->count = end - begin;
}

static void find(sspy_state *state, sspy_anchor *anchor, IScriptErrorInfo *error,
                 IScriptErrorInfo *border, const PyTracebackObject *head, sspy_passage *passage)
{
    ILanguageExceptionErrorInfo2 *newest = NULL, *node = NULL;
    uint32_t nodes = find_node(border, 0, &newest);
    bool is_new = anchor && anchor->foreign && !anchor->received && !head;
    uintptr_t room[SSPY_MAX_FRAMES];

    /* Else the error has no more room for nodes. */
    if (newest && (!anchor || nodes > anchor->received) && !is_caught_here(head)) {
        stack here = stack_of(newest, room);
        stack taken = stack_at_exit(anchor, error, nodes, passage, &node);

        choose(state, head, taken, node ? (void *)node : error, here, newest, is_new || node,
               passage);
    }
    if (anchor && border == error)
        anchor->received = nodes;
    sspy_unknown_release(node);
    sspy_unknown_release(newest);
}

void sspy_passage_find(sspy_state *state, PyObject *exc, IScriptErrorInfo *error,
                       IScriptErrorInfo *border, sspy_passage *passage)
{
    PyObject *traceback = PyException_GetTraceback(exc);
    const PyTracebackObject *head = (const PyTracebackObject *)traceback;
    sspy_section section = sspy_enter(state->interp);

    passage->frames = passage->room;
    passage->count = 0;
    passage->seam = NULL;
    find(state, sspy_anchor_of(state->interp, exc), error, border, head, passage);
    if (!passage->count && head && sspy_foreign_frame(head->tb_frame, NULL))
        passage->seam = NULL; /* it has said so, or nothing was passed since */
    sspy_leave(section);
    Py_XDECREF(traceback);
}
