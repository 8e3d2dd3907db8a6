#include "resolve/resolve.h"

#include "base/alloc.h"
#include "resolve/debuginfo.h"
#include "resolve/native.h"
#include "resolve/symbol.h"
#include "resolve/unread.h"
#include "splice/sink.h"

#include <string.h>

static stacksplice_hresult deliver(const ss_frame *frames, uint32_t count,
                                   ss_frame_callback callback, void *data)
{
    for (uint32_t i = 0; i < count; i++) {
        if (callback(&frames[i], data))
            return S_FALSE;
    }
    return S_OK;
}

/* Resolve without any memory.  Noinline: BINARY is large. */
SS_NOINLINE static stacksplice_hresult resolve_poorly(uintptr_t address, ss_frame_callback callback,
                                                      void *data)
{
    ss_binary binary;
    ss_frame frame;
    bool found = address && ss_binary_find(address - 1, &binary);

    ss_native_frame(address, found ? &binary : NULL, &frame);
    return deliver(&frame, 1, callback, data);
}

/*
 * Deliver the gap for script frames that are missing inside these frames.  Check each time: a
 * source may have registered since.  False when CALLBACK stopped.  Noinline: the gap is large for a
 * small stack.
 */
SS_NOINLINE static bool deliver_gap(ss_native_answer *a, ss_frame_callback callback, void *data)
{
    ss_unread gap;

    return !ss_unread_find(a->frames, a->count, &a->searched, &gap) || !callback(&gap.frame, data);
}

static stacksplice_hresult resolve_native(uintptr_t address, bool brief, ss_frame_callback callback,
                                          void *data)
{
    stacksplice_hresult hr;
    ss_native_answer *a = ss_native_find(address, brief);

    if (!a)
        return resolve_poorly(address, callback, data);
    hr = deliver_gap(a, callback, data) ? deliver(a->frames, a->count, callback, data) : S_FALSE;
    ss_native_unref(a);
    return hr;
}

/* ---- Tokens ----------------------------------------------------------------------------------*/

static void fill_gap(stacksplice_frame *frame, const char *reason)
{
    frame->kind = STACKSPLICE_FRAME_GAP;
    frame->trust = STACKSPLICE_TRUST_EXACT;
    frame->language = "native";
    frame->reason = reason;
}

/*
 * Returns the room for all strings; those that do not fit into BUFFER, of at least SS_TOKEN_ROOM,
 * are cut.
 */
static size_t fill_token(uintptr_t token, ss_frame *f, char *buffer, size_t capacity)
{
    stacksplice_token_info info;
    stacksplice_frame *frame = &f->frame;
    size_t needed;

    memset(f, 0, sizeof *f);
    frame->size = sizeof *frame;
    frame->address = token;
    if (ss_left_out_is(token)) {
        fill_gap(frame, ss_left_out_reason(token, buffer));
        return 0;
    }
    needed = ss_token_read(token, &info, buffer, capacity);
    frame->kind = info.kind;
    frame->trust = info.trust;
    frame->language = info.language;
    frame->function = info.function;
    frame->file = info.file;
    frame->line = info.line;
    frame->end_line = info.end_line;
    frame->column = info.column;
    frame->end_column = info.end_column;
    frame->reason = info.reason;
    frame->asynchronous = info.asynchronous;
    frame->interpreter = info.interpreter;
    frame->chunk = info.chunk;
    return needed;
}

static stacksplice_hresult resolve_token(uintptr_t token, ss_frame_callback callback, void *data)
{
    char room[SS_TOKEN_ROOM], *more = NULL;
    ss_frame frame;
    size_t needed = fill_token(token, &frame, room, sizeof room);
    stacksplice_hresult hr;

    if (needed > sizeof room)
        more = ss_alloc_dirty(needed);
    if (more) /* otherwise use the cut strings */
        (void)fill_token(token, &frame, more, needed);
    hr = deliver(&frame, 1, callback, data);
    ss_free(more);
    return hr;
}

stacksplice_hresult ss_resolve(uintptr_t address, ss_frame_callback callback, void *data)
{
    return ss_token_is(address) ? resolve_token(address, callback, data)
                                : resolve_native(address, false, callback, data);
}

stacksplice_hresult ss_resolve_brief(uintptr_t address, ss_frame_callback callback, void *data)
{
    return ss_token_is(address) ? resolve_token(address, callback, data)
                                : resolve_native(address, true, callback, data);
}

/* A symbol, if the binary exports the function, else the name that scripts use. */
static void name_native(uintptr_t address, ss_frame *f)
{
    uintptr_t start;

    if (ss_symbol_find(address - 1, &f->frame.function, &start))
        f->frame.function_offset = address - start;
    else
        ss_native_name(f);
}

stacksplice_hresult ss_resolve_failfast(uintptr_t address, ss_binary *module,
                                        ss_frame_callback callback, void *data)
{
    char room[SS_TOKEN_ROOM];
    ss_frame f;

    if (ss_token_is(address)) {
        (void)fill_token(address, &f, room, sizeof room);
    } else if (address && ss_binary_find_failfast(address - 1, module)) {
        ss_native_frame(address, module, &f);
        name_native(address, &f);
    } else {
        ss_native_frame(address, NULL, &f);
    }
    return deliver(&f, 1, callback, data);
}

/* ---- Public ----------------------------------------------------------------------------------*/

typedef struct public_callback {
    stacksplice_frame_callback callback;
    void *data;
} public_callback;

static int call_public(const ss_frame *frame, void *data)
{
    const public_callback *p = data;

    return p->callback(&frame->frame, p->data);
}

stacksplice_hresult stacksplice_resolve(uintptr_t frame, stacksplice_frame_callback callback,
                                        void *data)
{
    public_callback p = {callback, data};

    if (!callback)
        return E_POINTER;
    return ss_resolve(frame, call_public, &p);
}

const char *stacksplice_lines_missing(void)
{
    return ss_debug_load() ? NULL : ss_debug_missing();
}
