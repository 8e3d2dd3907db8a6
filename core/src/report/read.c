/*
 * Reads the JSON of an error back.  The text becomes a list of values in the order of the text,
 * without recursion; then each object becomes what a table of its members says, one error after
 * the other.
 */
#include "base/alloc.h"
#include "base/utf.h"
#include "report/visit.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Values ----------------------------------------------------------------------------------*/

typedef enum value_type { NOTHING, TRUTH, NUMBER, STRING, ARRAY, OBJECT } value_type;

typedef struct value {
    value_type type;
    uint32_t at;     /* in the text; of a string, of its first character */
    uint32_t length; /* of a string, which also ends with a NUL; of a container, its items */
    uint32_t end;    /* the next value that is not inside; of one that is open, the one around it */
} value;

enum { NONE = UINT32_MAX, VALUES_NESTED_MAX = 400 };

struct block {
    struct block *next;
    _Alignas(max_align_t) char bytes[];
};

/* An error that is to be read from the object VALUE. */
typedef struct pending {
    stacksplice_document document;
    struct pending *next;
    uint32_t value;
    uint32_t causes_left_out;     /* beyond the last cause of its list */
    const char *above;            /* how that last one relates to an error above; or NULL */
    stacksplice_document *last;   /* of its list of causes; or itself */
    stacksplice_document *before; /* of which it is the cause; or NULL */
    const char *relation;         /* to that one */
} pending;

typedef struct saved {
    pending error; /* the first member: stacksplice_document_free gets its document */
    stacksplice_document_file file; /* of the error, if it stood in one */
    struct block *blocks;
    char *text;
} saved;

/* The reader of one text.  What fails sets RESULT, once, and returns false. */
typedef struct reader {
    saved *out;
    char *text; /* strings are decoded in place */
    uint32_t length, at;
    value *values;
    uint32_t count, capacity;
    uint32_t nested;
    pending *waiting;
    const char *references[SS_REPORT_ERRORS_MAX];
    uint32_t reference_count;
    stacksplice_document_problem *problem; /* or NULL */
    stacksplice_hresult result;
} reader;

static bool refuse_at(reader *r, uint32_t at, const char *member, const char *what)
{
    if (r->result != S_OK)
        return false;
    r->result = E_INVALIDARG;
    if (!r->problem)
        return false;
    r->problem->position = at;
    (void)snprintf(r->problem->text, sizeof r->problem->text, "%s%s%s", member ? member : "",
                   member ? " " : "", what);
    return false;
}

static bool refuse(reader *r, const char *what)
{
    return refuse_at(r, r->at, NULL, what);
}

static bool lack_memory(reader *r)
{
    if (r->result == S_OK)
        r->result = E_OUTOFMEMORY;
    return false;
}

/* COUNT zeroed items of SIZE bytes, freed with the error. */
static void *take(reader *r, size_t count, size_t size)
{
    struct block *b = ss_alloc(1, sizeof *b + (count ? count : 1) * size);

    if (!b) {
        (void)lack_memory(r);
        return NULL;
    }
    b->next = r->out->blocks;
    r->out->blocks = b;
    return b->bytes;
}

static value *add_value(reader *r, value_type type)
{
    if (r->count == r->capacity) {
        uint32_t capacity = r->capacity ? 2 * r->capacity : 64;
        value *moved = ss_realloc(r->values, capacity, sizeof *moved);

        if (!moved) {
            (void)lack_memory(r);
            return NULL;
        }
        r->values = moved;
        r->capacity = capacity;
    }
    r->values[r->count] = (value){type, r->at, 0, r->count + 1};
    return &r->values[r->count++];
}

/* ---- Strings ---------------------------------------------------------------------------------*/

/* Four hexadecimal digits at AT. */
static bool read_unit(reader *r, uint32_t at, uint32_t *unit)
{
    char text[5] = "";

    if (strspn(r->text + at, "0123456789abcdefABCDEF") < 4)
        return refuse(r, "an escape has other digits");
    memcpy(text, r->text + at, 4);
    *unit = (uint32_t)strtoul(text, NULL, 16);
    return true;
}

/* An unpaired surrogate stays one: reports show U+FFFD for it. */
static bool read_code_point(reader *r, uint32_t *point)
{
    uint32_t low;

    if (!read_unit(r, r->at + 2, point))
        return false;
    r->at += 6;
    if (*point >> 10 == 0xD800 >> 10 && r->text[r->at] == '\\' && r->text[r->at + 1] == 'u') {
        if (!read_unit(r, r->at + 2, &low))
            return false;
        if (low >> 10 == 0xDC00 >> 10) {
            *point = 0x10000 + ((*point & 0x3FF) << 10) + (low & 0x3FF);
            r->at += 6;
        }
    }
    return true;
}

static bool read_escape(reader *r, uint32_t *end)
{
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    char c = r->text[r->at + 1];
    const char *letter = c ? strchr(letters, c) : NULL;
    uint32_t point;
    char bytes[4];
    size_t length;

    if (letter) {
        r->text[(*end)++] = meant[letter - letters];
        r->at += 2;
        return true;
    }
    if (c != 'u')
        return refuse(r, "an escape is none of JSON's");
    if (!read_code_point(r, &point))
        return false;
    length = ss_utf8_put(point, bytes);
    memcpy(r->text + *end, bytes, length);
    *end += (uint32_t)length;
    return true;
}

/* One character as it is. */
static bool read_character(reader *r, uint32_t *end)
{
    size_t next = r->at;
    uint32_t point, length;

    if (r->at == r->length)
        return refuse(r, "a string does not end");
    point = ss_utf8_next(r->text, r->length, &next);
    length = (uint32_t)next - r->at;
    if (point < ' ')
        return refuse(r, "a string has a control character");
    if (point >> 11 == 0xD800 >> 11 ||
        (point == SS_REPLACEMENT && strncmp(r->text + r->at, "\xEF\xBF\xBD", 3)))
        return refuse(r, "a string is not UTF-8");
    memmove(r->text + *end, r->text + r->at, length);
    *end += length;
    r->at += length;
    return true;
}

static bool read_string(reader *r)
{
    value *string;
    uint32_t begin = ++r->at, end = begin;

    while (r->text[r->at] != '"') {
        if (!(r->text[r->at] == '\\' ? read_escape(r, &end) : read_character(r, &end)))
            return false;
    }
    r->at++;
    r->text[end] = '\0';
    string = add_value(r, STRING);
    if (!string)
        return false;
    string->at = begin;
    string->length = end - begin;
    return true;
}

/* ---- JSON ------------------------------------------------------------------------------------*/

static void skip_spaces(reader *r)
{
    while (r->text[r->at] && strchr(" \t\r\n", r->text[r->at]))
        r->at++;
}

/* Also those that are no JSON, and that many programs write. */
static bool read_word(reader *r)
{
    static const struct word {
        const char *text;
        value_type type;
    } words[] = {{"null", NOTHING}, {"true", TRUTH},      {"false", TRUTH},
                 {"NaN", NUMBER},   {"Infinity", NUMBER}, {"-Infinity", NUMBER}};

    for (size_t i = 0; i < SS_COUNT_OF(words); i++) {
        size_t length = strlen(words[i].text);

        if (strncmp(r->text + r->at, words[i].text, length))
            continue;
        if (!add_value(r, words[i].type))
            return false;
        r->at += (uint32_t)length;
        return true;
    }
    return refuse(r, "a value is expected");
}

static const char digits[] = "0123456789";

static bool read_number(reader *r)
{
    const char *begin = r->text + r->at, *end = begin + (*begin == '-');
    size_t whole = strspn(end, digits), fraction = 1, exponent = 1;
    bool has_zero = *end == '0' && whole > 1;

    end += whole;
    if (*end == '.') {
        fraction = strspn(++end, digits);
        end += fraction;
    }
    if (*end == 'e' || *end == 'E') {
        end += end[1] == '+' || end[1] == '-' ? 2 : 1;
        exponent = strspn(end, digits);
        end += exponent;
    }
    if (!whole || !fraction || !exponent || has_zero)
        return refuse(r, "a number is damaged");
    if (!add_value(r, NUMBER))
        return false;
    r->at += (uint32_t)(end - begin);
    return true;
}

static bool begin_container(reader *r, uint32_t *open)
{
    value *container = add_value(r, r->text[r->at] == '{' ? OBJECT : ARRAY);

    if (!container)
        return false;
    if (r->nested++ == VALUES_NESTED_MAX)
        return refuse(r, "values are nested too deeply");
    container->end = *open;
    *open = r->count - 1;
    r->at++;
    return true;
}

/* Whether the innermost open container ends here; then it is closed. */
static bool end_container(reader *r, uint32_t *open)
{
    value *container = &r->values[*open];

    if (r->text[r->at] != (container->type == OBJECT ? '}' : ']'))
        return false;
    *open = container->end;
    container->end = r->count;
    r->nested--;
    r->at++;
    return true;
}

static bool read_key(reader *r)
{
    skip_spaces(r);
    if (r->text[r->at] != '"')
        return refuse(r, "the name of a member is expected");
    if (!read_string(r))
        return false;
    skip_spaces(r);
    if (r->text[r->at] != ':')
        return refuse(r, "':' is expected");
    r->at++;
    return true;
}

static bool read_scalar(reader *r)
{
    char first = r->text[r->at];

    if (first == '"')
        return read_string(r);
    return (first >= '0' && first <= '9') || (first == '-' && r->text[r->at + 1] != 'I')
               ? read_number(r)
               : read_word(r);
}

/* The next item of the container OPEN, or the one value of the text. */
static bool read_item(reader *r, uint32_t *open)
{
    if (*open != NONE) {
        r->values[*open].length++;
        if (r->values[*open].type == OBJECT && !read_key(r))
            return false;
    }
    skip_spaces(r);
    if (r->text[r->at] != '{' && r->text[r->at] != '[')
        return read_scalar(r);
    return begin_container(r, open);
}

static bool read_values(reader *r)
{
    uint32_t open = NONE;

    if (!read_item(r, &open))
        return false;
    while (open != NONE) {
        skip_spaces(r);
        if (end_container(r, &open))
            continue;
        if (r->values[open].length) {
            if (r->text[r->at] != ',')
                return refuse(r, "',' or the end of an object or a list is expected");
            r->at++;
        }
        if (!read_item(r, &open))
            return false;
    }
    skip_spaces(r);
    return r->at == r->length || refuse(r, "more follows");
}

/* ---- Members ---------------------------------------------------------------------------------*/

static bool check_type(reader *r, uint32_t at, value_type type, const char *key)
{
    static const char *const names[] = {[NUMBER] = "must be a number",
                                        [TRUTH] = "must be true or false",
                                        [STRING] = "must be a text",
                                        [ARRAY] = "must be a list",
                                        [OBJECT] = "must be an object"};

    return r->values[at].type == type || refuse_at(r, r->values[at].at, key, names[type]);
}

static stacksplice_document_text text_at(const reader *r, uint32_t at)
{
    return (stacksplice_document_text){r->text + r->values[at].at, r->values[at].length};
}

static bool read_object(reader *r, uint32_t at, const char *what, const ss_field *fields,
                        size_t count, void *out);

static pending *add_error(reader *r, uint32_t at)
{
    pending *p = take(r, 1, sizeof *p);

    if (!p)
        return NULL;
    p->value = at;
    p->next = r->waiting;
    r->waiting = p;
    return p;
}

/* ---- Tables ----------------------------------------------------------------------------------*/

typedef struct process {
    uint64_t id, interpreter;
    const char *host, *name;
} process;

static const ss_field process_fields[] = {
    {"id", SS_FIELD_OFFSET, SS_RULE_NEEDED, offsetof(process, id)},
    {"interpreter", SS_FIELD_OFFSET, SS_RULE_IF_SET, offsetof(process, interpreter)},
    {"host", SS_FIELD_TEXT, SS_RULE_NEEDED, offsetof(process, host)},
    {"name", SS_FIELD_TEXT, SS_RULE_IF_SET, offsetof(process, name)},
};

#define NODE(member) offsetof(stacksplice_document_node, member)

static const ss_field node_fields[] = {
    {"language", SS_FIELD_TEXT, SS_RULE_NEEDED, NODE(language)},
    {"thread_id", SS_FIELD_OFFSET, SS_RULE_NEEDED, NODE(thread_id)},
    {"stack", SS_FIELD_FRAMES, SS_RULE_NEEDED, NODE(stack)},
    {"frames_left_out", SS_FIELD_COUNT, SS_RULE_IF_SET, NODE(stack.left_out)},
};

#define THREAD(member) offsetof(stacksplice_document_thread, member)

static const ss_field thread_fields[] = {
    {"thread_id", SS_FIELD_OFFSET, SS_RULE_NEEDED, THREAD(thread_id)},
    {"name", SS_FIELD_TEXT, SS_RULE_NEEDED, THREAD(name)},
    {"stack", SS_FIELD_FRAMES, SS_RULE_NEEDED, THREAD(stack)},
    {"frames_left_out", SS_FIELD_COUNT, SS_RULE_IF_SET, THREAD(stack.left_out)},
};

#define MODULE(member) offsetof(stacksplice_document_module, member)

static const ss_field module_fields[] = {
    {"path", SS_FIELD_TEXT, SS_RULE_NEEDED, MODULE(path)},
    {"build_id", SS_FIELD_TEXT, SS_RULE_IF_SET, MODULE(build_id)},
    {"start", SS_FIELD_ADDRESS, SS_RULE_NEEDED, MODULE(start)},
    {"end", SS_FIELD_ADDRESS, SS_RULE_NEEDED, MODULE(end)},
};

#define FILE_OF(member) offsetof(stacksplice_document_file, member)

static const ss_field file_fields[] = {
    {"header", SS_FIELD_HEADER, SS_RULE_NEEDED, 0},
    {"current_error", SS_FIELD_MEMBER, SS_RULE_IF_SET, FILE_OF(current_error)},
    {"threads", SS_FIELD_THREADS, SS_RULE_IF_SET, FILE_OF(threads)},
    {"threads_left_out", SS_FIELD_COUNT, SS_RULE_IF_SET, FILE_OF(threads_left_out)},
    {"modules", SS_FIELD_MODULES, SS_RULE_IF_SET, FILE_OF(modules)},
};

static const ss_field header_fields[] = {
    {"event", SS_FIELD_TEXT, SS_RULE_NEEDED, FILE_OF(event)},
    {"time", SS_FIELD_TEXT, SS_RULE_NEEDED, FILE_OF(time)},
    {"signal", SS_FIELD_COUNT, SS_RULE_IF_SET, FILE_OF(signal)},
    {"signal_code", SS_FIELD_HRESULT, SS_RULE_IF_SET, FILE_OF(signal_code)},
    {"host", SS_FIELD_TEXT, SS_RULE_IF_SET, FILE_OF(host)},
    {"process", SS_FIELD_TEXT, SS_RULE_IF_SET, FILE_OF(process)},
    {"pid", SS_FIELD_COUNT, SS_RULE_IF_SET, FILE_OF(pid)},
    {"arch", SS_FIELD_TEXT, SS_RULE_IF_SET, FILE_OF(arch)},
    {"platform", SS_FIELD_TEXT, SS_RULE_IF_SET, FILE_OF(platform)},
    {"platform_release", SS_FIELD_TEXT, SS_RULE_IF_SET, FILE_OF(platform_release)},
};

#define ERROR(member) offsetof(pending, member)

static const ss_field error_fields[] = {
    {"hresult_signed", SS_FIELD_HRESULT, SS_RULE_NEEDED, ERROR(document.hresult)},
    {"message", SS_FIELD_STRING, SS_RULE_NEEDED, ERROR(document.message)},
    {"stack", SS_FIELD_FRAMES, SS_RULE_NEEDED, ERROR(document.stack)},
    {"propagation", SS_FIELD_NODES, SS_RULE_NEEDED, ERROR(document.nodes)},
    {"description", SS_FIELD_STRING, SS_RULE_IF_SET, ERROR(document.description)},
    {"type", SS_FIELD_TEXT, SS_RULE_IF_SET, ERROR(document.type)},
    {"language", SS_FIELD_TEXT, SS_RULE_IF_SET, ERROR(document.language)},
    {"notes", SS_FIELD_NOTES, SS_RULE_IF_SET, ERROR(document.notes)},
    {"thread_id", SS_FIELD_OFFSET, SS_RULE_IF_SET, ERROR(document.thread_id)},
    {"relation", SS_FIELD_TEXT, SS_RULE_IF_SET, ERROR(relation)},
    {"reference", SS_FIELD_TEXT, SS_RULE_IF_SET, ERROR(document.reference)},
    {"fingerprint", SS_FIELD_TEXT, SS_RULE_IF_SET, ERROR(document.fingerprint)},
    {"loose_fingerprint", SS_FIELD_TEXT, SS_RULE_IF_SET, ERROR(document.loose_fingerprint)},
    {"frames_left_out", SS_FIELD_COUNT, SS_RULE_IF_SET, ERROR(document.stack.left_out)},
    {"hidden_left_out", SS_FIELD_COUNT, SS_RULE_IF_SET, ERROR(document.stack.hidden_left_out)},
    {"process", SS_FIELD_PROCESS, SS_RULE_IF_SET, ERROR(document.place)},
    {"exceptions", SS_FIELD_MEMBERS, SS_RULE_IF_SET, ERROR(document.members)},
    {"exceptions_left_out", SS_FIELD_COUNT, SS_RULE_IF_SET, ERROR(document.members_left_out)},
    {"transformed", SS_FIELD_CAUSES, SS_RULE_IF_SET, 0},
    {"transformed_left_out", SS_FIELD_COUNT, SS_RULE_IF_SET, ERROR(causes_left_out)},
    {"transformed_above", SS_FIELD_TEXT, SS_RULE_IF_SET, ERROR(above)},
};

/* ---- Lists -----------------------------------------------------------------------------------*/

typedef bool (*item_reader)(reader *r, uint32_t at, const char *key, void *item);

static bool read_frame(reader *r, uint32_t at, const char *key, void *item)
{
    stacksplice_document_frame *f = item;

    f->frame.size = sizeof f->frame;
    f->frame.kind = STACKSPLICE_FRAME_SCRIPT;
    f->frame.trust = STACKSPLICE_TRUST_EXACT;
    return read_object(r, at, key, ss_frame_fields, SS_FRAME_FIELDS, f);
}

static bool read_note(reader *r, uint32_t at, const char *key, void *item)
{
    *(stacksplice_document_text *)item = text_at(r, at);
    return check_type(r, at, STRING, key);
}

static bool read_member(reader *r, uint32_t at, const char *key, void *item)
{
    pending *member = add_error(r, at);

    (void)key;
    *(const stacksplice_document **)item = member ? &member->document : NULL;
    return member != NULL;
}

static bool read_locals(reader *r, uint32_t object, const char *key,
                        stacksplice_document_locals *out)
{
    stacksplice_document_local *all = take(r, r->values[object].length, sizeof *all);

    out->all = all;
    out->count = 0;
    if (!all)
        return false;
    for (uint32_t i = object + 1; i < r->values[object].end; i = r->values[i + 1].end) {
        if (!check_type(r, i + 1, STRING, key))
            return false;
        all[out->count++] = (stacksplice_document_local){text_at(r, i).text, text_at(r, i + 1)};
    }
    return true;
}

static stacksplice_relation relation_of(const char *name)
{
    return name && !strcmp(name, "context") ? STACKSPLICE_RELATION_CONTEXT
                                            : STACKSPLICE_RELATION_CAUSE;
}

/* Each error of the list is the cause of the one before.  The last may have a list of its own. */
static bool read_causes(reader *r, uint32_t list, pending *of)
{
    if (of->document.cause) /* which is in a list itself, and has its cause there */
        return true;
    of->last = &of->document;
    for (uint32_t i = list + 1; i < r->values[list].end; i = r->values[i].end) {
        pending *cause = add_error(r, i);

        if (!cause)
            return false;
        cause->before = of->last;
        of->last->cause = &cause->document;
        of->last = &cause->document;
    }
    return true;
}

/* The items of the list at AT to the pointer TO; behind it each structure has their count. */
static bool read_list(reader *r, uint32_t at, const ss_field *f, void *to)
{
    static const struct kind {
        size_t size;      /* of an item */
        item_reader read; /* or NULL: by these fields */
        const ss_field *fields;
        size_t field_count;
    } kinds[] = {
        {sizeof(stacksplice_document_frame), read_frame, NULL, 0}, /* from SS_FIELD_FRAMES on */
        {sizeof(stacksplice_document_text), read_note, NULL, 0},
        {sizeof(stacksplice_document_node), NULL, node_fields, SS_COUNT_OF(node_fields)},
        {sizeof(stacksplice_document *), read_member, NULL, 0},
        {sizeof(stacksplice_document_thread), NULL, thread_fields, SS_COUNT_OF(thread_fields)},
        {sizeof(stacksplice_document_module), NULL, module_fields, SS_COUNT_OF(module_fields)}};
    const struct kind *kind = &kinds[f->type - SS_FIELD_FRAMES];
    char *items = take(r, r->values[at].length, kind->size);
    uint32_t count = 0;

    for (uint32_t i = at + 1; items && i < r->values[at].end; i = r->values[i].end) {
        char *item = items + kind->size * count++;

        if (!(kind->read ? kind->read(r, i, f->key, item)
                         : read_object(r, i, f->key, kind->fields, kind->field_count, item)))
            return false;
    }
    memcpy(to, &items, sizeof items);
    memcpy((char *)to + sizeof items, &count, sizeof count);
    return items != NULL;
}

/* ---- Values of members ------------------------------------------------------------------------*/

/* "in interpreter 2 of process 4711 (ForkPoolWorker-1) on nodename" */
static bool read_process(reader *r, uint32_t object, const char *key, const char **out)
{
    process p = {.host = ""};
    char inside[48] = "";
    size_t size;
    char *text;

    if (!read_object(r, object, key, process_fields, SS_COUNT_OF(process_fields), &p))
        return false;
    if (p.interpreter)
        (void)snprintf(inside, sizeof inside, "in interpreter %" PRIu64 " ", p.interpreter);
    size = strlen(p.host) + (p.name ? strlen(p.name) : 0) + 128;
    *out = text = take(r, size, 1);
    if (!text)
        return false;
    (void)snprintf(text, size, "%sof process %" PRIu64 "%s%s%s on %s", inside, p.id,
                   p.name ? " (" : "", p.name ? p.name : "", p.name ? ")" : "", p.host);
    return true;
}

/* A word that is none of the NAMES changes nothing. */
static bool read_word_of(reader *r, uint32_t at, const ss_field *f, const char *const names[3],
                         void *to)
{
    unsigned number = 0;

    if (!check_type(r, at, STRING, f->key))
        return false;
    while (number < 3 && strcmp(text_at(r, at).text, names[number]) != 0)
        number++;
    if (number < 3 && f->type == SS_FIELD_KIND)
        *(stacksplice_frame_kind *)to = (stacksplice_frame_kind)(number + 1);
    else if (number < 3)
        *(stacksplice_trust *)to = (stacksplice_trust)(number + 1);
    return true;
}

/* A whole number; an HRESULT may be negative, and an address a text in hexadecimal. */
static bool number_at(reader *r, uint32_t at, const ss_field *f, uint64_t most, uint64_t *out)
{
    const value *v = &r->values[at];
    const char *text = r->text + v->at;
    bool is_text = v->type == STRING && f->type == SS_FIELD_ADDRESS;
    bool is_negative = !is_text && *text == '-';
    char *end;

    if (!is_text && !check_type(r, at, NUMBER, f->key))
        return false;
    if (is_negative && f->type != SS_FIELD_HRESULT)
        return refuse_at(r, v->at, f->key, "must be 0 or more");
    if (is_text && strspn(text, "0123456789abcdefABCDEFxX") != v->length)
        return refuse_at(r, v->at, f->key, "must be a number");
    errno = 0;
    *out = strtoull(text + is_negative, &end, is_text ? 16 : 10);
    if (is_text ? !v->length || end != text + v->length : *end && strchr(".eEIN", *end))
        return refuse_at(r, v->at, f->key, "must be a whole number");
    if (errno || *out > (is_negative ? UINT32_C(1) << 31 : most))
        return refuse_at(r, v->at, f->key, "must be smaller");
    *out = is_negative ? 0 - *out : *out;
    return true;
}

static bool read_number_of(reader *r, uint32_t at, const ss_field *f, void *to)
{
    bool is_small = f->type == SS_FIELD_COUNT || f->type == SS_FIELD_HRESULT;
    uint64_t number = 0;

    if (!number_at(r, at, f, is_small ? UINT32_MAX : UINT64_MAX, &number))
        return false;
    if (f->type == SS_FIELD_HRESULT)
        *(stacksplice_hresult *)to = (stacksplice_hresult)(uint32_t)number;
    else if (is_small)
        *(uint32_t *)to = (uint32_t)number;
    else if (f->type == SS_FIELD_OFFSET)
        *(uint64_t *)to = number;
    else
        *(uintptr_t *)to = (uintptr_t)number;
    return true;
}

static bool read_field(reader *r, uint32_t at, const ss_field *f, void *to)
{
    switch (f->type) {
    case SS_FIELD_KIND:
        return read_word_of(r, at, f, ss_kinds, to);
    case SS_FIELD_TRUST:
        return read_word_of(r, at, f, ss_trusts, to);
    case SS_FIELD_TEXT:
        *(const char **)to = text_at(r, at).text;
        return check_type(r, at, STRING, f->key);
    case SS_FIELD_STRING:
        *(stacksplice_document_text *)to = text_at(r, at);
        return check_type(r, at, STRING, f->key);
    case SS_FIELD_FLAG:
        *(int *)to = r->text[r->values[at].at] == 't';
        return check_type(r, at, TRUTH, f->key);
    case SS_FIELD_LOCALS:
        return check_type(r, at, OBJECT, f->key) && read_locals(r, at, f->key, to);
    case SS_FIELD_PROCESS:
        return check_type(r, at, OBJECT, f->key) && read_process(r, at, f->key, to);
    case SS_FIELD_MEMBER:
        return read_member(r, at, f->key, to);
    case SS_FIELD_HEADER:
        return read_object(r, at, f->key, header_fields, SS_COUNT_OF(header_fields), to);
    case SS_FIELD_CAUSES:
        return check_type(r, at, ARRAY, f->key) && read_causes(r, at, to);
    case SS_FIELD_FRAMES:
    case SS_FIELD_NOTES:
    case SS_FIELD_NODES:
    case SS_FIELD_MEMBERS:
    case SS_FIELD_THREADS:
    case SS_FIELD_MODULES:
        return check_type(r, at, ARRAY, f->key) && read_list(r, at, f, to);
    default:
        return read_number_of(r, at, f, to);
    }
}

static bool read_object(reader *r, uint32_t at, const char *what, const ss_field *fields,
                        size_t count, void *out)
{
    uint32_t seen = 0, end = r->values[at].end;

    if (!check_type(r, at, OBJECT, what))
        return false;
    for (uint32_t i = at + 1; i < end; i = r->values[i + 1].end) {
        for (size_t f = 0; f < count; f++) {
            if (strcmp(text_at(r, i).text, fields[f].key))
                continue;
            /* What may be absent may be null as well. */
            if (r->values[i + 1].type == NOTHING && fields[f].rule != SS_RULE_NEEDED)
                continue;
            seen |= UINT32_C(1) << f;
            if (!read_field(r, i + 1, &fields[f], (char *)out + fields[f].at))
                return false;
        }
    }
    for (size_t f = 0; f < count; f++) {
        if (fields[f].rule == SS_RULE_NEEDED && !(seen >> f & 1))
            return refuse_at(r, r->values[at].at, fields[f].key, "is missing");
    }
    return true;
}

/* ---- Errors ----------------------------------------------------------------------------------*/

/* The same for equal references, as far as one report has that many errors. */
static const char *identity_of(reader *r, const char *reference)
{
    for (uint32_t i = 0; reference && i < r->reference_count; i++) {
        if (!strcmp(r->references[i], reference))
            return r->references[i];
    }
    if (reference && r->reference_count < SS_COUNT_OF(r->references))
        r->references[r->reference_count++] = reference;
    return reference;
}

static bool read_error(reader *r, pending *p)
{
    p->document.size = sizeof p->document;
    p->last = &p->document;
    if (!read_object(r, p->value, "an error", error_fields, SS_COUNT_OF(error_fields), p))
        return false;
    if (p->before)
        p->before->relation = relation_of(p->relation);
    if (p->causes_left_out)
        p->last->causes_left_out = p->causes_left_out;
    if (p->above) {
        p->last->cause_above = 1;
        p->last->relation = relation_of(p->above);
    }
    p->document.is_group = p->document.members != NULL;
    p->document.identity = identity_of(r, p->document.reference);
    return true;
}

/* The value of the member KEY of the object at OBJECT; NONE if it has none. */
static uint32_t member_of(const reader *r, uint32_t object, const char *key)
{
    uint32_t end = r->values[object].type == OBJECT ? r->values[object].end : 0;

    for (uint32_t i = object + 1; i < end; i = r->values[i + 1].end) {
        if (!strcmp(text_at(r, i).text, key))
            return i + 1;
    }
    return NONE;
}

/* If the text is the file of a process that failed, read what stands there beside its error. */
static bool read_file(reader *r)
{
    uint32_t schema = member_of(r, 0, "schema"), error = member_of(r, 0, "error");

    if (schema == NONE || r->values[schema].type != STRING ||
        strcmp(text_at(r, schema).text, SS_SCHEMA_FILE))
        return true;
    if (error == NONE)
        return refuse_at(r, 0, "error", "is missing");
    r->out->error.value = error;
    r->out->error.document.file = &r->out->file;
    return read_object(r, 0, "a file", file_fields, SS_COUNT_OF(file_fields), &r->out->file);
}

static bool read_errors(reader *r)
{
    while (r->waiting) {
        pending *next = r->waiting;

        r->waiting = next->next;
        if (!read_error(r, next))
            return false;
    }
    return true;
}

static bool take_text(reader *r, const char *json, size_t length)
{
    if (length >= INT32_MAX) /* so that a count of values or a place is no larger either */
        return refuse(r, "the text is too large");
    r->out = ss_alloc(1, sizeof *r->out);
    r->text = r->out ? ss_alloc_dirty(length + 1) : NULL;
    if (!r->text)
        return lack_memory(r);
    memcpy(r->text, json, length);
    r->text[length] = '\0';
    r->out->text = r->text;
    r->length = (uint32_t)length;
    r->waiting = &r->out->error;
    return true;
}

stacksplice_hresult stacksplice_document_read(const char *json, size_t length,
                                              const stacksplice_document **document,
                                              stacksplice_document_problem *problem)
{
    reader r = {.problem = problem};

    if (!json || !document)
        return E_POINTER;
    if (take_text(&r, json, length) && read_values(&r) && read_file(&r) && read_errors(&r))
        *document = &r.out->error.document;
    else if (r.out)
        stacksplice_document_free(&r.out->error.document);
    ss_free(r.values);
    return r.result;
}

void stacksplice_document_free(const stacksplice_document *document)
{
    saved *s = (saved *)(uintptr_t)document;

    if (!s)
        return;
    while (s->blocks) {
        struct block *next = s->blocks->next;

        ss_free(s->blocks);
        s->blocks = next;
    }
    ss_free(s->text);
    ss_free(s);
}
