/* Errors that pass an attached runtime, in both directions. */
#include "lupa/lupa.h"
#include "traceback/traceback.h"

#include <stdlib.h>
#include <string.h>

/* ---- A Python exception that leaves for Lua ---------------------------------------------------*/

/*
 * lupa hands it to debug.traceback while the whole stack is live. It gets its error there, and Lua's
 * frames in its __traceback__.
 */

/* The first words of what lupa puts into a userdata for a Python object. */
typedef struct lupa_object {
    PyObject *object, *runtime;
} lupa_object;

/* The Python exception in the BLOCK of a userdata of lupa, borrowed; or NULL. */
static PyObject *exception_in(const void *block)
{
    PyObject *object = ((const lupa_object *)block)->object;

    return object && PyExceptionInstance_Check(object) ? object : NULL;
}

/* Whether FRAME is of a function of ATTACHED's lupa.  Compiled for the stable ABI, Cython has no frames but
   those of Python code that it makes: that runs among globals of its own, and has the function's whole name. */
static bool is_frame_of_lupa(const sspy_attached *attached, PyFrameObject *frame)
{
    const char *kind = attached->coroutines->tp_name, *dot = strrchr(kind, '.'), *name = NULL;
    PyObject *globals = PyFrame_GetGlobals(frame);
    PyCodeObject *code = PyFrame_GetCode(frame);
    bool found = globals == attached->globals;

    if (!found && dot && !(code->co_flags & (CO_OPTIMIZED | CO_NEWLOCALS)) &&
        !(name = PyUnicode_AsUTF8(code->co_name)))
        PyErr_Clear(); /* without memory for a name that is not of lupa */
    if (name)
        found = strncmp(name, kind, (size_t)(dot - kind) + 1) == 0;
    Py_DECREF(code);
    Py_XDECREF(globals);
    return found;
}

/*
 * The traceback of EXC, if lupa's own code was the last to see EXC: then lupa keeps this very entry
 * and raises EXC with it again, and nothing else has it.
 */
static PyTracebackObject *traceback_of_lupa(PyObject *exc, const sspy_attached *attached)
{
    PyTracebackObject *head = (PyTracebackObject *)sspy_traceback_of(exc);

    if (head && !is_frame_of_lupa(attached, head->tb_frame))
        Py_CLEAR(head);
    return head;
}

/* The stack where EXC is now. */
typedef struct place {
    const void *above;
    const uintptr_t *frames; /* from inside of a coroutine that EXC came out of; or NULL */
    uint32_t count;
} place;

/* Whether both are one element, or script frames that differ only in the function that they call. */
static bool is_same_place(sspy_state *state, uintptr_t a, uintptr_t b)
{
    uint64_t of_a = sspy_facts_of(state, a).place;

    return a == b || (of_a && of_a == sspy_facts_of(state, b).place);
}

/* Whether both are script frames, at the same line of one file. */
static bool is_same_line(sspy_state *state, uintptr_t a, uintptr_t b)
{
    uint64_t line = sspy_facts_of(state, a).file_line;

    return line && line == sspy_facts_of(state, b).file_line;
}

/*
 * Leave of WHERE's frames those that lay at this border: outward of the last frame of Python that
 * has ended since, which had borders of its own inside.  None if the live stack is not their outer
 * end, but for native frames inside: then EXC came out of that coroutine earlier, was caught, and
 * is raised somewhere else now.
 */
static void keep_to_border(sspy_state *state, place *where)
{
    uint32_t count, same = 0, ended;
    bool leads = true;
    sspy_room room;

    if (sspy_room_begin(&room, SSPY_NEAR_FRAMES)) {
        PyErr_Clear();
        where->frames = NULL;
        return;
    }
    count = sspy_capture(where->above, room.limit, room.frames);
    while (
        same < count && same < where->count &&
        is_same_place(state, room.frames[count - 1 - same], where->frames[where->count - 1 - same]))
        same++;
    for (uint32_t i = 0; leads && i < count - same; i++)
        leads = !sspy_facts_of(state, room.frames[i]).is_in_file;
    sspy_room_end(&room);
    ended = where->count - same;
    while (ended && !sspy_is_frame_of(state, where->frames[ended - 1]))
        ended--;
    where->frames = leads && same ? where->frames + ended : NULL;
    where->count -= ended;
}

/* Put names into the stack that TIES, which may be NULL, keep since the raise.  There Lua could not be asked for them; where
   the exception leaves for Lua it can.  So the frames that live since then are exchanged for those of
   now. */
static void take_names(sspy_state *state, sspy_ties *ties, const void *above)
{
    uint32_t count, kept = 0;
    uintptr_t *raised = ties ? sspy_ties_borrow_raised(ties, &kept) : NULL;
    sspy_room room;

    if (!raised)
        return;
    if (sspy_room_begin(&room, SSPY_NEAR_FRAMES)) {
        PyErr_Clear();
        sspy_ties_return_raised(ties, raised, kept, false);
        return;
    }
    count = sspy_capture(above, room.limit, room.frames);
    for (uint32_t i = 1; i <= count && i <= kept; i++) {
        uintptr_t *then = &raised[kept - i], now = room.frames[count - i];

        if (*then != now && !is_same_line(state, *then, now))
            break;
        *then = now;
    }
    sspy_room_end(&room);
    sspy_ties_return_raised(ties, raised, kept, true);
}

/* ---- Raised again -----------------------------------------------------------------------------*/

/*
 * A script caught EXC by a pcall, which asks no handler, and raises it again by error or assert.  The live
 * stack then has the line of that, and not the one that called Python; the stack of when EXC left Python,
 * if it was kept, has that one.  Both become one way, with a seam between, as of Python's own exceptions.
 */
typedef struct both_ways {
    uintptr_t *frames; /* malloc, or NULL */
    uint32_t count;
    uint32_t ended; /* how many of them are inside of the frames of Lua that called Python */
} both_ways;

/* How many outer frames are the same places in both. */
static uint32_t count_same(sspy_state *state, sspy_elements raised, const sspy_room *live,
                           uint32_t count)
{
    uint32_t same = 0;

    while (same < count && same < raised.count &&
           is_same_place(state, raised.frames[raised.count - 1 - same],
                         live->frames[count - 1 - same]))
        same++;
    return same;
}

/* How many of the outermost frames of the COUNT are not Python's. */
static uint32_t count_not_python(sspy_state *state, const uintptr_t *frames, uint32_t count)
{
    uint32_t begin = count;

    while (begin && !sspy_is_frame_of(state, frames[begin - 1]))
        begin--;
    return count - begin;
}

/* The way since RAISED, which may be empty, and the live one ABOVE. */
static both_ways join_ways(sspy_state *state, sspy_elements raised, const void *above)
{
    both_ways both = {NULL, 0, 0};
    uint32_t live, kept = 0;
    sspy_room room;

    if (sspy_room_begin(&room, SSPY_NEAR_FRAMES)) {
        PyErr_Clear();
        return both;
    }
    live = sspy_capture(above, room.limit, room.frames);
    kept = raised.count - count_same(state, raised, &room, live);
    both.frames = malloc((kept + (size_t)1 + live) * sizeof *both.frames);
    if (both.frames) {
        if (kept)
            memcpy(both.frames, raised.frames, kept * sizeof *both.frames);
        both.frames[kept] = sspy_seam_gap(SSPY_RAISED_AGAIN);
        memcpy(both.frames + kept + 1, room.frames, live * sizeof *both.frames);
        both.count = kept + 1 + live;
        both.ended = kept - count_not_python(state, both.frames, kept);
    }
    sspy_room_end(&room);
    return both;
}

/* EXC, which has no error yet, is raised again at WHERE: its stack becomes that of both ways. */
static void take_both_ways(sspy_state *state, PyObject *exc, place *where, both_ways *both)
{
    sspy_ties *ties = sspy_ties_of(state->interp, exc);

    uint32_t count = 0;
    uintptr_t *raised = ties ? sspy_ties_borrow_raised(ties, &count) : NULL, *joined;

    *both = join_ways(state, (sspy_elements){raised, raised ? count : 0}, where->above);
    if (raised)
        sspy_ties_return_raised(ties, raised, count, false);
    if (!both->frames)
        return;
    where->frames = both->frames + both->ended;
    where->count = both->count - both->ended;
    if (!raised)
        return; /* which its traceback has */
    joined = malloc(both->count * sizeof *joined);
    count = joined
                ? stacksplice_copy_ends(both->frames, both->count, stacksplice_max_frames(), joined)
                : 0;
    sspy_ties_replace_raised(ties, joined, count);
}

/* EXC, whose stack is at WHERE, leaves for Lua in ATTACHED; AGAIN: the script raises it again. */
static void note(sspy_state *state, PyObject *exc, const sspy_attached *attached, place *where,
                 bool again)
{
    sspy_ties *ties = sspy_ties_of(state->interp, exc);
    PyTracebackObject *head = traceback_of_lupa(exc, attached);
    IScriptErrorInfo *error = NULL;
    both_ways both = {NULL, 0, 0};

    /* Not raised again but anew: its stack is another than when a pcall of a script caught it. */
    if (ties && !again && !where->frames)
        sspy_ties_forget_caught(ties);
    take_names(state, ties, where->above);
    if (again && head && !where->frames && !sspy_ties_exception(ties) && !sspy_ties_error(ties))
        take_both_ways(state, exc, where, &both);
    if (where->frames && sspy_raised_at(state, exc, where->frames, where->count))
        PyErr_Clear();
    if (sspy_error_for(state, exc, where->above, &error))
        PyErr_Clear(); /* without memory the exception goes on without an error */
    sspy_release(state->interp, error);
    if (head)
        sspy_show_live(state, head, where->above, where->frames, where->count);
    free(both.frames);
    Py_XDECREF(head);
}

/* What a hook looks at, with the interpreter's lock. */
typedef struct visit {
    PyGILState_STATE gil;
    PyObject *exc, *pending;
    sspy_state *state;
} visit;

/* False: there is nothing to look at, and nothing to end. */
static bool begin_visit(visit *v, const void *block)
{
    if (!sspy_interp_lives())
        return false;
    v->gil = PyGILState_Ensure();
    v->exc = Py_XNewRef(exception_in(block));
    v->state = v->exc ? sspy_state_current() : NULL;
    if (v->state) {
        v->pending = sspy_take_pending();
        return true;
    }
    PyErr_Clear(); /* of an interpreter without us */
    Py_XDECREF(v->exc);
    PyGILState_Release(v->gil);
    return false;
}

static void end_visit(visit *v)
{
    Py_DECREF(v->exc);
    sspy_set_pending(v->pending);
    PyGILState_Release(v->gil);
}

void sspy_lupa_raised(void *data, void *block, const void *above, const uintptr_t *frames,
                      uint32_t count, bool again)
{
    place where = {above, count ? frames : NULL, count};
    visit v;

    if (!begin_visit(&v, block))
        return;
    if (where.frames)
        keep_to_border(v.state, &where);
    note(v.state, v.exc, data, &where, again);
    end_visit(&v);
}

/* ---- A Python exception that a script catches --------------------------------------------------*/

/* The first time, keep the stack, which has the lines of Lua that called Python: from 3.12 on Python itself
   has told of it. */
void sspy_lupa_caught(void *data, void *block, const void *above, bool again)
{
    sspy_ties *ties;
    sspy_room room;
    visit v;

    (void)data;
    if (!begin_visit(&v, block))
        return;
    ties = sspy_ties_of(v.state->interp, v.exc);
    if (ties && !again) /* raised anew since a pcall caught it */
        sspy_ties_forget_caught(ties);
    if (!sspy_ties_have_stack(ties) && !sspy_room_begin(&room, SSPY_NEAR_FRAMES)) {
        uint32_t count = sspy_capture(above, room.limit, room.frames);

        if (!sspy_raised_at(v.state, v.exc, room.frames, count)) {
            ties = sspy_ties_of(v.state->interp, v.exc);
            if (ties)
                sspy_ties_set_of_pcall(ties);
        }
        sspy_room_end(&room);
    }
    PyErr_Clear(); /* without memory the line is not known */
    end_visit(&v);
}

/* Whether TEXT has the text of EXC, as a script has it by tostring.  Leaves no exception set. */
static bool is_in(PyObject *exc, const char *text, size_t length)
{
    PyObject *own = PyObject_Str(exc);
    Py_ssize_t size = 0;
    const char *utf8 = own ? PyUnicode_AsUTF8AndSize(own, &size) : NULL;
    bool is = utf8 && size && memmem(text, length, utf8, (size_t)size);

    PyErr_Clear();
    Py_XDECREF(own);
    return is;
}

IUnknown *sspy_lupa_find_in(void *data, void *block, const char *text, size_t length,
                            const void *above)
{
    IScriptErrorInfo *error = NULL;
    visit v;

    (void)data;
    if (!begin_visit(&v, block))
        return NULL;
    if (is_in(v.exc, text, length) && sspy_error_for(v.state, v.exc, above, &error))
        PyErr_Clear(); /* without memory it is told without */
    end_visit(&v);
    return (IUnknown *)error;
}

/* ---- A LuaError -------------------------------------------------------------------------------*/

/*
 * A LuaError that lupa makes gets the error of the call that failed: the one that the call's message
 * handler was told of.
 */

/* The length of the first line of TEXT, or of its beginning that all encodings have in common. */
static size_t plain_length(const char *text, size_t length)
{
    size_t i = 0;

    while (i < length && text[i] != '\n' && text[i] != '\r' && !((unsigned char)text[i] & 0x80))
        i++;
    return i;
}

/* The message that EXC was made with, UTF-8; NULL without an exception if it is no text. */
static const char *message_of(PyObject *exc, size_t *length)
{
    PyObject *arguments = ((PyBaseExceptionObject *)exc)->args, *first;
    const char *text;
    Py_ssize_t size = 0;

    if (!arguments || !PyTuple_Check(arguments) || PyTuple_GET_SIZE(arguments) != 1)
        return NULL;
    first = PyTuple_GET_ITEM(arguments, 0);
    text = PyUnicode_Check(first) ? PyUnicode_AsUTF8AndSize(first, &size) : NULL;
    if (!text)
        PyErr_Clear();
    *length = (size_t)size;
    return text;
}

/*
 * Whether TEXT, which lupa made of what debug.traceback returned, may tell of ERROR: the script may
 * have exchanged the handler.  lupa moves lines below the first one, decodes bytes that are not
 * UTF-8, and makes "" of a value that is no string.
 */
static bool tells_of(const char *text, size_t length, IUnknown *error)
{
    IScriptException *script = sspy_script_of(error);
    size_t size = 0, line;
    const char *message = script ? script->lpVtbl->GetMessage(script, &size) : NULL;
    bool same = length == 0;

    if (message && !same) {
        line = plain_length(message, size);
        same = line == plain_length(text, length) && !memcmp(text, message, line);
    }
    sspy_unknown_release(script);
    return same;
}

/* Whether Lua runs nothing between the caller, which is outside of ABOVE, and Python's innermost
   frame.  Else a script makes a LuaError, by the class that it was given. */
static bool has_returned(sspy_state *state, const void *above)
{
    enum { NEAR = 64 };
    uintptr_t frames[SSPY_ROOM(NEAR)];
    uint32_t count = sspy_capture(above, NEAR, frames);

    for (uint32_t i = 0; i < count && !sspy_is_frame_of(state, frames[i]); i++)
        if (sspy_facts_of(state, frames[i]).is_in_file)
            return false;
    return true;
}

/* The last error that a handler of this thread was told of in the call that is HERE, with a
   reference; or NULL. */
static IUnknown *take_last(sspy_state *state, sspy_call here)
{
    sspy_attached *attached = sspy_attached_first(state);
    IUnknown *last = NULL;
    uint64_t last_number = 0;

    for (; attached; attached = sspy_attached_after(attached)) {
        uint64_t number = 0;
        IUnknown *error = sspy_lupa_take_recorded(attached, here, &number);

        if (error && number >= last_number && sspy_attached_is_called(attached)) {
            sspy_release(state->interp, last);
            last = error;
            last_number = number;
        } else {
            sspy_release(state->interp, error);
        }
    }
    return last;
}

/* The error of the call that fails with TEXT, with a reference; or NULL. */
static IScriptErrorInfo *find_error(sspy_state *state, const char *text, size_t length,
                                    const void *above)
{
    IUnknown *error = take_last(state, sspy_call_now(PyThreadState_Get()));
    IScriptErrorInfo *found = NULL;
    stacksplice_section section = sspy_enter(state->interp);

    if (error && tells_of(text, length, error) && has_returned(state, above))
        found = sspy_query(error, &stacksplice_IID_IScriptErrorInfo);
    sspy_unknown_release(error);
    sspy_leave(section);
    return found;
}

/* Reports of ERROR get their local variables from EXC; without memory they do without. */
static void find_by_error(sspy_state *state, PyObject *exc, IScriptErrorInfo *error)
{
    PyObject *key = PyLong_FromVoidPtr(error);
    PyObject *reference = key ? PyWeakref_NewRef(exc, NULL) : NULL;

    if (reference)
        (void)PyDict_SetItem(state->made_by_others, key, reference);
    PyErr_Clear();
    Py_XDECREF(reference);
    Py_XDECREF(key);
}

/* lupa's LuaError of a value that is no text has none itself. */
static void say_words(PyObject *exc, sspy_ties *ties, IScriptErrorInfo *error)
{
    size_t length = 0, size = 0;
    const char *text = message_of(exc, &length), *message;
    stacksplice_section section;
    IScriptException *script;

    if (!text || length || ties->words)
        return;
    section = sspy_enter(ties->interp);
    script = sspy_script_of(error);
    message = script ? script->lpVtbl->GetMessage(script, &size) : NULL;
    sspy_leave(section);
    if (message && size && sspy_say_words(ties, exc, message, size))
        PyErr_Clear(); /* without memory it goes on without */
    sspy_release(ties->interp, script);
}

/* Where EXC's ERROR came from one of Python, that is EXC's context, as if Python had raised both. */
static void set_context(sspy_state *state, PyObject *exc, IScriptErrorInfo *error)
{
    IRestrictedErrorInfo *before = NULL;
    stacksplice_relation relation = STACKSPLICE_RELATION_NONE;
    PyObject *object = NULL;

    if (stacksplice_error_cause((IUnknown *)error, &before, &relation) != S_OK)
        return;
    if (relation == STACKSPLICE_RELATION_CONTEXT)
        object = sspy_own_object(state, (IUnknown *)before);
    if (object)
        PyException_SetContext(exc, object); /* takes the reference */
    sspy_release(state->interp, before);
}

/* Tie EXC to ERROR, and put its frames behind the innermost entry of EXC's traceback; -1 with an
   exception. */
static int tie_to(sspy_state *state, PyObject *exc, IScriptErrorInfo *error)
{
    sspy_ties *ties = sspy_ties_make_to_cross(state->interp, exc);

    if (!ties)
        return -1;
    sspy_ties_set_error(ties, error, true);
    if (state->shows_locals)
        find_by_error(state, exc, error);
    say_words(exc, ties, error);
    set_context(state, exc, error);
    sspy_show_error(state, exc, error);
    return 0;
}

/* The error of a chunk that this thread could not compile, with a reference; or NULL. */
static IScriptErrorInfo *find_syntax(sspy_state *state, PyObject *exc, const char *text,
                                     size_t length, const void *above)
{
    char line[SS_LUA_LINE_ROOM];
    ss_lua_text chunk;
    sspy_attached *attached = sspy_lupa_compiles(state, &chunk);
    IScriptErrorInfo *error = NULL;
    stacksplice_section section;
    ss_lua_syntax syntax;
    IUnknown *unknown;

    if (!attached || strcmp(Py_TYPE(exc)->tp_name, "LuaSyntaxError") != 0 ||
        !ss_lua_syntax_of(text, length, &syntax))
        return NULL;
    section = sspy_enter(state->interp);
    unknown = attached->calls->find_syntax(
        attached->attachment, text, length,
        chunk.text && ss_lua_line_of(chunk.text, chunk.length, syntax.line, line) ? line : NULL,
        above);
    error = sspy_query(unknown, &stacksplice_IID_IScriptErrorInfo);
    sspy_unknown_release(unknown);
    sspy_leave(section);
    return error;
}

void sspy_lupa_error_made(sspy_state *state, PyObject *exc, const void *above)
{
    IScriptErrorInfo *error;
    size_t length = 0;
    const char *text = message_of(exc, &length);

    if (!text)
        return;
    error = find_error(state, text, length, above);
    if (!error)
        error = find_syntax(state, exc, text, length, above);
    if (error && tie_to(state, exc, error))
        PyErr_Clear(); /* without memory lupa's exception stays as it is */
    sspy_release(state->interp, error);
}

/* ---- A coroutine that failed ------------------------------------------------------------------*/

/*
 * Python resumes coroutines without a message handler, so their errors are found afterwards, in the dead
 * coroutine.  Its frames are still there then.  lupa makes a LuaError of an exception of Python, which
 * becomes its cause; a missed deadline raises its own exception here, too.
 */

static sspy_attached *runtime_of(sspy_state *state, void *L)
{
    sspy_attached *attached = sspy_attached_first(state);

    while (attached && !attached->calls->owns(attached->attachment, L))
        attached = sspy_attached_after(attached);
    return attached;
}

/* Make CAUSE, which ended the coroutine of ERROR, the cause of EXC. */
static void set_cause(sspy_state *state, const sspy_attached *attached, PyObject *exc,
                      PyObject *cause, IScriptErrorInfo *error)
{
    sspy_stack_copy copy;
    sspy_elements stack = sspy_shown(error, &copy);

    Py_INCREF(cause);
    if (stack.count)
        note(state, cause, attached,
             &(place){__builtin_frame_address(0), stack.frames, stack.count}, false);
    free(copy.far);
    PyException_SetCause(exc, cause);
}

/* Tie EXC to the error that COROUTINE failed with. */
static void find_cause(sspy_state *state, PyObject *coroutine, PyObject *exc, const void *above)
{
    void *L = sspy_lupa_address_of(coroutine), *block = NULL;
    sspy_attached *attached = L ? runtime_of(state, L) : NULL;
    PyObject *cause;
    size_t length = 0;
    const char *text = message_of(exc, &length);
    stacksplice_section section;
    IUnknown *unknown;
    IScriptErrorInfo *error;

    if (!attached || !text)
        return;
    section = sspy_enter(state->interp);
    unknown = attached->calls->find_failed(attached->attachment, L, text, length, above, &block);
    error = sspy_query(unknown, &stacksplice_IID_IScriptErrorInfo);
    sspy_unknown_release(unknown);
    sspy_leave(section);
    cause = error && block ? exception_in(block) : NULL;
    if (cause)
        set_cause(state, attached, exc, cause, error);
    if (error && tie_to(state, exc, error))
        PyErr_Clear(); /* without memory lupa's exception stays as it is */
    sspy_release(state->interp, error);
}

void sspy_lupa_resume_failed(PyObject *coroutine, const void *above)
{
    sspy_state *state = sspy_state_current();
    PyObject *exc = state && sspy_lupa_has_runtimes(state) ? sspy_take_pending() : NULL;
    sspy_ties *ties = exc ? sspy_ties_of(state->interp, exc) : NULL;
    PyObject *late;

    if (!exc)
        return;
    if (!sspy_ties_error(ties))
        find_cause(state, coroutine, exc, above);
    late = sspy_late_error(state, exc);
    sspy_set_pending(late ? late : exc);
    if (late)
        Py_DECREF(exc);
}

/* ---- What lupa puts into tracebacks -----------------------------------------------------------*/

/*
 * Cython makes an entry for each of lupa's functions that an exception passes.  They say nothing of the
 * program, our reports never show them, and every other tool has a block of them for each border.
 */

/* Whether ENTRY is of a function of lupa, by whose runtimes we know its module. */
static bool is_of_bridge(sspy_state *state, const PyTracebackObject *entry)
{
    const sspy_attached *attached = sspy_attached_first(state);

    while (attached && !is_frame_of_lupa(attached, entry->tb_frame))
        attached = sspy_attached_after((sspy_attached *)(uintptr_t)attached);
    return attached && sspy_entry_is_made(entry);
}

/* The first entry from ENTRY inward that is not of lupa, borrowed; or NULL. */
static PyTracebackObject *behind_bridge(sspy_state *state, PyTracebackObject *entry)
{
    while (entry && is_of_bridge(state, entry))
        entry = entry->tb_next;
    return entry;
}

/* Take lupa's entries out of the outer end of EXC's traceback, up to the first entry of Python: what is
   inside of that was looked at before.  Only entries that we made get another next one. */
static void take_bridge(sspy_state *state, PyObject *exc)
{
    PyTracebackObject *head = (PyTracebackObject *)sspy_traceback_of(exc), *first, *next;

    if (!head)
        return;
    first = behind_bridge(state, head);
    for (PyTracebackObject *entry = first; entry && sspy_foreign_frame(entry->tb_frame, NULL);
         entry = next) {
        next = behind_bridge(state, entry->tb_next);
        if (next != entry->tb_next) {
            Py_XINCREF((PyObject *)next);
            Py_XSETREF(entry->tb_next, next);
        }
    }
    if (first != head)
        (void)PyException_SetTraceback(exc, first ? (PyObject *)first : Py_None);
    Py_DECREF((PyObject *)head);
}

void sspy_lupa_left(sspy_state *state)
{
    PyObject *exc = PyErr_Occurred() ? sspy_take_pending() : NULL;

    if (!exc)
        return;
    if (!state)
        state = sspy_state_current();
    if (state && sspy_lupa_has_runtimes(state) && !sspy_lupa_of(state)->keeps_bridge)
        take_bridge(state, exc);
    PyErr_Clear();
    sspy_set_pending(exc);
}

PyObject *sspy_lupa_bridges(PyObject *module, PyObject *keeps)
{
    sspy_lupa *lupa = sspy_record(PyModule_GetState(module), SSPY_OF_LUPA, sizeof *lupa);
    int value = PyObject_IsTrue(keeps);

    if (value < 0)
        return NULL;
    if (!lupa)
        return PyErr_NoMemory();
    lupa->keeps_bridge = value;
    Py_RETURN_NONE;
}
