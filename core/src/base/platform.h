/*
 * Basics for every core file: attributes, limits, the stack anchor.  The leaf of the core: includes
 * nothing of ours.
 */
#ifndef SS_PLATFORM_H
#define SS_PLATFORM_H

#ifndef STACKSPLICE_BUILD_CORE
#error "core/src is private to the library; include <stacksplice/stacksplice.h>"
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SS_LIKELY(x) __builtin_expect(!!(x), 1)
#define SS_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define SS_NOINLINE __attribute__((noinline))
#define SS_COLD __attribute__((noinline, cold))
#define SS_COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* The structure whose MEMBER is at POINTER: the one cast that COM objects need. */
#define SS_CONTAINER(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/*
 * The stack address that separates this function (and its callees) from its callers: frames whose
 * sp is above it are outside.  Only meaningful in a function that is not inlined.
 */
#define SS_HERE() __builtin_frame_address(0)

#endif
