/*
 * Frames of other languages as entries of __traceback__.
 *
 * An element of a stack (between.c) becomes a code object that never runs, with the file, function
 * and line of the frame.  An entry has a frame object of it, as for Cython's code.  We keep the
 * frame objects, so that a recurring stack resolves nothing and makes none: they have nothing of an
 * exception, and all entries of an element share them.  Glue and functions that are built into
 * scripts' languages become no entry, nor do gaps where only calls of native code are missing:
 * Python shows no entry for its own ones either.
 */
#include "traceback/match.h"
#include "traceback/traceback.h"

#include <dlfcn.h>
#include <frameobject.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        kept *place = &all->kept[i / WAYS][i % WAYS];

        place->element = 0;
        Py_CLEAR(place->frames);
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
static uint32_t shown_of(const sspy_between *between, uintptr_t *shown)
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
static int put_between(kept_frames *all, PyObject **traceback, const sspy_between *between)
{
    uintptr_t shown[SHOWN_MAX + 1];
    uint32_t count = shown_of(between, shown);

    for (uint32_t i = 0; i < count; i++)
        if (put_element(all, traceback, shown[i]))
            return -1;
    return between->seam ? put_element(all, traceback, sspy_gap(between->seam)) : 0;
}

static void show(sspy_state *state, PyObject *exc, const sspy_between *between)
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
    sspy_between between;
    bool elsewhere;

    sspy_between_find(state, exc, error, border, &between);
    elsewhere = between.seam && (between.arrives || !strcmp(between.seam, SSPY_OTHER_THREAD));
    if (between.count || between.seam)
        show(state, exc, &between);
    sspy_between_end(&between);
    if (!elsewhere)
        return;
    sspy_between_arrival(state, error, border, &between);
    if (between.count)
        show(state, exc, &between);
    sspy_between_end(&between);
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

/* Outward of what a coroutine left, only native frames are missing. */
static bool is_between_coroutines(uintptr_t element)
{
    return element == stacksplice_gap("lua", STACKSPLICE_GAP_RETURNED, 0);
}

/* Put the FRAMES inside of the innermost Python frame before *TRACEBACK; -1 with an exception. */
static int put_inner(sspy_state *state, PyObject **traceback, const uintptr_t *frames,
                     uint32_t count)
{
    kept_frames *all = kept_frames_now(state);
    uintptr_t shown[SHOWN_MAX + 1];
    uint32_t inner = 0;

    if (!all)
        return -1;
    while (inner < count && !sspy_is_frame_of(state, frames[inner]))
        inner++;
    inner = stacksplice_copy_ends(frames, inner, SHOWN_MAX + 1, shown);
    for (uint32_t i = 0; i < inner; i++)
        if (!(i && is_between_coroutines(shown[i])) && put_element(all, traceback, shown[i]))
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
