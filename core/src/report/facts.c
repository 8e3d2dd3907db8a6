#include "report/facts.h"

#include <stacksplice/script.h>

#include "splice/token.h"

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
    IUnknown *exception = facts->view.language_exception;
    IScriptException *script;
    void *out = NULL;

    if (!exception ||
        FAILED(exception->lpVtbl->QueryInterface(exception, &stacksplice_IID_IScriptException,
                                                 &out)) ||
        !out)
        return;
    script = out;
    facts->exception = script;
    facts->type = script->lpVtbl->GetTypeName(script);
    facts->message = script->lpVtbl->GetMessage(script, &facts->message_length);
    if (!facts->view.is_node && script->lpVtbl->GetLanguage(script))
        facts->language = script->lpVtbl->GetLanguage(script);
}

bool ss_facts_get(IUnknown *error, ss_facts *facts)
{
    memset(facts, 0, sizeof *facts);
    if (!ss_error_view_get(error, &facts->view))
        return false;
    facts->error = error;
    facts->language = facts->view.is_node ? facts->view.receiver : NULL;
    ask_exception(facts);
    if (!facts->language) /* nobody said: the stack is read last, since that takes longest */
        facts->language =
            ss_stack_language(facts->view.frames, facts->view.frame_count, facts->stack_language);
    return true;
}

bool ss_facts_of(ss_subject subject, ss_facts *facts)
{
    const stacksplice_told *told = subject.told;

    if (!told)
        return ss_facts_get(subject.error, facts);
    memset(facts, 0, sizeof *facts);
    if (told->error && !ss_facts_get(told->error, facts))
        return false;
    facts->told = told;
    facts->view.identity = told->identity ? told->identity : told;
    facts->view.relation = told->relation;
    facts->view.causes_left_out = told->causes_left_out;
    if (told->error)
        return true;
    facts->view.hresult = told->hresult;
    facts->view.thread_id = told->thread_id;
    facts->type = told->type;
    facts->language = told->language ? told->language : "";
    facts->message = told->message.text ? told->message.text : "";
    facts->message_length = told->message.length;
    return true;
}

void ss_facts_release(ss_facts *facts)
{
    if (facts->exception)
        facts->exception->lpVtbl->Release(facts->exception);
    facts->exception = NULL;
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
    if (facts->told && !facts->error)
        return (ss_text){facts->told->description.text ? facts->told->description.text : "", NULL,
                         facts->told->description.length};
    return trimmed(facts->view.description);
}

bool ss_facts_has_own_message(const ss_facts *facts)
{
    ss_text message = ss_facts_message(facts), description = ss_facts_description(facts);

    if (facts->type || message.length != description.length)
        return true;
    for (size_t i = 0; i < message.length; i++) {
        if (ss_text_at(&message, i) !=
            ss_text_at(&description, i)) /* the texts of HRESULTs are ASCII */
            return true;
    }
    return false;
}

/* ---- What belongs to it ----------------------------------------------------------------------*/

static ss_shown_stack stack_of_told(const stacksplice_told_stack *stack)
{
    return (ss_shown_stack){NULL, stack->frames, stack->count, NULL, 0};
}

static ss_shown_stack stack_of_view(const ss_error_view *view)
{
    return (ss_shown_stack){view->frames, NULL, view->frame_count, NULL, view->taken_at};
}

ss_shown_stack ss_facts_stack(const ss_facts *facts)
{
    return facts->told && !facts->error ? stack_of_told(&facts->told->stack)
                                        : stack_of_view(&facts->view);
}

void ss_facts_each_note(const ss_facts *facts, stacksplice_note_callback back, void *data)
{
    const stacksplice_told *told = facts->told;

    if (facts->error && !facts->view.is_node)
        (void)stacksplice_error_notes(facts->error, back, data);
    if (facts->error || !told)
        return;
    for (uint32_t i = 0; i < told->note_count; i++) {
        if (back(told->notes[i].text, told->notes[i].length, data))
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

    return reader->back(node->receiver, node->thread_id, stack_of_view(node), reader->data);
}

void ss_facts_each_node(const ss_facts *facts, ss_node_callback back, void *data)
{
    node_reader reader = {back, data};
    const stacksplice_told *told = facts->told;

    if (facts->error && !facts->view.is_node)
        ss_error_each_node(facts->error, read_node, &reader);
    if (facts->error || !told)
        return;
    for (uint32_t i = 0; i < told->node_count; i++) {
        const stacksplice_told_node *node = &told->nodes[i];

        if (!back(node->language, node->thread_id, stack_of_told(&node->stack), data))
            return;
    }
}

bool ss_facts_group(const ss_facts *facts, uint32_t *members, uint32_t *left_out)
{
    *members = *left_out = 0;
    if (!facts->told)
        return facts->error && !facts->view.is_node &&
               stacksplice_error_group(facts->error, members, left_out) == S_OK;
    *members = facts->told->member_count;
    *left_out = facts->told->members_left_out;
    return facts->told->is_group != 0;
}

bool ss_facts_member(const ss_facts *facts, uint32_t index, ss_subject *member)
{
    IRestrictedErrorInfo *error = NULL;

    if (facts->told) {
        *member = (ss_subject){NULL, facts->told->members[index]};
        return true;
    }
    if (stacksplice_error_member(facts->error, index, &error) != S_OK)
        return false;
    *member = (ss_subject){(IUnknown *)(void *)error, NULL};
    return true;
}

void ss_subject_release(ss_subject subject)
{
    if (subject.error)
        subject.error->lpVtbl->Release(subject.error);
}

ss_subject ss_subject_previous(ss_subject subject)
{
    if (subject.told)
        return (ss_subject){NULL, subject.told->cause};
    return (ss_subject){ss_error_previous(subject.error), NULL};
}
