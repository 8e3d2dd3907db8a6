/*
 * Our declarations of libdw against its own, by the compiler alone: built where its headers are
 * installed, and never run.
 */
#define Dwarf_Attribute our_Dwarf_Attribute
#define Dwarf_Die our_Dwarf_Die
#define Dwarf_OOM our_Dwarf_OOM
#define Dwfl_Callbacks our_Dwfl_Callbacks
#define Elf_Cmd our_Elf_Cmd
#include "resolve/libdw.h"
#undef Dwarf_Attribute
#undef Dwarf_Die
#undef Dwarf_OOM
#undef Dwfl_Callbacks
#undef Elf_Cmd

#include <dwarf.h>
#include <elfutils/libdwfl.h>

/* In the list's macro these names mean the library's own types here. */
#define SAME_FUNCTION(result, name, parameters)                                                   \
    _Static_assert(__builtin_types_compatible_p(__typeof__(name), __typeof__(result) parameters), \
                   #name);
LIBDW_FUNCTIONS(SAME_FUNCTION)

#define SAME_SIZE(type) _Static_assert(sizeof(type) == sizeof(our_##type), #type)
#define SAME_MEMBER(type, member)                                                        \
    _Static_assert(offsetof(type, member) == offsetof(our_##type, member) &&             \
                       sizeof(((type *)0)->member) == sizeof(((our_##type *)0)->member), \
                   #type " " #member)
#define SAME_VALUE(ours, theirs) _Static_assert((int)ours == (int)theirs, #theirs)

SAME_SIZE(Dwarf_Attribute);
SAME_SIZE(Dwarf_Die);
SAME_MEMBER(Dwarf_Die, addr);
SAME_MEMBER(Dwarf_Die, cu);
SAME_SIZE(Dwarf_OOM);
SAME_SIZE(Dwfl_Callbacks);
SAME_MEMBER(Dwfl_Callbacks, find_elf);
SAME_MEMBER(Dwfl_Callbacks, find_debuginfo);
SAME_MEMBER(Dwfl_Callbacks, section_address);
SAME_MEMBER(Dwfl_Callbacks, debuginfo_path);
SAME_SIZE(Elf_Cmd);
SAME_VALUE(LIBELF_READ_MMAP_PRIVATE, ELF_C_READ_MMAP_PRIVATE);
SAME_VALUE(LIBELF_FDREAD, ELF_C_FDREAD);
SAME_VALUE(DWARF_class_type, DW_TAG_class_type);
SAME_VALUE(DWARF_structure_type, DW_TAG_structure_type);
SAME_VALUE(DWARF_union_type, DW_TAG_union_type);
SAME_VALUE(DWARF_lexical_block, DW_TAG_lexical_block);
SAME_VALUE(DWARF_inlined_subroutine, DW_TAG_inlined_subroutine);
SAME_VALUE(DWARF_module, DW_TAG_module);
SAME_VALUE(DWARF_catch_block, DW_TAG_catch_block);
SAME_VALUE(DWARF_subprogram, DW_TAG_subprogram);
SAME_VALUE(DWARF_try_block, DW_TAG_try_block);
SAME_VALUE(DWARF_namespace, DW_TAG_namespace);
SAME_VALUE(DWARF_low_pc, DW_AT_low_pc);
SAME_VALUE(DWARF_comp_dir, DW_AT_comp_dir);
SAME_VALUE(DWARF_dwo_name, DW_AT_dwo_name);
SAME_VALUE(DWARF_GNU_dwo_name, DW_AT_GNU_dwo_name);
SAME_VALUE(DWARF_ranges, DW_AT_ranges);
SAME_VALUE(DWARF_call_column, DW_AT_call_column);
SAME_VALUE(DWARF_call_file, DW_AT_call_file);
SAME_VALUE(DWARF_call_line, DW_AT_call_line);
SAME_VALUE(DWARF_linkage_name, DW_AT_linkage_name);

/* The types of the two that libdw calls. */
#define SAME_CALLBACK(member)                                                                   \
    _Static_assert(__builtin_types_compatible_p(__typeof__(((Dwfl_Callbacks *)0)->member),      \
                                                __typeof__(((our_Dwfl_Callbacks *)0)->member)), \
                   #member)
SAME_CALLBACK(find_elf);
SAME_CALLBACK(find_debuginfo);
