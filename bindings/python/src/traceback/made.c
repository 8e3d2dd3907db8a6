/*
 * Entries that C code put into a traceback for its own functions, as Cython does, among the frames
 * that were live at the raise.
 *
 * Such an entry belongs between the two Python frames beside it in the traceback.  If native frames
 * are shown there too, it belongs to the one whose C function Cython named after it.
 */
#include "traceback/traceback.h"

#include <string.h>

enum { MOST = 64 /* entries of one traceback */ };

typedef struct made_entry {
    PyCodeObject *code; /* borrowed: the traceback has it */
    uintptr_t token;
    uint32_t outside; /* Python frames that are outside of it in the traceback */
} made_entry;

typedef struct made_list {
    made_entry entries[MOST]; /* the outermost first */
    uint32_t count;           /* of those that are not placed yet */
    uint32_t frames;          /* of Python */
    bool complete;
} made_list;

static void add(made_list *list, const PyTracebackObject *entry)
{
    PyCodeObject *code = PyFrame_GetCode(entry->tb_frame);

    Py_DECREF(code); /* the frame has it */
    if (list->count == MOST)
        list->complete = false;
    else
        list->entries[list->count++] =
            (made_entry){code, sspy_element_of(entry, STACKSPLICE_TRUST_TRACEBACK), list->frames};
}

static void read_traceback(made_list *list, const PyTracebackObject *entry)
{
    *list = (made_list){.complete = true};
    for (; entry; entry = entry->tb_next) {
        bool again = entry->tb_next && entry->tb_next->tb_frame == entry->tb_frame;
        sspy_entry_kind kind = sspy_kind_of(entry);

        if (kind == SSPY_ENTRY_OF_PYTHON)
            list->frames += !again;
        else if (kind == SSPY_ENTRY_MADE)
            add(list, entry);
    }
}

/* ---- Between two Python frames ----------------------------------------------------------------*/

/* The way outward through the frames of the raise. */
typedef struct merge {
    made_list *list;
    uint32_t inside;           /* Python frames passed */
    bool shows_native, script; /* since the last one: frames with names, of other languages */
    uintptr_t *out;
    uint32_t count, room;
} merge;

/* The innermost entry that is not placed, if it belongs here; or NULL. */
static const made_entry *next_entry(const merge *m)
{
    const made_list *list = m->list;
    const made_entry *entry = list->count ? &list->entries[list->count - 1] : NULL;

    return entry && list->frames - entry->outside == m->inside ? entry : NULL;
}

static void put(merge *m, uintptr_t element)
{
    if (m->count == m->room)
        m->list->complete = false;
    else
        m->out[m->count++] = element;
}

static void put_entry(merge *m, const made_entry *entry)
{
    put(m, entry->token);
    m->list->count--;
}

/* Whether Cython made FUNCTION, a C function, of what CODE names: "__pyx_f_4shop_5price". */
static bool is_function_of(const char *function, const PyCodeObject *code)
{
    const char *name = PyUnicode_AsUTF8(code->co_name);
    const char *dot = name ? strrchr(name, '.') : NULL;
    size_t length, whole = strlen(function);

    if (!name) {
        PyErr_Clear();
        return false;
    }
    name = dot ? dot + 1 : name;
    length = strlen(name);
    return !strncmp(function, "__pyx_", 6) && whole > length &&
           !strcmp(function + whole - length, name);
}

/* Where inlined functions share an element, all their entries follow it. */
static int look(const stacksplice_frame *frame, void *data)
{
    merge *m = data;
    const made_entry *entry = next_entry(m);

    m->script |= frame->kind == STACKSPLICE_FRAME_SCRIPT;
    if (frame->kind != STACKSPLICE_FRAME_NATIVE || !frame->function)
        return 0;
    if (entry && is_function_of(frame->function, entry->code))
        put_entry(m, entry);
    if (!m->shows_native && !m->script)
        m->shows_native = stacksplice_frame_role(frame) == STACKSPLICE_ROLE_OWN;
    return 0;
}

/* The next Python frame follows.  Where nothing else is shown, any place is right; among frames of
   other languages the entries are those of their bridge, which says nothing that they do not. */
static void end_segment(merge *m)
{
    const made_entry *entry;

    while ((entry = next_entry(m)) != NULL) {
        if (m->script)
            m->list->count--;
        else if (m->shows_native)
            m->list->complete = false;
        if (!m->list->complete)
            return;
        if (!m->script)
            put_entry(m, entry);
    }
    m->inside++;
    m->shows_native = m->script = false;
}

static void merge_all(merge *m, sspy_state *state, const uintptr_t *frames, uint32_t count)
{
    for (uint32_t i = 0; i < count && m->list->complete; i++) {
        bool python = sspy_is_frame_of(state, frames[i]);

        if (python)
            end_segment(m);
        put(m, frames[i]);
        if (!python && next_entry(m) &&
            (stacksplice_is_token(frames[i]) || sspy_is_foreign_code(frames[i])))
            (void)stacksplice_resolve(frames[i], look, m);
    }
    if (m->list->complete)
        end_segment(m);
}

sspy_placed sspy_place_made(sspy_state *state, PyObject *exc, const uintptr_t *frames,
                            uint32_t count, sspy_room *room, uint32_t *merged)
{
    PyObject *head = sspy_traceback_of(exc);
    made_list list;
    merge m = {.list = &list, .out = room->frames, .room = SSPY_ROOM(room->limit)};

    read_traceback(&list, (PyTracebackObject *)head);
    if (list.count && list.complete)
        merge_all(&m, state, frames, count);
    Py_XDECREF(head);
    if (!m.count && list.complete)
        return SSPY_NONE_MADE;
    if (!list.complete || list.count)
        return SSPY_NOT_PLACED;
    *merged = stacksplice_copy_ends(room->frames, m.count, room->limit, room->frames);
    return SSPY_PLACED;
}
