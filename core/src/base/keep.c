#include "base/keep.h"

#include <stdatomic.h>
#include <sys/mman.h>

enum { BLOCK = 64 << 10 };

typedef struct block {
    _Atomic uint32_t used; /* (ATOMIC) bytes */
    _Alignas(max_align_t) char bytes[BLOCK - _Alignof(max_align_t)];
} block;

static _Atomic(block *) newest; /* (ATOMIC) */

/* Have a block after FULL be the newest.  False without memory. */
static bool add_block(block *full)
{
    block *b = mmap(NULL, sizeof *b, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (b == MAP_FAILED)
        return false;
    if (!atomic_compare_exchange_strong(&newest, &full, b))
        (void)munmap(b, sizeof *b); /* another thread, or a handler, has added one */
    return true;
}

void *ss_keep(size_t size)
{
    size = (size + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
    for (;;) {
        block *b = atomic_load(&newest);
        uint32_t used = b ? atomic_load(&b->used) : sizeof b->bytes;

        if (used + size > sizeof b->bytes) {
            if (!add_block(b))
                return NULL;
        } else if (atomic_compare_exchange_strong(&b->used, &used, used + (uint32_t)size)) {
            return b->bytes + used;
        }
    }
}
