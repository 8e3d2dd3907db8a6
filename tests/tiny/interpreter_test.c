/* The interpreter of tiny by itself: what its binding relies on. */
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "tiny.h"

static int blocks; /* that are in use */

static void *allocate(void *data, void *block, size_t size)
{
    (void)data;
    blocks += size ? 1 : -1;
    if (size)
        return malloc(size);
    free(block);
    return NULL;
}

static tiny_value add(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)t;
    (void)data;
    return (tiny_value){count == 2 ? arguments[0].integer + arguments[1].integer : 0, NULL};
}

static tiny *open_with(const char *source)
{
    tiny *t = tiny_open(allocate, NULL);

    assert_non_null(t);
    assert_true(tiny_define(t, "add", add, NULL));
    assert_true(tiny_load(t, "test.tiny", source));
    return t;
}

static void close_and_check(tiny *t)
{
    tiny_close(t);
    assert_int_equal(blocks, 0);
}

/* Runs main of SOURCE, which returns an integer. */
static int64_t result_of(const char *source)
{
    tiny *t = open_with(source);
    tiny_value result;
    int64_t integer;

    if (!tiny_call(t, "main", NULL, 0, &result))
        fail_msg("%s: %s", source, result.object->text);
    integer = result.integer;
    tiny_drop(t, result);
    close_and_check(t);
    return integer;
}

/* Runs main of SOURCE, which throws an error of TYPE and MESSAGE. */
static void check_thrown(const char *source, const char *type, const char *message)
{
    tiny *t = open_with(source);
    tiny_value error;

    assert_false(tiny_call(t, "main", NULL, 0, &error));
    assert_true(tiny_is_error(error));
    assert_string_equal(error.object->type, type);
    assert_string_equal(error.object->text, message);
    tiny_drop(t, error);
    close_and_check(t);
}

/* ---- What programs do -------------------------------------------------------------------------*/

TEST(test_lines_call_functions)
{
    assert_int_equal(result_of("function main\n x = add 1 2\n x = add x 10\n return x\n"), 13);
    assert_int_equal(result_of("function main\n if 0 return 1\n if nil return 2\n return -3"), -3);
    assert_int_equal(result_of("function main\n # nothing\n\n if \"\" return 4 # text is true"), 4);
    assert_int_equal(result_of("function f a b\n return b\nfunction main\n x = f 1 2 3\n return x"),
                     2);
    assert_int_equal(result_of("function main\n return 1\nfunction main\n return 2\n"), 2);
    assert_int_equal(result_of("function main"), 0);
    assert_int_equal(
        result_of("function f a\n return a\nfunction main\n x = f \"a # b\"\n if x return 1"), 1);
}

TEST(test_functions_call_themselves)
{
    assert_int_equal(result_of("function sum n\n if n m = add n -1\n if n s = sum m\n"
                               " if n n = add n s\n return n\n"
                               "function main\n s = sum 100\n return s\n"),
                     5050);
}

TEST(test_try_gives_the_error)
{
    assert_int_equal(result_of("function f\n e = error \"io\" \"no file\"\n throw e\n"
                               "function main\n e = try f\n if e return 1\n return 2\n"),
                     1);
    assert_int_equal(result_of("function f\n return 7\n"
                               "function main\n e = try f\n if e return 1\n return 2\n"),
                     2);
    assert_int_equal(result_of("function main\n try nothing\n return 3\n"), 3);
}

TEST(test_bad_programs_throw)
{
    check_thrown("function main\n f", "name", "no such function: f");
    check_thrown("function main\n add x 1", "name", "no such variable: x");
    check_thrown("function main\n if x return 1", "name", "no such variable: x");
    check_thrown("function main\n throw 1", "type", "use: throw ERROR");
    check_thrown("function main\n throw", "type", "use: throw ERROR");
    check_thrown("function main\n error 1 2", "type", "use: error TYPE MESSAGE CAUSE");
    check_thrown("function main\n = = =", "name", "no such function: =");
    check_thrown("function main\n main", "limit", "called too deep: main");
    check_thrown("function main\n a = add 1 1\n b = add 1 1\n c = add 1 1\n d = add 1 1\n"
                 " e = add 1 1\n f = add 1 1\n g = add 1 1\n h = add 1 1\n i = add 1 1\n"
                 " j = add 1 1\n k = add 1 1\n l = add 1 1\n m = add 1 1\n",
                 "limit", "too many variables: m");
    check_thrown("", "name", "no such function: main");
    check_thrown("return 1\nend", "name", "no such function: main");
}

/* Any bytes at all: nothing may crash. */
TEST(test_noise_does_no_harm)
{
    static const char letters[] = "function main\n try if = \"e # 1-nil return throw error\t";
    char source[200];

    srand(1);
    for (int round = 0; round < 20000; round++) {
        size_t length = 14 + (size_t)rand() % 150;
        tiny_value result;
        tiny *t;

        memcpy(source, "function main\n", 14);
        for (size_t i = 14; i < length; i++)
            source[i] = letters[(size_t)rand() % (sizeof letters - 1)];
        source[length] = 0;
        t = open_with(source);
        (void)tiny_call(t, "main", NULL, 0, &result);
        tiny_drop(t, result);
        close_and_check(t);
    }
}
