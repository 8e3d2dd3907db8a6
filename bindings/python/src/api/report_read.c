/*
 * Errors that Python describes for the core's formatter.  A report that was read back is a dict as
 * JSON gives it.  A live exception and what belongs to it are tuples that live.py makes
 * (report_text.c).
 *
 * What is read lives in blocks until the report is written; Python objects lend the texts.
 */
#include "api/report_read.h"

#include <string.h>

typedef sspy_reader reader;

/* ---- Values ----------------------------------------------------------------------------------*/

/* The dicts are what json.loads() gives, so none of their values runs code, but they may hold
   anything.  A value of a kind that reports do not have there raises an exception.  Functions that
   return an int return -1 with an exception. */

struct sspy_block {
    struct sspy_block *next;
    _Alignas(max_align_t) char bytes[];
};

void *sspy_take(reader *r, Py_ssize_t count, size_t size)
{
    struct sspy_block *b = PyMem_Calloc(1, sizeof *b + ((size_t)count ? (size_t)count : 1) * size);

    if (!b)
        return PyErr_NoMemory();
    b->next = r->blocks;
    r->blocks = b;
    return b->bytes;
}

int sspy_reader_begin(reader *r, sspy_state *state)
{
    *r = (reader){.state = state, .kept = PyList_New(0), .references = PyDict_New()};
    return r->kept && r->references ? 0 : -1;
}

void sspy_reader_end(reader *r)
{
    while (r->blocks) {
        struct sspy_block *next = r->blocks->next;

        PyMem_Free(r->blocks);
        r->blocks = next;
    }
    Py_CLEAR(r->kept);
    Py_CLEAR(r->references);
}

static int refuse_value(const char *key, const char *wanted, PyObject *value)
{
    PyErr_Format(PyExc_TypeError, "%s must be %s, not %.100s", key, wanted,
                 Py_TYPE(value)->tp_name);
    return -1;
}

static PyObject *value_of(PyObject *dict, const char *key)
{
    PyObject *value = PyDict_GetItemString(dict, key);

    return value == Py_None ? NULL : value;
}

int sspy_lend_text(reader *r, PyObject *value, stacksplice_told_text *out)
{
    Py_ssize_t length;
    PyObject *bytes;

    out->text = PyUnicode_AsUTF8AndSize(value, &length);
    if (!out->text) { /* lone surrogates, which the core shows as U+FFFD */
        PyErr_Clear();
        bytes = PyUnicode_AsEncodedString(value, "utf-8", "surrogatepass");
        if (!bytes || PyList_Append(r->kept, bytes)) {
            Py_XDECREF(bytes);
            return -1;
        }
        out->text = PyBytes_AS_STRING(bytes);
        length = PyBytes_GET_SIZE(bytes);
        Py_DECREF(bytes);
    }
    out->length = (size_t)length;
    return 0;
}

static int read_text(reader *r, PyObject *dict, const char *key, stacksplice_told_text *out)
{
    PyObject *value = value_of(dict, key);

    if (!value)
        return 0;
    return PyUnicode_Check(value) ? sspy_lend_text(r, value, out)
                                  : refuse_value(key, "a text", value);
}

static int read_name(reader *r, PyObject *dict, const char *key, const char **out)
{
    stacksplice_told_text text = {NULL, 0};

    if (read_text(r, dict, key, &text))
        return -1;
    *out = text.text;
    return 0;
}

static int read_number(PyObject *dict, const char *key, uint64_t most, uint64_t *out)
{
    PyObject *value = value_of(dict, key), *number;
    unsigned long long found;

    *out = 0;
    if (!value)
        return 0;
    if (!PyLong_Check(value) && !PyUnicode_Check(value))
        return refuse_value(key, "a number", value);
    number = PyLong_Check(value) ? Py_NewRef(value) : PyLong_FromUnicodeObject(value, 16);
    if (!number)
        return -1;
    found = PyLong_AsUnsignedLongLong(number);
    Py_DECREF(number);
    if (PyErr_Occurred())
        return -1;
    if (found > most) {
        PyErr_Format(PyExc_OverflowError, "%s is too large", key);
        return -1;
    }
    *out = found;
    return 0;
}

static int read_count(PyObject *dict, const char *key, uint32_t *out)
{
    uint64_t number;

    if (read_number(dict, key, UINT32_MAX, &number))
        return -1;
    *out = (uint32_t)number;
    return 0;
}

static int read_truth(PyObject *dict, const char *key, int *out)
{
    PyObject *value = value_of(dict, key);

    *out = value == Py_True;
    return value && !PyBool_Check(value) ? refuse_value(key, "true or false", value) : 0;
}

static int read_list(PyObject *dict, const char *key, PyObject **list, Py_ssize_t *count)
{
    *list = value_of(dict, key);
    *count = 0;
    if (!*list)
        return 0;
    if (!PyList_Check(*list))
        return refuse_value(key, "a list", *list);
    *count = PyList_GET_SIZE(*list);
    return 0;
}

static int check_dict(const char *what, PyObject *value)
{
    return PyDict_Check(value) ? 0 : refuse_value(what, "an object", value);
}

/* ---- Frames -----------------------------------------------------------------------------------*/

static int equals(PyObject *dict, const char *key, const char *text)
{
    PyObject *value = value_of(dict, key);

    return value && PyUnicode_Check(value) && !PyUnicode_CompareWithASCIIString(value, text);
}

/* The fields of a dict, as the core reads them. */
typedef struct dict_fields {
    stacksplice_fields fields;
    reader *r;
    PyObject *dict;
} dict_fields;

static int field_text(stacksplice_fields *self, const char *key, stacksplice_told_text *out)
{
    const dict_fields *f = (const dict_fields *)self;

    return read_text(f->r, f->dict, key, out);
}

static int field_number(stacksplice_fields *self, const char *key, uint64_t most, uint64_t *out)
{
    return read_number(((const dict_fields *)self)->dict, key, most, out);
}

static int field_truth(stacksplice_fields *self, const char *key, int *out)
{
    return read_truth(((const dict_fields *)self)->dict, key, out);
}

static int field_locals(stacksplice_fields *self, const char *key, stacksplice_told_locals *out)
{
    const dict_fields *f = (const dict_fields *)self;
    PyObject *dict = value_of(f->dict, key), *name, *value;
    stacksplice_told_local *all;
    Py_ssize_t at = 0;

    if (!dict)
        return 0;
    if (check_dict(key, dict))
        return -1;
    out->all = all = sspy_take(f->r, PyDict_GET_SIZE(dict), sizeof *all);
    if (!all)
        return -1;
    while (PyDict_Next(dict, &at, &name, &value)) {
        stacksplice_told_text text = {NULL, 0};

        if (!PyUnicode_Check(value))
            return refuse_value("a local variable", "a text", value);
        if (sspy_lend_text(f->r, name, &text) ||
            sspy_lend_text(f->r, value, &all[out->count].value))
            return -1;
        all[out->count++].name = text.text;
    }
    return 0;
}

int sspy_read_frame(reader *r, PyObject *dict, stacksplice_told_frame *out)
{
    dict_fields from = {{field_text, field_number, field_truth, field_locals}, r, dict};

    return check_dict("a frame", dict) || stacksplice_frame_read(&from.fields, out);
}

static int read_stack(reader *r, PyObject *dict, stacksplice_told_stack *out)
{
    stacksplice_told_frame *frames;
    PyObject *list;
    Py_ssize_t count;

    if (read_count(dict, "frames_left_out", &out->left_out) ||
        read_list(dict, "stack", &list, &count))
        return -1;
    out->frames = frames = sspy_take(r, count, sizeof *frames);
    if (!frames)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (sspy_read_frame(r, PyList_GET_ITEM(list, i), &frames[i]))
            return -1;
    }
    out->count = (uint32_t)count;
    return 0;
}

/* ---- An error that was read back --------------------------------------------------------------*/

static int read_notes(reader *r, PyObject *dict, stacksplice_told *out)
{
    stacksplice_told_text *notes;
    PyObject *list;
    Py_ssize_t count;

    if (read_list(dict, "notes", &list, &count))
        return -1;
    out->notes = notes = sspy_take(r, count, sizeof *notes);
    if (!notes)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *note = PyList_GET_ITEM(list, i);

        if (!PyUnicode_Check(note))
            return refuse_value("a note", "a text", note);
        if (sspy_lend_text(r, note, &notes[i]))
            return -1;
    }
    out->note_count = (uint32_t)count;
    return 0;
}

static int read_nodes(reader *r, PyObject *dict, stacksplice_told *out)
{
    stacksplice_told_node *nodes;
    PyObject *list;
    Py_ssize_t count;

    if (read_list(dict, "propagation", &list, &count))
        return -1;
    out->nodes = nodes = sspy_take(r, count, sizeof *nodes);
    if (!nodes)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *node = PyList_GET_ITEM(list, i);

        if (check_dict("a node", node) || read_name(r, node, "language", &nodes[i].language) ||
            read_number(node, "thread_id", UINT64_MAX, &nodes[i].thread_id) ||
            read_stack(r, node, &nodes[i].stack))
            return -1;
        if (!nodes[i].language)
            nodes[i].language = "native";
    }
    out->node_count = (uint32_t)count;
    return 0;
}

/* "of process 4711 (ForkPoolWorker-1) on nodename" */
static PyObject *place_text(PyObject *process)
{
    PyObject *id = value_of(process, "id"), *host = value_of(process, "host");
    PyObject *name = value_of(process, "name"), *interpreter = value_of(process, "interpreter");
    PyObject *inside = interpreter ? PyUnicode_FromFormat("in interpreter %S ", interpreter)
                                   : PyUnicode_FromString("");
    PyObject *in_brackets = name ? PyUnicode_FromFormat(" (%S)", name) : PyUnicode_FromString("");
    PyObject *text = NULL;

    if (inside && in_brackets)
        text = PyUnicode_FromFormat("%Uof process %S%U on %S", inside, id ? id : Py_None,
                                    in_brackets, host ? host : Py_None);
    Py_XDECREF(inside);
    Py_XDECREF(in_brackets);
    return text;
}

static int read_place(reader *r, PyObject *dict, stacksplice_told *out)
{
    PyObject *process = value_of(dict, "process"), *place;
    stacksplice_told_text text = {NULL, 0};
    int failed;

    if (!process)
        return 0;
    if (check_dict("process", process))
        return -1;
    place = place_text(process);
    failed = !place || PyList_Append(r->kept, place) || sspy_lend_text(r, place, &text);
    Py_XDECREF(place);
    out->place = text.text;
    return failed ? -1 : 0;
}

static int read_identity(reader *r, PyObject *dict, stacksplice_told *out)
{
    PyObject *reference = value_of(dict, "reference");

    if (!reference || out->identity)
        return 0;
    if (!PyUnicode_Check(reference))
        return refuse_value("reference", "a text", reference);
    out->identity = PyDict_SetDefault(r->references, reference, reference);
    return out->identity ? 0 : -1;
}

static int read_hresult(PyObject *dict, stacksplice_told *out)
{
    PyObject *value = value_of(dict, "hresult_signed");
    long long code;

    if (!value || !PyLong_Check(value))
        return refuse_value("hresult_signed", "a number", value ? value : Py_None);
    code = PyLong_AsLongLong(value);
    if (PyErr_Occurred())
        return -1;
    out->hresult = (stacksplice_hresult)code;
    return 0;
}

stacksplice_told *sspy_new_told(reader *r)
{
    stacksplice_told *told = sspy_take(r, 1, sizeof *told);

    if (told)
        told->size = sizeof *told;
    return told;
}

static int read_members(reader *r, PyObject *dict, stacksplice_told *out)
{
    const stacksplice_told **members;
    PyObject *list;
    Py_ssize_t count;

    if (read_count(dict, "exceptions_left_out", &out->members_left_out) ||
        read_list(dict, "exceptions", &list, &count))
        return -1;
    out->is_group = list != NULL;
    out->members = members = sspy_take(r, count, sizeof *members);
    if (!members)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        stacksplice_told *member = sspy_new_told(r);

        if (!member || sspy_read_error(r, PyList_GET_ITEM(list, i), member))
            return -1;
        members[i] = member;
    }
    out->member_count = (uint32_t)count;
    return 0;
}

static stacksplice_relation relation_of(PyObject *dict, const char *key)
{
    return equals(dict, key, "context") ? STACKSPLICE_RELATION_CONTEXT : STACKSPLICE_RELATION_CAUSE;
}

/* Fill everything but the errors that this one was made from. */
static int fill_error(reader *r, PyObject *dict, stacksplice_told *out)
{
    return check_dict("an error", dict) || read_hresult(dict, out) || read_identity(r, dict, out) ||
           read_name(r, dict, "type", &out->type) ||
           read_name(r, dict, "language", &out->language) ||
           read_name(r, dict, "fingerprint", &out->fingerprint) ||
           read_text(r, dict, "message", &out->message) ||
           read_text(r, dict, "description", &out->description) || read_notes(r, dict, out) ||
           read_number(dict, "thread_id", UINT64_MAX, &out->thread_id) ||
           read_place(r, dict, out) || read_stack(r, dict, &out->stack) ||
           read_nodes(r, dict, out) || read_members(r, dict, out);
}

/* One list holds the causes of DICT, the latest first; each becomes the cause of the one before. */
static int read_causes(reader *r, PyObject *dict, stacksplice_told *out)
{
    PyObject *list;
    Py_ssize_t count;

    if (read_list(dict, "transformed", &list, &count))
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        stacksplice_told *cause = sspy_new_told(r);

        if (!cause || fill_error(r, PyList_GET_ITEM(list, i), cause))
            return -1;
        out->relation = relation_of(PyList_GET_ITEM(list, i), "relation");
        out->cause = cause;
        out = cause;
    }
    out->cause_above = value_of(dict, "transformed_above") != NULL;
    if (out->cause_above)
        out->relation = relation_of(dict, "transformed_above");
    return read_count(dict, "transformed_left_out", &out->causes_left_out);
}

int sspy_read_error(reader *r, PyObject *dict, stacksplice_told *out)
{
    int failed;

    if (Py_EnterRecursiveCall(" in a report"))
        return -1;
    failed = fill_error(r, dict, out) || read_causes(r, dict, out);
    Py_LeaveRecursiveCall();
    return failed ? -1 : 0;
}
