/* The registers where a signal interrupted a thread. */
#ifndef SS_CONTEXT_H
#define SS_CONTEXT_H

#include "base/platform.h"

#include <string.h>
#include <ucontext.h>

/* What a handler must put back to return to another signal's place. */
typedef struct ss_context {
#if defined(__x86_64__)
    gregset_t registers;
#elif defined(__aarch64__)
    uint64_t registers[34]; /* x0 to x30, sp, pc, pstate */
#else
    char nothing;
#endif
} ss_context;

#if defined(__x86_64__)

static inline uintptr_t ss_context_pc(const ucontext_t *c)
{
    return (uintptr_t)c->uc_mcontext.gregs[REG_RIP];
}

static inline uintptr_t ss_context_sp(const ucontext_t *c)
{
    return (uintptr_t)c->uc_mcontext.gregs[REG_RSP];
}

static inline void ss_context_save(const ucontext_t *c, ss_context *to)
{
    memcpy(to->registers, c->uc_mcontext.gregs, sizeof to->registers);
}

static inline void ss_context_restore(ucontext_t *c, const ss_context *from)
{
    memcpy(c->uc_mcontext.gregs, from->registers, sizeof from->registers);
}

#elif defined(__aarch64__)

static inline uintptr_t ss_context_pc(const ucontext_t *c)
{
    return (uintptr_t)c->uc_mcontext.pc;
}

static inline uintptr_t ss_context_sp(const ucontext_t *c)
{
    return (uintptr_t)c->uc_mcontext.sp;
}

static inline void ss_context_save(const ucontext_t *c, ss_context *to)
{
    memcpy(to->registers, c->uc_mcontext.regs, sizeof to->registers);
}

static inline void ss_context_restore(ucontext_t *c, const ss_context *from)
{
    memcpy(c->uc_mcontext.regs, from->registers, sizeof from->registers);
}

#else

static inline uintptr_t ss_context_pc(const ucontext_t *c)
{
    (void)c;
    return 0;
}

static inline uintptr_t ss_context_sp(const ucontext_t *c)
{
    (void)c;
    return 0;
}

static inline void ss_context_save(const ucontext_t *c, ss_context *to)
{
    (void)c;
    to->nothing = 0;
}

/* The end is then where the last fault was. */
static inline void ss_context_restore(ucontext_t *c, const ss_context *from)
{
    (void)c;
    (void)from;
}

#endif
#endif
