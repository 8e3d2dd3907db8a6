/*
 * Entries that C code put into a traceback for its own functions, as Cython does, among the frames
 * that were live at the raise.
 *
 * Such an entry belongs between the two Python frames beside it in the traceback.  If native frames
 * are shown there too, it belongs to the one whose C function Cython named after it.
 */
#include "traceback/traceback.h"

#include <stdlib.h>
#include <string.h>

enum { NEAR = 64 };

typedef struct made_entry {
    PyCodeObject *code; /* borrowed: the traceback has it */
    uintptr_t token;
    uint32_t outside; /* Python frames that are outside of it in the traceback */
} made_entry;

typedef struct made_list {
    made_entry *entries;    /* NEAR, or malloc; the outermost first */
    uint32_t room, count;   /* of those that are not placed yet */
    uint32_t frames;        /* of Python */
    bool has_memory, knows; /* the place of each */
    made_entry near[NEAR];
} made_list;

static bool grow(made_list *list)
{
    bool was_near = list->entries == list->near;
    size_t size = list->room * sizeof *list->entries;
    made_entry *grown = realloc(was_near ? NULL : list->entries, 2 * size);

    if (!grown)
        return list->has_memory = false;
    if (was_near)
        memcpy(grown, list->near, size);
    list->entries = grown;
    list->room *= 2;
    return true;
}

static void add(made_list *list, const PyTracebackObject *entry)
{
    PyCodeObject *code = PyFrame_GetCode(entry->tb_frame);

    Py_DECREF(code); /* the frame has it */
    if (list->count < list->room || grow(list))
        list->entries[list->count++] =
            (made_entry){code, sspy_element_of(entry, STACKSPLICE_TRUST_TRACEBACK), list->frames};
}

static void read_traceback(made_list *list, const PyTracebackObject *entry)
{
    list->entries = list->near;
    list->room = NEAR;
    list->count = list->frames = 0;
    list->has_memory = list->knows = true;
    for (; entry && list->has_memory; entry = entry->tb_next) {
        bool again = entry->tb_next && entry->tb_next->tb_frame == entry->tb_frame;
        sspy_entry_kind kind = sspy_kind_of(entry);

        if (kind == SSPY_ENTRY_OF_PYTHON)
            list->frames += !again;
        else if (kind == SSPY_ENTRY_MADE)
            add(list, entry);
    }
}

static void drop(made_list *list)
{
    if (list->entries != list->near)
        free(list->entries);
}

/* ---- Between two Python frames ----------------------------------------------------------------*/

/* The way outward through the frames of the raise. */
typedef struct merge {
    made_list *list;
    uint32_t inside;           /* Python frames passed */
    bool shows_native, script; /* since the last one: frames with names, of other languages */
    uintptr_t *out;            /* room for all frames and entries */
    uint32_t count;
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
    m->out[m->count++] = element;
}

static void put_entry(merge *m, const made_entry *entry)
{
    put(m, entry->token);
    m->list->count--;
}

/* What further entries belong to was left out, or is outside of that. */
static void put_left_out(merge *m, uint32_t frames)
{
    put(m, stacksplice_left_out(frames + m->list->count));
    m->list->count = 0;
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
            m->list->knows = false;
        if (!m->list->knows)
            return;
        if (!m->script)
            put_entry(m, entry);
    }
    m->inside++;
    m->shows_native = m->script = false;
}

static void merge_all(merge *m, sspy_state *state, const uintptr_t *frames, uint32_t count)
{
    for (uint32_t i = 0; i < count && m->list->knows; i++) {
        bool python = sspy_is_frame_of(state, frames[i]);
        uint32_t left_out = python ? 0 : stacksplice_frames_left_out(&frames[i], 1);

        if (python)
            end_segment(m);
        if (left_out)
            put_left_out(m, left_out);
        else
            put(m, frames[i]);
        if (!python && next_entry(m) &&
            (stacksplice_is_token(frames[i]) || sspy_is_foreign_code(frames[i])))
            (void)stacksplice_resolve(frames[i], look, m);
    }
    if (m->list->knows)
        end_segment(m);
}

/* The frames with the entries of LIST, of which there is one at least, in OUT. */
static sspy_placed place(sspy_state *state, made_list *list, sspy_elements frames, uintptr_t *out,
                         uint32_t *count)
{
    merge m = {.list = list, .out = out};

    merge_all(&m, state, frames.frames, frames.count);
    *count = m.count;
    return list->knows && !list->count ? SSPY_PLACED : SSPY_NOT_PLACED;
}

sspy_placed sspy_place_made(sspy_state *state, PyObject *exc, const uintptr_t *frames,
                            uint32_t count, sspy_room *room, uint32_t *merged)
{
    PyObject *head = sspy_traceback_of(exc);
    sspy_placed placed = SSPY_NONE_MADE;
    uintptr_t *far = NULL;
    made_list list;

    read_traceback(&list, (PyTracebackObject *)head);
    if (list.count > SSPY_ROOM(room->limit) - count) {
        far = malloc(((size_t)count + list.count) * sizeof *far);
        list.has_memory &= far != NULL;
    }
    if (list.has_memory && list.count) {
        uintptr_t *out = far ? far : room->frames;

        placed = place(state, &list, (sspy_elements){frames, count}, out, &count);
        if (placed == SSPY_PLACED)
            *merged = stacksplice_copy_ends(out, count, room->limit, room->frames);
    }
    if (!list.has_memory) {
        PyErr_NoMemory();
        placed = SSPY_NO_MEMORY;
    }
    free(far);
    drop(&list);
    Py_XDECREF(head);
    return placed;
}
