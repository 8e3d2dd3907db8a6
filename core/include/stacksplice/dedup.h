/*
 * A storm of equal errors as one report and a count.
 *
 * The first error of a fingerprint is new: its caller writes it whole.  Those that follow within a
 * window of time are counted, and come as one line of JSON with their number, the times of the first
 * and the last of them, and the message of the last.
 *
 *     if (stacksplice_dedup_add(dedup, error) != S_FALSE)
 *         write_whole(error);
 *     stacksplice_dedup_flush(dedup, 0, write, file);       now and then: what windows left
 *     ...
 *     stacksplice_dedup_flush(dedup, 1, write, file);       at the end: all
 *
 * Every error is either new or counted once; an error that cannot be counted is new.  A forked child
 * begins with an empty table, so what its parent counted comes from the parent alone; this needs
 * the fork handlers of the C library, which _Fork and clone leave out.
 *
 * stacksplice_dedup_add waits for no lock of the table: where another thread changes it, an error is
 * new.
 *
 * The general rules are those of stacksplice.h.
 */
#ifndef STACKSPLICE_DEDUP_H
#define STACKSPLICE_DEDUP_H

#include "stacksplice.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A table.  It takes 128 bytes, and 640 for each of its entries: 160 KB as it is by default. */
typedef struct stacksplice_dedup stacksplice_dedup;

enum {
    STACKSPLICE_DEDUP_WINDOW = 60000, /* milliseconds */
    STACKSPLICE_DEDUP_ENTRIES = 256,
    STACKSPLICE_DEDUP_ENTRIES_MAX = 65536
};

typedef struct stacksplice_dedup_options {
    size_t size;      /* sizeof(stacksplice_dedup_options) */
    uint32_t window;  /* in milliseconds, from the error that was new; 0: the default */
    uint32_t entries; /* fingerprints at a time, the rest is new each time; 0: the default */
} stacksplice_dedup_options;

/*
 * Make a table.  OPTIONS may be NULL.
 *
 * Errors: E_POINTER if dedup is NULL; E_INVALIDARG if options is of unknown size or has too many
 * entries; E_OUTOFMEMORY.
 * [own: *dedup is the caller's | thread: any | alloc: all that it ever takes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_dedup_new(const stacksplice_dedup_options *options,
                                                          stacksplice_dedup **dedup);

/*
 * Free a table that no thread uses any more; NULL is allowed.  What it has counted is lost.
 * [own: takes dedup | thread: any | signal: no]
 */
STACKSPLICE_API void stacksplice_dedup_free(stacksplice_dedup *dedup);

/*
 * Count ERROR if an error of its fingerprint was new within the window.
 *
 * A stack that was counted before is known by its addresses, and costs some 1,600 instructions at
 * 50 frames.  Else, and for each group of exceptions, the fingerprint is computed, which costs about
 * what a report does.
 *
 * Returns S_OK: it is new; S_FALSE: it was counted.
 * Errors, after which it is to be written as well: E_POINTER if dedup or error is NULL; E_INVALIDARG
 * if error is no error object of this library.
 * [own: borrows error | thread: any | alloc: what resolving takes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_dedup_add(stacksplice_dedup *dedup,
                                                          IUnknown *error);

/*
 * Write what was counted in windows that have ended, or with ALL in all of them, and count from 0
 * again.  WRITE is called once for each line, which ends with a line feed:
 *
 *     {"schema":"stacksplice-repeats/1","count":5107,"fingerprint":"...","loose_fingerprint":"...",
 *      "hresult":"0x80004005","type":"ValueError","first_ns":...,"last_ns":...,"message":"..."}
 *
 * Times are nanoseconds since 1970.  The message is redacted as those of reports are; of more than
 * 255 bytes the whole words that fit.  It is null where two threads counted at once, and, as the type,
 * where redaction makes a line of more than 4,095 bytes.  When WRITE
 * returns nonzero, the rest stays for the next call; the line at which that was is not repeated.
 *
 * Returns S_OK; S_FALSE when WRITE stopped it.
 * Errors: E_POINTER if dedup or write is NULL; 0x800705B4 (ERROR_TIMEOUT) if another thread held the
 * table for a second: then what is not written stays.
 * [thread: any | alloc: what redaction takes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_dedup_flush(stacksplice_dedup *dedup, int all,
                                                            stacksplice_write_callback write,
                                                            void *data);

#ifdef __cplusplus
}
#endif
#endif
