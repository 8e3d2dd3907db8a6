/*
 * Errors that Python describes for the core's formatter.  A report that was read back is a dict as
 * JSON gives it.  A live exception and what belongs to it are tuples that _live.py makes
 * (report_text.c).
 *
 * What is read lives in blocks until the report is written; Python objects lend the texts.
 */
#include "api/report_values.h"

typedef sspy_reader reader;

/* ---- Frames -----------------------------------------------------------------------------------*/

static int equals(PyObject *dict, const char *key, const char *text)
{
    PyObject *value = sspy_value_of(dict, key);

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

    return sspy_read_text(f->r, f->dict, key, out);
}

static int field_number(stacksplice_fields *self, const char *key, uint64_t most, uint64_t *out)
{
    return sspy_read_number(((const dict_fields *)self)->dict, key, most, out);
}

static int field_truth(stacksplice_fields *self, const char *key, int *out)
{
    return sspy_read_truth(((const dict_fields *)self)->dict, key, out);
}

static int field_locals(stacksplice_fields *self, const char *key, stacksplice_told_locals *out)
{
    const dict_fields *f = (const dict_fields *)self;
    PyObject *dict = sspy_value_of(f->dict, key), *name, *value;
    stacksplice_told_local *all;
    Py_ssize_t at = 0;

    if (!dict)
        return 0;
    if (sspy_check_dict(key, dict))
        return -1;
    out->all = all = sspy_take(f->r, PyDict_GET_SIZE(dict), sizeof *all);
    if (!all)
        return -1;
    while (PyDict_Next(dict, &at, &name, &value)) {
        stacksplice_told_text text = {NULL, 0};

        if (!PyUnicode_Check(value))
            return sspy_refuse_value("a local variable", "a text", value);
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

    return sspy_check_dict("a frame", dict) || stacksplice_frame_read(&from.fields, out);
}

static int read_stack(reader *r, PyObject *dict, stacksplice_told_stack *out)
{
    stacksplice_told_frame *frames;
    PyObject *list;
    Py_ssize_t count;

    if (sspy_read_count(dict, "frames_left_out", &out->left_out) ||
        sspy_read_list(dict, "stack", &list, &count))
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

    if (sspy_read_list(dict, "notes", &list, &count))
        return -1;
    out->notes = notes = sspy_take(r, count, sizeof *notes);
    if (!notes)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *note = PyList_GET_ITEM(list, i);

        if (!PyUnicode_Check(note))
            return sspy_refuse_value("a note", "a text", note);
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

    if (sspy_read_list(dict, "propagation", &list, &count))
        return -1;
    out->nodes = nodes = sspy_take(r, count, sizeof *nodes);
    if (!nodes)
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *node = PyList_GET_ITEM(list, i);

        if (sspy_check_dict("a node", node) ||
            sspy_read_name(r, node, "language", &nodes[i].language) ||
            sspy_read_number(node, "thread_id", UINT64_MAX, &nodes[i].thread_id) ||
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
    PyObject *id = sspy_value_of(process, "id"), *host = sspy_value_of(process, "host");
    PyObject *name = sspy_value_of(process, "name"),
             *interpreter = sspy_value_of(process, "interpreter");
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
    PyObject *process = sspy_value_of(dict, "process"), *place;
    stacksplice_told_text text = {NULL, 0};
    int failed;

    if (!process)
        return 0;
    if (sspy_check_dict("process", process))
        return -1;
    place = place_text(process);
    failed = !place || PyList_Append(r->kept, place) || sspy_lend_text(r, place, &text);
    Py_XDECREF(place);
    out->place = text.text;
    return failed ? -1 : 0;
}

static int read_identity(reader *r, PyObject *dict, stacksplice_told *out)
{
    PyObject *reference = sspy_value_of(dict, "reference");

    if (!reference || out->identity)
        return 0;
    if (!PyUnicode_Check(reference))
        return sspy_refuse_value("reference", "a text", reference);
    out->identity = PyDict_SetDefault(r->references, reference, reference);
    return out->identity ? 0 : -1;
}

static int read_hresult(PyObject *dict, stacksplice_told *out)
{
    PyObject *value = sspy_value_of(dict, "hresult_signed");
    long long code;

    if (!value || !PyLong_Check(value))
        return sspy_refuse_value("hresult_signed", "a number", value ? value : Py_None);
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

    if (sspy_read_count(dict, "exceptions_left_out", &out->members_left_out) ||
        sspy_read_list(dict, "exceptions", &list, &count))
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
    return sspy_check_dict("an error", dict) || read_hresult(dict, out) ||
           read_identity(r, dict, out) || sspy_read_name(r, dict, "type", &out->type) ||
           sspy_read_name(r, dict, "language", &out->language) ||
           sspy_read_name(r, dict, "fingerprint", &out->fingerprint) ||
           sspy_read_text(r, dict, "message", &out->message) ||
           sspy_read_text(r, dict, "description", &out->description) || read_notes(r, dict, out) ||
           sspy_read_number(dict, "thread_id", UINT64_MAX, &out->thread_id) ||
           read_place(r, dict, out) || read_stack(r, dict, &out->stack) ||
           read_nodes(r, dict, out) || read_members(r, dict, out);
}

/* One list holds the causes of DICT, the latest first; each becomes the cause of the one before. */
static int read_causes(reader *r, PyObject *dict, stacksplice_told *out)
{
    PyObject *list;
    Py_ssize_t count;

    if (sspy_read_list(dict, "transformed", &list, &count))
        return -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        stacksplice_told *cause = sspy_new_told(r);

        if (!cause || fill_error(r, PyList_GET_ITEM(list, i), cause))
            return -1;
        out->relation = relation_of(PyList_GET_ITEM(list, i), "relation");
        out->cause = cause;
        out = cause;
    }
    out->cause_above = sspy_value_of(dict, "transformed_above") != NULL;
    if (out->cause_above)
        out->relation = relation_of(dict, "transformed_above");
    return sspy_read_count(dict, "transformed_left_out", &out->causes_left_out);
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
