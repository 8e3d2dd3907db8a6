#include "resolve/resolve.h"

#include "base/alloc.h"
#include "resolve/debuginfo.h"
#include "resolve/glue.h"
#include "resolve/native.h"
#include "resolve/symbol.h"
#include "splice/sink.h"
#include "splice/source.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* A gap with the text that its reason points to. */
typedef struct ss_unread {
    ss_frame frame;
    char reason[512]; /* large enough: a file name has at most 255 bytes */
} ss_unread;

/* ---- Unread ----------------------------------------------------------------------------------*/

/* The gap for frames of an interpreter that no frame source reads. */

/*
 * Whether a frame source of LANGUAGE reads this copy of the interpreter, which has code at
 * ADDRESS.  Then the source's identity is in the same binary.
 */
static bool is_read(const char *language, uintptr_t address)
{
    Dl_info code, interpreter;

    if (!dladdr((void *)(address - 1), &code))
        return true; /* unloaded since, so we cannot tell */
    for (uint32_t i = 0; i < ss_source_count(); i++) {
        const stacksplice_source *source = ss_source_at(i);

        if (!strcmp(source->language, language) && dladdr(source->identity, &interpreter) &&
            interpreter.dli_fbase == code.dli_fbase)
            return true;
    }
    return false;
}

/* The glue of the interpreter that one of FRAMES enters, or NULL. */
static const stacksplice_glue *entered(const ss_frame *frames, uint32_t count,
                                       _Atomic uint32_t *searched)
{
    const stacksplice_glue *glue;
    uint32_t g = atomic_load_explicit(searched, memory_order_relaxed);

    for (; (glue = ss_glue_at(g)) != NULL; g++) {
        for (uint32_t i = 0; glue->unread && i < count; i++) {
            if (!frames[i].script_named && frames[i].frame.function &&
                ss_glue_matches(frames[i].frame.function, glue->entries))
                return glue;
        }
    }
    atomic_store_explicit(searched, g, memory_order_relaxed);
    return NULL;
}

/* Write FORMAT, with NAME replacing its "%s". */
static void put_name_into(char *out, size_t capacity, const char *format, const char *name)
{
    const char *place = strstr(format, "%s");
    int before = place ? (int)(place - format) : (int)strlen(format);

    (void)snprintf(out, capacity, "%.*s%s%s", before, format, place ? name : "",
                   place ? place + 2 : "");
}

/*
 * Whether the native FRAMES of one address call into an interpreter that no frame source reads.
 * Then *GAP belongs inside them.  Takes the loader's lock if one of them runs scripts.  *SEARCHED,
 * 0 at first, caches how much of the glue cannot match these frames, or that the interpreter is read;
 * glue and sources are only ever added.
 */
static bool ss_unread_find(const ss_frame *frames, uint32_t count, _Atomic uint32_t *searched,
                           ss_unread *gap)
{
    const stacksplice_frame *last = &frames[count - 1].frame;
    const stacksplice_glue *glue = entered(frames, count, searched);

    if (!glue || !last->module)
        return false;
    if (is_read(glue->language, last->address)) {
        atomic_store_explicit(searched, UINT32_MAX, memory_order_relaxed); /* it stays so */
        return false;
    }
    memset(gap, 0, sizeof *gap);
    put_name_into(gap->reason, sizeof gap->reason, glue->unread, ss_base_name(last->module));
    gap->frame.frame = (stacksplice_frame){.size = sizeof gap->frame.frame,
                                           .kind = STACKSPLICE_FRAME_GAP,
                                           .trust = STACKSPLICE_TRUST_EXACT,
                                           .language = glue->language,
                                           .reason = gap->reason,
                                           .address = last->address};
    return true;
}

/* ---- Resolve ---------------------------------------------------------------------------------*/

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
    frame->calls = info.calls;
    return needed;
}

static stacksplice_hresult resolve_script(uintptr_t token, ss_frame_callback callback, void *data)
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

/* ---- Unloaded code ---------------------------------------------------------------------------*/

/* The frame of TOKEN, whose module was unloaded; false if that is not known. */
static bool fill_unloaded(uintptr_t token, ss_frame *f)
{
    uintptr_t offset;
    const ss_met_module *m = ss_unloaded_module(token, &offset);

    if (!m)
        return false;
    ss_native_frame(token, NULL, f);
    f->frame.module = *m->path ? m->path : NULL;
    f->frame.module_offset = offset;
    f->frame.build_id = *m->build_id ? m->build_id : NULL;
    return true;
}

/* The frames that its file has there; NULL unless its build-id tells that it is the same file. */
SS_NOINLINE static ss_native_answer *find_in_old_file(const stacksplice_frame *old)
{
    ss_file_status status;
    ss_binary file = {.start = 0};

    if (!old->build_id || !old->module || !ss_debug_load())
        return NULL;
    memcpy(file.path, old->module, strlen(old->module) + 1);
    memcpy(file.build_id, old->build_id, strlen(old->build_id) + 1);
    return ss_native_find_in_file(&file, (uintptr_t)old->module_offset, &status);
}

static stacksplice_hresult resolve_unloaded(uintptr_t token, ss_frame_callback callback, void *data)
{
    stacksplice_hresult hr;
    ss_native_answer *a;
    ss_frame old;

    if (!fill_unloaded(token, &old))
        return resolve_script(token, callback, data);
    a = find_in_old_file(&old.frame);
    if (!a)
        return deliver(&old, 1, callback, data);
    for (uint32_t i = 0; i < a->count; i++)
        a->frames[i].frame.address = token;
    hr = deliver(a->frames, a->count, callback, data);
    ss_native_unref(a);
    return hr;
}

static stacksplice_hresult resolve_token(uintptr_t token, ss_frame_callback callback, void *data)
{
    return ss_unloaded_is(token) ? resolve_unloaded(token, callback, data)
                                 : resolve_script(token, callback, data);
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
        if (!ss_unloaded_is(address) || !fill_unloaded(address, &f))
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
