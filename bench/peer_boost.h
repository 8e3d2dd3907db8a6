/* boost.stacktrace behind C functions, in a library that is linked with the shared libgcc. */
#ifndef STACKSPLICE_BENCH_PEER_BOOST_H
#define STACKSPLICE_BENCH_PEER_BOOST_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Both return the number of addresses.  The first makes the object, the second fills an array. */
__attribute__((visibility("default"))) size_t peer_boost_stacktrace(void **frames, size_t max);
__attribute__((visibility("default"))) size_t peer_boost_dump(void **frames, size_t max);
/* The _Unwind_Backtrace that it calls. */
__attribute__((visibility("default"))) void *peer_boost_unwinder(void);

#ifdef __cplusplus
}
#endif
#endif
