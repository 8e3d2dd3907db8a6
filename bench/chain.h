/*
 * A chain of C calls.  chain_call(DEPTH, PATH, leaf, data) makes DEPTH frames, of 16 functions that
 * differ in size and in the registers they save, and then calls LEAF.  PATH decides which functions
 * the chain goes through: no two paths below 2^32 make the same stack when DEPTH is 40 or more.
 *
 * chain_call_framed is the same code, compiled to keep frame pointers.
 */
#ifndef STACKSPLICE_BENCH_CHAIN_H
#define STACKSPLICE_BENCH_CHAIN_H

#include <stdint.h>

typedef void (*chain_leaf)(void *data);

unsigned chain_call(unsigned depth, uint32_t path, chain_leaf leaf, void *data);
unsigned chain_call_framed(unsigned depth, uint32_t path, chain_leaf leaf, void *data);

#endif
