/* Requests to valgrind, which runs the process, or does not. */
#ifndef SS_VALGRIND_H
#define SS_VALGRIND_H

#include "base/platform.h"

enum ss_valgrind_request {
    SS_VALGRIND_RUNS = 0x1001,       /* nonzero: some tool does */
    SS_VALGRIND_DEFINED = 0x4d430005 /* "MC" 5: 0 if memcheck runs and SIZE bytes at AT are set */
};

/* The answer; UNLESS where nobody answers, as on machines whose request is not known here. */
static inline uintptr_t ss_valgrind_ask(enum ss_valgrind_request request, const void *at,
                                        size_t size, uintptr_t unless)
{
    uintptr_t answer = unless;

#if defined(__x86_64__)
    const volatile uintptr_t words[6] = {(uintptr_t)request, (uintptr_t)at, size};

    /* A processor turns rdi once around. */
    __asm__ volatile("rolq $3, %%rdi\n\t"
                     "rolq $13, %%rdi\n\t"
                     "rolq $61, %%rdi\n\t"
                     "rolq $51, %%rdi\n\t"
                     "xchgq %%rbx, %%rbx"
                     : "+d"(answer)
                     : "a"(words)
                     : "cc", "memory");
#else
    (void)request;
    (void)at;
    (void)size;
#endif
    return answer;
}

#endif
