/*
 * Files of any content as the debug information of an address, loaded and not loaded.  What is read
 * is libdw's work; ours is to ask it with bounds and to believe nothing.
 *
 * Input: an offset, then the file.
 */
#include "input.h"

#include "resolve/debuginfo.h"

#include <sys/mman.h>
#include <unistd.h>

enum { SPAN = 0x1000 };
static volatile size_t sink;

static __attribute__((noinline)) void look_up(const ss_binary *module, uintptr_t address,
                                              ss_debug_answer *answer)
{
    ss_debug_forget();
    (void)ss_debug_lookup(module, address - module->start, NULL, answer);
}

/* Each byte of the texts is looked at. */
static void check_answer(const ss_debug_answer *answer)
{
    ALWAYS(answer->count <= SS_INLINE_MAX);
    for (uint32_t i = 0; i < answer->count; i++) {
        sink += answer->frames[i].file ? strlen(answer->frames[i].file) : 0;
        sink += answer->frames[i].function ? strlen(answer->frames[i].function) : 0;
    }
    sink += answer->symbol ? strlen(answer->symbol) : 0;
}

/* A target that always gives up early would find nothing. */
static void check_that_files_are_read(ss_binary *module)
{
    uintptr_t address = (uintptr_t)look_up + 1;
    ss_debug_answer answer = {0};

    ALWAYS(ss_binary_find(address, module));
    look_up(module, address, &answer);
    ALWAYS(answer.symbol && strncmp(answer.symbol, "look_up", 7) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static ss_binary module; /* holds a path: too large for a stack */
    static bool checked;
    input in = {data, size};
    uint32_t offset = input_u32(&in);
    ss_debug_answer answer = {0};
    int file = memfd_create("fuzzed", MFD_CLOEXEC);

    if (!ss_debug_load())
        return 0;
    if (!checked)
        check_that_files_are_read(&module);
    checked = true;
    ALWAYS(file >= 0 && write(file, in.at, in.left) == (ssize_t)in.left);
    module = (ss_binary){.start = 0x10000, .end = 0x10000 + SPAN, .bias = 0x10000};
    (void)snprintf(module.path, sizeof module.path, "/proc/self/fd/%d", file);
    look_up(&module, module.bias + offset % SPAN, &answer);
    check_answer(&answer);
    answer = (ss_debug_answer){0};
    module.start = 0;
    ALWAYS(ss_debug_lookup(&module, offset, NULL, &answer) != SS_FILE_MISSING);
    check_answer(&answer);
    ss_debug_forget();
    (void)close(file);
    return 0;
}
