#include "chain.h"
#include "calls.h"

#include <stddef.h>

#ifndef CHAIN_CALL /* what this copy of the code is called */
#define CHAIN_CALL chain_call
#endif

typedef struct chain {
    uint32_t path;
    chain_leaf leaf;
    void *data;
} chain;

typedef unsigned (*chain_link)(unsigned depth, const chain *c);
static const chain_link links[];

/* At 16 levels of 40 two bits of the path choose one of four functions, else the level does. */
static inline chain_link next_link(unsigned depth, const chain *c)
{
    unsigned level = depth % 40, choice = depth * 7 % 4;

    if (level % 5 < 2)
        choice = c->path >> 2 * (level / 5 * 2 + level % 5) & 3;
    return links[level % 4 * 4 + choice];
}

/* A link: SIZE bytes of locals, VALUES computed before the call and used after it. */
#define LINK(name, size, before, after)                           \
    static NOINLINE unsigned name(unsigned depth, const chain *c) \
    {                                                             \
        volatile char room[size];                                 \
        before;                                                   \
        room[depth % (size)] = (char)depth;                       \
        if (depth <= 1)                                           \
            c->leaf(c->data);                                     \
        else                                                      \
            depth += next_link(depth - 1, c)(depth - 1, c);       \
        AFTER();                                                  \
        return depth + (unsigned)room[0] + (after);               \
    }

#define NONE (void)0
#define TWO unsigned a = depth * 3, b = depth ^ c->path
#define FOUR unsigned a = depth * 3, b = depth ^ c->path, d = a + c->path, e = b * 5

LINK(link_0, 8, NONE, 0)
LINK(link_1, 24, TWO, a ^ b)
LINK(link_2, 40, FOUR, a ^ b ^ d ^ e)
LINK(link_3, 200, NONE, 1)
LINK(link_4, 16, FOUR, a + b + d + e)
LINK(link_5, 72, NONE, 2)
LINK(link_6, 8, TWO, a + b)
LINK(link_7, 120, FOUR, a *b + d * e)
LINK(link_8, 56, TWO, a *b)
LINK(link_9, 8, FOUR, (a - b) ^ (d - e))
LINK(link_10, 104, TWO, a - b)
LINK(link_11, 32, NONE, 3)
LINK(link_12, 248, FOUR, a + b * d + e)
LINK(link_13, 48, TWO, b - a)
LINK(link_14, 88, NONE, 4)
LINK(link_15, 64, FOUR, a ^ (b + d) ^ e)

static const chain_link links[] = {link_0,  link_1,  link_2,  link_3, link_4,  link_5,
                                   link_6,  link_7,  link_8,  link_9, link_10, link_11,
                                   link_12, link_13, link_14, link_15};

unsigned CHAIN_CALL(unsigned depth, uint32_t path, chain_leaf leaf, void *data)
{
    /* An odd factor: neighbouring numbers become paths that differ everywhere, none twice. */
    chain c = {.path = path * UINT32_C(2654435761), .leaf = leaf, .data = data};
    unsigned result = next_link(depth, &c)(depth, &c);

    AFTER();
    return result;
}
