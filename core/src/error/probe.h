/*
 * Static probes (USDT) for bpftrace, SystemTap, perf and gdb: a nop, and a note with the addresses
 * of the nop and its arguments.  A probe has no effect unless a tool puts a breakpoint there.
 */
#ifndef SS_PROBE_H
#define SS_PROBE_H

#include "base/platform.h"

#if defined(__ELF__) && (defined(__x86_64__) || defined(__aarch64__))

/* Version 3 of the note.  Tools use the base symbol to correct addresses of prelinked files. */
#define SS_PROBE_NOTE(name, arguments)                                          \
    "990: nop\n"                                                                \
    ".pushsection .note.stapsdt, \"\", \"note\"\n"                              \
    ".balign 4\n"                                                               \
    ".4byte 992f - 991f, 994f - 993f, 3\n"                                      \
    "991: .asciz \"stapsdt\"\n"                                                 \
    "992: .balign 4\n"                                                          \
    "993: .8byte 990b\n"                                                        \
    ".8byte _.stapsdt.base\n"                                                   \
    ".8byte 0\n"                                                                \
    ".asciz \"stacksplice\"\n"                                                  \
    ".asciz \"" name "\"\n"                                                     \
    ".asciz \"" arguments "\"\n"                                                \
    "994: .balign 4\n"                                                          \
    ".popsection\n"                                                             \
    ".ifndef _.stapsdt.base\n"                                                  \
    ".pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n" \
    ".weak _.stapsdt.base\n"                                                    \
    ".hidden _.stapsdt.base\n"                                                  \
    "_.stapsdt.base: .space 1\n"                                                \
    ".size _.stapsdt.base, 1\n"                                                 \
    ".popsection\n"                                                             \
    ".endif\n"

#define SS_PROBE_ORIGINATE(hr, length, message)                          \
    __asm__ volatile(SS_PROBE_NOTE("originate_error", "-4@%0 4@%1 8@%2") \
                     :                                                   \
                     : "r"(hr), "r"(length), "r"(message))

#define SS_PROBE_TRANSFORM(old, hr, length, message)                           \
    __asm__ volatile(SS_PROBE_NOTE("transform_error", "-4@%0 -4@%1 4@%2 8@%3") \
                     :                                                         \
                     : "r"(old), "r"(hr), "r"(length), "r"(message))

#else
#define SS_PROBE_ORIGINATE(hr, length, message) ((void)0)
#define SS_PROBE_TRANSFORM(old, hr, length, message) ((void)0)
#endif

#endif
