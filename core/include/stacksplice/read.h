/*
 * Reading frames, stacks and errors: one walk that hands each field, by its name, to a visitor.
 *
 * The library's JSON and what bindings show of an error are visitors, so that a field which is
 * added to the walk appears in all of them.  docs/reference/json.md lists the names and what they mean.
 *
 * The general rules are those of stacksplice.h.
 */
#ifndef STACKSPLICE_READ_H
#define STACKSPLICE_READ_H

#include "stacksplice.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum stacksplice_container {
    STACKSPLICE_OBJECT = 1, /* of values with a key */
    STACKSPLICE_ARRAY = 2   /* of values without one */
} stacksplice_container;

/*
 * What takes the fields.  Extend it: put it first in a structure of your own.
 *
 * KEY is a static string, NULL in an array and for the outermost value; in "locals" it is the name
 * of a variable, which dies on return, as texts do.  A function that returns nonzero stops the
 * walk: nothing more is called, also not END.
 *
 * The functions may call the library, but not leave by longjmp or a C++ exception.
 */
typedef struct stacksplice_visitor stacksplice_visitor;
struct stacksplice_visitor {
    size_t size; /* sizeof(stacksplice_visitor) */
    int (*begin)(stacksplice_visitor *self, const char *key, stacksplice_container container);
    int (*end)(stacksplice_visitor *self, stacksplice_container container);
    int (*null)(stacksplice_visitor *self, const char *key);
    int (*boolean)(stacksplice_visitor *self, const char *key, int value);
    int (*integer)(stacksplice_visitor *self, const char *key, int64_t value);
    /* A number that people read in hexadecimal, with at least DIGITS digits. */
    int (*hex)(stacksplice_visitor *self, const char *key, uint64_t value, unsigned digits);
    /* LENGTH bytes, meant to be UTF-8: a language may have put anything into them. */
    int (*utf8)(stacksplice_visitor *self, const char *key, const char *text, size_t length);
    /* LENGTH units, meant to be UTF-16. */
    int (*utf16)(stacksplice_visitor *self, const char *key, const uint16_t *text, size_t length);
    /* Optional: takes each element of a stack, in place of the frames that it stands for. */
    int (*element)(stacksplice_visitor *self, uintptr_t element);
    /* Optional: takes an error that belongs to the one that is walked, in place of its fields: a
       member of "exceptions", or "cause", before which "relation" says what it is. */
    int (*error)(stacksplice_visitor *self, const char *key, IUnknown *error);
};

/*
 * Hand one frame, as stacksplice_resolve gives it, to VISITOR: an object.  A field that is unknown
 * is left out.
 *
 * Returns S_OK, or S_FALSE when VISITOR stopped the walk.
 * Errors: E_POINTER if frame, its language or visitor is NULL; E_INVALIDARG if a size is unknown,
 * or the frame's kind or trust is none of the enumeration's.
 * [own: borrows all | thread: any | alloc: no | signal: yes, if VISITOR can]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_frame_visit(const stacksplice_frame *frame,
                                                            const char *key,
                                                            stacksplice_visitor *visitor);

/*
 * Hand a stack of COUNT elements to VISITOR: the array "stack" of frames, innermost first, and
 * "frames_left_out" as stacksplice_frames_left_out counts them.  KEY, or NULL, names the object
 * that both are in.
 *
 * Returns S_OK, or S_FALSE when VISITOR stopped the walk.  Errors: E_POINTER if visitor is NULL, or
 * frames is NULL and count is not 0; E_INVALIDARG if the visitor's size is unknown.
 * [own: borrows all | thread: any | alloc: as stacksplice_resolve | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_stack_visit(const uintptr_t *frames, uint32_t count,
                                                            const char *key,
                                                            stacksplice_visitor *visitor);

/* Parts of an error, to read some of it only. */
#define STACKSPLICE_READ_DETAILS 1u /* HRESULT, texts, type, language, thread, reference */
#define STACKSPLICE_READ_NOTES 2u
#define STACKSPLICE_READ_FINGERPRINT 4u /* the strict and the loose one */
#define STACKSPLICE_READ_STACK 8u
#define STACKSPLICE_READ_PROPAGATION 16u
#define STACKSPLICE_READ_MEMBERS 32u
#define STACKSPLICE_READ_CAUSES 64u

typedef struct stacksplice_read_options {
    size_t size;        /* sizeof(stacksplice_read_options) */
    uint32_t parts;     /* STACKSPLICE_READ_...; 0: all */
    int without_source; /* as in stacksplice_format_options */
} stacksplice_read_options;

/*
 * Hand ERROR (an error object, or a node of its chain) to VISITOR: an object with the members of
 * the JSON report, in its order.  OPTIONS may be NULL.
 *
 * Returns S_OK, or S_FALSE when VISITOR stopped the walk.  Errors: E_POINTER if error or visitor is
 * NULL; E_INVALIDARG if error is not an error object of this library, or a size is unknown.
 * [own: borrows all | thread: any | alloc: as stacksplice_format | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_error_visit(IUnknown *error,
                                                            const stacksplice_read_options *options,
                                                            stacksplice_visitor *visitor);

/*
 * The language of the exception that ERROR was originated with, else "native"; it lives as long as
 * ERROR.  The member "language" of a report differs where there is none: it is that of the
 * innermost script frame.
 * Errors: E_POINTER; E_INVALIDARG if error is not an error object of this library.
 * [own: borrows error | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_error_language(IUnknown *error,
                                                               const char **language);

/*
 * Why a report shows no line of FILE in a stack of ERROR, for whoever writes such lines itself: FILE
 * was changed after ERROR, or its name is relative and the working directory is another one.
 * *REASON is a sentence without its end, which lives forever, or NULL where nothing speaks against
 * the lines.
 * Errors: E_POINTER; E_INVALIDARG if error is not an error object of this library.
 * [own: borrows error, file | thread: any | alloc: yes, degrades without memory | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_error_source_reason(IUnknown *error,
                                                                    const char *file,
                                                                    const char **reason);

/* ---- Reports that were read back -------------------------------------------------------------*/

/* A text of LENGTH bytes, which may hold NULs; NULL is none. */
typedef struct stacksplice_document_text {
    const char *text;
    size_t length;
} stacksplice_document_text;

/* A local variable: its name, which ends with a NUL, and a text of its value. */
typedef struct stacksplice_document_local {
    const char *name;
    stacksplice_document_text value;
} stacksplice_document_local;

/* The variables of a frame. */
typedef struct stacksplice_document_locals {
    const stacksplice_document_local *all;
    uint32_t count;
} stacksplice_document_locals;

/* A frame as a report shows it. */
typedef struct stacksplice_document_frame {
    stacksplice_frame frame;
    int glue;                         /* nonzero: reports for people hide it */
    stacksplice_document_text source; /* its line of source; without one no file is opened */
    uint32_t source_column;           /* at which SOURCE begins in its line, from 1; 0: unknown */
    stacksplice_document_locals locals;
} stacksplice_document_frame;

typedef struct stacksplice_document_stack {
    const stacksplice_document_frame *frames; /* innermost first */
    uint32_t count;
    uint32_t left_out;        /* 0, or at least 1: the stack was longer */
    uint32_t hidden_left_out; /* of a brief report: how many frames that texts hide are not in it */
} stacksplice_document_stack;

/* A language that received the error. */
typedef struct stacksplice_document_node {
    const char *language;
    uint64_t thread_id;
    stacksplice_document_stack stack;
} stacksplice_document_node;

/* A thread of a process that failed. */
typedef struct stacksplice_document_thread {
    uint64_t thread_id;
    const char *name;
    stacksplice_document_stack stack; /* empty: it has not answered in time */
} stacksplice_document_thread;

/* A binary of that process. */
typedef struct stacksplice_document_module {
    const char *path;
    const char *build_id; /* in hexadecimal, or NULL */
    uintptr_t start, end;
} stacksplice_document_module;

/* What the file of a process that failed fast, crashed or missed a deadline has beside its error. */
typedef struct stacksplice_document_file {
    const char *event, *time;                         /* as in its header */
    uint32_t signal;                                  /* 0: it did not crash */
    int32_t signal_code;                              /* si_code */
    const struct stacksplice_document *current_error; /* or NULL */
    const stacksplice_document_thread *threads;       /* the other ones */
    uint32_t thread_count, threads_left_out;
    const stacksplice_document_module *modules;
    uint32_t module_count;
    /* Where that was, as in its header; NULL or 0: the file does not say. */
    const char *host, *process, *arch, *platform, *platform_release;
    uint32_t pid;
} stacksplice_document_file;

/*
 * An error for stacksplice_format_document that is not an error object of this process: from a saved
 * report, or a language's exception that crossed no border.
 */
typedef struct stacksplice_document {
    size_t size; /* sizeof(stacksplice_document) */
    stacksplice_hresult hresult;
    const char *type;     /* or NULL */
    const char *language; /* of the exception, or NULL */
    stacksplice_document_text description, message;
    const stacksplice_document_text *notes;
    uint32_t note_count;
    uint64_t thread_id;
    const char *place; /* of the thread, such as "of process 4711 on nodename"; or NULL */
    stacksplice_document_stack stack;
    const stacksplice_document_node *nodes; /* the oldest first */
    uint32_t node_count;
    const char *fingerprint, *loose_fingerprint; /* as its report had them, or NULL */
    const char *reference;                       /* the same; it names nothing in this process */
    const stacksplice_document_file *file;       /* in which it stood, or NULL */

    const void *identity; /* equal for equal errors of one report */
    int is_group;
    const struct stacksplice_document *const *members;
    uint32_t member_count, members_left_out;
    const struct stacksplice_document *cause; /* what it was made from, or NULL */
    stacksplice_relation relation;            /* of CAUSE, or to an error above */
    int cause_above;          /* nonzero: it was made from an error that the report shows above */
    uint32_t causes_left_out; /* 0, or at least 1: causes left out beyond the last known */
} stacksplice_document;

/* What is wrong with a text: a sentence without its end, and at which byte. */
typedef struct stacksplice_document_problem {
    size_t position;
    char text[80];
} stacksplice_document_problem;

/*
 * Read the JSON of one error, schema "stacksplice-error/1" of docs/reference/json.md, or the file of a
 * process that failed, "stacksplice-report/1": then it is that file's error.  Members of other names
 * count as if they were not there.  Values may be nested 400 deep.
 *
 * *DOCUMENT is to be freed by stacksplice_document_free; the texts in it live as long.  PROBLEM may
 * be NULL.
 * Errors: E_POINTER if json or document is NULL; E_INVALIDARG, with *PROBLEM filled, if the text is
 * no such report; E_OUTOFMEMORY.
 * [own: borrows json, *document is the caller's | thread: any | alloc: yes | signal: no]
 */
STACKSPLICE_API stacksplice_hresult
stacksplice_document_read(const char *json, size_t length, const stacksplice_document **document,
                          stacksplice_document_problem *problem);

/*
 * Free what stacksplice_document_read gave; NULL is allowed.
 * [own: takes document | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API void stacksplice_document_free(const stacksplice_document *document);

/*
 * Write the text report of DOCUMENT, as stacksplice_format does for an error object.
 *
 * Returns S_OK, or S_FALSE when WRITE stopped it.  Errors: E_POINTER if document or write is NULL;
 * E_INVALIDARG if its size or options is invalid.
 * [own: borrows document, text lent to WRITE | thread: any | alloc: as stacksplice_format |
 * signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_format_document(
    const stacksplice_document *document, const stacksplice_format_options *options,
    stacksplice_write_callback write, void *data);

/*
 * Takes the frames of a stack from BEGIN to END, that one not included, which brief reports count in one line as
 * those of NAME ("asyncio", or outermost first "click, uvicorn and asyncio"), or, if NAME is empty, leave out.  Nonzero: no more are
 * taken.
 */
typedef int (*stacksplice_fold_callback)(uint32_t begin, uint32_t end, const char *name,
                                         void *data);

/*
 * Call FOLD for what brief reports hide of the stack of DOCUMENT (stacksplice_shell, stacksplice_hide), the innermost
 * first.  Then for each script frame that they leave out (loaders of stacksplice_glue) and that stands alone.
 *
 * Returns S_OK, or S_FALSE when FOLD took no more.  Errors: E_POINTER if document or fold is NULL; E_INVALIDARG if its
 * size is unknown.
 * [own: borrows document, NAME is lent for the call | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_document_folds(const stacksplice_document *document,
                                                               stacksplice_fold_callback fold,
                                                               void *data);

/*
 * Write the event for Sentry of DOCUMENT, as stacksplice_format does for an error object with
 * STACKSPLICE_FORMAT_SENTRY, by the members from HRESULT on: its TEXT is not used.  That of a file
 * also has the time of the failure, the signal, the threads and the binaries.
 *
 * Returns and errors: as stacksplice_format_document.
 * [own: borrows document, text lent to WRITE | thread: any | alloc: as stacksplice_format |
 * signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_format_document_for_sentry(
    const stacksplice_document *document, const stacksplice_format_options *options,
    stacksplice_write_callback write, void *data);

/*
 * Write DOCUMENT as stacksplice_format writes an error object with STACKSPLICE_FORMAT_BRIEF_JSON: a report
 * that was saved whole, for a place where it is to be short.  Its members of other names are not in it.
 *
 * Returns and errors: as stacksplice_format_document.
 * [own: borrows document, text lent to WRITE | thread: any | alloc: as stacksplice_format |
 * signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_format_document_as_brief_json(
    const stacksplice_document *document, const stacksplice_format_options *options,
    stacksplice_write_callback write, void *data);

/*
 * Write FRAME as a text report shows it: one line, without the line feed.
 * Errors: E_POINTER if frame or write is NULL.  S_FALSE when WRITE stopped it.
 * [own: borrows frame, text lent to WRITE | thread: any | alloc: no | signal: no]
 */
STACKSPLICE_API stacksplice_hresult stacksplice_format_frame(const stacksplice_frame *frame,
                                                             stacksplice_write_callback write,
                                                             void *data);

#ifdef __cplusplus
}
#endif
#endif
