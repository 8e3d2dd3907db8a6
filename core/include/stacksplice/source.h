/*
 * For authors of language bindings: how an interpreter contributes frames to one combined stack.
 * script.h connects its exceptions.  The page docs/inside/bindings.md shows both on an example.
 *
 * The general rules are those of stacksplice.h.
 */
#ifndef STACKSPLICE_SOURCE_H
#define STACKSPLICE_SOURCE_H

#include "stacksplice.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Tokens ----------------------------------------------------------------------------------*/

/*
 * A token is a synthetic instruction pointer: on 64-bit machines the non-canonical address
 *
 *     STACKSPLICE_TOKEN_BASE + STACKSPLICE_TOKEN_STRIDE * id + STACKSPLICE_TOKEN_OFFSET,
 *
 * where nothing can ever be mapped.  Tokens belong to one process, survive fork, and are never reused.
 *
 * Their contents take at most 34 MB.  When that is full, the core drops contents that were not used
 * lately and are in no living error's stack; from then on such a token is a gap with that reason.
 */

#define STACKSPLICE_TOKEN_BASE UINT64_C(0x5353000000000000) /* its upper 16 bits tell a token */
#define STACKSPLICE_TOKEN_STRIDE 16
#define STACKSPLICE_TOKEN_OFFSET 8 /* readers look up address - 1, which has the same id */

/*
 * What a token stands for.  Strings are UTF-8 and copied; NULL and 0 mean unknown.  A language is
 * cut after 63 bytes, a file after 4095, the others after 1023; "..." follows a cut text.
 */
typedef struct stacksplice_token_info {
    size_t size;                 /* sizeof(stacksplice_token_info) */
    stacksplice_frame_kind kind; /* STACKSPLICE_FRAME_SCRIPT or STACKSPLICE_FRAME_GAP */
    stacksplice_trust trust;
    const char *language; /* required */
    const char *function;
    const char *file;
    uint32_t line, end_line, column, end_column;
    const char *reason;      /* of a gap; required there */
    const char *interpreter; /* name of a sub-interpreter or state, NULL for the main one */
    int chunk;               /* nonzero: FILE names a chunk of source, not a file */
    int asynchronous;        /* of a gap; nonzero: see stacksplice_frame */
    const char *calls;       /* of a script frame: see stacksplice_frame */
    const char *source;      /* the line of a chunk without a file: see stacksplice_frame */
} stacksplice_token_info;

/*
 * The reason of the gap where an exception passed frames before its stack was taken.  All bindings
 * use these words.
 */
#define STACKSPLICE_GAP_RETURNED "frames here had already returned"
/* Likewise, between the frames of a coroutine that an error ended and what had resumed it. */
#define STACKSPLICE_GAP_ENDED "the coroutine ended here; its caller had resumed it"

/*
 * The token of INFO.  Equal contents give the same token in every thread until that is dropped; the
 * next call then gives another.  Readers never wait; two writers may wait briefly for each other.
 *
 * Returns S_OK.  Errors: E_POINTER if info, its language or token is NULL; E_INVALIDARG if size,
 * kind or trust is invalid, or a gap has no reason; E_OUTOFMEMORY, and then *TOKEN is a valid gap
 * token that says why.
 * [own: strings copied | thread: any | alloc: no, maps | signal: inside collect]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_intern(const stacksplice_token_info *info,
                                                       uintptr_t *token);

/*
 * Code of TOKEN's content was loaded anew, so the files that were changed before now have its lines.  A
 * binding that knows new code from old calls it for what is new.  Otherwise reports show no line of a file
 * that was changed after the token was made: the code may be older.
 * [own: nothing | thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API void stacksplice_renew(uintptr_t token);

/*
 * A number that changes whenever tokens may have been dropped.  A cache of tokens reads it before
 * stacksplice_intern and stores the token only if the number is the same afterwards.  When the
 * number has changed, all cached tokens are void: intern them again.
 * [thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API uint32_t stacksplice_token_epoch(void);

/*
 * Scripts know the machine code that begins at FUNCTION as NAME ("string.rep"): names the frames of
 * a stripped binary.  Where there is a symbol, reports show that.  A second name for the same
 * address is ignored (S_FALSE).  An empty NAME leaves the function without one: scripts call it by
 * the names of what it stands for, such as each function of another language.
 * A NAME longer than 4,095 bytes is cut.
 * Errors: E_POINTER if function is 0 or a string is NULL; E_OUTOFMEMORY.
 * [own: strings copied | thread: any | alloc: no, maps | signal: inside collect]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_name_function(uintptr_t function,
                                                              const char *language,
                                                              const char *name);

/* ---- Frame sources ---------------------------------------------------------------------------*/

enum {
    STACKSPLICE_NATIVE_SIGNAL = 1,  /* a signal interrupted it, one byte before ip */
    STACKSPLICE_NATIVE_INFERRED = 2 /* found by its frame pointer, without unwind data */
};

/* The mark that a source gave the code at a frame's ip (stacksplice_source.classify), or 0. */
static inline uint32_t stacksplice_native_mark(uint32_t flags)
{
    return flags >> 8 & 0xff;
}

/* The source that gave the mark, as stacksplice_walk.source has it; 0 without a mark. */
static inline uint32_t stacksplice_native_mark_owner(uint32_t flags)
{
    return flags >> 16 & 0xff;
}

/*
 * One native frame.  It owns the stack addresses [sp, sp of the next frame outward), which hold
 * every local variable of its function.
 */
typedef struct stacksplice_native_frame {
    uintptr_t ip;       /* the return address into this function: ip - 1 is in the call */
    uintptr_t sp;       /* its stack pointer at the call = the CFA of the frame inside it */
    uintptr_t function; /* first address of its function by unwind data, 0 if unknown */
    uint32_t flags;     /* STACKSPLICE_NATIVE_..., and stacksplice_native_mark's */
    uint32_t rule;      /* private to the unwinder */
} stacksplice_native_frame;

/* The native frames of the capturing thread, innermost first, as a source sees them. */
typedef struct stacksplice_walk {
    uint32_t size; /* sizeof(stacksplice_walk) of the core */
    uint32_t frame_count;
    const stacksplice_native_frame *frames;
    uintptr_t stack_low;  /* the stack in use: sp of frame 0 ... */
    uintptr_t stack_high; /* ... and one past its last byte; read nothing else.
                             In a signal handler on its own stack, both are those
                             of the interrupted stack; the handler's frames, which
                             come first, lie outside of them */
    int truncated;        /* nonzero: further outer frames exist */
    uint32_t source;      /* the number, from 1 on, of the source that collects now */
    /* The indexes of the frames with a mark of any source, ascending. */
    uint32_t marked_count;
    const uint32_t *marked;
    /* The capture keeps at most this many elements from either end of one splice.  A source may
       skip those between and push stacksplice_left_out in their place. */
    uint32_t run_ends;
    uint32_t recorded; /* nonzero: report what the frames depend on (stacksplice_walk_read) */
} stacksplice_walk;

/*
 * The value that callee-saved register DWARF_REGISTER (x86-64: 3 rbx, 6 rbp, 12 to 15 r12 to r15)
 * had in frame FRAME at its call.  Returns nonzero and sets *VALUE, or 0 if it is unknown.
 * [thread: inside collect | alloc: no | signal: no]
 */
STACKSPLICE_API int stacksplice_walk_register(const stacksplice_walk *walk, uint32_t frame,
                                              uint32_t dwarf_register, uintptr_t *value);

/* The same for COUNT registers of one frame, faster than one by one.  Returns 0 if any of them is
   unknown; VALUES then has nothing of use. */
STACKSPLICE_API int stacksplice_walk_registers(const stacksplice_walk *walk, uint32_t frame,
                                               const uint32_t *dwarf_registers, uint32_t count,
                                               uintptr_t *values);

/*
 * Open a splice: the tokens pushed next replace the COUNT native frames from FIRST on; without
 * tokens those frames are hidden.  COUNT 0 inserts before frame FIRST.  FIRST == frame_count
 * appends after the last native frame, and after the gap that says why the walk ended.  A source
 * opens its splices from the innermost outward, without overlap. Returns nonzero, or 0 when memory
 * ran out: the source must then stop.
 * [thread: inside collect | alloc: core's own | signal: no]
 */
STACKSPLICE_API int stacksplice_walk_splice(stacksplice_walk *walk, uint32_t first, uint32_t count);

/* Append TOKEN, outward, to the last opened splice.  Returns as stacksplice_walk_splice does. */
STACKSPLICE_API int stacksplice_walk_push(stacksplice_walk *walk, uintptr_t token);

/* The same with COUNT tokens, the innermost first. */
STACKSPLICE_API int stacksplice_walk_push_all(stacksplice_walk *walk, const uintptr_t *tokens,
                                              uint32_t count);

/*
 * End the walk before frame FIRST with the gap TOKEN: what lies outside of it is left over on the
 * stack and called nothing.  Only for a source with ends_walks, after its own last splice.  Sources
 * that collect later see the shorter walk as truncated.
 * Returns nonzero; or 0, and nothing changed, if FIRST is beyond the walk or inside of a splice, or
 * if the source has no ends_walks.
 * [thread: inside collect | alloc: no | signal: no]
 */
STACKSPLICE_API int stacksplice_walk_end(stacksplice_walk *walk, uint32_t first, uintptr_t token);

/*
 * Reports.  When a stack recurs, the core records one capture and repeats it later: it compares
 * what the capture depended on, and if all is the same, it copies the elements without asking any
 * source.  So while walk->recorded is nonzero, a source with `reports` says what the tokens and
 * places that it gives depend on, besides the native frames and the registers it asked for.  In
 * other walks the calls do nothing.
 *
 * stacksplice_walk_read: it depends on the aligned word at ADDRESS, which has VALUE.  A pointer is
 * reported before the words that it leads to: they are read again only if it is unchanged, so the
 * memory must then still be there.
 *
 * stacksplice_walk_check: it depends on HOLDS returning nonzero for a copy of DATA.  HOLDS runs
 * now, and in later captures, under the rules of collect, after the words and checks reported
 * before have been found unchanged.
 *
 * stacksplice_walk_refuse: it depends on something else, or may differ next time.  Nothing needs to
 * be reported any more: walk->recorded is 0 then.
 * [thread: inside collect | alloc: no | signal: no]
 */
STACKSPLICE_API void stacksplice_walk_read(stacksplice_walk *walk, uintptr_t address,
                                           uintptr_t value);

#define STACKSPLICE_CHECK_WORDS 4

STACKSPLICE_API void stacksplice_walk_check(stacksplice_walk *walk,
                                            int (*holds)(const uintptr_t *data),
                                            const uintptr_t data[STACKSPLICE_CHECK_WORDS]);

STACKSPLICE_API void stacksplice_walk_refuse(stacksplice_walk *walk);

#define STACKSPLICE_SOURCE_VERSION 1

/*
 * A frame source.  COLLECT runs inside a capture, on the capturing thread, with or without the
 * interpreter's lock.  It may read the stack in use and the interpreter's memory.  It must not run
 * interpreter code, change a reference count, allocate in the interpreter, take a lock that
 * interpreter code can hold, or unwind (longjmp, exceptions).
 */
typedef struct stacksplice_source {
    size_t size;          /* sizeof(stacksplice_source) */
    uint32_t version;     /* STACKSPLICE_SOURCE_VERSION */
    const char *language; /* as in frames; a static string */
    const void *identity; /* the copy of the interpreter it reads, such as its globals' address */
    void (*collect)(stacksplice_walk *walk, void *data);
    void *data;
    /*
     * Optional: may be NULL, or SIZE may end before it.  Marks the code at IP, a return address,
     * for this source: a number from 1 to 255 with a meaning of its own, or 0 for none.  FUNCTION
     * is the first address of its function by unwind data, 0 if unknown.  The first registered
     * source that does not return 0 owns the mark.
     *
     * The core calls it when a thread first sees IP and caches the mark with the unwind rule, so
     * COLLECT need not search: walk->marked has the frames.  It calls again after
     * stacksplice_reclassify, after a source was added, after code was unloaded, and when a
     * thread's cache dropped IP.  It runs inside a capture in any thread, in signal handlers too:
     * no lock, no allocation, no capture.
     */
    uint8_t (*classify)(uintptr_t ip, uintptr_t function, void *data);
    /* Nonzero: may call stacksplice_walk_end, and therefore collects before sources that may not.
       Optional, as classify is. */
    uint32_t ends_walks;
    /* Nonzero: reports what its frames depend on (stacksplice_walk_read).  If a source does not, no
       capture is repeated.  Optional, as classify is. */
    uint32_t reports;
} stacksplice_source;

/*
 * Register SOURCE for the life of the process.  Its code must never be unloaded, so link the
 * binding with -z nodelete.  Registering the same language and identity again changes nothing: of
 * two copies of a binding in one process only the first splices.
 *
 * Returns S_OK; S_FALSE when that interpreter already has a source.  Errors: E_POINTER if source or
 * one of its pointers (but data) is NULL; E_INVALIDARG if size or version is unknown;
 * E_OUTOFMEMORY when the table of 32 sources is full.
 * [own: copied, data stays the binding's | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_add_source(const stacksplice_source *source);

/*
 * Drop the cached results of classify, for instance after a calibration: captures that begin later
 * call it again.
 * [thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API void stacksplice_reclassify(void);

/*
 * A number that changes when the loader unloads a module; anything cached by address is then void.
 * Unlike dl_iterate_phdr it is safe in a forked child.  UINT64_MAX when another thread has been
 * forking for ten seconds.
 * [thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API uint64_t stacksplice_unloads(void);

/*
 * The data of the source registered for LANGUAGE and IDENTITY, or NULL.  A second copy of a binding
 * in one process shares the state of the first by it.
 * [own: the binding's | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API void *stacksplice_source_data(const char *language, const void *identity);

/*
 * Nonzero when a source of a language other than LANGUAGE is registered.  If not, no stack has
 * frames of another language, and a search for them needs no capture.
 * [thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API int stacksplice_has_other_sources(const char *language);

/*
 * Nonzero when captures may come in signal handlers: since the crash handler was installed, or the
 * first deadline began.  What a source cannot learn in a handler it then learns when it is loaded.
 * Sources that were registered before have learnt it by then: the core has made a capture for them.
 * [thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API int stacksplice_captures_in_handlers(void);

/*
 * stacksplice_capture without the caller's own frames: takes only frames outside of FRAME_ADDRESS,
 * the value of __builtin_frame_address(0) in the calling function.
 */
STACKSPLICE_API stacksplice_hresult stacksplice_capture_above(const void *frame_address,
                                                              uint32_t max_frames,
                                                              uintptr_t *frames, uint32_t *captured,
                                                              uint32_t *hash);

/*
 * The same for a stack that is to be stored.  Of more than MAX_FRAMES elements it stores both ends
 * and between them one gap with the number left out.  If BEHIND is not 0, elements up to and
 * including the first token equal to BEHIND are skipped; without such a token, none are.
 *
 * Returns S_OK; S_FALSE when elements were left out.  Errors: as stacksplice_capture.
 * [own: caller's array | thread: any | alloc: first capture of a thread, new script frames |
 * signal: as stacksplice_capture]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_capture_ends(const void *frame_address,
                                                             uintptr_t behind, uint32_t max_frames,
                                                             uintptr_t *frames, uint32_t *captured);

/*
 * Store the native frames between two places on the calling thread's stack: those outside of the
 * frame that holds INNER and inside of the one that holds OUTER, the innermost first, as they stand in
 * a stack.  No source is asked, and no more of the stack is walked than that.
 *
 * Returns S_OK when FRAMES holds all of them; S_FALSE when it has no room for the others, or when
 * nothing is known of them: the walk does not get to OUTER by unwind data, on this stack.
 * Errors: E_POINTER.
 * [own: caller's array | thread: any | alloc: first capture of a thread | signal: as
 * stacksplice_capture]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_native_between(const void *inner, const void *outer,
                                                               uint32_t max_frames,
                                                               uintptr_t *frames,
                                                               uint32_t *captured);

/*
 * Copy a stack of COUNT elements to OUT, which has room for MAX_FRAMES and may be FRAMES itself.  A
 * longer stack is cut as stacksplice_capture_ends does.  Returns the number of elements in OUT.
 * [own: caller's arrays | thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API uint32_t stacksplice_copy_ends(const uintptr_t *frames, uint32_t count,
                                               uint32_t max_frames, uintptr_t *out);

/*
 * The gap for COUNT frames that a stack longer than the limit left out; 0: an unknown number of
 * outer frames.  Such tokens need no memory.
 * [thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API uintptr_t stacksplice_left_out(uint32_t count);

/*
 * What addresses mean after an unload.  After dlclose an address may hold other code, or none.  So
 * whoever keeps a stack notes the epoch of its capture, and settles the stack before it looks at
 * its elements.  The core does so with the stacks of errors and of language exceptions.
 *
 * stacksplice_code_epoch: the epoch of a stack captured now.  Call it after the capture.
 * stacksplice_settle: replace the addresses of FRAMES whose code was unloaded since EPOCH.  Their
 * elements stand for the module that was there, and the offset in it.  Returns the epoch that
 * FRAMES have then.
 * [own: caller's array | thread: any | alloc: no, maps | signal: no]
 */
STACKSPLICE_API uint64_t stacksplice_code_epoch(void);
STACKSPLICE_API uint64_t stacksplice_settle(uintptr_t *frames, uint32_t count, uint64_t epoch);

/* Whose code a frame is (stacksplice_frame_role). */
typedef enum stacksplice_role {
    STACKSPLICE_ROLE_OWN = 0,    /* of a program or library: every other frame */
    STACKSPLICE_ROLE_GLUE = 1,   /* inside of an interpreter, a call into one, start-up, ours, and a
                                    gap that tracebacks of its language never mention */
    STACKSPLICE_ROLE_BUILTIN = 2 /* a function of an interpreter's own library that scripts call */
} stacksplice_role;

/*
 * The role of FRAME, as stacksplice_resolve returns it.  Text reports hide glue; a binding that
 * shows frames in its language's own form hides built-in functions too, as its language does.  Only
 * the names of binary and function decide, and the reason of a gap: without a function name, a frame in a binary with glue
 * and built-in functions is glue.  NULL is STACKSPLICE_ROLE_OWN.
 * [own: borrows frame | thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API stacksplice_role stacksplice_frame_role(const stacksplice_frame *frame);

/*
 * Nonzero if FRAME, which may be NULL, is of an installed library or of the system by its path, and not of a user's
 * own code: reports in colour show it dim.
 * [own: borrows frame | thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API int stacksplice_frame_installed(const stacksplice_frame *frame);

/*
 * Whether reports may read source lines from FILE: nonzero for a readable regular file that is not
 * below /proc, /sys or /dev, after links are followed, and has at most 16 MB.  For a binding that passes file names to
 * tools which open them.
 * [own: borrows file | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API int stacksplice_is_source_file(const char *file);

#ifdef __cplusplus
}
#endif
#endif
