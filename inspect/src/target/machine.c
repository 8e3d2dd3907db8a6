#include "target/target.h"

#include <elf.h>

#ifdef __aarch64__
enum { OWN = EM_AARCH64 };
#else
enum { OWN = EM_X86_64 };
#endif

static const ssi_machine machines[] = {
    {
        .number = EM_X86_64,
        .registers = 17,
        .sp = 7,
        .fp = 6,
        .pc = 16,
        .numbered = 17,
        .address_bits = 64,
        .saved_count = 6,
        .saved = {3, 6, 12, 13, 14, 15}, /* rbx, rbp, r12 to r15 */
        .outer_saves = 7 * 8,            /* and the return address */
        .context_sp = 18 * 8,
        .kernel_words = 27,
        .kernel = {10, 12, 11, 5, 13, 14, 4, 19, 9, 8, 7, 6, 3, 2, 1, 0, 16},
        .argument = 5,
        .system_call = 15,
        .result = 10,
        .forwarders =
            {
                /* sub rsp, 8; call rcx; add rsp, 8; ret */
                {11, 6, 0, {0x48, 0x83, 0xec, 0x08, 0xff, 0xd1, 0x48, 0x83, 0xc4, 0x08, 0xc3}},
                /* push rbp; mov rbp, rsp; call rcx; pop rbp; ret */
                {8, 6, 1, {0x55, 0x48, 0x89, 0xe5, 0xff, 0xd1, 0x5d, 0xc3}},
            },
    },
    {
        .number = EM_AARCH64,
        .registers = 33,
        .sp = 31,
        .fp = 29,
        .pc = 32,
        .numbered = 32,
        .link = 30,
        .address_bits = 48,
        .saved_count = 11,
        .saved = {19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29},
        .inner_saves = 12 * 8, /* and the return address */
        .interrupted = 312,
        .sigreturn = 0xd4000001d2801168, /* mov x8, #139; svc #0 */
        .context_sp = 52 * 8,
        .kernel_words = 34,
        .kernel = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                   17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32},
        .forwarders =
            {
                /* stp x29, x30, [sp, #-16]!; mov x29, sp; blr x3; ldp x29, x30, [sp], #16; ret */
                {20, 12, 1, {0xfd, 0x7b, 0xbf, 0xa9, 0xfd, 0x03, 0x00, 0x91, 0x60, 0x00,
                             0x3f, 0xd6, 0xfd, 0x7b, 0xc1, 0xa8, 0xc0, 0x03, 0x5f, 0xd6}},
            },
    },
};

const ssi_machine *ssi_machine_find(unsigned number)
{
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        if (machines[i].number == number)
            return &machines[i];
    return NULL;
}

const ssi_machine *ssi_machine_own(void)
{
    return ssi_machine_find(OWN);
}
