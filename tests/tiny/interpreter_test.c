/* The interpreter of tiny by itself: what its binding relies on. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "tiny.h"

/* ---- Memory that is counted and can fail ------------------------------------------------------*/

typedef struct memory {
    int blocks; /* that are in use */
    int left;   /* allocations until one fails, once; negative: none */
    bool failed;
} memory;

static void *allocate(void *data, void *block, size_t size)
{
    memory *m = data;

    if (!size) {
        m->blocks--;
        free(block);
        return NULL;
    }
    if (m->left-- == 0) {
        m->failed = true;
        return NULL;
    }
    m->blocks++;
    return malloc(size);
}

static tiny_value add(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)t;
    (void)data;
    return (tiny_value){count == 2 ? arguments[0].integer + arguments[1].integer : 0, NULL};
}

static tiny *open_with(memory *m, const char *source)
{
    tiny *t = tiny_open(allocate, m);

    assert_non_null(t);
    assert_true(tiny_define(t, "add", add, NULL));
    assert_true(tiny_load(t, "test.tiny", source));
    return t;
}

static void close_and_check(memory *m, tiny *t)
{
    tiny_close(t);
    assert_int_equal(m->blocks, 0);
}

/* Runs main of SOURCE, which returns an integer. */
static int64_t result_of(const char *source)
{
    memory m = {.left = -1};
    tiny *t = open_with(&m, source);
    tiny_value result;
    int64_t integer;

    if (!tiny_call(t, "main", NULL, 0, &result))
        fail_msg("%s: %s", source, result.object->text);
    integer = result.integer;
    tiny_drop(t, result);
    close_and_check(&m, t);
    return integer;
}

/* Runs main of SOURCE, which throws an error of TYPE and MESSAGE. */
static void check_thrown(const char *source, const char *type, const char *message)
{
    memory m = {.left = -1};
    tiny *t = open_with(&m, source);
    tiny_value error;

    assert_false(tiny_call(t, "main", NULL, 0, &error));
    assert_true(tiny_is_error(error));
    assert_string_equal(error.object->type, type);
    assert_string_equal(error.object->text, message);
    tiny_drop(t, error);
    close_and_check(&m, t);
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

TEST(test_errors_pass_through_functions)
{
    check_thrown("function f\n e = error \"io\" \"no file\"\n throw e\n return 1\n"
                 "function main\n x = f\n return 2\n",
                 "io", "no file");
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
    memory m = {.left = -1};

    srand(1);
    for (int round = 0; round < 20000; round++) {
        size_t length = 14 + (size_t)rand() % 150;
        tiny_value result;
        tiny *t;

        memcpy(source, "function main\n", 14);
        for (size_t i = 14; i < length; i++)
            source[i] = letters[(size_t)rand() % (sizeof letters - 1)];
        source[length] = 0;
        t = open_with(&m, source);
        (void)tiny_call(t, "main", NULL, 0, &result);
        tiny_drop(t, result);
        close_and_check(&m, t);
    }
}

/* ---- Errors as values -------------------------------------------------------------------------*/

static const char throws_again[] =
    "function inner\n e = error \"io\" \"no file\"\n keep e\n throw e\n"
    "function main\n e = try inner\n throw e\n";

static tiny_value keep_it(tiny *t, void *data, const tiny_value *arguments, int count)
{
    (void)t;
    assert_int_equal(count, 1);
    *(tiny_object **)data = arguments[0].object;
    return (tiny_value){0, NULL};
}

TEST(test_an_error_that_is_thrown_again_is_the_same)
{
    memory m = {.left = -1};
    tiny *t = open_with(&m, throws_again);
    tiny_object *made = NULL;
    tiny_value error;

    assert_true(tiny_define(t, "keep", keep_it, &made));
    assert_false(tiny_call(t, "main", NULL, 0, &error));
    assert_ptr_equal(error.object, made);
    assert_int_equal(error.object->references, 1);
    tiny_drop(t, error);
    close_and_check(&m, t);
}

TEST(test_an_error_keeps_its_cause)
{
    memory m = {.left = -1};
    tiny *t = open_with(&m, "function main\n a = error \"a\" \"inside\"\n"
                            " b = error \"b\" \"outside\" a\n throw b\n");
    tiny_value error;

    assert_false(tiny_call(t, "main", NULL, 0, &error));
    assert_string_equal(error.object->type, "b");
    assert_string_equal(error.object->cause->type, "a");
    assert_null(error.object->cause->cause);
    tiny_drop(t, error);
    close_and_check(&m, t);
}

typedef struct told {
    int thrown, ended, depth;
} told;

static void on_thrown(tiny *t, tiny_object *error, void *data)
{
    told *what = data;

    (void)t;
    error->host = what;
    what->thrown++;
    what->depth = 0;
    for (const tiny_frame *f = tiny_frames(); f; f = f->caller)
        what->depth++;
}

static void on_ended(tiny *t, tiny_object *error, void *data)
{
    (void)t;
    assert_ptr_equal(error->host, data);
    ((told *)data)->ended++;
}

TEST(test_the_host_is_told_of_a_throw_and_of_the_end)
{
    memory m = {.left = -1};
    tiny *t = open_with(&m, "function f\n e = error \"a\" \"b\"\n throw e\nfunction main\n f\n");
    told what = {0, 0, 0};
    tiny_value error;

    *tiny_hooks_of(t) = (tiny_hooks){on_thrown, on_ended, &what};
    assert_false(tiny_call(t, "main", NULL, 0, &error));
    assert_int_equal(what.thrown, 1);
    assert_int_equal(what.depth, 3); /* throw, f, main */
    assert_int_equal(what.ended, 0);
    tiny_drop(t, error);
    assert_int_equal(what.ended, 1);
    close_and_check(&m, t);
}

TEST(test_every_allocation_may_fail)
{
    int failures = 0;

    for (bool failed = true; failed; failures++) {
        memory m = {.left = failures};
        tiny *t = tiny_open(allocate, &m);
        tiny_object *made = NULL;
        tiny_value result = {0, NULL};

        if (t && tiny_define(t, "keep", keep_it, &made) &&
            tiny_load(t, "test.tiny", throws_again)) {
            assert_false(tiny_call(t, "main", NULL, 0, &result));
            assert_string_equal(result.object->type, m.failed ? "memory" : "io");
            tiny_drop(t, result);
        }
        failed = m.failed;
        if (t)
            tiny_close(t);
        assert_int_equal(m.blocks, 0);
    }
    assert_true(failures > 10);
}

/* ---- What a debugger sees ---------------------------------------------------------------------*/

/* "function:line ..." of all activations, innermost first. */
static tiny_value write_stack(tiny *t, void *data, const tiny_value *arguments, int count)
{
    const tiny_frame *f = tiny_frames();
    char *text = data;

    (void)t;
    (void)arguments;
    (void)count;
    *text = 0;
    for (; f; f = f->caller) {
        assert_true(!f->caller || (const char *)f->caller > (const char *)f);
        (void)sprintf(text + strlen(text), "%.*s:%d ", (int)f->function->name.length,
                      f->function->name.text, f->line);
    }
    return (tiny_value){0, NULL};
}

static const char stack_source[] = "function leaf\n\n stack\n"
                                   "function main\n # calls\n x = leaf\n leaf\n";

TEST(test_frames_have_functions_and_lines)
{
    memory m = {.left = -1};
    tiny *t = open_with(&m, stack_source);
    char text[200];
    tiny_value result;

    assert_true(tiny_define(t, "stack", write_stack, text));
    assert_true(tiny_call(t, "main", NULL, 0, &result));
    assert_string_equal(text, "stack:0 leaf:3 main:7 ");
    assert_null(tiny_frames());
    close_and_check(&m, t);
}

static tiny_value call_other(tiny *t, void *data, const tiny_value *arguments, int count)
{
    tiny_value result;

    (void)t;
    (void)arguments;
    (void)count;
    assert_true(tiny_call(data, "main", NULL, 0, &result));
    return result;
}

TEST(test_interpreters_call_each_other)
{
    memory m = {.left = -1}, n = {.left = -1};
    tiny *outer = open_with(&m, "function main\n other\n");
    tiny *inner = open_with(&n, stack_source);
    char text[200];
    tiny_value result;

    assert_true(tiny_define(inner, "stack", write_stack, text));
    assert_true(tiny_define(outer, "other", call_other, inner));
    assert_true(tiny_call(outer, "main", NULL, 0, &result));
    assert_string_equal(text, "stack:0 leaf:3 main:7 other:0 main:2 ");
    close_and_check(&n, inner);
    close_and_check(&m, outer);
}
