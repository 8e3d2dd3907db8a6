/*
 * The error object and its propagation nodes.
 *
 * Both are records: the same COM interfaces, a captured stack, a language exception.  A node shares
 * the texts and the lifetime of its error; only the error has counts.
 *
 * Field marks: (RO) constant after construction, (ATOMIC), (LOCK) guarded by ss_registry_lock.
 */
#ifndef SS_ERROR_H
#define SS_ERROR_H

#include "error/view.h"

#include <stacksplice/debugger.h>
#include <stacksplice/script.h>
#include <stdatomic.h>

/*
 * How an error holds another object: its language exception, or the error it was made from.
 *
 * An object with two counts (IScriptException, IScriptErrorInfo) is held inside for the life of the
 * holder.  It is held outside only while the holder is awake, that is, while the holder's own
 * outside count is above 0.  Any other object is held by one plain reference for the life of the
 * holder.
 */

typedef struct ss_held {
    IUnknown *object;            /* (RO) the original pointer, or NULL */
    IScriptException *exception; /* (RO) the same object if it has two counts, else NULL */
    IScriptErrorInfo *error;     /* (RO) likewise */
} ss_held;

enum {
    SS_MAX_NODES = 150,                      /* propagation nodes of one error */
    SS_MAX_NOTES = 150,                      /* notes added to one error */
    SS_MAX_LONGER = 100,                     /* times that the stack of one error can grow */
    SS_MAX_PREVIOUS = STACKSPLICE_MAX_DEPTH, /* errors in one transformation list */
    SS_MAX_MESSAGE = MAX_ERROR_MESSAGE_CHARS - 1
};

typedef struct ss_error ss_error;

typedef struct ss_record {
    IRestrictedErrorInfo IRestrictedErrorInfo_iface; /* also the IUnknown and the IAgileObject */
    IErrorInfo IErrorInfo_iface;
    ILanguageExceptionErrorInfo2 ILanguageExceptionErrorInfo2_iface;
    stacksplice_record fixed; /* (RO) what debuggers read */
    ss_error *error;          /* (RO) this error, or the one that this node belongs to */
    ss_held language;         /* (RO) */
    int64_t taken_at;         /* (RO) see ss_stack */
    _Atomic uint64_t epoch;   /* (ATOMIC) of the code that the frames lead to: see ss_settle */
} ss_record;

typedef struct ss_node {
    ss_record record;
    struct ss_node *previous; /* (RO) the next older one, or NULL */
    const char *receiver;     /* (RO) the receiving language, in storage */
    uintptr_t storage[];      /* frames that no exception keeps, receiver */
} ss_node;

/* A note added after the error was made. */
typedef struct ss_note {
    struct ss_note *previous; /* (RO) the next older one, or NULL */
    size_t length;            /* (RO) */
    char text[];              /* (RO) with a NUL */
} ss_note;

/* The reason of the gap outside of a stack that has grown as often as one can. */
#define SS_GREW_TOO_OFTEN "what the error passed later is not known: its stack grew too often"

/* A stack that came in place of a shorter one.  Readers may still be at the shorter one. */
typedef struct ss_longer_stack {
    struct ss_longer_stack *previous; /* (RO) or NULL */
    _Atomic uint64_t epoch;           /* (ATOMIC) as that of a record */
    uint32_t count;                   /* (RO) */
    uintptr_t frames[];
} ss_longer_stack;

struct ss_error {
    ss_record record; /* its stack is the longest one, (ATOMIC): the frames, then their number */
    IScriptErrorInfo IScriptErrorInfo_iface;
    _Atomic uint32_t outside;  /* (ATOMIC) changes from and to 0 only under (LOCK) */
    _Atomic uint32_t inside;   /* (ATOMIC) one of them represents outside > 0 */
    const WCHAR *message;      /* (RO) NULL: the text of the HRESULT */
    uint32_t message_length;   /* (RO) */
    uint8_t depth;             /* (RO) of the longest path through causes and members */
    uint8_t relation;          /* (RO) a stacksplice_relation: how PREVIOUS relates to it */
    uint8_t node_count;        /* (LOCK) */
    uint8_t note_count;        /* (LOCK) */
    uint8_t longer_count;      /* (LOCK) */
    bool is_static;            /* (RO) never counted, freed or changed */
    ss_held previous;          /* (RO) an ILanguageExceptionErrorInfo2, or NULL */
    _Atomic(ss_node *) head;   /* (ATOMIC) newest node; stored under (LOCK) */
    _Atomic(ss_note *) notes;  /* (ATOMIC) newest note; stored under (LOCK) */
    uint32_t causes_left_out;  /* (RO) after PREVIOUS, or after this one: 0, or at least 1 */
    const uintptr_t *captured; /* (RO) the stack with which it was made */
    uint32_t captured_count;   /* (RO) */
    ss_longer_stack *longer;   /* (LOCK) the newest, or NULL */
    ss_error *next;            /* (LOCK) in the registry's bucket */
    uint64_t number;           /* (RO) its key there; 0: the static error */
    uint64_t process;          /* (RO) the first half of its reference */
    uintptr_t storage[];       /* frames that no exception keeps, message */
};

/* What an IScriptErrorInfo of an error begins with. */
extern const IScriptErrorInfoVtbl ss_error_script_methods;

/* The methods of IUnknown for the interface TYPE, on the OBJECT that their IFACE is of. */
#define SS_FORWARD_UNKNOWN(type, prefix, object, query, add_ref, release)                         \
    static HRESULT STDMETHODCALLTYPE prefix##_QueryInterface(type *iface, REFIID iid, void **out) \
    {                                                                                             \
        return query(object, iid, out);                                                           \
    }                                                                                             \
    static ULONG STDMETHODCALLTYPE prefix##_AddRef(type *iface)                                   \
    {                                                                                             \
        return add_ref(object);                                                                   \
    }                                                                                             \
    static ULONG STDMETHODCALLTYPE prefix##_Release(type *iface)                                  \
    {                                                                                             \
        return release(object);                                                                   \
    }

/*
 * The error or node of this library that OBJECT is an interface of, else NULL.  Takes no reference.
 */
ss_record *ss_record_from(IUnknown *object);

/*
 * The same for a public function that returns its result in OUT: S_OK, E_POINTER when OBJECT or OUT
 * is NULL, or E_INVALIDARG.
 */
HRESULT ss_record_asked(IUnknown *object, const void *out, ss_record **record);

static inline bool ss_record_is_node(const ss_record *record)
{
    return record != &record->error->record;
}

/* The stack of RECORD.  While it is replaced by a longer one, *COUNT may be that of the shorter. */
static inline const uintptr_t *ss_record_frames(const ss_record *record, uint32_t *count)
{
    *count = __atomic_load_n(&record->fixed.frame_count, __ATOMIC_ACQUIRE);
    return (const uintptr_t *)(uintptr_t)__atomic_load_n(&record->fixed.frames, __ATOMIC_ACQUIRE);
}

/* The text of the HRESULT, and the message (the same if none was given). */
const WCHAR *ss_error_description(const ss_error *error, uint32_t *length);
const WCHAR *ss_error_text(const ss_error *error, uint32_t *length);

/* The interface IID of OBJECT, with a reference; NULL if it has none, or if OBJECT is NULL. */
void *ss_query(void *object, REFIID iid);

/* ---- Making errors ---------------------------------------------------------------------------*/

/* The parts of a new error, all borrowed. */
typedef struct ss_origin {
    HRESULT hr;
    const WCHAR *message; /* without NULs; NULL: the text of the HRESULT */
    uint32_t length;
    IUnknown *language_exception; /* or NULL */
    ss_error *previous;           /* the error it replaces; NULL: ask the exception for one */
    const void *above;            /* SS_HERE() of the public function */
} ss_origin;

/* A new error with one outside reference, or NULL.  Runs code of the language exception. */
ss_error *ss_error_new(const ss_origin *origin);

/* The static error object for E_OUTOFMEMORY. */
ss_error *ss_error_out_of_memory(void);

/* The parts of a new node, all borrowed. */
typedef struct ss_arrival {
    IUnknown *language_exception; /* the receiver's, or NULL */
    const char *receiver;         /* the language; NULL: the exception's language, or "native" */
    const void *above;            /* SS_HERE() of the public function */
} ss_arrival;

/* Add a node with this thread's stack to ERROR; S_OK also when it has too many already. */
HRESULT ss_error_add_node(ss_error *error, const ss_arrival *arrival);

ULONG ss_error_add_ref(ss_error *error);
ULONG ss_error_release(ss_error *error);

/* The one lock of this layer.  No call is made under it, so it is a leaf; fork takes it. */
void ss_registry_lock(void);
void ss_registry_unlock(void);

/* Give ERROR its number, by which it is found from now on.  It is removed before it is freed. */
void ss_registry_add(ss_error *error);
void ss_registry_remove(ss_error *error);

/* Write the reference of ERROR, with a NUL; returns its length. */
uint32_t ss_error_put_reference(const ss_error *error, WCHAR out[SS_REFERENCE_UNITS]);

/* The error of that REFERENCE, which has an outside count above 0, with a new one; or NULL. */
ss_error *ss_registry_find(const WCHAR *reference);

/* Nanoseconds since 1970.  No file that was written before has a later date. */
int64_t ss_wall_time(void);

/* The process's error reporting flags. */
uint32_t ss_flags_get(void);

/* ---- What this process tells those who stop it (stacksplice/debugger.h) ----------------------*/

/*
 * Entries are claimed and freed without a lock and their memory is never unmapped, so a reader, a
 * signal handler and a forked child always find the list whole.
 */

/*
 * The first entries of the list.  The file of the block defines them: so a program that links
 * errors from an archive has the block, too.
 */
extern stacksplice_entries ss_entries_first;

/* Add an entry, which lasts until it is freed; NULL without memory. */
stacksplice_entry *ss_entry_add(uint32_t kind, const void *object, uint64_t detail);

/* ENTRY may be NULL. */
void ss_entry_free(stacksplice_entry *entry);

/* Free all entries of KIND except KEPT: a forked child has no other threads. */
void ss_entries_free_others(uint32_t kind, const stacksplice_entry *kept);

#endif
