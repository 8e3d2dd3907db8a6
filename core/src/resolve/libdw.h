/*
 * The parts of elfutils' libdw and libelf that we use.  The library is opened at run time, where it
 * is installed, and the build needs none of its headers.  Where they exist, a test compares.
 */
#ifndef SS_LIBDW_H
#define SS_LIBDW_H

#include <elf.h>
#include <stddef.h>
#include <stdint.h>

typedef struct Elf Elf;
typedef unsigned Elf_Cmd;
typedef Elf64_Addr GElf_Addr;
typedef Elf64_Off GElf_Off;
typedef Elf64_Sym GElf_Sym;
typedef Elf64_Word GElf_Word;
typedef GElf_Addr Dwarf_Addr;
typedef Elf64_Xword Dwarf_Word;
typedef Elf64_Half Dwarf_Half;
typedef struct Dwarf Dwarf;
typedef struct Dwarf_Files_s Dwarf_Files;
typedef struct Dwarf_Line_s Dwarf_Line;
typedef struct Dwfl Dwfl;
typedef struct Dwfl_Module Dwfl_Module;
typedef void (*Dwarf_OOM)(void);

typedef struct Dwarf_CU Dwarf_CU;

typedef struct {
    void *addr;
    Dwarf_CU *cu;
    struct Dwarf_Abbrev *abbrev;
    long int padding__;
} Dwarf_Die;

typedef struct {
    unsigned int code;
    unsigned int form;
    unsigned char *valp;
    struct Dwarf_CU *cu;
} Dwarf_Attribute;

typedef struct {
    int (*find_elf)(Dwfl_Module *, void **, const char *, Dwarf_Addr, char **, Elf **);
    int (*find_debuginfo)(Dwfl_Module *, void **, const char *, Dwarf_Addr, const char *,
                          const char *, GElf_Word, char **);
    int (*section_address)(void); /* not used */
    char **debuginfo_path;
} Dwfl_Callbacks;

/* Under our own names: the library's are enumerators, which would clash. */
enum {
    LIBELF_READ_MMAP_PRIVATE = 11, /* ELF_C_READ_MMAP_PRIVATE */
    LIBELF_FDREAD = 7,             /* ELF_C_FDREAD */

    DWARF_class_type = 0x02, /* DW_TAG_... */
    DWARF_lexical_block = 0x0b,
    DWARF_structure_type = 0x13,
    DWARF_union_type = 0x17,
    DWARF_inlined_subroutine = 0x1d,
    DWARF_module = 0x1e,
    DWARF_catch_block = 0x25,
    DWARF_subprogram = 0x2e,
    DWARF_try_block = 0x32,
    DWARF_namespace = 0x39,

    DWARF_low_pc = 0x11, /* DW_AT_... */
    DWARF_comp_dir = 0x1b,
    DWARF_ranges = 0x55,
    DWARF_call_column = 0x57,
    DWARF_call_file = 0x58,
    DWARF_call_line = 0x59,
    DWARF_linkage_name = 0x6e,
    DWARF_dwo_name = 0x76,
    DWARF_GNU_dwo_name = 0x2130
};

/* X(result, name, (parameters)) */
#define LIBDW_FUNCTIONS(X)                                                                      \
    X(Dwarf_Attribute *, dwarf_attr_integrate, (Dwarf_Die *, unsigned int, Dwarf_Attribute *))  \
    X(int, dwarf_child, (Dwarf_Die *, Dwarf_Die *))                                             \
    X(Dwarf *, dwarf_cu_getdwarf, (Dwarf_CU *))                                                 \
    X(int, dwarf_cu_info,                                                                       \
      (Dwarf_CU *, Dwarf_Half *, uint8_t *, Dwarf_Die *, Dwarf_Die *, uint64_t *, uint8_t *,    \
       uint8_t *))                                                                              \
    X(const char *, dwarf_diename, (Dwarf_Die *))                                               \
    X(const char *, dwarf_filesrc, (Dwarf_Files *, size_t, Dwarf_Word *, Dwarf_Word *))         \
    X(const char *, dwarf_formstring, (Dwarf_Attribute *))                                      \
    X(int, dwarf_formudata, (Dwarf_Attribute *, Dwarf_Word *))                                  \
    X(Dwarf_Line *, dwarf_getsrc_die, (Dwarf_Die *, Dwarf_Addr))                                \
    X(int, dwarf_getsrcfiles, (Dwarf_Die *, Dwarf_Files **, size_t *))                          \
    X(int, dwarf_haspc, (Dwarf_Die *, Dwarf_Addr))                                              \
    X(int, dwarf_linecol, (Dwarf_Line *, int *))                                                \
    X(int, dwarf_lineno, (Dwarf_Line *, int *))                                                 \
    X(const char *, dwarf_linesrc, (Dwarf_Line *, Dwarf_Word *, Dwarf_Word *))                  \
    X(Dwarf_OOM, dwarf_new_oom_handler, (Dwarf *, Dwarf_OOM))                                   \
    X(int, dwarf_siblingof, (Dwarf_Die *, Dwarf_Die *))                                         \
    X(int, dwarf_tag, (Dwarf_Die *))                                                            \
    X(Dwfl *, dwfl_begin, (const Dwfl_Callbacks *))                                             \
    X(int, dwfl_build_id_find_debuginfo,                                                        \
      (Dwfl_Module *, void **, const char *, Dwarf_Addr, const char *, const char *, GElf_Word, \
       char **))                                                                                \
    X(void, dwfl_end, (Dwfl *))                                                                 \
    X(Dwarf_Die *, dwfl_module_addrdie, (Dwfl_Module *, Dwarf_Addr, Dwarf_Addr *))              \
    X(const char *, dwfl_module_addrinfo,                                                       \
      (Dwfl_Module *, GElf_Addr, GElf_Off *, GElf_Sym *, GElf_Word *, Elf **, Dwarf_Addr *))    \
    X(int, dwfl_module_build_id, (Dwfl_Module *, const unsigned char **, GElf_Addr *))          \
    X(Dwarf *, dwfl_module_getdwarf, (Dwfl_Module *, Dwarf_Addr *))                             \
    X(Elf *, dwfl_module_getelf, (Dwfl_Module *, GElf_Addr *))                                  \
    X(Dwarf_Die *, dwfl_module_nextcu, (Dwfl_Module *, Dwarf_Die *, Dwarf_Addr *))              \
    X(void, dwfl_report_begin_add, (Dwfl *))                                                    \
    X(int, dwfl_report_end,                                                                     \
      (Dwfl *, int (*)(Dwfl_Module *, void *, const char *, Dwarf_Addr, void *), void *))       \
    X(Dwfl_Module *, dwfl_report_module, (Dwfl *, const char *, Dwarf_Addr, Dwarf_Addr))        \
    X(Elf *, elf_begin, (int, Elf_Cmd, Elf *))                                                  \
    X(int, elf_cntl, (Elf *, Elf_Cmd))                                                          \
    X(int, elf_end, (Elf *))                                                                    \
    X(unsigned int, elf_version, (unsigned int))

#define LIBDW_MEMBER(result, name, parameters) result(*name) parameters;
typedef struct ss_libdw {
    LIBDW_FUNCTIONS(LIBDW_MEMBER)
} ss_libdw;

#endif
