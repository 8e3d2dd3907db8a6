#include "report/report.h"

#include "base/alloc.h"
#include "splice/token.h"

#include <stacksplice/script.h>
#include <stdatomic.h>
#include <string.h>

const char *ss_stack_language(const uintptr_t *frames, uint32_t count,
                              char language[SS_STACK_LANGUAGE])
{
    stacksplice_token_info info;

    for (uint32_t i = 0; i < count; i++) {
        if (!ss_token_is(frames[i]))
            continue;
        (void)ss_token_read(frames[i], &info, language, SS_STACK_LANGUAGE);
        if (info.kind == STACKSPLICE_FRAME_SCRIPT)
            return info.language;
    }
    return "native";
}

static void ask_exception(ss_facts *facts)
{
    IScriptException *x = facts->view.exception;

    if (!x)
        return;
    facts->type = x->lpVtbl->GetTypeName(x, 0);
    facts->message = x->lpVtbl->GetMessage(x, &facts->message_length);
    if (!facts->view.is_node && x->lpVtbl->GetLanguage(x))
        facts->language = x->lpVtbl->GetLanguage(x);
}

bool ss_facts_get(IUnknown *error, ss_facts *facts)
{
    memset(facts, 0, sizeof *facts);
    if (!ss_error_view_get(error, &facts->view))
        return false;
    facts->error = error;
    facts->frames_left_out =
        stacksplice_frames_left_out(facts->view.frames, facts->view.frame_count);
    facts->language = facts->view.is_node ? facts->view.receiver : NULL;
    ask_exception(facts);
    if (!facts->language) /* nobody said: the stack is read last, since that takes longest */
        facts->language =
            ss_stack_language(facts->view.frames, facts->view.frame_count, facts->stack_language);
    return true;
}

bool ss_facts_of(ss_subject subject, ss_facts *facts)
{
    const stacksplice_document *document = subject.document;

    memset(facts, 0, sizeof *facts);
    if (!document)
        return subject.error && ss_facts_get(subject.error, facts);
    facts->document = document;
    facts->view.identity = document->identity ? document->identity : document;
    facts->view.relation = document->relation;
    facts->view.causes_left_out = document->causes_left_out;
    facts->view.hresult = document->hresult;
    facts->view.thread_id = document->thread_id;
    facts->type = document->type;
    facts->language = document->language ? document->language : "";
    facts->message = document->message.text ? document->message.text : "";
    facts->message_length = document->message.length;
    return true;
}

void ss_facts_release(ss_facts *facts)
{
    if (facts->member)
        facts->member->lpVtbl->Release(facts->member);
    facts->member = NULL;
}

/* ---- Texts -----------------------------------------------------------------------------------*/

static ss_text trimmed(const WCHAR *text)
{
    ss_text all = {NULL, text, 0};

    for (size_t i = 0; text && text[i]; i++) {
        if (!strchr(" \t\r\n", text[i] < 0x80 ? text[i] : 'x'))
            all.length = i + 1;
    }
    return all;
}

ss_text ss_facts_message(const ss_facts *facts)
{
    if (facts->message)
        return (ss_text){facts->message, NULL, facts->message_length};
    return trimmed(facts->view.message);
}

ss_text ss_facts_description(const ss_facts *facts)
{
    if (facts->document)
        return (ss_text){facts->document->description.text ? facts->document->description.text : "",
                         NULL, facts->document->description.length};
    return trimmed(facts->view.description);
}

bool ss_facts_has_own_message(const ss_facts *facts)
{
    ss_text message = ss_facts_message(facts), description = ss_facts_description(facts);

    if (facts->type || message.length != description.length)
        return true;
    for (size_t i = 0; i < message.length; i++) {
        if (ss_text_at(&message, i) != ss_text_at(&description, i))
            return true; /* the texts of HRESULTs are ASCII */
    }
    return false;
}

/* ---- What belongs to it ----------------------------------------------------------------------*/

ss_shown_stack ss_document_stack(const stacksplice_document_stack *stack)
{
    return (ss_shown_stack){.frames = stack->frames,
                            .count = stack->count,
                            .left_out = stack->left_out,
                            .hidden_left_out = stack->hidden_left_out};
}

static ss_shown_stack stack_of_view(const ss_error_view *view, uint32_t left_out)
{
    return (ss_shown_stack){.elements = view->frames,
                            .count = view->frame_count,
                            .taken_at = view->taken_at,
                            .left_out = left_out};
}

ss_shown_stack ss_facts_stack(const ss_facts *facts)
{
    return facts->document ? ss_document_stack(&facts->document->stack)
                           : stack_of_view(&facts->view, facts->frames_left_out);
}

void ss_facts_each_note(const ss_facts *facts, stacksplice_note_callback back, void *data)
{
    const stacksplice_document *document = facts->document;

    if (facts->error && !facts->view.is_node)
        (void)stacksplice_error_notes(facts->error, back, data);
    if (!document)
        return;
    for (uint32_t i = 0; i < document->note_count; i++) {
        if (back(document->notes[i].text, document->notes[i].length, data))
            return;
    }
}

typedef struct node_reader {
    ss_node_callback back;
    void *data;
} node_reader;

static bool read_node(const ss_error_view *node, void *data)
{
    const node_reader *reader = data;
    uint32_t left_out = stacksplice_frames_left_out(node->frames, node->frame_count);

    return reader->back(node->receiver, node->thread_id, stack_of_view(node, left_out),
                        reader->data);
}

void ss_facts_each_node(const ss_facts *facts, ss_node_callback back, void *data)
{
    node_reader reader = {back, data};
    const stacksplice_document *document = facts->document;

    if (facts->error && !facts->view.is_node)
        ss_error_each_node(facts->error, read_node, &reader);
    if (!document)
        return;
    for (uint32_t i = 0; i < document->node_count; i++) {
        const stacksplice_document_node *node = &document->nodes[i];

        if (!back(node->language, node->thread_id, ss_document_stack(&node->stack), data))
            return;
    }
}

bool ss_facts_group(const ss_facts *facts, uint32_t *members, uint32_t *left_out)
{
    *members = *left_out = 0;
    if (!facts->document)
        return facts->error && !facts->view.is_node &&
               stacksplice_error_group(facts->error, members, left_out) == S_OK;
    *members = facts->document->member_count;
    *left_out = facts->document->members_left_out;
    return facts->document->is_group != 0;
}

bool ss_facts_get_member(const ss_facts *group, uint32_t index, ss_facts *facts)
{
    IRestrictedErrorInfo *member = NULL;
    bool found;

    if (group->document)
        return ss_facts_of((ss_subject){NULL, group->document->members[index]}, facts);
    (void)stacksplice_error_member(group->error, index, &member);
    found = ss_facts_of((ss_subject){(IUnknown *)(void *)member, NULL}, facts);
    facts->member = member;
    return found;
}

ss_subject ss_facts_previous(const ss_facts *facts)
{
    if (facts->document)
        return (ss_subject){NULL, facts->document->cause};
    return (ss_subject){ss_facts_has_chain(facts) ? ss_error_previous(facts->error) : NULL, NULL};
}

/* ---- Locals ----------------------------------------------------------------------------------*/

enum { MOST_ADDED = 8 };

static _Atomic(stacksplice_locals_callback) added[MOST_ADDED]; /* (ATOMIC) set once, in order */

stacksplice_hresult stacksplice_add_locals(stacksplice_locals_callback read)
{
    if (!read)
        return E_POINTER;
    for (uint32_t i = 0; i < MOST_ADDED; i++) {
        stacksplice_locals_callback there = NULL;

        if (atomic_compare_exchange_strong(&added[i], &there, read))
            return S_OK;
        if (there == read)
            return S_FALSE;
    }
    return E_OUTOFMEMORY;
}

/* A stacksplice_local_callback. */
static int put(uint32_t element, const char *name, const char *value, size_t length, void *data)
{
    static const char remark[] = "<more are not shown>";
    ss_locals *l = data;
    bool is_last = l->count == STACKSPLICE_MAX_LOCALS - 1;
    size_t before;
    char *block; /* NAME, then VALUE */

    if (is_last) {
        name = "...";
        value = remark;
        length = sizeof remark - 1;
    }
    before = strlen(name) + 1;
    if (!l->all)
        l->all = ss_alloc_dirty(STACKSPLICE_MAX_LOCALS * (sizeof *l->all + sizeof *l->elements));
    if (!l->all || l->count == STACKSPLICE_MAX_LOCALS || !(block = ss_alloc_dirty(before + length)))
        return 1;
    memcpy(block, name, before);
    if (length)
        memcpy(block + before, value, length);
    l->all[l->count] = (stacksplice_document_local){block, {block + before, length}};
    l->elements = (uint32_t *)(void *)(l->all + STACKSPLICE_MAX_LOCALS);
    l->elements[l->count++] = element;
    return is_last;
}

/* The place of the element WANTED of VIEW's captured stack in its frames, which have the captured
   ones and perhaps others; UINT32_MAX if it was left out. */
static uint32_t place_of(const ss_error_view *view, uint32_t wanted)
{
    uint32_t at = 0;

    if (!view->captured || view->captured == view->frames)
        return wanted;
    for (uint32_t i = 0; i < view->frame_count && at < view->captured_count; i++) {
        if (view->frames[i] != view->captured[at])
            continue;
        if (at++ == wanted)
            return i;
    }
    return UINT32_MAX;
}

static void put_kept(ss_locals *locals, const stacksplice_exception *x, const ss_error_view *view)
{
    uint32_t count;
    const stacksplice_kept_local *kept = stacksplice_exception_locals(x, &count);

    for (uint32_t i = 0; i < count; i++) {
        const stacksplice_document_local *local = &kept[i].local;
        uint32_t element = place_of(view, kept[i].element);

        if (element != UINT32_MAX &&
            put(element, local->name, local->value.text, local->value.length, locals))
            return;
    }
}

/* A report without memory for them goes on without them. */
void ss_locals_begin(ss_locals *locals, IUnknown *error, const ss_error_view *view)
{
    const stacksplice_exception *x;
    stacksplice_locals_callback read;

    *locals = (ss_locals){.count = 0};
    if (!error || !view->frame_count)
        return;
    x = view->language_exception ? stacksplice_exception_from(view->language_exception, NULL)
                                 : NULL;
    if (x)
        put_kept(locals, x, view);
    for (uint32_t i = 0; i < MOST_ADDED && (read = atomic_load(&added[i])) != NULL; i++)
        read(error, view->frames, view->frame_count, put, locals);
}

void ss_locals_end(ss_locals *locals)
{
    for (uint32_t i = 0; i < locals->count; i++)
        ss_free((void *)(uintptr_t)locals->all[i].name);
    ss_free(locals->all);
    *locals = (ss_locals){.count = 0};
}

stacksplice_document_locals ss_locals_of(const ss_locals *locals, uint32_t element)
{
    uint32_t begin = 0, end;

    while (locals && begin < locals->count && locals->elements[begin] != element)
        begin++;
    if (!locals || begin == locals->count)
        return (stacksplice_document_locals){NULL, 0};
    for (end = begin + 1; end < locals->count && locals->elements[end] == element;)
        end++;
    return (stacksplice_document_locals){&locals->all[begin], end - begin};
}
