/*
 * For every test that is a cmocka program: TEST(name) { ... } is a test, and is run.
 *
 * Tests run in the order in which they stand in their file.  A program whose main is its own, to
 * prepare something, ends it with run_all_tests(); the others take main from here.  C11 and C++17.
 */
#ifndef STACKSPLICE_TEST_SUPPORT_H
#define STACKSPLICE_TEST_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include <cmocka.h>

/* One of the program's tests; support.c keeps the list. */
struct support_test {
    struct CMUnitTest unit;
    const char *file;
    int line;
    struct support_test *next;
};

void support_add_test(struct support_test *test);
void support_set_group(CMFixtureFunction setup, CMFixtureFunction teardown);

/* What main returns. */
int run_all_tests(void);

#ifdef __cplusplus
}
#endif

/* A test between SETUP and TEARDOWN; either may be NULL. */
#define TEST_WITH(name, setup, teardown)                                     \
    static void name(void **state);                                          \
    static __attribute__((constructor)) void name##_add(void)                \
    {                                                                        \
        static struct support_test test = {                                  \
            {#name, name, setup, teardown, NULL}, __FILE__, __LINE__, NULL}; \
        support_add_test(&test);                                             \
    }                                                                        \
    static void name(void **state)
#define TEST(name) TEST_WITH(name, NULL, NULL)

/* All tests of the program between SETUP and TEARDOWN. */
#define GROUP(setup, teardown)                               \
    static __attribute__((constructor)) void set_group(void) \
    {                                                        \
        support_set_group(setup, teardown);                  \
    }

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* Leave this test; the output tells why. */
#define SKIP(why)                            \
    do {                                     \
        print_message("skipped: %s\n", why); \
        skip();                              \
    } while (0)

/* GOT is WANT, or the failure names ROW, one of a table. */
#define check_row(row, got, want)                                        \
    do {                                                                 \
        if ((LargestIntegralType)(got) != (LargestIntegralType)(want)) { \
            print_error("row %u\n", (unsigned)(row));                    \
            assert_int_equal(got, want);                                 \
        }                                                                \
    } while (0)

#endif
