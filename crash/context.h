/* The registers where a signal interrupted a thread. */
#ifndef SS_CONTEXT_H
#define SS_CONTEXT_H

#include "unwind/stack.h"

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

/* At the first instruction of a function; 0: unknown. */
static inline uintptr_t ss_context_return_address(const ucontext_t *c)
{
    uintptr_t sp = ss_context_sp(c);
    ss_range stack;

    return sp % sizeof sp == 0 && ss_stack_find(sp, &stack) && stack.high - sp >= sizeof sp
               ? *(const uintptr_t *)sp
               : 0;
}

/* Continue at PC, in the caller of that function. */
static inline void ss_context_return(ucontext_t *c, uintptr_t pc)
{
    c->uc_mcontext.gregs[REG_RIP] = (greg_t)pc;
    c->uc_mcontext.gregs[REG_RSP] += (greg_t)sizeof pc;
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

static inline uintptr_t ss_context_return_address(const ucontext_t *c)
{
    return (uintptr_t)c->uc_mcontext.regs[30];
}

static inline void ss_context_return(ucontext_t *c, uintptr_t pc)
{
    c->uc_mcontext.pc = pc;
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

static inline uintptr_t ss_context_return_address(const ucontext_t *c)
{
    (void)c;
    return 0;
}

static inline void ss_context_return(ucontext_t *c, uintptr_t pc)
{
    (void)c;
    (void)pc;
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
