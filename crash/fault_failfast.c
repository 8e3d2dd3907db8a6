#include "crash/fault.h"

#include "crash/crash.h"
#include "unwind/stack.h"

#include <unistd.h>

/* HRESULT_FROM_NT */
#define OF_STATUS(status) ((HRESULT)((status) | 0x10000000u))

const ss_fault_kind ss_fault_kinds[SS_FAULT_KINDS] = {
    {"SIGSEGV", u"Segmentation fault\r\n", SIGSEGV, OF_STATUS(0xC0000005u)},
    {"SIGBUS", u"Bus error\r\n", SIGBUS, OF_STATUS(0xC0000006u)},
    {"SIGFPE", u"Arithmetic exception\r\n", SIGFPE, OF_STATUS(0xC0000094u)},
    {"SIGILL", u"Illegal instruction\r\n", SIGILL, OF_STATUS(0xC000001Du)},
    {"SIGABRT", u"Aborted\r\n", SIGABRT, OF_STATUS(0xC0000409u)},
    {"SIGSYS", u"Bad system call\r\n", SIGSYS, OF_STATUS(0xC000001Cu)},
};

typedef enum ending { NOTHING, ADDRESS } ending;

static const struct {
    int number, code;
    const char *text;
    ending end;
} texts[] = {
    {SIGSEGV, SEGV_MAPERR, "no memory at address ", ADDRESS},
    {SIGSEGV, SEGV_ACCERR, "memory does not allow this access at address ", ADDRESS},
    {SIGSEGV, SI_KERNEL, "access to an address that no memory can have", NOTHING},
    {SIGBUS, BUS_ADRALN, "misaligned access to address ", ADDRESS},
    {SIGBUS, BUS_ADRERR, "nothing behind the mapped address ", ADDRESS},
    {SIGBUS, BUS_OBJERR, "hardware error at address ", ADDRESS},
    {SIGFPE, FPE_INTDIV, "integer division by zero", NOTHING},
    {SIGFPE, FPE_INTOVF, "integer overflow", NOTHING},
    {SIGFPE, FPE_FLTDIV, "floating-point division by zero", NOTHING},
    {SIGFPE, FPE_FLTOVF, "floating-point overflow", NOTHING},
    {SIGFPE, FPE_FLTUND, "floating-point underflow", NOTHING},
    {SIGFPE, FPE_FLTRES, "inexact floating-point result", NOTHING},
    {SIGFPE, FPE_FLTINV, "invalid floating-point operation", NOTHING},
    {SIGILL, ILL_ILLOPC, "illegal instruction", NOTHING},
    {SIGILL, ILL_ILLOPN, "illegal operand of an instruction", NOTHING},
    {SIGILL, ILL_PRVOPC, "privileged instruction", NOTHING},
};

static bool was_sent(const ss_fault *fault)
{
    return fault->info.si_code <= 0;
}

bool ss_fault_has_address(const ss_fault *fault)
{
    int number = fault->kind->number;

    return !was_sent(fault) && number != SIGABRT && number != SIGSYS &&
           fault->info.si_code != SI_KERNEL;
}

/*
 * Whether the thread has used up its stack.  All memory between the stack pointer and the end of a
 * frame is there as long as the stack has room.
 */
static bool is_overflow(const ss_fault *fault)
{
    const uintptr_t most = (uintptr_t)64 << 10; /* of one frame, or behind the stack pointer */
    uintptr_t address = (uintptr_t)fault->info.si_addr;
    ss_range stack;

    return fault->kind->number == SIGSEGV && ss_fault_has_address(fault) &&
           address + most >= fault->sp && address < fault->sp + most &&
           (ss_stack_find(fault->sp, &stack) || ss_stack_find_overflown(fault->sp, &stack));
}

static void put_sender(const ss_fault *fault, ss_writer *w)
{
    if (fault->info.si_pid != getpid()) {
        ss_writer_text(w, "sent by process ");
        ss_writer_decimal(w, (uint64_t)fault->info.si_pid);
    } else {
        ss_writer_text(w, fault->kind->number == SIGABRT ? "the process aborted itself"
                                                         : "the process sent it to itself");
    }
}

static void put_cause(const ss_fault *fault, ss_writer *w)
{
    size_t i = 0;

    while (i < SS_COUNT_OF(texts) &&
           (texts[i].number != fault->kind->number || texts[i].code != fault->info.si_code))
        i++;
    ss_writer_text(w, i < SS_COUNT_OF(texts) ? texts[i].text : "unknown cause");
    if (i < SS_COUNT_OF(texts) && texts[i].end == ADDRESS) {
        ss_writer_text(w, "0x");
        ss_writer_hex(w, (uintptr_t)fault->info.si_addr, 1);
    }
}

void ss_fault_message(const ss_fault *fault, char message[SS_FAULT_MESSAGE_MAX])
{
    static ss_writer w; /* (THREAD reporter) large */
    ss_crash_text text = {message, 0, SS_FAULT_MESSAGE_MAX};

    *message = 0;
    ss_writer_init(&w, ss_crash_append, &text);
    if (was_sent(fault)) {
        put_sender(fault, &w);
    } else if (fault->kind->number == SIGSYS) {
        ss_writer_text(&w, "system call ");
        ss_writer_decimal(&w, (uint64_t)fault->info.si_syscall);
        ss_writer_text(&w, " is not allowed");
    } else if (fault->place != fault->pc) {
        ss_writer_text(&w, "there is no function at address 0x");
        ss_writer_hex(&w, fault->pc, 1);
    } else if (is_overflow(fault)) {
        ss_writer_text(&w, "the stack is used up");
    } else {
        put_cause(fault, &w);
    }
    (void)ss_writer_finish(&w);
}
