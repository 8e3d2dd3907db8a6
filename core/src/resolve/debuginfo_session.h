/*
 * What the users of libdw share: its functions, sessions with the files they keep open, and the way
 * out when memory ends.  All of it runs under the lock of native.c.
 */
#ifndef SS_DEBUGINFO_SESSION_H
#define SS_DEBUGINFO_SESSION_H

#include "resolve/debuginfo.h"
#include "resolve/libdw.h"

#include <sys/types.h>

enum { SS_SESSION_FILES = 64 };

/* A session of libdw, and the separate debug files that it keeps open. */
typedef struct ss_session {
    Dwfl *dwfl; /* NULL: not begun */
    uint32_t opened_count;
    struct {
        int fd;
        dev_t device;
        ino_t inode;
    } opened[SS_SESSION_FILES];
} ss_session;

extern const ss_libdw *ss_dw; /* set by ss_debug_run */

/*
 * Call F with DATA.  False when libdw ran out of memory, now or before: then its structures may be
 * half-built, and it is never called again.
 */
bool ss_debug_run(void (*f)(void *), void *data);

/* libdw ends the process when an allocation fails, unless this leaves it for ss_debug_run. */
__attribute__((noreturn)) void ss_debug_leave(void);

/* Let nothing call libdw from now on. */
void ss_debug_stop(void);

/* False when libdw refuses. */
bool ss_session_begin(ss_session *session, const Dwfl_Callbacks *callbacks);

/* End SESSION, unless that would close a descriptor of the host; it can begin again. */
void ss_session_end(ss_session *session);

/*
 * Note FD, which libdw is going to keep open: a host that closes all descriptors, as daemons do,
 * may reuse the number.  Returns FD, or -1 after closing it.
 */
int ss_session_note(ss_session *session, int fd);

/* A Dwfl_Callbacks.find_elf: maps the binary itself and closes its descriptor at once. */
int ss_session_find_elf(Dwfl_Module *module, void **data, const char *name, Dwarf_Addr base,
                        char **file, Elf **elf);

/* Whether FOUND has this build-id, in lower-case hexadecimal; empty is none. */
bool ss_session_same_build(Dwfl_Module *found, const char *build_id);

/* A descriptor of the debug file that BINARY names by LINK and CHECKSUM, or -1. */
int ss_debuglink_open(const char *binary, const char *link, uint32_t checksum);

/* Whether the file at MODULE's path, without a build-id, is the one that is mapped. */
bool ss_file_is_mapped(const ss_binary *module);

/* Find symbol, functions and lines of ADDRESS; see ss_debug_lookup. */
void ss_debug_answer_from(Dwfl_Module *module, uintptr_t address,
                          bool (*is_enough)(const char *symbol), ss_debug_answer *answer);

#endif
