#include "unwind_workload.h"
#include "calls.h"

#include <alloca.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static __thread void (*leaf_function)(void);
static __thread int calls;

static NOINLINE void call_leaf(void)
{
    calls++;
    leaf_function();
    AFTER();
}

static NOINLINE int recurse(int depth)
{
    int below;

    if (depth == 0) {
        call_leaf();
        return 1;
    }
    below = recurse(depth - 1);
    AFTER();
    return below + depth;
}

static int compare(const void *a, const void *b)
{
    const int *x = a, *y = b;

    if (*x == 3 || *y == 3)
        (void)recurse(2);
    return *x < *y ? -1 : *x > *y;
}

static NOINLINE int from_the_c_library(void)
{
    int values[] = {5, 3, 9, 1, 7};
    int key = 3;

    qsort(values, sizeof values / sizeof *values, sizeof *values, compare);
    return bsearch(&key, values, sizeof values / sizeof *values, sizeof *values, compare) != NULL;
}

/* A frame whose size is not known before it runs. */
static NOINLINE int variable_length(int n)
{
    volatile char array[n];

    array[n - 1] = 1;
    (void)recurse(1);
    return array[n - 1];
}

static NOINLINE int with_alloca(int n)
{
    volatile char *block = alloca((size_t)n);

    block[0] = 2;
    (void)variable_length(n + 1);
    return block[0];
}

/* More alignment than the stack has: the compiler keeps the old stack pointer elsewhere. */
static NOINLINE int realigned(int n, int a, int b, int c, int d, int e, int f, int g)
{
    volatile char buffer[64] __attribute__((aligned(64)));

    memset((char *)buffer, a, sizeof buffer);
    (void)with_alloca(n);
    AFTER();
    return buffer[0] + b + c + d + e + f + g;
}

static NOINLINE int realigned_and_variable(int n, int a, int b, int c, int d, int e, int f, int g)
{
    volatile char buffer[32] __attribute__((aligned(32)));
    volatile char *block = alloca((size_t)n);

    buffer[0] = (char)a;
    block[n - 1] = 3;
    (void)realigned(n, a, b, c, d, e, f, g);
    AFTER();
    return buffer[0] + block[n - 1] + g;
}

/* Values that live across calls, in as many registers as there are. */
static NOINLINE uint64_t many_registers(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                                        uint64_t f)
{
    uint64_t g = a ^ b, h = c ^ d, i = e ^ f;

    (void)recurse((int)(a & 1));
    AFTER();
    (void)from_the_c_library();
    AFTER();
    return a * b + c * d + e * f + g + h * i;
}

/* A frame that is larger than what a compact rule's slots reach is none of a compiler's; a large
   one is. */
static NOINLINE int large_frame(int n)
{
    volatile char large[40000];

    large[n] = 1;
    (void)many_registers((uint64_t)n, 2, 3, 4, 5, 6);
    AFTER();
    return large[n];
}

int workload_run_plain(void (*leaf)(void))
{
    leaf_function = leaf;
    calls = 0;
    (void)recurse(50);
    (void)from_the_c_library();
    (void)with_alloca(33);
    (void)large_frame(5);
    return calls;
}

int workload_run(void (*leaf)(void))
{
    (void)workload_run_plain(leaf);
    (void)realigned(17, 1, 2, 3, 4, 5, 6, 7);
    (void)realigned_and_variable(40, 1, 2, 3, 4, 5, 6, 7);
    return calls;
}
