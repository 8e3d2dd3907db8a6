/*
 * For debuggers and tools that inspect errors from outside of the code that raises them.
 *
 * The general rules are those of stacksplice.h.
 */
#ifndef STACKSPLICE_DEBUGGER_H
#define STACKSPLICE_DEBUGGER_H

#include "stacksplice.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Events ----------------------------------------------------------------------------------*/

/* The first-chance events of Windows, with their exception codes. */
#define STACKSPLICE_EVENT_ORIGINATE_ERROR 0x40080201u
#define STACKSPLICE_EVENT_TRANSFORM_ERROR 0x40080202u

/*
 * One event.  An origination has three parameters: HRESULT, length of the message, message.  A
 * transformation has four: old HRESULT, new HRESULT, length, message.  HRESULTs are zero-extended.
 * The message is UTF-16, ends in a NUL that its length does not count, and lives until the hook
 * returns.
 */
typedef struct stacksplice_debug_event {
    size_t size; /* sizeof(stacksplice_debug_event) */
    uint32_t code;
    uint32_t parameter_count; /* 3 or 4 */
    uintptr_t parameters[4];
} stacksplice_debug_event;

typedef void (*stacksplice_debug_event_callback)(const stacksplice_debug_event *event, void *data);

/*
 * Install F, or NULL for none, in place of the previous hook.  The library calls it for every
 * origination and transformation while RO_ERROR_REPORTING_FORCEEXCEPTIONS is set.  (Windows raises
 * its exceptions for an attached debugger too; this library does not look for one.)  The hook runs
 * on the originating thread, before its slot changes.  The library undoes what the hook does to the
 * slot and reports no events that the hook causes.  It sends no signal: a hook raises one itself to
 * stop in a debugger.
 *
 * Tracing tools (bpftrace, SystemTap, gdb) see every event, whatever the flags, as a static probe:
 * stacksplice:originate_error or stacksplice:transform_error, with the parameters above.
 *
 * [own: data stays the caller's | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult
stacksplice_set_debug_event_hook(stacksplice_debug_event_callback f, void *data);

/* ---- Inspection ------------------------------------------------------------------------------*/

/*
 * The fixed beginning of the data that RoInspectThreadErrorInfo and RoInspectCapturedStackBackTrace
 * read.  Both structures have one layout on every machine.  A change gets a new version.
 */
#define STACKSPLICE_ANCHOR_SIGNATURE 0x41545353u /* "SSTA" in memory */
#define STACKSPLICE_RECORD_SIGNATURE 0x52455353u /* "SSER" in memory */
#define STACKSPLICE_INSPECT_VERSION 1u

typedef struct stacksplice_anchor {
    uint32_t signature; /* STACKSPLICE_ANCHOR_SIGNATURE */
    uint32_t version;   /* STACKSPLICE_INSPECT_VERSION */
    uint64_t error;     /* address of the stacksplice_record of the thread's error, or 0 */
} stacksplice_anchor;

typedef struct stacksplice_record {
    uint32_t signature; /* STACKSPLICE_RECORD_SIGNATURE; 0 once the error is gone */
    uint32_t version;   /* STACKSPLICE_INSPECT_VERSION */
    uint32_t frame_count;
    uint32_t frame_size; /* bytes of one element: 4 or 8 */
    uint64_t frames;     /* address of the captured stack */
    uint64_t thread_id;
    int32_t hresult;
    uint32_t reserved;
} stacksplice_record;

/*
 * The calling thread's anchor.  Its address is fixed for the life of the thread; it has the role of
 * the TEB on Windows.  A debugger gets it by calling this function.
 * [own: the thread's | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API const stacksplice_anchor *stacksplice_thread_anchor(void);

/* ---- Symbols after the fact ------------------------------------------------------------------*/

/*
 * What stacksplice_resolve would say of a native frame of another process: call CALLBACK for each
 * frame at OFFSET in the binary at PATH, which need not be loaded.  OFFSET is the frame's
 * module_offset.  PATH is the binary or its separate debug file.  Separate debug files of a
 * stripped binary are searched by build-id in /usr/lib/debug.
 *
 * BUILD_ID, in lower-case hexadecimal, is that of the frame: a file with another one is refused.
 * NULL accepts each file.  Frames have OFFSET as their address, and names that scripts use are not
 * known.  The library keeps the last few files open.
 *
 * Returns S_OK, or S_FALSE when CALLBACK stopped it.  Errors: E_POINTER if path or callback is
 * NULL; E_INVALIDARG if offset is 0 or a text too long; E_OUTOFMEMORY; and HRESULT_FROM_WIN32 of
 * ERROR_MOD_NOT_FOUND if this process has no libdw (see stacksplice_lines_missing),
 * ERROR_FILE_NOT_FOUND if no regular file can be opened, ERROR_BAD_FORMAT if it is no 64-bit ELF
 * binary or damaged, ERROR_INVALID_DATA if its build-id is another one.
 * [own: frame lent | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_resolve_file(const char *path, const char *build_id,
                                                             uint64_t offset,
                                                             stacksplice_frame_callback callback,
                                                             void *data);

#ifdef __cplusplus
}
#endif
#endif
