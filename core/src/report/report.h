/*
 * Makes a report of one error.  The same code serves a healthy process and a failing one.  In the
 * latter FAILFAST is set, and nothing allocates, opens files or looks up symbols.
 */
#ifndef SS_REPORT_H
#define SS_REPORT_H

#include "base/hash.h"
#include "base/writer.h"
#include "com/messages.h"
#include "error/view.h"
#include "redact/redact.h"
#include "report/source_line.h"
#include "resolve/resolve.h"
#include <stacksplice/script.h>

#include <string.h>

/*
 * What all reports share of one error: what it says, its stack, and the errors that belong to it.
 * The facts come from an error object, or from a caller that read back a saved report.
 */

/* ---- Locals ----------------------------------------------------------------------------------*/

/* The local variables of an error's frames, as its language tells them when a report is made. */

/* Those of one stack.  All zero: none. */
typedef struct ss_locals {
    stacksplice_document_local *all; /* owned, as are the texts */
    uint32_t *elements;              /* for each its element of the stack; behind them */
    uint32_t count;
} ss_locals;

/* Read those of ERROR, which VIEW is of, and of its exception. */
void ss_locals_begin(ss_locals *locals, IUnknown *error, const ss_error_view *view);
void ss_locals_end(ss_locals *locals);

/* Those of the frame at ELEMENT; LOCALS may be NULL. */
stacksplice_document_locals ss_locals_of(const ss_locals *locals, uint32_t element);

/* ---- Facts -----------------------------------------------------------------------------------*/

/* A stack.  An error object gives elements; a saved report gives frames, and ELEMENTS is NULL. */
typedef struct ss_shown_stack {
    const uintptr_t *elements;
    const stacksplice_document_frame *frames;
    uint32_t count;           /* of either */
    const ss_locals *locals;  /* of ELEMENTS; or NULL */
    int64_t taken_at;         /* see ss_error_view; 0: unknown */
    uint32_t left_out;        /* frames that are not in it */
    uint32_t hidden_left_out; /* of a brief report: frames that texts hide */
} ss_shown_stack;

/* The source of an error's facts: one of the two. */
typedef struct ss_subject {
    IUnknown *error;
    const stacksplice_document *document;
} ss_subject;

enum { SS_STACK_LANGUAGE = 64 };

/* Never copied: see stack_language. */
typedef struct ss_facts {
    IUnknown *error; /* borrowed; NULL: a crash without one, or a saved report */
    const stacksplice_document *document; /* borrowed; NULL: an error object */
    ss_error_view view;
    uint32_t frames_left_out;     /* of VIEW's stack, those that are missing */
    IRestrictedErrorInfo *member; /* owned: ERROR as the member of a group; or NULL */
    const char *type;             /* "ValueError", or NULL */
    const char *language; /* of the exception, the receiver, or the innermost script frame */
    const char *message;  /* UTF-8 of the exception; NULL: view.message is the message */
    size_t message_length;
    char stack_language[SS_STACK_LANGUAGE]; /* storage for LANGUAGE if a frame gives it */
} ss_facts;

/* False if ERROR is not an error object of this library; then there is nothing to release, but it
   may be called. */
bool ss_facts_get(IUnknown *error, ss_facts *facts);
bool ss_facts_of(ss_subject subject, ss_facts *facts);
void ss_facts_release(ss_facts *facts);

/* The message; without trailing white space unless an exception gave it. */
ss_text ss_facts_message(const ss_facts *facts);

/* The HRESULT's own text without trailing white space. */
ss_text ss_facts_description(const ss_facts *facts);

/* Whether the message says more than the HRESULT's own text does. */
bool ss_facts_has_own_message(const ss_facts *facts);

ss_shown_stack ss_facts_stack(const ss_facts *facts);
ss_shown_stack ss_document_stack(const stacksplice_document_stack *stack);
void ss_facts_each_note(const ss_facts *facts, stacksplice_note_callback back, void *data);

/* Call BACK for each propagation node, oldest first; false from BACK stops. */
typedef bool (*ss_node_callback)(const char *receiver, uint64_t thread_id, ss_shown_stack stack,
                                 void *data);
void ss_facts_each_node(const ss_facts *facts, ss_node_callback back, void *data);

/* Whether it is a group; sets its number of members. */
bool ss_facts_group(const ss_facts *facts, uint32_t *members, uint32_t *left_out);

/* Get those of member INDEX of GROUP; false if it cannot be read.  To be released in any case. */
bool ss_facts_get_member(const ss_facts *group, uint32_t index, ss_facts *facts);

/* What the error was made from, borrowed; all NULL when there is nothing. */
ss_subject ss_facts_previous(const ss_facts *facts);

/* Whether it can have propagation nodes and causes: a node has neither. */
static inline bool ss_facts_has_chain(const ss_facts *facts)
{
    return facts->document || (facts->error && !facts->view.is_node);
}

/* The language of the innermost script frame, written to LANGUAGE; "native" when there is none. */
const char *ss_stack_language(const uintptr_t *frames, uint32_t count,
                              char language[SS_STACK_LANGUAGE]);

/* ---- Reports ---------------------------------------------------------------------------------*/

enum {
    SS_REPORT_ERRORS_MAX = 256, /* in one report, with causes and members */
    SS_REPORT_CAUSES_MAX = 16,  /* causes in one chain, as text */
    SS_REPORT_MEMBERS_MAX = 15, /* of one group, as text */
    SS_REPORT_DEPTH_MAX = 10,   /* nested groups, as text */
    SS_REPORT_LEVELS_MAX = 32,  /* the same, as JSON */
    SS_REPORT_ROUNDS_MAX = 3,   /* of a cycle of frames, as text */
    SS_REPORT_PERIOD_MAX = 8,   /* frames in a round of one */
    SS_REPORT_END_MAX = 30      /* parts of either end of a long stack on a terminal */
};

typedef struct ss_report {
    ss_writer *w; /* for texts */
    stacksplice_order order;
    bool all_frames;
    bool color;
    bool shorten;
    bool alone;
    bool brief_json;                /* STACKSPLICE_FORMAT_BRIEF_JSON */
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

/* Write a stack as text, indented by INDENT spaces, with the header of an error where HEADED. */
void ss_report_stack(const ss_report *r, const ss_facts *headed, ss_shown_stack stack,
                     unsigned indent);

/* Write BEFORE and "NAME (FILE:LINE)" for the innermost frame of STACK that a brief report shows. */
void ss_report_where(const ss_report *r, const char *before, ss_shown_stack stack);

enum {
    SS_FOLDS_MAX = 8,        /* in one stack; further ones are shown */
    SS_FOLD_NAMES_MAX = 6,   /* of one fold */
    SS_FOLDS_NAMES_MAX = 12, /* of all of them */
    SS_FOLD_TEXT_MAX = 256
};

/* Elements from BEGIN to END of programs that called the user's code, with nothing shown between them. */
typedef struct ss_fold {
    uint32_t begin, end;
    uint8_t first, count; /* of their names, none twice, the innermost first */
    bool others;          /* there are further programs */
} ss_fold;

/* What a brief report leaves out of a stack. */
typedef struct ss_folds {
    uint32_t start_up; /* from here on unnamed frames are of the C library's start-up code */
    uint32_t states;   /* of which languages it has frames of several: see ss_language_bit */
    uint32_t count, name_count;
    ss_fold all[SS_FOLDS_MAX]; /* the innermost first */
    const char *names[SS_FOLDS_NAMES_MAX];
} ss_folds;

/* The one that element AT is in, or NULL. */
static inline const ss_fold *ss_fold_of(const ss_folds *folds, uint32_t at)
{
    for (uint32_t i = 0; i < folds->count; i++)
        if (at >= folds->all[i].begin && at < folds->all[i].end)
            return &folds->all[i];
    return NULL;
}

ss_folds ss_report_folds(const ss_report *r, ss_shown_stack stack);

/* The names of FOLD as reports say them, the outermost first: one, or in OUT "a, b and c"; what does not fit is "others". */
const char *ss_fold_text(const ss_folds *folds, const ss_fold *fold, char out[SS_FOLD_TEXT_MAX]);

/* Languages may share one: then a state is numbered that need not be. */
static inline uint32_t ss_language_bit(const char *language)
{
    return UINT32_C(1) << (ss_hash_bytes(SS_HASH_START, language, strlen(language)) % 8);
}

/* A frame to show as text. */
typedef struct ss_shown_frame {
    const stacksplice_frame *frame;
    bool glue;
    const stacksplice_document_frame *saved; /* NULL: read its line from the file */
    stacksplice_document_locals locals;
    bool replaced;   /* the file of its module is not the one that was loaded */
    uint64_t number; /* see ss_frame; 0: none */
} ss_shown_frame;

/* Whether a report shows FRAME. */
bool ss_report_shows(const ss_report *r, const stacksplice_frame *frame, bool glue);

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

/* The source line of SHOWN: that which was saved, or a copy in LINE; and where it begins. */
ss_text ss_report_source(const ss_report *r, const ss_shown_frame *shown,
                         char line[SS_SOURCE_LINE_MAX], uint32_t *column);

/* 32 hexadecimal digits and a NUL.  The loose one is by names of native functions, which nobody has
   while failing fast. */
void ss_report_fingerprint(const ss_report *r, const ss_facts *facts, bool is_loose, char out[33]);

/* The frames of one element of a stack, from begin to end. */
typedef struct ss_element {
    const ss_report *r;
    uint32_t begin, end; /* in the stack: one, but in a saved report all frames of an address */
    uint32_t count;      /* of frames */
    const stacksplice_document_frame *saved; /* NULL: those FOUND */
    stacksplice_document_locals locals;      /* of those FOUND */
    ss_frames found;
} ss_element;

/* The element of STACK that AT is in.  BRIEF: as texts are. */
void ss_element_begin(ss_element *e, const ss_report *r, const ss_shown_stack *stack, uint32_t at,
                      bool brief);
ss_shown_frame ss_element_at(const ss_element *e, uint32_t index);
void ss_element_end(ss_element *e);

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

#endif
