/* Frames of native addresses, and the blocks that keep them. */
#include "resolve/native.h"

#include "base/alloc.h"

#include <string.h>

void ss_native_frame(uintptr_t address, const ss_binary *binary, ss_frame *f)
{
    stacksplice_frame *frame = &f->frame;

    memset(f, 0, sizeof *f);
    frame->size = sizeof *frame;
    frame->kind = STACKSPLICE_FRAME_NATIVE;
    frame->trust = STACKSPLICE_TRUST_EXACT;
    frame->language = "native";
    frame->address = address;
    if (!binary)
        return;
    frame->module = *binary->path ? binary->path : NULL;
    frame->module_offset = address - binary->start;
    frame->build_id = *binary->build_id ? binary->build_id : NULL;
}

/* Copy TEXT to *AT and advance *AT past it. */
static const char *keep(const char *text, char **at)
{
    char *copy = *at;
    size_t bytes;

    if (!text)
        return NULL;
    bytes = strlen(text) + 1;
    memcpy(copy, text, bytes);
    *at += bytes;
    return copy;
}

static size_t bytes_of(const char *text)
{
    return text ? strlen(text) + 1 : 0;
}

ss_native_answer *ss_native_pack(const ss_frame *frames, uint32_t count)
{
    const stacksplice_frame *first = &frames[0].frame;
    size_t bytes = sizeof(ss_native_answer) + count * sizeof *frames + bytes_of(first->module) +
                   bytes_of(first->build_id);
    const char *module, *build_id;
    ss_native_answer *a;
    char *at;

    for (uint32_t i = 0; i < count; i++)
        bytes += bytes_of(frames[i].frame.function) + bytes_of(frames[i].frame.file);
    a = ss_alloc(1, bytes);
    if (!a)
        return NULL;
    atomic_init(&a->refs, 1);
    a->count = count;
    a->address = first->address;
    memcpy(a->frames, frames, count * sizeof *frames);
    at = (char *)(a->frames + count);
    module = keep(first->module, &at);
    build_id = keep(first->build_id, &at);
    for (uint32_t i = 0; i < count; i++) {
        stacksplice_frame *frame = &a->frames[i].frame;

        frame->module = module;
        frame->build_id = build_id;
        frame->function = keep(frame->function, &at);
        frame->file = keep(frame->file, &at);
    }
    return a;
}

void ss_native_unref(ss_native_answer *a)
{
    if (a && atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) == 1)
        ss_free(a);
}
