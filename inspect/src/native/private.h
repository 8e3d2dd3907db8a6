/* What the files of this folder share. */
#ifndef SSI_NATIVE_PRIVATE_H
#define SSI_NATIVE_PRIVATE_H

#include "target/target.h"

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * The parts of elfutils' libdw with which stacks are unwound.  The library is opened at run time,
 * and the build needs none of its headers.
 */

typedef struct Elf Elf;
typedef struct Dwfl Dwfl;
typedef struct Dwfl_Module Dwfl_Module;
typedef struct Dwfl_Thread Dwfl_Thread;
typedef struct Dwfl_Frame Dwfl_Frame;
typedef struct Dwarf_CFI_s Dwarf_CFI;
typedef struct Dwarf_Frame_s Dwarf_Frame;
typedef Elf64_Addr Dwarf_Addr;
typedef Elf64_Xword Dwarf_Word;

typedef struct {
    int (*find_elf)(Dwfl_Module *, void **, const char *, Dwarf_Addr, char **, Elf **);
    int (*find_debuginfo)(Dwfl_Module *, void **, const char *, Dwarf_Addr, const char *,
                          const char *, Elf64_Word, char **);
    int (*section_address)(void); /* not used */
    char **debuginfo_path;
} Dwfl_Callbacks;

typedef struct {
    pid_t (*next_thread)(Dwfl *, void *, void **);
    bool (*get_thread)(Dwfl *, pid_t, void *, void **);
    bool (*memory_read)(Dwfl *, Dwarf_Addr, Dwarf_Word *, void *);
    bool (*set_initial_registers)(Dwfl_Thread *, void *);
    void (*detach)(Dwfl *, void *);
    void (*thread_detach)(Dwfl_Thread *, void *);
} Dwfl_Thread_Callbacks;

/* X(result, name, (parameters)) */
#define SSI_LIBDW_FUNCTIONS(X)                                                                     \
    X(int, dwarf_cfi_addrframe, (Dwarf_CFI *, Dwarf_Addr, Dwarf_Frame **))                         \
    X(Dwfl_Module *, dwfl_addrmodule, (Dwfl *, Dwarf_Addr))                                        \
    X(bool, dwfl_attach_state, (Dwfl *, Elf *, pid_t, const Dwfl_Thread_Callbacks *, void *))      \
    X(Dwfl *, dwfl_begin, (const Dwfl_Callbacks *))                                                \
    X(void, dwfl_end, (Dwfl *))                                                                    \
    X(const char *, dwfl_errmsg, (int))                                                            \
    X(bool, dwfl_frame_pc, (Dwfl_Frame *, Dwarf_Addr *, bool *))                                   \
    X(int, dwfl_frame_reg, (Dwfl_Frame *, unsigned, Dwarf_Word *))                                 \
    X(int, dwfl_getthread_frames, (Dwfl *, pid_t, int (*)(Dwfl_Frame *, void *), void *))          \
    X(Dwarf_CFI *, dwfl_module_eh_cfi, (Dwfl_Module *, Dwarf_Addr *))                              \
    X(const char *, dwfl_module_info,                                                              \
      (Dwfl_Module *, void ***, Dwarf_Addr *, Dwarf_Addr *, Dwarf_Addr *, Dwarf_Addr *,            \
       const char **, const char **))                                                              \
    X(void, dwfl_report_begin, (Dwfl *))                                                           \
    X(Dwfl_Module *, dwfl_report_elf, (Dwfl *, const char *, const char *, int, Dwarf_Addr, bool)) \
    X(int, dwfl_report_end,                                                                        \
      (Dwfl *, int (*)(Dwfl_Module *, void *, const char *, Dwarf_Addr, void *), void *))          \
    X(Dwfl_Module *, dwfl_report_module, (Dwfl *, const char *, Dwarf_Addr, Dwarf_Addr))           \
    X(void, dwfl_thread_state_register_pc, (Dwfl_Thread *, Dwarf_Word))                            \
    X(bool, dwfl_thread_state_registers, (Dwfl_Thread *, int, unsigned, const Dwarf_Word *))       \
    X(Elf *, elf_memory, (char *, size_t))                                                         \
    X(unsigned int, elf_version, (unsigned int))

#define SSI_LIBDW_MEMBER(result, name, parameters) result(*name) parameters;
typedef struct ssi_libdw {
    SSI_LIBDW_FUNCTIONS(SSI_LIBDW_MEMBER)
} ssi_libdw;

/* The functions, or NULL: *WHY then says what is missing and what to install. */
const ssi_libdw *ssi_libdw_load(const char **why);

/* The binaries of a target, as libdw knows them. */

typedef struct ssi_module {
    uint64_t start, end;
    const char *path;
    const char *build_id; /* NULL: none */
} ssi_module;

typedef struct ssi_modules {
    ssi_module *items; /* by address */
    size_t count, room;
    size_t missing; /* so many have no file that can be used */
    const char *first_missing;
} ssi_modules;

/* Report all binaries of TARGET to DWFL, and list them. */
void ssi_modules_report(const ssi_libdw *dw, Dwfl *dwfl, const ssi_target *target,
                        ssi_modules *modules);
const ssi_module *ssi_modules_find(const ssi_modules *modules, uint64_t address);

#endif
