/*
 * Secrets in reports.  Every report that leaves the process passes these rules: texts, JSON, Sentry
 * events and fail-fast reports.  What they remove is marked, such as "[redacted: password]". Errors
 * in the process keep their texts: docs/how-to/redact.md.
 */
#ifndef STACKSPLICE_REDACT_H
#define STACKSPLICE_REDACT_H

#include <stacksplice/stacksplice.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What to remove: a sum of these. */
#define STACKSPLICE_REDACT_NAMED 0x1u  /* values with a telling name: password=, "api_key": */
#define STACKSPLICE_REDACT_TOKENS 0x2u /* tokens known by their form, JWTs, private keys in PEM */
#define STACKSPLICE_REDACT_URLS 0x4u   /* user and password in URLs */
#define STACKSPLICE_REDACT_EMAILS 0x8u /* e-mail addresses */
#define STACKSPLICE_REDACT_DEFAULT \
    (STACKSPLICE_REDACT_NAMED | STACKSPLICE_REDACT_TOKENS | STACKSPLICE_REDACT_URLS)

typedef enum stacksplice_text_kind {
    STACKSPLICE_TEXT_MESSAGE = 1, /* also notes, names and whatever is none of the others */
    STACKSPLICE_TEXT_SOURCE = 2,  /* a line of source, where only literals are secrets */
    STACKSPLICE_TEXT_PATH = 3,
    STACKSPLICE_TEXT_LOCAL = 4 /* the value of a local variable */
} stacksplice_text_kind;

/*
 * Writes LENGTH bytes of TEXT, which the rules have passed, without what else must not leave the
 * process, by WRITE(..., WRITE_DATA).  TEXT is UTF-8 as far as the error's own text is.  Nonzero:
 * the text is replaced by "[redacted: hook failed]".  The hook may run on any thread that makes a
 * report.  Fail-fast reports never call it: they apply the rules alone.
 */
typedef int (*stacksplice_redact_callback)(const char *text, size_t length,
                                           stacksplice_text_kind kind,
                                           stacksplice_write_callback write, void *write_data,
                                           void *data);

enum { STACKSPLICE_REDACT_NAMES_MAX = 64, STACKSPLICE_REDACT_NAME_MAX = 47 };

typedef struct stacksplice_redaction {
    size_t size;    /* sizeof(stacksplice_redaction) */
    uint32_t rules; /* STACKSPLICE_REDACT_...; 0 removes nothing */
    /*
     * Further names of secrets, in ASCII: at most 64 of 47 letters and digits.  Case, '_' and '-'
     * do not count, and "pin" also names user_pin.
     */
    const char *const *names;
    uint32_t name_count;
    stacksplice_redact_callback hook; /* or NULL */
    void *hook_data;
} stacksplice_redaction;

/*
 * Set what reports of this process leave out from now on; NULL: the default, which has the rules
 * STACKSPLICE_REDACT_DEFAULT, no further names and no hook.
 * Errors: E_INVALIDARG if the size or a rule is unknown, or a name is empty, too long, one too many
 * or not ASCII; E_OUTOFMEMORY.  Then nothing changes.
 * [own: copied; hook_data stays the caller's | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult
stacksplice_set_redaction(const stacksplice_redaction *redaction);

/*
 * Write LENGTH bytes of TEXT as reports do.  Text without secrets is written as it is.
 * Returns S_OK, or S_FALSE when WRITE stopped it.  Errors: E_POINTER if text or write is NULL;
 * E_INVALIDARG if kind is unknown.
 * [own: text lent | thread: any | alloc: for the hook | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_redact(const char *text, size_t length,
                                                       stacksplice_text_kind kind,
                                                       stacksplice_write_callback write,
                                                       void *data);

/*
 * The same without the hook, for a text of which only the beginning is shown: of a secret that was
 * cut too little is left to be found.  The hook gets that beginning when a report is made.
 * Returns and errors: as stacksplice_redact.
 * [own: text lent | thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_redact_by_rules(const char *text, size_t length,
                                                                stacksplice_text_kind kind,
                                                                stacksplice_write_callback write,
                                                                void *data);

/*
 * Whether NAME, such as that of a local variable, says that its value is a secret: returns what its
 * marker says, such as "password", a literal; NULL if it is none.
 * [own: borrows name | thread: any | alloc: no | signal: yes]
 */
STACKSPLICE_API const char *stacksplice_redact_name(const char *name);

#ifdef __cplusplus
}
#endif
#endif
