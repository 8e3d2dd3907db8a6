/*
 * Turns addresses into frames: tokens through their table, native ones through mapped modules,
 * symbols and debug information.
 */
#ifndef SS_RESOLVE_H
#define SS_RESOLVE_H

#include "base/platform.h"
#include "unwind/binary.h"
#include <stacksplice/stacksplice.h>

#include <string.h>

/* stacksplice_frame.inlined, of what is inlined into the inside of an interpreter. */
enum { SS_INLINED_INSIDE = 2 };

/* A frame, with fields that only reports need. */
typedef struct ss_frame {
    stacksplice_frame frame;
    bool script_named; /* function is the name scripts use for it, not a symbol */
    bool replaced;     /* the file of its module is not the one that was loaded */
} ss_frame;

/* The same contract as stacksplice_frame_callback. */
typedef int (*ss_frame_callback)(const ss_frame *frame, void *data);

/* The part of PATH after its last slash. */
static inline const char *ss_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash ? slash + 1 : path;
}

stacksplice_hresult ss_resolve(uintptr_t address, ss_frame_callback callback, void *data);

/*
 * The same for a reader that hides glue: where all frames of ADDRESS are glue, one without a file
 * may stand for them.  Reading debug information takes the longest, and most frames of such a
 * stack are inside an interpreter.
 */
stacksplice_hresult ss_resolve_brief(uintptr_t address, ss_frame_callback callback, void *data);

/*
 * For a failing process: neither allocates nor waits for a lock of ours or of the loader (where the
 * platform allows).  Native frames have no file, and a function only if it is exported.  MODULE is
 * scratch space.
 */
stacksplice_hresult ss_resolve_failfast(uintptr_t address, ss_binary *module,
                                        ss_frame_callback callback, void *data);

#endif
