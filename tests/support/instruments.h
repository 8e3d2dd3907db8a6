/* What runs this program: sanitizers, which are compiled in, and valgrind, which is asked. */
#ifndef STACKSPLICE_TEST_INSTRUMENTS_H
#define STACKSPLICE_TEST_INSTRUMENTS_H

#ifndef __has_feature /* clang's way to say it */
#define __has_feature(feature) 0
#endif

#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif

#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#else
#define UNDER_ASAN 0
#endif

#define SANITIZED (UNDER_TSAN || UNDER_ASAN)

#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#define UNDER_VALGRIND RUNNING_ON_VALGRIND
#else
#define UNDER_VALGRIND 0
#endif

#endif
