/*
 * The frames between the border that receives an exception and those that its __traceback__ shows.
 *
 * Two stacks are compared: the one captured when the exception left (at its origin, or by the first
 * language that received it since), and the current one.  Their outer ends are equal; what only the
 * first has is what has ended since.  Of that, the Python frames and everything inside of them are
 * in __traceback__. Where the two stacks do not match, a seam says so.
 */
#include "traceback/match.h"

#include <stdlib.h>

/* ---- Nodes ------------------------------------------------------------------------------------*/

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
        if (sspy_same_line(state, sspy_element_of(entry, STACKSPLICE_TRUST_TRACEBACK), element))
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
    *seam = sspy_unknown_seam; /* raised again elsewhere: this stack does not match */
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
                                   void *newest, sspy_between *between,
                                   ILanguageExceptionErrorInfo2 **node, bool *since)
{
    uint32_t received = ties ? ties->received : 0;

    *since = received && received + 1 < nodes;
    if (*since || (received && is_other_thread(error, newest)))
        (void)find_node(error, nodes - received - *since, node);
    if (*node)
        return sspy_captured(*node, &between->copy);
    return sspy_captured(error, &between->copy);
}

/* Choose the frames of TAKEN, the stack of EXIT, that neither __traceback__ shows nor HERE has, the
   stack of NEWEST. */
static void choose(sspy_state *state, const PyTracebackObject *head, sspy_elements taken,
                   void *exit, sspy_elements here, void *newest, bool whole, sspy_between *between)
{
    uint32_t begin = 0, end = sspy_count_inside(state, taken, here, between);

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
                 IScriptErrorInfo *border, const PyTracebackObject *head, sspy_between *between)
{
    ILanguageExceptionErrorInfo2 *newest = NULL, *node = NULL;
    uint32_t nodes = find_node(border, 0, &newest);
    bool is_new = ties && ties->core.foreign && !ties->received && !head;
    sspy_stack_copy copy;

    copy.far = NULL;
    /* Otherwise the error has no more room for nodes. */
    if (newest && (!ties || nodes > ties->received) && !is_caught_here(head)) {
        sspy_elements here = sspy_captured(newest, &copy);
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

void sspy_between_find(sspy_state *state, PyObject *exc, IScriptErrorInfo *error,
                       IScriptErrorInfo *border, sspy_between *between)
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

void sspy_between_arrival(sspy_state *state, IScriptErrorInfo *error, IScriptErrorInfo *border,
                          sspy_between *between)
{
    stacksplice_section section = sspy_enter(state->interp);
    ILanguageExceptionErrorInfo2 *newest = NULL, *first = NULL;
    sspy_stack_copy copy;

    *between = (sspy_between){.frames = between->copy.near};
    if (find_node(border, 0, &newest))
        first = arrival(error, newest);
    if (first) {
        sspy_elements here = sspy_captured(newest, &copy);
        sspy_elements taken = sspy_captured(first, &between->copy);

        between->frames = taken.frames;
        between->count = sspy_count_inside(state, taken, here, between);
        free(copy.far);
    }
    sspy_unknown_release(first);
    sspy_unknown_release(newest);
    sspy_leave(section);
}

void sspy_between_end(sspy_between *between)
{
    free(between->copy.far);
}
