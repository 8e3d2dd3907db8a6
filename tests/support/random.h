/* Numbers that look random and are the same in each run. */
#ifndef STACKSPLICE_TEST_RANDOM_H
#define STACKSPLICE_TEST_RANDOM_H

#include <stdint.h>

static uint64_t seed = 1;

static inline uint64_t draw_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

static inline uint32_t next_random(uint32_t below)
{
    return (uint32_t)(draw_random() >> 20) % below;
}

#endif
