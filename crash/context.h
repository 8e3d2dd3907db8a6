/* The registers where a signal interrupted a thread. */
#ifndef SS_CONTEXT_H
#define SS_CONTEXT_H

#include "unwind/stack.h"

#include <string.h>
#include <ucontext.h>

/* Those to put back, and the two that matter.  On another machine nothing is known of them, and the
   end of a cut report is where the last fault was. */
#if defined(__x86_64__)
#define SS_REGISTERS(c) (c)->uc_mcontext.gregs
#define SS_PC(c) (c)->uc_mcontext.gregs[REG_RIP]
#define SS_SP(c) (c)->uc_mcontext.gregs[REG_RSP]
enum { SS_REGISTERS_SIZE = sizeof(gregset_t), SS_FIRST_ARGUMENT_KEPT = 0 };
#elif defined(__aarch64__)
#define SS_REGISTERS(c) (c)->uc_mcontext.regs
#define SS_PC(c) (c)->uc_mcontext.pc
#define SS_SP(c) (c)->uc_mcontext.sp
enum {
    SS_REGISTERS_SIZE = 34 * sizeof(uint64_t), /* x0 to x30, sp, pc, pstate */
    SS_FIRST_ARGUMENT_KEPT = 1                 /* of a system call: its result is in x0 */
};
#else
#define SS_REGISTERS(c) (c)
#define SS_PC(c) ((c) ? 0 : 0)
#define SS_SP(c) ((c) ? 0 : 0)
enum { SS_REGISTERS_SIZE = 1, SS_FIRST_ARGUMENT_KEPT = 0 };
#endif

/* What a handler must put back to return to another signal's place. */
typedef struct ss_context {
    unsigned char registers[SS_REGISTERS_SIZE];
} ss_context;

static inline void ss_context_save(const ucontext_t *c, ss_context *to)
{
    memcpy(to->registers, SS_REGISTERS(c), sizeof to->registers);
}

static inline void ss_context_restore(ucontext_t *c, const ss_context *from)
{
    memcpy(SS_REGISTERS(c), from->registers, sizeof from->registers);
}

static inline uintptr_t ss_context_pc(const ucontext_t *c)
{
    return (uintptr_t)SS_PC(c);
}

static inline uintptr_t ss_context_sp(const ucontext_t *c)
{
    return (uintptr_t)SS_SP(c);
}

/* At the first instruction of a function; 0: unknown. */
static inline uintptr_t ss_context_return_address(const ucontext_t *c)
{
#if defined(__aarch64__)
    return (uintptr_t)c->uc_mcontext.regs[30];
#else
    uintptr_t sp = ss_context_sp(c);
    ss_range stack;

    return sp && sp % sizeof sp == 0 && ss_stack_find(sp, &stack) && stack.high - sp >= sizeof sp
               ? *(const uintptr_t *)sp
               : 0;
#endif
}

/* Continue at PC, in the caller of that function. */
static inline void ss_context_return(ucontext_t *c, uintptr_t pc)
{
#if defined(__x86_64__)
    SS_PC(c) = (greg_t)pc;
    SS_SP(c) += (greg_t)sizeof pc;
#elif defined(__aarch64__)
    SS_PC(c) = pc;
#else
    (void)c;
    (void)pc;
#endif
}

/* ---- Behind the instruction that calls the kernel --------------------------------------------*/

/* The register of argument NUMBER of a system call, below 6; NULL on another machine. */
static inline uint64_t *ss_context_argument(ucontext_t *c, unsigned number)
{
#if defined(__x86_64__)
    static const unsigned char registers[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};

    return (uint64_t *)&c->uc_mcontext.gregs[registers[number]];
#elif defined(__aarch64__)
    return (uint64_t *)&c->uc_mcontext.regs[number];
#else
    (void)c;
    (void)number;
    return NULL;
#endif
}

/* What it returned; 0 on another machine. */
static inline int64_t ss_context_result(const ucontext_t *c)
{
#if defined(__x86_64__)
    return c->uc_mcontext.gregs[REG_RAX];
#elif defined(__aarch64__)
    return (int64_t)c->uc_mcontext.regs[0];
#else
    return c ? 0 : 0;
#endif
}

/* Have the call, of this NUMBER, be made again. */
static inline void ss_context_call_again(ucontext_t *c, uint64_t number)
{
#if defined(__x86_64__)
    c->uc_mcontext.gregs[REG_RAX] = (greg_t)number;
    SS_PC(c) -= 2;
#elif defined(__aarch64__)
    (void)number; /* still in x8 */
    SS_PC(c) -= 4;
#else
    (void)c;
    (void)number;
#endif
}

#endif
