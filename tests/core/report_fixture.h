/*
 * Errors with stacks made by hand: a language exception that answers what a binding's would, so
 * that reports of known contents can be compared as a whole.
 */
#ifndef REPORT_FIXTURE_H
#define REPORT_FIXTURE_H

#include <stacksplice/source.h>

typedef struct fixture_error {
    HRESULT hr;
    const char *type;     /* NULL, as language: the exception tells nothing but its stack */
    const char *language; /* NULL: "python" */
    const char *message;  /* UTF-8 */
    size_t message_length;
    const uintptr_t *frames;
    uint32_t frame_count;
    IRestrictedErrorInfo *cause; /* borrowed, or NULL */
} fixture_error;

/* An error object, which the caller releases; never NULL.  The slot is empty afterwards. */
IRestrictedErrorInfo *fixture_originate(const fixture_error *contents);

/* Add a propagation node with this stack to ERROR, which LANGUAGE (or NULL) receives. */
void fixture_propagate(IRestrictedErrorInfo *error, const char *language, const uintptr_t *frames,
                       uint32_t count);

/* The token of a script frame. */
uintptr_t fixture_script(const char *language, const char *function, const char *file,
                         uint32_t line);
uintptr_t fixture_gap(const char *reason);

/* What a report wrote, with a NUL; the oldest of four calls is overwritten. */
const char *fixture_format(IUnknown *error, stacksplice_format_kind kind,
                           const stacksplice_format_options *options);

#endif
