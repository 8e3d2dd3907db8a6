/*
 * The event that Sentry takes: https://develop.sentry.dev/sdk/data-model/event-payloads/.  It goes
 * to a visitor, as every report of an error as data.
 */
#ifndef SS_SENTRY_H
#define SS_SENTRY_H

#include "report/emit.h"
#include "report/report.h"

void ss_sentry_event(const ss_report *r, ss_emit *e, const ss_facts *facts);

typedef struct ss_image {
    uintptr_t start;
    const stacksplice_frame *saved; /* borrowed; NULL: a binary of this process */
} ss_image;

/* The binaries of the frames that were emitted. */
typedef struct ss_images {
    ss_image all[32];
    uint32_t count;
} ss_images;

/* Emit "stacktrace", unless the stack is empty; add the binaries of its frames to IMAGES. */
void ss_sentry_stack(const ss_report *r, ss_emit *e, ss_shown_stack stack, ss_images *images);

/* Emit "debug_meta": those of the binaries that have a build-id. */
void ss_sentry_images(ss_emit *e, const ss_images *images);

/* A text of which as much is kept as fits. */
typedef struct ss_line {
    char text[512];
    size_t length;
} ss_line;

/* A stacksplice_write_callback for one. */
int ss_line_keep(const char *text, size_t length, void *data);

#endif
