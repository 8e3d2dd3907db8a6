/*
 * Which frames lie between the border that receives an exception and what its __traceback__ shows.
 *
 * The stack that was taken when the exception left (of its origin, or of the first language that
 * received it since) and the one that is taken here end alike: what only the first one has is what
 * has ended since.  Of that, the Python frames and everything inside of them are in __traceback__.
 * Where the two stacks do not go together, a seam says so.
 */
#include "traceback/between.h"

#include <stdlib.h>
#include <string.h>

static const char unknown_seam[] = "unknown frames in between";
static const char thread_seam[] = "error came from another thread";

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

/* A stack read from its outer end. */
typedef struct outer_end {
    stack rest;      /* what was not passed yet */
    uint32_t hidden; /* how many frames its outermost element stands for, if it is a gap of such */
} outer_end;

static uint32_t hidden_at(stack rest)
{
    return rest.count ? stacksplice_frames_left_out(rest.frames + rest.count - 1, 1) : 0;
}

static outer_end outer_end_of(stack s)
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

/* Pass what A and B have alike; whether there was any.  A frame that was left out is taken for the
   one that the other stack has there: which one that is, the numbers in the gaps say. */
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

/* HERE, what only the border's stack has, holds no script frame, or the outermost of it is one and
   the same function's as ELEMENT: the frame went on since, to the line it is at here. */
static bool is_border(stack here, uintptr_t element, bool *went_on)
{
    *went_on = false;
    if (stacksplice_frames_left_out(here.frames, here.count))
        return false;
    for (uint32_t i = 0; i < here.count; i++) {
        if (!look_at(here.frames[i], -1, NULL).is_script)
            continue;
        if (i + 1 < here.count || !compared(here.frames[i], element).is_same)
            return false;
        *went_on = true;
    }
    return true;
}

/* How many elements of TAKEN lie inside of the border whose stack is HERE. */
static uint32_t end_of_passage(stack taken, stack here, sspy_passage *passage)
{
    outer_end inside = outer_end_of(taken), border = outer_end_of(here);
    bool same = pass_same(&inside, &border), went_on;

    if (inside.hidden)
        passage->outermost = stacksplice_left_out(inside.hidden);
    if (is_border(border.rest, outermost(&inside), &went_on) && (same || went_on))
        return inside.rest.count - went_on;
    passage->seam = unknown_seam;
    return inside.rest.count;
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

/* Empty without memory. */
static stack stack_of(void *record, sspy_stack_copy *copy)
{
    uintptr_t *frames = copy->near;
    uint32_t count = 0;

    (void)stacksplice_error_stack(record, 0, NULL, &count);
    if (count > SSPY_NEAR_FRAMES)
        frames = copy->far = malloc(count * sizeof *frames);
    if (!frames || !count || FAILED(stacksplice_error_stack(record, count, frames, &count)))
        count = 0;
    return (stack){frames, count};
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
        return stack_of(*node, &passage->copy);
    if (anchor && anchor->exception && !anchor->foreign)
        return (stack){anchor->exception->frames, anchor->exception->frame_count};
    return stack_of(error, &passage->copy);
}

/* What of TAKEN, the stack of EXIT, __traceback__ does not show and HERE, that of NEWEST, has not.
 */
static void choose(sspy_state *state, const PyTracebackObject *head, stack taken, void *exit,
                   stack here, void *newest, bool whole, sspy_passage *passage)
{
    uint32_t begin = 0, end = end_of_passage(taken, here, passage);

    if (is_other_thread(exit, newest)) {
        passage->seam = thread_seam;
        passage->outermost = 0;
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
    sspy_stack_copy copy;

    copy.far = NULL;
    /* Else the error has no more room for nodes. */
    if (newest && (!anchor || nodes > anchor->received) && !is_caught_here(head)) {
        stack here = stack_of(newest, &copy);
        stack taken = stack_at_exit(anchor, error, nodes, passage, &node);

        choose(state, head, taken, node ? (void *)node : error, here, newest, is_new || node,
               passage);
    }
    free(copy.far);
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

    passage->frames = passage->copy.near;
    passage->copy.far = NULL;
    passage->outermost = 0;
    passage->count = 0;
    passage->seam = NULL;
    find(state, sspy_anchor_of(state->interp, exc), error, border, head, passage);
    if (!passage->count && head && sspy_foreign_frame(head->tb_frame, NULL))
        passage->seam = NULL; /* it has said so, or nothing was passed since */
    sspy_leave(section);
    Py_XDECREF(traceback);
}

void sspy_passage_end(sspy_passage *passage)
{
    free(passage->copy.far);
}
