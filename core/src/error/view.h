/*
 * How resolve-and-report code sees an error: values and borrowed pointers, nothing to call.
 * The one private header of error/ that report/ and crash/ may include.
 */
#ifndef SS_ERROR_VIEW_H
#define SS_ERROR_VIEW_H

#include "base/platform.h"
#include <stacksplice/source.h>

enum { SS_REFERENCE_UNITS = 34 /* two numbers of 16 digits, a dash and a NUL */ };

/* Everything else is borrowed from the error object and immutable, except that nodes may be added.
 */
typedef struct ss_error_view {
    const void *identity; /* equal for all pointers to one error or node */
    bool is_node;         /* a propagation node: the texts and HRESULT are those of its origin */
    HRESULT hresult;
    const WCHAR *description;            /* the HRESULT's own text, with its \r\n */
    const WCHAR *message;                /* the restricted description */
    WCHAR reference[SS_REFERENCE_UNITS]; /* empty on a node */
    uint64_t thread_id;                  /* gettid() where it was captured */
    const uintptr_t *frames;             /* the combined stack, or the language exception's own */
    uint32_t frame_count;
    uint32_t frames_left_out;      /* of a stack longer than the limit: how many */
    IUnknown *language_exception;  /* borrowed, or NULL */
    const char *receiver;          /* on a node: the language that received */
    stacksplice_relation relation; /* what ss_error_previous is to it */
    uint32_t causes_left_out;      /* 0, or at least 1: behind the last that is known */
} ss_error_view;

/*
 * Fill VIEW from ERROR, an error object or propagation node of this library; false if it is
 * neither (views of foreign objects do not exist).  Takes no reference: the caller holds one.
 */
bool ss_error_view_get(IUnknown *error, ss_error_view *view);

/*
 * Call BACK for each propagation node of ERROR, oldest first, with its view; false from BACK stops.
 * Lock-free: nodes are only ever added, and live as long as the error.
 */
void ss_error_each_node(IUnknown *error, bool (*back)(const ss_error_view *node, void *data),
                        void *data);

/* The error that ERROR was made from (a cause, or RoTransformError's old one), borrowed, or NULL.
 */
IUnknown *ss_error_previous(IUnknown *error);

#endif
