/* Makes a language exception: by value, in one block of memory. */
#include "script/exception.h"

#include "base/alloc.h"
#include "script/release.h"

#include <string.h>

const stacksplice_owner *stacksplice_exception_owner(const stacksplice_exception *x)
{
    return x->owner;
}

stacksplice_hresult stacksplice_exception_hresult(const stacksplice_exception *x)
{
    return x->hresult;
}

IUnknown *stacksplice_exception_unknown(stacksplice_exception *x)
{
    return (IUnknown *)(void *)&x->backtrace;
}

/* The size of PARTS' texts, each with a NUL. */
static size_t text_bytes(const stacksplice_exception_parts *parts)
{
    size_t bytes = parts->message_length + 1;

    for (uint32_t i = 0; i < parts->type_count; i++)
        bytes += strlen(parts->types[i]) + 1;
    for (uint32_t i = 0; i < parts->note_count; i++)
        bytes += parts->notes[i].length + 1;
    for (uint32_t i = 0; i < parts->local_count; i++)
        bytes += strlen(parts->locals[i].local.name) + parts->locals[i].local.value.length + 2;
    return bytes;
}

const stacksplice_kept_local *stacksplice_exception_locals(const stacksplice_exception *x,
                                                           uint32_t *count)
{
    *count = x->local_count;
    return *count ? x->locals : NULL;
}

/* Copy LENGTH bytes of TEXT and a NUL to *AT, and advance *AT past them. */
static const char *put_text(char **at, const char *text, size_t length)
{
    char *copy = *at;

    if (length)
        memcpy(copy, text, length);
    copy[length] = 0;
    *at = copy + length + 1;
    return copy;
}

static void put_locals(stacksplice_exception *x, const stacksplice_exception_parts *parts, char *at)
{
    x->local_count = parts->local_count;
    for (uint32_t i = 0; i < parts->local_count; i++) {
        const stacksplice_kept_local *from = &parts->locals[i];
        stacksplice_kept_local *to = &x->locals[i];

        *to = *from;
        to->local.name = put_text(&at, from->local.name, strlen(from->local.name));
        to->local.value.text = put_text(&at, from->local.value.text, from->local.value.length);
    }
}

/* Returns what is behind them. */
static char *put_texts(stacksplice_exception *x, const stacksplice_exception_parts *parts, char *at)
{
    x->types = at;
    x->type_count = parts->type_count;
    for (uint32_t i = 0; i < parts->type_count; i++)
        (void)put_text(&at, parts->types[i], strlen(parts->types[i]));
    x->message_length = parts->message_length;
    x->message = put_text(&at, parts->message, parts->message_length);
    x->note_count = parts->note_count;
    for (uint32_t i = 0; i < parts->note_count; i++) {
        x->notes[i].length = parts->notes[i].length;
        x->notes[i].text = put_text(&at, parts->notes[i].text, parts->notes[i].length);
    }
    return at;
}

static void put_members(stacksplice_exception *x, const stacksplice_exception_parts *parts)
{
    x->group = parts->group;
    x->member_count = parts->member_count;
    x->members_left_out = parts->members_left_out;
    for (uint32_t i = 0; i < parts->member_count; i++) {
        x->members[i] = parts->members[i];
        ss_related_hold(x->members[i]);
        if (!ss_exception_sleeps(x))
            ss_related_wake(x->members[i]);
    }
}

stacksplice_exception *stacksplice_exception_new(stacksplice_owner *owner,
                                                 const stacksplice_exception_parts *parts)
{
    size_t frames = parts->frame_count * sizeof *parts->frames;
    size_t members = parts->member_count * sizeof *parts->members;
    size_t notes = parts->note_count * sizeof *parts->notes;
    size_t locals = parts->local_count * sizeof *parts->locals;
    stacksplice_exception *x =
        ss_alloc_dirty(sizeof *x + frames + members + notes + locals + text_bytes(parts));
    char *at;

    if (!x)
        return NULL;
    memset(x, 0, sizeof *x);
    ss_exception_set_interfaces(x);
    atomic_init(&x->inside, 1);
    stacksplice_owner_ref(owner);
    x->owner = owner;
    x->hresult = parts->hresult;
    x->interrupt = parts->interrupt;
    x->frame_count = parts->frame_count;
    atomic_init(&x->epoch, stacksplice_code_epoch());
    if (frames)
        memcpy(x->storage, parts->frames, frames);
    at = (char *)x->storage + frames;
    x->members = (IScriptErrorInfo **)(void *)at;
    x->notes = (stacksplice_told_text *)(void *)(at + members);
    put_members(x, parts);
    x->locals = (stacksplice_kept_local *)(void *)(at + members + notes);
    at = put_texts(x, parts, at + members + notes + locals);
    put_locals(x, parts, at);
    return x;
}

/* ---- A gap in the frames of one ---------------------------------------------------------------*/

uintptr_t stacksplice_gap(const char *language, const char *reason, uint32_t flags)
{
    const stacksplice_token_info gap = {.size = sizeof gap,
                                        .kind = STACKSPLICE_FRAME_GAP,
                                        .trust = STACKSPLICE_TRUST_EXACT,
                                        .language = language,
                                        .reason = reason,
                                        .asynchronous = flags & STACKSPLICE_GAP_ASYNCHRONOUS};
    uintptr_t token = 0;

    (void)stacksplice_intern(&gap, &token); /* without memory, the token says so */
    return token;
}
