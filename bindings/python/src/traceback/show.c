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

/* ---- Stacks of errors --------------------------------------------------------------------------*/

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

/* The stack with which ERROR, or a node, was made, as it was in the thread: without tasks that await. */
static sspy_elements captured(sspy_state *state, void *error, sspy_stack_copy *copy)
{
    static _Thread_local sspy_kept_gap kept;
    sspy_elements stack = copy_of(error, stacksplice_error_captured, copy);
    uintptr_t *frames = copy->far ? copy->far : copy->near, runs;
    uint32_t begin = 0, end = stack.count;

    runs = sspy_gap_kept(&kept, SSPY_RUN_BY_LOOP);
    while (end && frames[end - 1] != runs)
        end--;
    if (!end)
        return stack;
    while (begin < end && !sspy_facts_of(state, frames[begin]).awaits)
        begin++;
    memmove(frames + begin, frames + end, (stack.count - end) * sizeof *frames);
    stack.count -= end - begin;
    return stack;
}

sspy_elements sspy_shown(void *error, sspy_stack_copy *copy)
{
    return copy_of(error, stacksplice_error_stack, copy);
}

/* ---- What an exception passed ------------------------------------------------------------------*/

/*
 * The frames between the border that receives an exception and those that its __traceback__ shows.
 *
 * Two stacks are compared: the one captured when the exception left (at its origin, or by the first
 * language that received it since), and the current one.  Their outer ends are equal; what only the
 * first has is what has ended since.  Of that, the Python frames and everything inside of them are
 * in __traceback__. Where the two stacks do not match, a seam says so.
 */

static const char unknown_seam[] = "unknown frames in between";

typedef struct passage {
    const uintptr_t *frames; /* innermost first; in COPY */
    uint32_t count;
    uintptr_t outermost; /* a gap that replaces the outermost of them; 0: that one stays */
    const char *seam;    /* why frames may be missing outside of them; NULL: none are */
    bool arrives;        /* they are all that there is: nothing was shown before */
    sspy_stack_copy copy;
} passage;

/* A stack read from its outer end. */
typedef struct outer_end {
    sspy_elements rest; /* the elements not passed yet */
    uint32_t hidden;    /* frames that its outermost element replaces, if it is such a gap */
} outer_end;

static outer_end outer_end_of(sspy_elements s)
{
    return (outer_end){s, s.count ? stacksplice_frames_left_out(s.frames + s.count - 1, 1) : 0};
}

static uintptr_t outermost(const outer_end *end)
{
    return end->rest.count ? end->rest.frames[end->rest.count - 1] : 0;
}

static void pass(outer_end *end, uint32_t frames)
{
    if (end->hidden > frames)
        end->hidden -= frames;
    else
        *end = outer_end_of((sspy_elements){end->rest.frames, end->rest.count - 1});
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
        uint64_t function = sspy_facts_of(state, here.frames[i]).function;

        if (!function)
            continue;
        if (i + 1 < here.count || function != sspy_facts_of(state, element).function)
            return false;
        *went_on = true;
    }
    return true;
}

/* How many elements of TAKEN are inside of the border whose stack is HERE.  PASSED receives the
   reason if some are left out, and a seam where the two do not match. */
static uint32_t count_inside(sspy_state *state, sspy_elements taken, sspy_elements here,
                             passage *passed)
{
    uint32_t equal = count_equal(taken, here);
    outer_end inside = outer_end_of((sspy_elements){taken.frames, taken.count - equal});
    outer_end border = outer_end_of((sspy_elements){here.frames, here.count - equal});
    bool same = pass_same(&inside, &border) || equal, went_on;

    if (inside.hidden)
        passed->outermost = stacksplice_left_out(inside.hidden);
    if (is_border(state, border.rest, outermost(&inside), &went_on) && (same || went_on))
        return inside.rest.count - went_on;
    passed->seam = unknown_seam;
    return inside.rest.count;
}

/* Whether one of the adjacent entries of HEAD's frame is the place of ELEMENT. */
static bool is_at(sspy_state *state, const PyTracebackObject *head, uintptr_t element)
{
    uint64_t line = sspy_facts_of(state, element).line;

    for (const PyTracebackObject *entry = head; entry && entry->tb_frame == head->tb_frame;
         entry = entry->tb_next)
        if (sspy_facts_of(state, sspy_element_of(entry, STACKSPLICE_TRUST_TRACEBACK)).line == line)
            return true;
    return false;
}

/* How many of FRAMES, which end at the border, are inside of HEAD or are HEAD; HEAD may be NULL. */
static uint32_t shown(sspy_state *state, const PyTracebackObject *head, sspy_elements frames,
                      const char **seam)
{
    uintptr_t element;
    bool is_foreign = head && sspy_foreign_frame(head->tb_frame, &element);
    uint32_t begin = frames.count;

    while (begin && (is_foreign ? frames.frames[begin - 1] != element
                                : !sspy_is_frame_of(state, frames.frames[begin - 1])))
        begin--;
    if (is_foreign)
        return begin ? begin : frames.count;
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

static bool is_other_thread(void *taken, void *here)
{
    uint64_t a = 0, b = 0;

    return SUCCEEDED(stacksplice_error_thread(taken, &a)) &&
           SUCCEEDED(stacksplice_error_thread(here, &b)) && a != b;
}

/* Choose the frames of TAKEN, the stack of EXIT, that neither __traceback__ shows nor HERE has, the
   stack of NEWEST. */
static void choose(sspy_state *state, const PyTracebackObject *head, sspy_elements taken,
                   void *exit, sspy_elements here, void *newest, bool whole, passage *passed)
{
    uint32_t begin = 0, end = count_inside(state, taken, here, passed);

    if (is_other_thread(exit, newest)) {
        passed->seam = NULL; /* the two stacks need not match */
        if (!whole)
            (void)shown(state, head, taken, &passed->seam);
        if (!passed->seam)
            passed->seam = SSPY_OTHER_THREAD;
        passed->outermost = 0;
        end = taken.count;
        begin = whole ? 0 : end;
    } else if (!whole) {
        begin = shown(state, head, (sspy_elements){taken.frames, end}, &passed->seam);
    }
    passed->frames = taken.frames + begin;
    passed->count = end - begin;
}

/* ---- Nodes, the newest first -------------------------------------------------------------------*/

typedef ILanguageExceptionErrorInfo2 node;

static node *newest_node(IScriptErrorInfo *error)
{
    node *info = sspy_query(error, &IID_ILanguageExceptionErrorInfo2), *newest = NULL;

    if (info)
        (void)info->lpVtbl->GetPropagationContextHead(info, &newest);
    sspy_unknown_release(info);
    return newest;
}

/* The next older one; RELEASED is released. */
static node *older_node(node *released)
{
    node *older = NULL;

    (void)released->lpVtbl->GetPreviousLanguageExceptionErrorInfo(released, &older);
    sspy_unknown_release(released);
    return older;
}

static uint32_t count_nodes(IScriptErrorInfo *error)
{
    uint32_t count = 0;

    for (node *each = newest_node(error); each; each = older_node(each))
        count++;
    return count;
}

/* The stack that was captured when EXC left Python, and in *EXIT what has it: the node by which another
   language received EXC *SINCE it was last raised here, else ERROR, or if that is of another thread than
   NEWEST, the node of when Python received EXC last. */
static sspy_elements stack_at_exit(sspy_state *state, IScriptErrorInfo *error, uint32_t received,
                                   uint32_t nodes, node *newest, passage *passed, void **exit,
                                   bool *since)
{
    node *found = NULL;
    uint32_t older = nodes - received;

    *since = received && received + 1 < nodes;
    if (*since || (received && is_other_thread(error, newest)))
        for (found = newest_node(error); found && older > *since; older--)
            found = older_node(found);
    *exit = found ? (void *)found : error;
    return captured(state, *exit, &passed->copy);
}

static void find(sspy_state *state, sspy_ties *ties, IScriptErrorInfo *error,
                 IScriptErrorInfo *border, const PyTracebackObject *head, passage *passed)
{
    uint32_t nodes = count_nodes(border), received = ties ? ties->received : 0;
    node *newest = newest_node(border);
    bool is_new = sspy_ties_are_foreign(ties) && !received && !head, since;
    sspy_stack_copy copy;
    void *exit = NULL;

    copy.far = NULL;
    /* Otherwise the error has no more room for nodes. */
    if (newest && (!ties || nodes > received) && !is_caught_here(head)) {
        sspy_elements here = captured(state, newest, &copy);
        sspy_elements taken =
            stack_at_exit(state, error, received, nodes, newest, passed, &exit, &since);

        passed->arrives = is_new;
        choose(state, head, taken, exit, here, newest, is_new || since, passed);
    }
    free(copy.far);
    if (ties && border == error)
        __atomic_store_n(&ties->received, nodes, __ATOMIC_RELAXED);
    if (exit != error)
        sspy_unknown_release(exit);
    sspy_unknown_release(newest);
}

/* Fill PASSED for EXC, the exception that stands for ERROR at the border.  The newest node of
   BORDER was captured there; BORDER is ERROR, or the error of which it is a cause or a member.
   Its traceback is HEAD.  Allocates nothing in the interpreter and leaves no exception set. */
static void find_passed(sspy_state *state, PyObject *exc, const PyTracebackObject *head,
                        IScriptErrorInfo *error, IScriptErrorInfo *border, passage *passed)
{
    passed->frames = passed->copy.near;
    passed->copy.far = NULL;
    passed->outermost = 0;
    passed->count = 0;
    passed->seam = NULL;
    passed->arrives = false;
    find(state, sspy_ties_of(state->interp, exc), error, border, head, passed);
    if (!passed->count && head && sspy_foreign_frame(head->tb_frame, NULL))
        passed->seam = NULL; /* that seam was shown before, or nothing was passed since */
}

/* Likewise for ERROR of another thread: what it passed in the border's thread, since the oldest node that
   was captured there. */
static void find_passed_here(sspy_state *state, IScriptErrorInfo *error, IScriptErrorInfo *border,
                             passage *passed)
{
    node *newest = newest_node(border), *first = NULL;
    sspy_stack_copy copy;

    *passed = (passage){.frames = passed->copy.near};
    for (node *each = newest ? newest_node(error) : NULL; each; each = older_node(each)) {
        if (each == newest || is_other_thread(each, newest))
            continue;
        sspy_unknown_release(first);
        each->lpVtbl->AddRef(each);
        first = each;
    }
    if (first) {
        sspy_elements here = captured(state, newest, &copy);
        sspy_elements taken = captured(state, first, &passed->copy);

        passed->frames = taken.frames;
        passed->count = count_inside(state, taken, here, passed);
        free(copy.far);
    }
    sspy_unknown_release(first);
    sspy_unknown_release(newest);
}

/* ---- Entries -----------------------------------------------------------------------------------*/

enum {
    SHOWN_MAX = 100,  /* elements at once; half of them at each end */
    KEPT_MAX = 512,   /* elements whose frame objects are kept */
    FILE_BYTES = 4096 /* of a file's name with what is put around it */
};

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

    if (!frame->function && frame->kind == STACKSPLICE_FRAME_SCRIPT)
        function = "<chunk>"; /* that could not be compiled */
    if (frame->kind == STACKSPLICE_FRAME_GAP)
        function = "<frames missing>";
    /* Python's own entries have the last part of a qualified name. */
    dot = strcmp(frame->language, "python") ? NULL : strrchr(function, '.');
    if (dot)
        function = dot + 1;
    return PyUnicode_DecodeUTF8(function, (Py_ssize_t)strlen(function), "replace");
}

/* What tools that ask linecache get to know of FRAME, of a chunk that is no file and that tracebacks call
   NAME.  Tracers, profilers and sys.monitoring do not see the code that this runs. */
static void offer_line(const stacksplice_frame *frame, PyObject *name)
{
    static const char chunks[] = "stacksplice._errors.chunks";
    PyObject *module = NULL, *key = NULL, *done = NULL;
    PyThreadState *thread = PyThreadState_Get();

    if (frame->kind != STACKSPLICE_FRAME_SCRIPT || !frame->file || !frame->line ||
        !strcmp(frame->language, "python"))
        return;
    PyThreadState_EnterTracing(thread);
    if (frame->source)
        module = PyImport_ImportModule(chunks);
    else if ((key = PyUnicode_FromString(chunks)) != NULL)
        module = PyImport_GetModule(key); /* else no line was ever offered */
    if (module)
        done = PyObject_CallMethod(module, "offer", "OsIz", name, frame->file,
                                   (unsigned)frame->line, frame->source);
    PyThreadState_LeaveTracing(thread);
    Py_XDECREF(done);
    Py_XDECREF(module);
    Py_XDECREF(key);
    sspy_clear_but_interrupts(); /* without memory they have no line */
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
    if (code && !opens)
        offer_line(frame, ((PyCodeObject *)code)->co_filename);
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

/* Lua's own frame for a C function: it has a native frame too, or is built in. */
static bool is_shown(const stacksplice_frame *frame)
{
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

/* Before elements are looked up: after an unload native ones may have another meaning. */
static void renew_frames(sspy_state *state)
{
    uint64_t unloads = stacksplice_unloads();

    if (unloads == atomic_load_explicit(&state->entry_unloads, memory_order_relaxed))
        return;
    PyDict_Clear(state->entry_frames);
    for (size_t i = 0; i < sizeof state->silent / sizeof *state->silent; i++)
        atomic_store_explicit(&state->silent[i], 0, memory_order_relaxed);
    atomic_store_explicit(&state->entry_unloads, unloads, memory_order_relaxed);
}

/* The place of ELEMENT among those that show nothing: most frames of a border are an interpreter's. */
static _Atomic uintptr_t *place_of_silent(sspy_state *state, uintptr_t element)
{
    return &state->silent[(element * UINT64_C(0x9e3779b97f4a7c15)) >> (64 - SSPY_SILENT_LOG2)];
}

/* The tuple of ELEMENT's frame objects, innermost first, a new reference; NULL with an exception. */
static PyObject *frames_of(const sspy_state *state, uintptr_t element)
{
    PyObject *all = state->entry_frames, *key, *frames = NULL;

    if (PyDict_GET_SIZE(all) >= KEPT_MAX)
        PyDict_Clear(all);
    key = PyLong_FromUnsignedLongLong(element);
    if (key)
        frames = sspy_dict_get(all, key);
    if (key && !frames && !PyErr_Occurred()) {
        frames = new_frames(element);
        if (frames && PyDict_SetItem(all, key, frames))
            Py_CLEAR(frames);
    }
    Py_XDECREF(key);
    return frames;
}

/* ---- Entries ----------------------------------------------------------------------------------*/

/* An entry before NEXT, which is NULL or moved; NULL with an exception. */
static PyObject *new_entry(PyFrameObject *frame, int lasti, int line, PyObject *next)
{
    /* Calling the type does just this, at twenty times the cost. */
    PyTracebackObject *entry = PyObject_GC_New(PyTracebackObject, &PyTraceBack_Type);

    if (!entry)
        return NULL;
    entry->tb_next = (PyTracebackObject *)next;
    entry->tb_frame = (PyFrameObject *)Py_NewRef((PyObject *)frame);
    entry->tb_lasti = lasti;
    entry->tb_lineno = line;
    PyObject_GC_Track(entry);
    return (PyObject *)entry;
}

/* *TRACEBACK, which is NULL or owned, with an entry for FRAME before it; -1 with an exception. */
static int put_entry(PyObject **traceback, PyFrameObject *frame)
{
    PyCodeObject *code = PyFrame_GetCode(frame);
    PyObject *entry = new_entry(frame, 0, code->co_firstlineno, *traceback);

    Py_DECREF(code);
    if (entry)
        *traceback = entry;
    return entry ? 0 : -1;
}

/* Put the entries of ELEMENT before *TRACEBACK, which is NULL or owned; -1 with an exception. */
static int put_element(sspy_state *state, PyObject **traceback, uintptr_t element)
{
    _Atomic uintptr_t *silent = place_of_silent(state, element);
    PyObject *frames;
    int failed;

    if (atomic_load_explicit(silent, memory_order_relaxed) == element)
        return 0;
    frames = frames_of(state, element);
    failed = !frames;
    if (frames && !PyTuple_GET_SIZE(frames))
        atomic_store_explicit(silent, element, memory_order_relaxed);
    for (Py_ssize_t i = 0; !failed && i < PyTuple_GET_SIZE(frames); i++)
        failed = put_entry(traceback, (PyFrameObject *)PyTuple_GET_ITEM(frames, i));
    Py_XDECREF(frames);
    return failed;
}

/* ---- At a border -----------------------------------------------------------------------------*/

/* The frames between the border and an exception's __traceback__ go before it, for the exception that
   arrives and for those that arrive with it. */

/* Both ends of PASSED, or its inner end if its outermost frames were left out already. */
static uint32_t shown_of(const passage *passed, uintptr_t *shown)
{
    uint32_t count = passed->count - 1, inner = count < SHOWN_MAX ? count : SHOWN_MAX, left_out;

    if (!passed->count || !passed->outermost)
        return stacksplice_copy_ends(passed->frames, passed->count, SHOWN_MAX + 1, shown);
    memcpy(shown, passed->frames, inner * sizeof *shown);
    left_out = stacksplice_frames_left_out(&passed->outermost, 1) + (count - inner);
    shown[inner] = stacksplice_left_out(left_out);
    return inner + 1;
}

/* Put the elements of PASSED before *TRACEBACK; -1 with an exception. */
static int put_between(sspy_state *state, PyObject **traceback, const passage *passed)
{
    uintptr_t shown[SHOWN_MAX + 1];
    uint32_t count = shown_of(passed, shown);

    renew_frames(state);
    for (uint32_t i = 0; i < count; i++)
        if (put_element(state, traceback, shown[i]))
            return -1;
    return passed->seam ? put_element(state, traceback, sspy_gap(passed->seam)) : 0;
}

/* Returns whether EXC arrives with all that there is of it.  Without memory EXC stays unchanged. */
static bool show_one(sspy_state *state, PyObject *exc, IScriptErrorInfo *error,
                     IScriptErrorInfo *border)
{
    sspy_ties *ties = sspy_ties_of(state->interp, exc);
    PyObject *traceback;
    sspy_critical alone;
    passage passed;
    bool elsewhere, arrives, failed;

    /* Another thread that raises it shows what it passed there before or after this. */
    SSPY_CRITICAL_BEGIN(&alone, ties ? (PyObject *)ties : exc);
    traceback = sspy_traceback_of(exc);
    find_passed(state, exc, (PyTracebackObject *)traceback, error, border, &passed);
    arrives = passed.arrives;
    elsewhere = passed.seam && (arrives || !strcmp(passed.seam, SSPY_OTHER_THREAD));
    failed = put_between(state, &traceback, &passed);
    free(passed.copy.far);
    if (elsewhere && !failed) {
        find_passed_here(state, error, border, &passed);
        failed = passed.count && put_between(state, &traceback, &passed);
        free(passed.copy.far);
    }
    if (failed || (traceback && PyException_SetTraceback(exc, traceback)))
        PyErr_Clear();
    Py_XDECREF(traceback);
    SSPY_CRITICAL_END(&alone);
    return arrives;
}

/* EXC's ties if EXC was made for an error born elsewhere and was never raised here; else NULL. */
static sspy_ties *newly_arrived(sspy_state *state, PyObject *exc)
{
    sspy_ties *ties = exc ? sspy_ties_of(state->interp, exc) : NULL;
    PyObject *traceback = exc ? sspy_traceback_of(exc) : NULL;
    bool is_new = sspy_ties_are_foreign(ties) && !traceback &&
                  !__atomic_load_n(&ties->received, __ATOMIC_RELAXED);

    Py_XDECREF(traceback);
    return is_new ? ties : NULL;
}

static void show_related(sspy_state *state, PyObject *exc, IScriptErrorInfo *border, int depth);

/* EXC, which is borrowed and may be NULL, arrives with another exception at BORDER. */
static void show_arrived(sspy_state *state, PyObject *exc, IScriptErrorInfo *border, int depth)
{
    sspy_ties *ties = newly_arrived(state, exc);
    IScriptErrorInfo *error = ties && depth <= SSPY_MAX_STEPS ? sspy_ties_hold(ties, exc) : NULL;

    if (!error)
        return;
    (void)show_one(state, exc, error, border);
    sspy_release(state->interp, error);
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

void sspy_show_foreign(sspy_state *state, PyObject *exc, IUnknown *error)
{
    IScriptErrorInfo *script = sspy_query(error, &stacksplice_IID_IScriptErrorInfo);

    if (script && state->shows_foreign && show_one(state, exc, script, script))
        show_related(state, exc, script, 0);
    sspy_unknown_release(script); /* the caller has ERROR */
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
    uintptr_t shown[SHOWN_MAX + 1], ended = stacksplice_gap("lua", STACKSPLICE_GAP_ENDED, 0);
    uintptr_t again = sspy_seam_gap(SSPY_RAISED_AGAIN);
    uint32_t inner = 0;

    while (inner < count && !sspy_is_frame_of(state, frames[inner]))
        inner++;
    inner = stacksplice_copy_ends(frames, inner, SHOWN_MAX + 1, shown);
    renew_frames(state);
    for (uint32_t i = 0; i < inner; i++)
        /* Outward of what a coroutine left, only native frames are missing; where what was caught is
           raised again, none are. */
        if (!(i && (shown[i] == ended || shown[i] == again)) &&
            put_element(state, traceback, shown[i]))
            return -1;
    return 0;
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
    Py_XINCREF((PyObject *)head->tb_next);
    traceback =
        new_entry(head->tb_frame, head->tb_lasti, head->tb_lineno, (PyObject *)head->tb_next);
    if (!traceback)
        Py_XDECREF((PyObject *)head->tb_next);
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
