/*
 * Makes a report of one error.  The same code serves a healthy process and a failing one.  In the
 * latter FAILFAST is set, and nothing allocates, opens files or looks up symbols.
 */
#ifndef SS_REPORT_H
#define SS_REPORT_H

#include "base/writer.h"
#include "report/facts.h"
#include "report/source_line.h"
#include "resolve/resolve.h"
#include <stacksplice/script.h>

#include <string.h>

enum {
    SS_REPORT_ERRORS_MAX = 256, /* in one report, with causes and members */
    SS_REPORT_CAUSES_MAX = 16,  /* causes in one chain, as text */
    SS_REPORT_MEMBERS_MAX = 15, /* of one group, as text */
    SS_REPORT_DEPTH_MAX = 10,   /* nested groups, as text */
    SS_REPORT_LEVELS_MAX = 32,  /* the same, as JSON */
    SS_REPORT_EQUAL_MAX = 3     /* equal frames shown in a row */
};

typedef struct ss_report {
    ss_writer *w; /* for texts */
    stacksplice_order order;
    bool all_frames;
    bool color;
    bool alone;
    ss_binary *failfast;            /* scratch space, set if the process is failing; or NULL */
    ss_source *source;              /* NULL: open no file */
    uintptr_t crashed_at;           /* the element where the process crashed: no glue; 0: none */
    bool bare;                      /* whoever wrote a frame by LOOK knows its variables */
    stacksplice_look_callback look; /* or NULL */
    void *look_data;
} ss_report;

void ss_report_text(const ss_report *r, const ss_facts *facts);

/* STACKSPLICE_FORMAT_STACK */
void ss_report_bare(const ss_report *r, const ss_facts *facts);

/* The stack of FACTS with its variables, in LOCALS, which the caller ends after its use. */
static inline ss_shown_stack ss_report_stack_of(const ss_report *r, const ss_facts *facts,
                                                ss_locals *locals)
{
    ss_shown_stack stack = ss_facts_stack(facts);
    bool has_any = stack.elements && !r->failfast && !facts->view.is_node;

    ss_locals_begin(locals, has_any ? facts->error : NULL, &facts->view);
    stack.locals = locals;
    return stack;
}

/* Whether a brief report hides FRAME as the inside of an interpreter. */
bool ss_report_is_glue(const ss_report *r, const ss_frame *frame);

/* Write a stack as text, indented by INDENT spaces. */
void ss_report_stack(const ss_report *r, ss_shown_stack stack, unsigned indent);

/* Write " at NAME (FILE:LINE)" for the innermost frame of STACK that a brief report shows. */
void ss_report_where(const ss_report *r, ss_shown_stack stack);

/* What a brief report leaves out at the outer end of a stack. */
typedef struct ss_folds {
    uint32_t start_up;    /* from here on unnamed frames are of the C library's start-up code */
    uint32_t shell;       /* from here on a program that called the user's code */
    const char *shell_is; /* its name, or NULL */
} ss_folds;

ss_folds ss_report_folds(const ss_report *r, ss_shown_stack stack);

/* A frame to show as text. */
typedef struct ss_shown_frame {
    const stacksplice_frame *frame;
    bool glue;
    const stacksplice_document_frame *saved; /* NULL: read its line from the file */
    stacksplice_document_locals locals;
} ss_shown_frame;

/* Whether a report shows FRAME; what it does not show it counts, if IS_COUNTED. */
bool ss_report_shows(const ss_report *r, const stacksplice_frame *frame, bool glue,
                     bool *is_counted);

/* Write TEXT, which ends with a NUL, on one line without secrets. */
static inline void ss_report_put(const ss_report *r, const char *text, stacksplice_text_kind kind)
{
    ss_redact((ss_text){text, NULL, strlen(text)}, kind, r->failfast != NULL, r->w, SS_ESCAPE_LINE);
}

/* Before the frames of STACK: files that were written after it have other lines. */
static inline void ss_report_dates(const ss_report *r, ss_shown_stack stack)
{
    if (r->source)
        r->source->newest = stack.taken_at;
}

/* Copy the source line of FRAME to LINE, as ss_source_line does. */
size_t ss_report_source(const ss_report *r, const stacksplice_frame *frame,
                        char line[SS_SOURCE_LINE_MAX], uint32_t *column);

/* 32 hexadecimal digits and a NUL. */
void ss_report_fingerprint(const ss_report *r, const ss_facts *facts, char out[33]);

/* The same with names of native functions, which nobody has while failing fast. */
void ss_report_loose_fingerprint(const ss_report *r, const ss_facts *facts, char out[33]);

static inline void ss_report_resolve(const ss_report *r, uintptr_t address,
                                     ss_frame_callback callback, void *data)
{
    if (r->failfast)
        (void)ss_resolve_failfast(address, r->failfast, callback, data);
    else
        (void)ss_resolve(address, callback, data);
}

/* The same for texts. */
static inline void ss_report_resolve_shown(const ss_report *r, uintptr_t address,
                                           ss_frame_callback callback, void *data)
{
    if (r->failfast || r->all_frames)
        ss_report_resolve(r, address, callback, data);
    else
        (void)ss_resolve_brief(address, callback, data);
}

/*
 * Errors that a report has met.  Text: all of them, to show each once.  JSON: only the enclosing
 * ones, to detect a circle.
 */
typedef struct ss_seen {
    const void *errors[SS_REPORT_ERRORS_MAX];
    uint32_t count;
} ss_seen;

static inline bool ss_seen_has(const ss_seen *seen, const ss_facts *facts)
{
    for (uint32_t i = 0; i < seen->count; i++) {
        if (seen->errors[i] == facts->view.identity)
            return true;
    }
    return false;
}

/* False when it is full. */
static inline bool ss_seen_add(ss_seen *seen, const ss_facts *facts)
{
    if (seen->count == SS_COUNT_OF(seen->errors))
        return false;
    seen->errors[seen->count++] = facts->view.identity;
    return true;
}

/* The causes of an error, each once, at most a fixed number. */
typedef struct ss_causes {
    IUnknown *seen[SS_REPORT_CAUSES_MAX + 1];
    uint32_t count;
    bool cut;    /* after the last: there are more than we show */
    bool circle; /* after the last: the next was shown before */
} ss_causes;

void ss_causes_begin(ss_causes *causes, IUnknown *error);
IUnknown *ss_causes_next(ss_causes *causes);

#endif
