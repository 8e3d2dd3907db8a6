/*
 * stacksplice: one error, one stack, every language.
 *
 * This header is the C interface of the core library, which knows no interpreter.  Bindings
 * register as frame sources (stacksplice/source.h); from then on every captured stack contains
 * their frames in true order.
 *
 * Rules that hold for every declaration below:
 *  - HRESULT.  stacksplice_hresult is a 32-bit HRESULT: negative means failure, S_OK is 0, S_FALSE
 *    is 1.  When a function fails, its outputs are untouched unless its comment says otherwise.
 *  - Strings are UTF-8.  Text that was not valid Unicode shows U+FFFD where it was broken.
 *  - The last line of a comment states who frees what ("own"), which threads may call ("thread"),
 *    whether the function allocates ("alloc") and whether a signal handler may call it ("signal").
 *  - Structures begin with their size, which the caller sets, so that they can grow.
 *
 * This header also declares the Windows Runtime names (RoOriginateError, IRestrictedErrorInfo, and
 * others).  Define STACKSPLICE_NO_WINRT to leave them out where another header has Windows-like
 * names of its own, such as that of PC/SC or unixODBC.
 */
#ifndef STACKSPLICE_STACKSPLICE_H
#define STACKSPLICE_STACKSPLICE_H

#include <stddef.h>
#include <stdint.h>

#define STACKSPLICE_VERSION_MAJOR 0
#define STACKSPLICE_VERSION_MINOR 1
#define STACKSPLICE_VERSION_PATCH 0

#if defined(STACKSPLICE_STATIC)
#define STACKSPLICE_API
#elif defined(__GNUC__)
#define STACKSPLICE_API __attribute__((visibility("default")))
#else
#define STACKSPLICE_API
#endif

#ifndef STACKSPLICE_NO_WINRT
#include "winrt/roerrorapi.h"
#include "winrt/rtlsupportapi.h"
#endif

#ifdef __cplusplus
struct IUnknown;
struct IRestrictedErrorInfo;
extern "C" {
#elif !defined(STACKSPLICE_WINRT_RESTRICTEDERRORINFO_H) /* C99 takes no typedef twice */
typedef struct IUnknown IUnknown;
typedef struct IRestrictedErrorInfo IRestrictedErrorInfo;
#endif

typedef int32_t stacksplice_hresult;

/*
 * Return the version of the loaded library, such as "0.1.0"; never NULL.
 * [own: static | thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API const char *stacksplice_version(void);

/*
 * Return how the loaded library was built, as pairs for people to read, such as "system: Linux
 * x86_64, frames: x86_64, lines: libdw, compiler: GNU 12.2.0, build: Release".  Frames and lines
 * are "none" where the library cannot know native frames, or their files and lines;
 * stacksplice_lines_missing says whether this process has what lines need.
 * [own: static | thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API const char *stacksplice_build(void);

/* ---- Capture ---------------------------------------------------------------------------------*/

/*
 * Take one combined stack of the calling thread, innermost frame first.
 *
 * Each element of FRAMES is the return address of a native frame or a token: a synthetic address
 * that stands for a script frame or a gap (frames known to be missing, with the reason).  For a
 * frame that a signal interrupted, the element is the address of the interrupted instruction plus
 * one.  So for every element that is not a token, the address - 1 lies in the current instruction
 * of the frame.
 *
 * Element 0 is the caller of this function.  The capture skips the SKIP innermost elements, but not
 * the gap of outer frames that are not known, stores at most MAX_FRAMES and sets *CAPTURED to the
 * number stored.  HASH, when not NULL, receives a
 * value that is equal for equal stacks within this process.
 *
 * No interpreter code runs, no reference count changes and nothing is allocated inside an
 * interpreter.  The calling thread need not hold an interpreter's lock.
 *
 * Returns S_OK; S_FALSE when there were more than MAX_FRAMES.
 * Errors: E_POINTER if captured is NULL, or frames is NULL and max_frames is not 0;
 * E_OUTOFMEMORY.
 *
 * In a signal handler, even as a thread's first capture, native frames are complete and need no
 * allocation.  The one exception is a handler that interrupts another capture: it gets S_FALSE and
 * a gap with that reason.  Frame sources may allocate for a script frame that is new to them, and
 * for dozens of calls between two languages; RtlCaptureStackBackTrace asks no source.
 * [own: caller's array | thread: any | alloc: new script frames | signal: native frames]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_capture(uint32_t skip, uint32_t max_frames,
                                                        uintptr_t *frames, uint32_t *captured,
                                                        uint32_t *hash);

/* ---- Resolve ---------------------------------------------------------------------------------*/

typedef enum stacksplice_frame_kind {
    STACKSPLICE_FRAME_NATIVE = 1, /* machine code: module and module_offset say where */
    STACKSPLICE_FRAME_SCRIPT = 2, /* a frame of an interpreted language */
    STACKSPLICE_FRAME_GAP = 3     /* frames are missing here; reason says why */
} stacksplice_frame_kind;

typedef enum stacksplice_trust {
    STACKSPLICE_TRUST_EXACT = 1,    /* read from the live stack */
    STACKSPLICE_TRUST_INFERRED = 2, /* found by a fallback rule that can be wrong */
    STACKSPLICE_TRUST_TRACEBACK = 3 /* from what the interpreter recorded while it unwound */
} stacksplice_trust;

/* One frame for people to read.  Unknown strings are NULL, unknown numbers 0. */
typedef struct stacksplice_frame {
    size_t size; /* sizeof(stacksplice_frame) of the library that fills it */
    stacksplice_frame_kind kind;
    stacksplice_trust trust;
    const char *language; /* "native", "c++", or a binding's name */
    const char *function;
    const char *file;
    uint32_t line, end_line;     /* 1 is the first line */
    uint32_t column, end_column; /* in UTF-8 bytes, 1 is the first; the end is one past the last */
    const char *module;          /* path of the binary */
    uint64_t module_offset;      /* address minus load address */
    const char *build_id;        /* lower-case hexadecimal */
    int inlined;                 /* nonzero: the next callback is the function it is inlined into;
                                    2: which is the inside of an interpreter, as this one then is */
    const char *reason;          /* of a gap */
    const char *interpreter;     /* the name of a sub-interpreter or state, NULL for the main one */
    uintptr_t address;           /* the element of the stack this frame came from */
    int chunk; /* nonzero: FILE names a chunk of source, not a file: never open it */
    /*
     * Nonzero: a gap that joins two stacks.  The frames outside of it did not call those inside:
     * they await them, or re-raised their error after those frames had ended.
     */
    int asynchronous;
    uint64_t function_offset; /* of a native frame: address minus the function's first address */
    /* Of a script frame: its name for the native function that it calls; without a FUNCTION the word
       for which the script could not be compiled there. */
    const char *calls;
    /*
     * Of a script frame: the text of its line, without white space around it, where the interpreter
     * has the text and no file does.  Reports show it where they show lines of files.
     */
    const char *source;
} stacksplice_frame;

/* Called once per frame.  The frame and its strings are valid until it returns; nonzero stops the
   walk. */
typedef int (*stacksplice_frame_callback)(const stacksplice_frame *frame, void *data);

/*
 * Call CALLBACK for each frame that FRAME, an element of a captured stack, stands for: once, or
 * several times, innermost first, where functions were inlined.  A return address is looked up one
 * byte earlier, inside the call instruction.  A native function that calls into an interpreter
 * which no frame source reads is preceded by a gap with that reason.
 *
 * Returns S_OK, or S_FALSE when CALLBACK stopped it.  Errors: E_POINTER if callback is NULL.
 * [own: frame lent | thread: any | alloc: yes, degrades without memory | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_resolve(uintptr_t frame,
                                                        stacksplice_frame_callback callback,
                                                        void *data);

/*
 * Why native frames have no file and line in this process, such as "libdw.so.1 not found (Debian
 * package: libdw1)"; NULL when frames of binaries with debug information have them.
 * [own: static | thread: any | alloc: first call | signal: no]
 */
STACKSPLICE_API const char *stacksplice_lines_missing(void);

/* ---- The thread's error ----------------------------------------------------------------------*/

/*
 * Make an error where it happens: the first function that C code needs which can fail.  It captures the
 * stack, puts a new error with HR and MESSAGE into the thread's slot, and the caller returns HR.
 * LANGUAGE_EXCEPTION and ERROR may be NULL, and are for those who write a binding.
 *
 * It is RoOriginateLanguageException with a UTF-8 message of LENGTH bytes, cut where that function cuts
 * it.  Surrogates encoded in three bytes are kept.  *ERROR (optional) receives a reference to the
 * new error object, which is also in the slot; NULL when the reporting flags disable origination.
 * Errors: E_INVALIDARG if hr is a success code; E_OUTOFMEMORY, and then the slot is empty.
 * [own: caller releases *error | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_originate(stacksplice_hresult hr,
                                                          const char *message, size_t length,
                                                          IUnknown *language_exception,
                                                          IRestrictedErrorInfo **error);

/*
 * Look at the calling thread's error without taking it.
 *
 * Returns S_OK and a new reference in *ERROR; S_FALSE and NULL when there is none (or only a
 * foreign IErrorInfo).
 * Errors: E_POINTER if error is NULL.
 * [own: caller releases *error | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_peek_error(IRestrictedErrorInfo **error);

/* What stacksplice_save_error keeps.  Its members are private. */
typedef struct stacksplice_saved_error {
    void *slot;
    const void *thread;
} stacksplice_saved_error;

/*
 * Call these around clean-up code that may itself fail.  Save moves the thread's error out of its
 * slot, which is then empty; restore puts it back and drops whatever clean-up left there.  Pairs
 * nest.  Each save needs exactly one restore, on the same thread, and keeps the error alive until
 * then.
 *
 * Save: E_POINTER if saved is NULL.
 *
 * Restore returns S_OK.  Errors, which change nothing: E_POINTER if saved is NULL;
 * RPC_E_WRONG_THREAD on another thread (the thread of the save can still restore it);
 * E_ILLEGAL_METHOD_CALL if SAVED was restored before, or is all zero.
 * [own: SAVED owns the error in between | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_save_error(stacksplice_saved_error *saved);
STACKSPLICE_API stacksplice_hresult stacksplice_restore_error(stacksplice_saved_error *saved);

/*
 * Copy the captured stack of ERROR, which is an error object or one node of its propagation chain.
 * The elements are those of stacksplice_capture.  With max_frames 0 the function only counts.
 *
 * Returns S_OK; S_FALSE when the stack has more than MAX_FRAMES.  *CAPTURED then receives the
 * number stored, or the full count when max_frames is 0.
 * Errors: E_POINTER if error or captured is NULL, or frames is NULL and max_frames is not 0;
 * E_INVALIDARG if error is not an error object of this library.
 * [own: caller's array | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_error_stack(IUnknown *error, uint32_t max_frames,
                                                            uintptr_t *frames, uint32_t *captured);

/*
 * How many frames the limit (stacksplice_set_max_frames) left out of the stack FRAMES of COUNT
 * elements: the sum of the numbers in its gaps.  A gap without a number counts as one.
 * [own: caller's array | thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API uint32_t stacksplice_frames_left_out(const uintptr_t *frames, uint32_t count);

/*
 * Record that the calling thread's error arrives in another language, for a border that you write
 * yourself: adds one node with the current stack to the propagation chain.  LANGUAGE_EXCEPTION is
 * the receiving language's exception or NULL; if a binding made it, the node has its language, else
 * "native".  If the thread's error has another HRESULT it is stale: a new error for HR replaces it
 * first, as RoGetMatchingRestrictedErrorInfo does.
 *
 * Returns S_OK.  Errors: E_INVALIDARG if hr is a success code; E_OUTOFMEMORY.
 * [own: language_exception referenced | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_propagate(stacksplice_hresult hr,
                                                          IUnknown *language_exception);

/*
 * The language that received the error at NODE, a node of a propagation chain, as frames
 * name it; "native" if the border named none.  UTF-8; *LANGUAGE lives as long as NODE.
 * Errors: E_POINTER; E_INVALIDARG if node is not a propagation node of this library.
 * [own: borrows node | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_node_language(IUnknown *node,
                                                              const char **language);

/* ---- Causes, groups and notes ----------------------------------------------------------------*/

/* How an error relates to the one that was made from it. */
typedef enum stacksplice_relation {
    STACKSPLICE_RELATION_NONE = 0,   /* there is no such error */
    STACKSPLICE_RELATION_CAUSE = 1,  /* its direct cause: what a script names, a nested C++
                                        exception, the old error of RoTransformError */
    STACKSPLICE_RELATION_CONTEXT = 2 /* it was being handled when the other was raised */
} stacksplice_relation;

/*
 * The error that ERROR was made from, which ILanguageExceptionErrorInfo2's
 * GetPreviousLanguageExceptionErrorInfo returns too, and its relation to ERROR (RELATION may be
 * NULL).  Repeated calls walk to the root cause; a chain has at most 150 errors.
 *
 * Returns S_OK; S_FALSE with NULL and STACKSPLICE_RELATION_NONE when there is none (for a node of
 * the propagation chain, too).  Errors: E_POINTER if error or cause is NULL; E_INVALIDARG if error
 * is not an error object of this library.
 * [own: caller releases *cause | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_error_cause(IUnknown *error,
                                                            IRestrictedErrorInfo **cause,
                                                            stacksplice_relation *relation);

/*
 * Whether ERROR is a group of errors: how many members are available, and how many more the group
 * had (both pointers may be NULL).  A group may have no available members.
 *
 * Returns S_OK for a group; S_FALSE with zeros for any other error.  Errors: E_POINTER if error is
 * NULL; E_INVALIDARG if error is not an error object of this library.
 * [own: borrows error | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_error_group(IUnknown *error, uint32_t *members,
                                                            uint32_t *left_out);

/*
 * Get member INDEX, counted from 0, of the group ERROR: an error object with its own stack, causes,
 * members and notes.
 *
 * Returns S_OK; S_FALSE and NULL when there is none.
 * Errors: E_POINTER if error or member is NULL; E_INVALIDARG if error is not an error object of
 * this library.
 * [own: caller releases *member | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_error_member(IUnknown *error, uint32_t index,
                                                             IRestrictedErrorInfo **member);

/* Takes one note: LENGTH bytes of TEXT (which may hold NULs).  A nonzero return stops the walk. */
typedef int (*stacksplice_note_callback)(const char *text, size_t length, void *data);

/*
 * Call CALLBACK for each note of ERROR, oldest first: those that its exception had
 * when the error was created, and those added since.
 *
 * Returns S_OK, or S_FALSE when CALLBACK stopped it.  Errors: E_POINTER if error or callback is
 * NULL; E_INVALIDARG if error is not an error object of this library.
 * [own: text lent | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_error_notes(IUnknown *error,
                                                            stacksplice_note_callback callback,
                                                            void *data);

/*
 * Add a note to ERROR: LENGTH bytes of UTF-8 that describe what was going on.  Reports show it
 * after the message, and languages that receive the error later see it.
 *
 * Returns S_OK; S_FALSE when the error has 150 notes already, or is the one for exhausted memory,
 * which keeps none.  Errors: E_POINTER if error is NULL, or text is NULL and length is not 0;
 * E_INVALIDARG if error is not an error object of this library; E_OUTOFMEMORY.
 * [own: text copied | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_add_note(IUnknown *error, const char *text,
                                                         size_t length);

/* ---- Reports ---------------------------------------------------------------------------------*/

typedef enum stacksplice_format_kind {
    STACKSPLICE_FORMAT_TEXT = 1,
    STACKSPLICE_FORMAT_JSON = 2,
    /* The stack, the propagation and the HRESULT as text, in brief: all that a script's own report
       of its exception lacks.  Each line but that of the HRESULT begins with blanks, or is
       "Propagation:". */
    STACKSPLICE_FORMAT_STACK = 3,
    /* An event for Sentry as JSON on one line: the error, what it was made from and the members of
       groups, at most 64 in all.  Each call makes an event of its own.  A host adds what Sentry
       should know of it, such as "release", and sends it: docs/how-to/crashes-to-sentry.md. */
    STACKSPLICE_FORMAT_SENTRY = 4,
    /* JSON for logs, a tenth as long: frames that texts hide are counted, others have what a person needs, and
       those of C what symbols can be found by later.  No source lines, columns or variables; no file is
       opened for them.  Whatever reads STACKSPLICE_FORMAT_JSON reads it. */
    STACKSPLICE_FORMAT_BRIEF_JSON = 5
} stacksplice_format_kind;

typedef enum stacksplice_order {
    STACKSPLICE_ORDER_NEWEST_FIRST = 0, /* as debuggers show a stack */
    STACKSPLICE_ORDER_NEWEST_LAST = 1   /* as scripts' tracebacks show it */
} stacksplice_order;

struct stacksplice_document_frame; /* stacksplice/read.h */
struct stacksplice_document_text;

/*
 * Sets *OUT to the lines that a brief report in newest-last order has for SHOWN, a script frame
 * whose language has a look of its own there.  They are lent until the next call and written as
 * they are.  Nonzero: the report writes the frame as it always does.
 */
typedef int (*stacksplice_look_callback)(const struct stacksplice_document_frame *shown,
                                         struct stacksplice_document_text *out, void *data);

typedef struct stacksplice_format_options {
    size_t size; /* sizeof(stacksplice_format_options) */
    stacksplice_order order;
    int all_frames; /* text: nonzero shows the inside of interpreters too */
    int color;      /* text: nonzero writes ANSI colours */
    int shorten;    /* text: nonzero, for a terminal, leaves out the middle of a long stack */
    int alone;      /* text: nonzero leaves out causes and members */
    /*
     * Nonzero opens no file and leaves out source lines.  Set it if the reader of the report must
     * not read files: a script can give its chunks the name of any file.
     */
    int without_source;
    stacksplice_look_callback look; /* or NULL */
    void *look_data;
} stacksplice_format_options;

/* Receives LENGTH bytes of TEXT, without a NUL at the end.  Nonzero stops the report. */
typedef int (*stacksplice_write_callback)(const char *text, size_t length, void *data);

/*
 * Write a report of ERROR (an error object, or a node of its chain): message, notes, HRESULT,
 * combined stack, propagation chain, members of a group, and causes.  OPTIONS may be NULL.
 *
 * Returns S_OK, or S_FALSE when WRITE stopped it.  Errors: E_POINTER if error or write is NULL;
 * E_INVALIDARG if error is not an error object of this library, or kind or options is invalid.
 * [own: text lent to WRITE | thread: any | alloc: yes, degrades without memory | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_format(IUnknown *error,
                                                       stacksplice_format_kind kind,
                                                       const stacksplice_format_options *options,
                                                       stacksplice_write_callback write,
                                                       void *data);

/*
 * A grouping value for ERROR: 32 hexadecimal digits and a NUL.  It is computed from build-ids with
 * offsets and from script functions, so it is the same in every run, on every machine with the same
 * binaries and scripts.  The one that outlives a rebuild, "loose_fingerprint", is in the JSON and
 * in what stacksplice_error_visit reads.
 *
 * Errors: E_POINTER if error or out is NULL; E_INVALIDARG if error is not ours.
 * [own: caller's buffer | thread: any | alloc: yes, degrades without memory | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_fingerprint(IUnknown *error, char out[33]);

/* ---- For hosts -------------------------------------------------------------------------------*/

/* All three functions are required and behave as malloc, realloc and free; each gets DATA. */
typedef struct stacksplice_allocator {
    size_t size; /* sizeof(stacksplice_allocator) */
    void *(*alloc)(size_t bytes, void *data);
    void *(*realloc)(void *block, size_t bytes, void *data);
    void (*free)(void *block, void *data);
    void *data;
} stacksplice_allocator;

/*
 * Use allocator A for all memory of this library (BSTR and HSTRING too), for the life of the
 * process.  Call it before any other function of the library; later it fails, because memory of the
 * former allocator may be in use.
 * Errors: E_POINTER if a or one of its functions is NULL; E_INVALIDARG if its size is unknown;
 * E_ILLEGAL_METHOD_CALL after the first allocation.
 * [own: copied | thread: before others start | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_set_allocator(const stacksplice_allocator *a);

/*
 * Decides about an error that nobody handled (RoReportUnhandledError, RoReportFailedDelegate).
 * Nonzero: the host handled it and the process continues.  Zero: the process fails fast.
 */
typedef int (*stacksplice_unhandled_callback)(IRestrictedErrorInfo *error, void *data);

/*
 * Install F, or NULL for none, in place of the previous handler.  It runs on the reporting thread.
 * [own: data stays the caller's | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult
stacksplice_set_unhandled_handler(stacksplice_unhandled_callback f, void *data);

/*
 * Pass ERROR to that handler where the process must continue: at the end of a thread, or in a
 * callback whose caller takes no error.  Unlike RoReportUnhandledError it never fails fast.  With
 * NULL it only checks whether there is a handler.
 *
 * Returns S_OK when the handler handled ERROR (NULL: when there is one), else S_FALSE.
 * Errors: E_INVALIDARG if error is of another implementation.
 * [own: error borrowed | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_offer_unhandled(IRestrictedErrorInfo *error);

/*
 * Have brief reports hide the frames of NAME, from now on, as they hide frameworks: where a script's frame of the
 * user is further in, one line counts them.
 *
 * NAME is a library as scripts name it ("pandas", "company.middleware"), in the folders where languages have their
 * libraries.  With FILE it is only what the line says, and the frames are those in files and binaries with FILE in
 * their paths ("/srv/shop/middleware/"); '*' stands for the rest of a name.  STACKSPLICE_HIDE in the environment has
 * names and parts of paths, with ':' between them.
 *
 * Returns S_OK, or S_FALSE when the same was hidden before.
 * Errors: E_POINTER if name is NULL; E_INVALIDARG if a text is empty or longer than 1023 bytes, or a NAME without
 * FILE has a '/'; E_OUTOFMEMORY, also when 256 were hidden.
 * [own: strings copied, for the life of the process | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_hide(const char *name, const char *file);

/*
 * Limit the stacks of error objects, propagation nodes and script exceptions to MAX_FRAMES elements
 * (default 512).  A longer stack keeps both ends, and a gap between them has the number of frames
 * left out.  ILanguageExceptionStackBackTrace::GetStackBackTrace gets the limit as its
 * maxFramesToCapture; if the provider fills it, a second call asks for up to 65535.
 * Errors: E_INVALIDARG if max_frames is 0 or more than 65535.
 * [thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_set_max_frames(uint32_t max_frames);

/*
 * Return that number.
 * [thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API uint32_t stacksplice_max_frames(void);

/*
 * Register the bounds of a stack that the thread library does not know (makecontext, fibers): LOW
 * is its lowest address, HIGH one past its highest.  Without them a capture on that stack ends at a
 * gap.  Remove the stack before its memory is freed.
 * Errors: E_INVALIDARG if low >= high or the range overlaps a known one; E_OUTOFMEMORY; remove:
 * E_INVALIDARG if no stack begins at low.
 * [own: nothing | thread: any | alloc: add | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_add_stack(void *low, void *high);
STACKSPLICE_API stacksplice_hresult stacksplice_remove_stack(void *low);

#ifdef __cplusplus
}
#endif
#endif
