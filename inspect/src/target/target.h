/*
 * What a living process and a core file have in common: threads with their registers, what is
 * mapped where, and memory.  All that comes after is the same for both.
 */
#ifndef SSI_TARGET_H
#define SSI_TARGET_H

#include "base/memory.h"
#include "target/machine.h"

typedef struct ssi_thread {
    int id;
    int own_id; /* as the process itself knows it; another one in a namespace */
    char name[32];
    char why[96]; /* why there are no registers; else empty */
    int signal;   /* on its way to the thread when it was stopped */
    bool has_registers;
    uint64_t registers[SSI_MAX_REGISTERS];
    uint64_t stack_end; /* 0: it is on no stack */
    const char *state;  /* of a living thread when it was stopped; NULL: not known */
} ssi_thread;

typedef struct ssi_mapping {
    uint64_t start, end, offset;
    bool readable, writable, executable;
    size_t segment; /* of a core: what is in its file */
    char *path;     /* owned; NULL if no file is mapped there */
} ssi_mapping;

enum { SSI_AUXILIARY = 64 };

/* Who a process is to the files that it opens. */
typedef struct ssi_user {
    bool is_known;
    bool enters_all, reads_all; /* any folder, any file, whosever it is */
    unsigned id;
    char *groups; /* owned; numbers with blanks between, or NULL */
} ssi_user;

typedef struct ssi_target {
    const ssi_machine *machine;
    int process;
    char *executable; /* owned; its name, or NULL */
    char *command;    /* owned; the command line as ps shows it, or NULL */
    char root[4096];  /* before the paths of mappings, to open them, or empty */
    uint64_t program; /* an address in the program's own file; 0: not known */
    const char
        *program_path; /* the program's path in the target, which is opened as PROGRAM_FILE */
    const char *program_file; /* NULL: where it was */
    int signal;               /* that ended the process; the first thread got it */
    bool has_fault;           /* it came from an access to FAULT */
    uint64_t fault;
    bool has_sender; /* or a process sent it */
    int sender, sender_user;
    ssi_user user;
    ssi_memory memory;
    ssi_thread *threads;
    size_t thread_count, thread_room;
    ssi_mapping *mappings; /* by address */
    size_t mapping_count, mapping_room;
    bool is_live;
    int living; /* the thread by whose number the kernel shows memory and files of the process */
    uint64_t auxiliary[SSI_AUXILIARY]; /* what the kernel told a living process of its program */
    uint64_t stopped_ns;               /* how long a living process was stopped */
} ssi_target;

/* Whether a process can have [START, END): sums with its addresses do not wrap round. */
static inline bool ssi_target_can_map(uint64_t start, uint64_t end)
{
    return start < end && end <= (uint64_t)1 << 56;
}

/* Both copy what they are given.  NULL without memory. */
ssi_thread *ssi_target_add_thread(ssi_target *target, int id);
ssi_mapping *ssi_target_add_mapping(ssi_target *target, const ssi_mapping *mapping);
/* Add the mapping of a line of /proc/PID/maps; it loses its end.  One that is not understood, or
   not behind those before it, is passed over.  False without memory. */
bool ssi_target_add_line(ssi_target *target, char *line);
/* The mapping that contains ADDRESS, or NULL. */
const ssi_mapping *ssi_target_mapping(const ssi_target *target, uint64_t address);
/* The stack whose pointer is SP: below it, if the stack is used up; NULL if there is none. */
const ssi_mapping *ssi_target_stack(const ssi_target *target, uint64_t sp);
/* The pointer of the stack that a signal interrupted, if THREAD runs its handler on another one; 0
   if not. */
uint64_t ssi_target_interrupted(const ssi_target *target, const ssi_thread *thread);
/* Fill in where the stacks of all threads end. */
void ssi_target_find_stacks(ssi_target *target);
/* Where the binary that begins with the mapping FIRST ends.  0 if none begins there: a process may
   also map a binary to read it, as debuggers do. */
uint64_t ssi_target_binary_end(const ssi_target *target, size_t first);
/* Opens the file of MAPPING as the process sees it; -1 with errno.  A binary of another machine is
   not the process's. */
int ssi_target_open(const ssi_target *target, const ssi_mapping *mapping);
/* Opens the regular file PATH of the process, from its root, out of which no link leads; -1. */
int ssi_target_open_path(const ssi_target *target, const char *path);
/* The number by which the kernel of this machine shows the process, be it stopped by a debugger; 0
   if it runs elsewhere. */
int ssi_target_number_here(const ssi_target *target);
/* Set the path of the mapping that contains ADDRESS, and at which OFFSET of the file it begins.
   False without memory; an address where nothing is mapped is passed over. */
bool ssi_target_name(ssi_target *target, uint64_t address, const char *path, uint64_t offset);
/* Set the command line from SIZE bytes, in which NULs end arguments.  An argument of several lines
   is a program, and left out; so is the last word of one that was CUT, which could be half a
   secret. */
void ssi_target_set_command(ssi_target *target, const char *bytes, size_t size, bool cut);
/* From the WORDS of the kernel's set. */
void ssi_thread_set_registers(ssi_thread *thread, const ssi_machine *machine,
                              const uint64_t *words);
void ssi_target_free(ssi_target *target);

#endif
