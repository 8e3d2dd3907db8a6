#ifndef SSI_TARGET_H
#define SSI_TARGET_H

#include "base/base.h"

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What differs between the machines whose processes and core files are read.  All have 64 bits and
 * are little endian, and structures of interpreters are the same on each.
 */

enum { SSI_MAX_REGISTERS = 33, SSI_MAX_KERNEL_WORDS = 34, SSI_MAX_SAVED = 11 };
enum { SSI_FORWARDER_SIZE = 20, SSI_FORWARDERS = 3 };

/* Code that interpreters generate, SIZE bytes of which BEFORE are before the return address; the
   caller's frame begins two words above its stack pointer.  See rule.h of the core. */
typedef struct ssi_forwarder {
    uint8_t size, before; /* size 0: the end of the list */
    uint8_t keeps_fp;     /* the caller's frame pointer is where its stack pointer points to */
    uint8_t code[SSI_FORWARDER_SIZE];
} ssi_forwarder;

typedef struct ssi_machine {
    uint16_t number; /* in the headers of ELF files */
    /* Registers stand in DWARF's order, and the program counter is the last. */
    uint8_t registers, sp, fp, pc;
    uint8_t numbered; /* so many of them have a number in DWARF */
    uint8_t link;     /* the register that a call puts its return address into; 0: it is pushed */
    uint8_t address_bits; /* of a code address; above them it may be signed */
    /* The callee-saved registers, by which interpreters are found. */
    uint8_t saved_count, saved[SSI_MAX_SAVED];
    /* So many bytes at a frame's inner and outer end can be what callers had in registers. */
    uint8_t inner_saves, outer_saves;
    /* Where a handler returns to, the code that asks the kernel to go on, and how far from the
       stack pointer the registers are that it restores; 0: unwind data describes it. */
    uint16_t interrupted;
    uint64_t sigreturn;
    uint16_t context_sp; /* in a ucontext: from uc_stack to the stack pointer */
    /* The kernel's set has so many words, and the registers have these places there. */
    uint8_t kernel_words, kernel[SSI_MAX_REGISTERS];
    uint8_t argument; /* the register with the first argument of a system call */
    /* The words of the kernel's set with the number of a system call, or -1, and its result; 0: the
       set does not tell whether the thread waits in one. */
    uint8_t system_call, result;
    ssi_forwarder forwarders[SSI_FORWARDERS];
} ssi_machine;

/* The machine NUMBER, or NULL. */
const ssi_machine *ssi_machine_find(unsigned number);
/* The one that this program was built for. */
const ssi_machine *ssi_machine_own(void);

/* ADDRESS of code without its signature. */
static inline uint64_t ssi_machine_address(const ssi_machine *machine, uint64_t address)
{
    return address & (UINT64_MAX >> (64 - machine->address_bits));
}

/*
 * What a living process and a core file have in common: threads with their registers, what is
 * mapped where, and memory.  All that comes after is the same for both.
 */

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
    bool writable, executable;
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
/* Reads the header of an open file; false if it is no ELF file. */
bool ssi_elf_header(int fd, Elf64_Ehdr *header);
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

/* Copies of a process's pages, each of which is asked for once. */

typedef struct ssi_pages ssi_pages;

/* Puts bytes from ADDRESS on to OUT; how many of SIZE there were, 0 if none can be read. */
typedef size_t (*ssi_pages_fetch)(void *data, uint64_t address, void *out, size_t size);

/* From now on all memory is read by them; NULL without memory.  DATA is for READ. */
ssi_pages *ssi_pages_new(ssi_pages_fetch read, void *data);
void ssi_pages_free(ssi_pages *pages);
/* Read all of [START, END) in few calls; what cannot be read is left out. */
void ssi_pages_take(ssi_pages *pages, uint64_t start, uint64_t end);
/* Copy what each thread of TARGET uses of its stack. */
void ssi_pages_take_stacks(ssi_pages *pages, const ssi_target *target);
/* What was read so far may have changed: it is read again. */
void ssi_pages_forget(ssi_pages *pages);
/* From now on only pages that were read before are readable: the process runs again. */
void ssi_pages_freeze(ssi_pages *pages);

#endif
