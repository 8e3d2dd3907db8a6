/* What tests must know of the processor that they were compiled for. */
#ifndef STACKSPLICE_TEST_MACHINE_H
#define STACKSPLICE_TEST_MACHINE_H

#include <stdint.h>

/*
 * MACHINE_FP, _SP          DWARF numbers of the frame pointer and the stack pointer
 * MACHINE_SAVED            DWARF numbers of registers that a call leaves as they were
 * machine_calls_argument   code that calls the address that it is given, and returns 1; it keeps no
 *                          frame pointer
 * machine_forwarders       what interpreters generate so that a profiler sees their functions: code
 *                          that calls its fourth argument with the others; SIZE bytes each
 */
#if defined(__x86_64__)

enum { MACHINE_FP = 6, MACHINE_SP = 7 };
#define MACHINE_SAVED 3, 6, 12, 13, 14, 15

/* mov rax, rdi; sub rsp, 24; call rax; add rsp, 24; mov eax, 1; ret */
static const uint8_t machine_calls_argument[] = {0x48, 0x89, 0xf8, 0x48, 0x83, 0xec, 0x18,
                                                 0xff, 0xd0, 0x48, 0x83, 0xc4, 0x18, 0xb8,
                                                 0x01, 0x00, 0x00, 0x00, 0xc3};

static const struct {
    uint8_t code[12];
    uint8_t size;
} machine_forwarders[] = {
    /* sub rsp, 8; call rcx; add rsp, 8; ret */
    {{0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08, 0xc3}, 11},
    /* endbr64; push rbp; mov rbp, rsp; call rcx; pop rbp; ret */
    {{0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3}, 12},
};

#elif defined(__aarch64__)

enum { MACHINE_FP = 29, MACHINE_SP = 31 };
#define MACHINE_SAVED 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29

/* str x30, [sp, #-16]!; blr x0; ldr x30, [sp], #16; mov w0, #1; ret */
static const uint8_t machine_calls_argument[] = {0xfe, 0x0f, 0x1f, 0xf8, 0x00, 0x00, 0x3f,
                                                 0xd6, 0xfe, 0x07, 0x41, 0xf8, 0x20, 0x00,
                                                 0x80, 0x52, 0xc0, 0x03, 0x5f, 0xd6};

static const struct {
    uint8_t code[20];
    uint8_t size;
} machine_forwarders[] = {
    /* stp x29, x30, [sp, #-16]!; mov x29, sp; blr x3; ldp x29, x30, [sp], #16; ret */
    {{0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91, 0x60, 0x00,
      0x3f, 0xd6, 0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6},
     20},
};

#else
#error "the registers of this machine are not known here"
#endif

#endif
