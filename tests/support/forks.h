/*
 * For a test whose child ends while threads of the parent, of which the child has none, are not
 * joined: ThreadSanitizer calls those that have finished a leak.  Included by one file of a
 * program.
 */
#ifndef FORKS_BESIDE_THREADS_H
#define FORKS_BESIDE_THREADS_H

#if defined(__SANITIZE_THREAD__)
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "report_thread_leaks=0";
}
#endif

#endif
