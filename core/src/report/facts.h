/*
 * The facts of one error that all reports share: what it says, of which type, in which language.
 */
#ifndef SS_FACTS_H
#define SS_FACTS_H

#include "base/writer.h"
#include "error/view.h"

typedef struct ss_facts {
    IUnknown *error; /* borrowed; NULL: a crash without one */
    ss_error_view view;
    IScriptException *exception; /* owned; NULL: none, or it does not tell more */
    const char *type;            /* "ValueError", or NULL */
    const char *language;        /* of the exception, the receiver, or the innermost script frame */
    const char *message;         /* UTF-8 of the exception; NULL: view.message is the message */
    size_t message_length;
} ss_facts;

/* False if ERROR is not an error object of this library; then nothing is to be released. */
bool ss_facts_get(IUnknown *error, ss_facts *facts);
void ss_facts_release(ss_facts *facts);

/* The message without the white space at its end; true if there was any. */
bool ss_facts_write_message(const ss_facts *facts, ss_writer *w, ss_escape escape);

/* The same for the HRESULT's own text. */
bool ss_facts_write_description(const ss_facts *facts, ss_writer *w, ss_escape escape);

/* Whether the message says more than the HRESULT's own text does. */
bool ss_facts_has_own_message(const ss_facts *facts);

/* Whether there can be propagation nodes and causes: a node has none of its own. */
static inline bool ss_facts_has_chain(const ss_facts *facts)
{
    return facts->error && !facts->view.is_node;
}

/* The language of the innermost script frame; "native" when there is none.  Static or interned. */
const char *ss_stack_language(const uintptr_t *frames, uint32_t count);

/* "E_INVALIDARG" for a code that has a common name, or NULL. */
const char *ss_hresult_symbol(stacksplice_hresult hr);

#endif
