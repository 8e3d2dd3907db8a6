/*
 * The facts of one error that all reports share: what it says, its stack, and the errors that
 * belong to it.  They come from an error object, or from a caller that read back a saved report.
 */
#ifndef SS_FACTS_H
#define SS_FACTS_H

#include "base/platform.h"
#include "base/writer.h"
#include "error/view.h"
#include "redact/redact.h"

#include <stacksplice/script.h>

/* ---- Locals ----------------------------------------------------------------------------------*/

/* The local variables of an error's frames, as its language tells them when a report is made. */

/* Those of one stack.  All zero: none. */
typedef struct ss_locals {
    stacksplice_document_local *all; /* owned, as are the texts */
    uint32_t *elements;              /* for each its element of the stack */
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
    uint32_t count;          /* of either */
    const ss_locals *locals; /* of ELEMENTS; or NULL */
    int64_t taken_at;        /* see ss_error_view; 0: unknown */
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
    IScriptException *exception; /* owned; NULL: none, or it has no further details */
    const char *type;            /* "ValueError", or NULL */
    const char *language;        /* of the exception, the receiver, or the innermost script frame */
    const char *message;         /* UTF-8 of the exception; NULL: view.message is the message */
    size_t message_length;
    char stack_language[SS_STACK_LANGUAGE]; /* storage for LANGUAGE if a frame gives it */
} ss_facts;

/* False if ERROR is not an error object of this library; then there is nothing to release. */
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
void ss_facts_each_note(const ss_facts *facts, stacksplice_note_callback back, void *data);

/* Call BACK for each propagation node, oldest first; false from BACK stops. */
typedef bool (*ss_node_callback)(const char *receiver, uint64_t thread_id, ss_shown_stack stack,
                                 void *data);
void ss_facts_each_node(const ss_facts *facts, ss_node_callback back, void *data);

/* Whether it is a group; sets its number of members. */
bool ss_facts_group(const ss_facts *facts, uint32_t *members, uint32_t *left_out);

/* Read member INDEX of the group, to be released; false if it cannot be read. */
bool ss_facts_member(const ss_facts *facts, uint32_t index, ss_subject *member);
void ss_subject_release(ss_subject subject);

/* The cause of TELLER's error, borrowed; all NULL when there is none. */
ss_subject ss_subject_previous(ss_subject subject);

static inline bool ss_subject_is(ss_subject subject)
{
    return subject.error || subject.document;
}

/* Whether it can have propagation nodes and causes: a node has neither. */
static inline bool ss_facts_has_chain(const ss_facts *facts)
{
    return facts->document || (facts->error && !facts->view.is_node);
}

/* The language of the innermost script frame, written to LANGUAGE; "native" when there is none. */
const char *ss_stack_language(const uintptr_t *frames, uint32_t count,
                              char language[SS_STACK_LANGUAGE]);

/* "E_INVALIDARG" for a code with a common name, or NULL. */
const char *ss_hresult_symbol(stacksplice_hresult hr);

#endif
