/*
 * The frame source of tiny: it finds the native frames of script functions, and gives reports the
 * names of the other functions.
 */
#include "binding.h"

#include <string.h>

static bool is_on(const stacksplice_walk *walk, uintptr_t address)
{
    return address >= walk->stack_low && address < walk->stack_high;
}

/* The native frame that contains ADDRESS, searched from START outward; frame_count if unknown. */
static uint32_t native_frame_of(const stacksplice_walk *walk, uint32_t start, uintptr_t address)
{
    uint32_t i = start;

    while (i + 1 < walk->frame_count && walk->frames[i + 1].sp <= address)
        i++;
    return i + 1 < walk->frame_count ? i : walk->frame_count;
}

static uintptr_t token_of(const tiny_frame *frame)
{
    tiny_word name = frame->function->name;
    char function[100] = "";
    stacksplice_token_info info = {.size = sizeof info,
                                   .kind = STACKSPLICE_FRAME_SCRIPT,
                                   .trust = STACKSPLICE_TRUST_EXACT,
                                   .language = "tiny",
                                   .function = function,
                                   .file = frame->function->file,
                                   .line = (uint32_t)frame->line};
    uintptr_t token = 0;

    memcpy(function, name.text, name.length < sizeof function ? name.length : sizeof function - 1);
    (void)stacksplice_intern(&info, &token);
    return token;
}

/* A capture may be repeated only where no script runs. */
static int nothing_runs(const uintptr_t *unused)
{
    (void)unused;
    return !tiny_frames();
}

/*
 * From the innermost activation outward.  The native frame that holds a script's activation stands
 * for it, with all native frames in to the function that it called: they are the interpreter.
 */
static void collect(stacksplice_walk *walk, void *unused)
{
    uint32_t next = 0, at;
    bool calls = false; /* an activation is inside */

    (void)unused;
    stacksplice_walk_check(walk, nothing_runs, (uintptr_t[STACKSPLICE_CHECK_WORDS]){0});
    while (next < walk->frame_count && !is_on(walk, walk->frames[next].sp))
        next++; /* a signal handler's frame, on its own stack */
    for (const tiny_frame *f = tiny_frames(); f && is_on(walk, (uintptr_t)f); f = f->caller) {
        at = native_frame_of(walk, next, (uintptr_t)f);
        if (!calls || f->function->native || at == walk->frame_count)
            next = at;
        calls = true;
        if (f->function->native)
            continue;
        if (!stacksplice_walk_splice(walk, next, at < walk->frame_count ? at + 1 - next : 0) ||
            !stacksplice_walk_push(walk, token_of(f)))
            return;
        next = at < walk->frame_count ? at + 1 : at;
    }
}

static const stacksplice_source source = {.size = sizeof source,
                                          .version = STACKSPLICE_SOURCE_VERSION,
                                          .language = "tiny",
                                          .identity = &source,
                                          .collect = collect,
                                          .reports = 1};

static const char *const glue_functions[] = {"tiny_*", NULL};
static const stacksplice_glue glue = {
    .size = sizeof glue, .language = "tiny", .functions = glue_functions};

stacksplice_hresult stacksplice_tiny_add_source(void)
{
    stacksplice_hresult hr = stacksplice_add_source(&source);

    return FAILED(hr) ? hr : stacksplice_add_glue(&glue);
}
