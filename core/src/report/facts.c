#include "report/facts.h"

#include "splice/token.h"

#include <string.h>

const char *ss_stack_language(const uintptr_t *frames, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const stacksplice_token_info *info;

        if (!ss_token_is(frames[i]))
            continue;
        info = ss_token_info(frames[i]);
        if (info && info->kind == STACKSPLICE_FRAME_SCRIPT)
            return info->language;
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
    facts->language = facts->view.is_node
                          ? facts->view.receiver
                          : ss_stack_language(facts->view.frames, facts->view.frame_count);
    ask_exception(facts);
    return true;
}

void ss_facts_release(ss_facts *facts)
{
    if (facts->exception)
        facts->exception->lpVtbl->Release(facts->exception);
    facts->exception = NULL;
}

static size_t trimmed(const WCHAR *text)
{
    size_t length = 0, end = 0;

    while (text && text[length]) {
        if (!strchr(" \t\r\n", text[length] < 0x80 ? text[length] : 'x'))
            end = length + 1;
        length++;
    }
    return end;
}

static bool write_utf16(const WCHAR *text, ss_writer *w, ss_escape escape)
{
    size_t length = trimmed(text);

    ss_writer_utf16(w, text, length, escape);
    return length != 0;
}

bool ss_facts_write_message(const ss_facts *facts, ss_writer *w, ss_escape escape)
{
    if (!facts->message)
        return write_utf16(facts->view.message, w, escape);
    ss_writer_utf8(w, facts->message, facts->message_length, escape);
    return facts->message_length != 0;
}

bool ss_facts_write_description(const ss_facts *facts, ss_writer *w, ss_escape escape)
{
    return write_utf16(facts->view.description, w, escape);
}

bool ss_facts_has_own_message(const ss_facts *facts)
{
    size_t length = trimmed(facts->view.message);

    if (facts->message)
        return true;
    return length != trimmed(facts->view.description) ||
           (length && memcmp(facts->view.message, facts->view.description, length * sizeof(WCHAR)));
}
