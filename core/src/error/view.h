/*
 * How reports and crashes see an error: values and borrowed pointers, no methods.  The only private
 * header of error/ that report/ may include.
 */
#ifndef SS_ERROR_VIEW_H
#define SS_ERROR_VIEW_H

#include "base/platform.h"
#include <stacksplice/script.h>

enum { SS_REFERENCE_UNITS = 34 /* two numbers of 16 digits, a dash and a NUL */ };

/* The rest is borrowed from the error object and immutable, except that nodes may be added and that
   a longer stack may come in place of FRAMES, which stay. */
typedef struct ss_error_view {
    const void *identity; /* equal for all pointers to one error or node */
    bool is_node;         /* a propagation node: the texts and HRESULT are those of its origin */
    HRESULT hresult;
    const WCHAR *description; /* the HRESULT's own text, with its \r\n */
    const WCHAR *message;     /* the restricted description */
    int64_t taken_at;         /* nanoseconds since 1970, when the stack was taken */
    uint64_t thread_id;       /* gettid() where it was captured */
    const uintptr_t *frames;  /* the combined stack, or the language exception's own */
    uint32_t frame_count;
    const uintptr_t *captured; /* the stack before it grew; NULL: FRAMES */
    uint32_t captured_count;
    IUnknown *language_exception;  /* borrowed, or NULL */
    IScriptException *exception;   /* the same, or NULL: it has no further details */
    const char *receiver;          /* on a node: the receiving language */
    stacksplice_relation relation; /* how ss_error_previous relates to it */
    uint32_t causes_left_out;      /* 0, or at least 1: beyond the last known cause */
} ss_error_view;

/*
 * Fill VIEW from ERROR, an error object or propagation node of this library.  False for any other
 * object: foreign objects have no view.  Takes no reference: the caller holds one.
 */
bool ss_error_view_get(IUnknown *error, ss_error_view *view);

/*
 * Put the reference of ERROR, which has a view, into OUT, with a NUL; nothing of a node.  Returns its
 * length.  Not in the view, as it takes longer than all of that.
 */
uint32_t ss_error_reference(IUnknown *error, WCHAR out[SS_REFERENCE_UNITS]);

/*
 * Call BACK for each propagation node of ERROR, oldest first, until it returns false.  Lock-free:
 * nodes are only ever added, and live as long as the error.
 */
void ss_error_each_node(IUnknown *error, bool (*back)(const ss_error_view *node, void *data),
                        void *data);

/*
 * The error that ERROR was made from (a cause, or RoTransformError's old error), borrowed, or NULL.
 */
IUnknown *ss_error_previous(IUnknown *error);

#endif
