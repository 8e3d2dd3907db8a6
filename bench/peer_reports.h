/* Reports of libraries for C++, each in a shared object of its own: the length of the text. */
#ifndef STACKSPLICE_BENCH_PEER_REPORTS_H
#define STACKSPLICE_BENCH_PEER_REPORTS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C"
#endif
    size_t
    peer_report(const uintptr_t *frames, size_t count);

#endif
