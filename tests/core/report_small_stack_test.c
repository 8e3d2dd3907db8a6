/*
 * Reports of each kind on small stacks, and near the end of large ones.  Each case is a process of
 * its own, in which nothing was looked up before: a case that needs too much of the stack kills it.
 */
#include "error_double.h"
#include "report_fixture.h"
#include "resolve_long_name.h"
#include "frames.h"
#include "instruments.h"
#include "support.h"
#include "threads.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

/* Instrumented code takes several times the stack. */
#if SANITIZED
enum { UNIT = 8 * 1024 };
#else
enum { UNIT = 1024 };
#endif

#if defined(HAVE_LIBDW)
#define TEXT_PLACE "report_fixture.c\", line "
#define JSON_PLACE "report_fixture.c\",\"line\":"
#else
#define TEXT_PLACE "??? (report_small_stack_test+0x"
#define JSON_PLACE "report_small_stack_test\",\"module_offset\":"
#endif

/* musl's main thread has no end that anybody tells. */
#if defined(__GLIBC__)
enum { MAIN_END_IS_TOLD = 1 };
#else
enum { MAIN_END_IS_TOLD = 0 };
#endif

/* Its own process ends at once, so that nothing of cmocka runs on the small stack. */
#define NEED(condition)                                                 \
    do {                                                                \
        if (!(condition)) {                                             \
            dprintf(2, "line %d: %s is false\n", __LINE__, #condition); \
            _exit(1);                                                   \
        }                                                               \
    } while (0)

static IRestrictedErrorInfo *error;
static uintptr_t frames[4], long_name;
static bool have_cxx;
static IRestrictedErrorInfo *groups; /* in each other; the innermost is the error */

/* Found in the library of others, with the longest name that demanglers take. */
static uintptr_t address_of_long_name(void)
{
    void *library = dlopen(STRIPPED_LIBRARY, RTLD_NOW);

    have_cxx = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL) != NULL;
    return library ? (uintptr_t)dlsym(library, STRIPPED_LONG_NAME) : 0;
}

/* Groups of one member each. */
static IRestrictedErrorInfo *make_groups(void)
{
    enum { GROUPS = 12 };
    static error_double doubles[GROUPS];
    static IRestrictedErrorInfo *members[GROUPS + 1];

    members[GROUPS] = error;
    for (int i = GROUPS; i-- > 0;) {
        error_double *group = &doubles[i];

        error_double_init(group, 1);
        group->has_stack = 1;
        group->frames = frames;
        group->frame_count = 4;
        group->members = &members[i + 1];
        group->member_count = 1;
        NEED(stacksplice_originate(E_FAIL, "a group", 7, error_double_unknown(group),
                                   &members[i]) == S_OK);
        RoClearError();
    }
    return members[0];
}

static int make_error(void **state)
{
    static fixture_error cause, contents;

    long_name = address_of_long_name();
    frames[0] = fixture_script("python", "f", __FILE__, 1);
    frames[1] = (uintptr_t)fixture_format + 1;
    frames[2] = long_name + 1;
    frames[3] = fixture_gap("reason");
    cause = (fixture_error){.hr = E_FAIL, .frames = frames, .frame_count = 4};
    contents = (fixture_error){.hr = E_INVALIDARG,
                               .type = "ValueError",
                               .message = "text",
                               .message_length = 4,
                               .frames = frames,
                               .frame_count = 4,
                               .cause = fixture_originate(&cause)};
    error = fixture_originate(&contents);
    fixture_propagate(error, "lua", frames, 4);
    groups = make_groups();
    return long_name == 0;
}

static int set_found(const stacksplice_frame *frame, void *data)
{
    *(int *)data |= frame->function && strstr(frame->function, "(int****");
    return 0;
}

static void check_fingerprint(IRestrictedErrorInfo *of)
{
    static char fingerprint[33];

    NEED(stacksplice_fingerprint((IUnknown *)of, fingerprint) == S_OK);
    NEED(strlen(fingerprint) == 32);
}

/* What each format has of the error. */
static const struct {
    stacksplice_format_kind kind;
    const char *parts[3];
} formats[] = {
    {STACKSPLICE_FORMAT_TEXT, {"ValueError: text\n", TEXT_PLACE, "line 1, in f\n        /*\n"}},
    {STACKSPLICE_FORMAT_JSON, {"report_small_stack_test.c\",\"line\":1", JSON_PLACE, ""}},
    {STACKSPLICE_FORMAT_BRIEF_JSON,
     {"report_small_stack_test.c\",\"line\":1", "\"propagation\":[{\"language\":\"lua\"", ""}},
    {STACKSPLICE_FORMAT_SENTRY,
     {"report_small_stack_test.c\",\"abs_path\":", "\"debug_id\":\"", ""}},
};

static void check_kind(size_t kind)
{
    int found = 0;

    if (kind < COUNT_OF(formats)) {
        const char *text = fixture_format((IUnknown *)error, formats[kind].kind, NULL);

        for (size_t i = 0; i < COUNT_OF(formats[kind].parts); i++)
            NEED(strstr(text, formats[kind].parts[i]));
    } else if (kind == COUNT_OF(formats)) {
        check_fingerprint(error);
    } else {
        NEED(stacksplice_resolve(long_name + 1, set_found, &found) == S_OK);
        NEED(found || !have_cxx);
    }
}

static void *check_all(void *first)
{
    for (size_t i = 0; i < COUNT_OF(formats) + 2; i++)
        check_kind(((uintptr_t)first + i) % (COUNT_OF(formats) + 2));
    return NULL;
}

/* ---- Cases -----------------------------------------------------------------------------------*/

enum { MAIN = 0, LARGE = 8 << 20 };

/* A thread with so large a stack. */
static pthread_t start(size_t stack, void *(*run)(void *), void *data)
{
    pthread_attr_t attributes;
    pthread_t thread;

    NEED(!pthread_attr_init(&attributes));
    NEED(!pthread_attr_setstacksize(&attributes, stack));
    NEED(!pthread_create(&thread, &attributes, run, data));
    return thread;
}

/* RUN with DATA in a process of its own: in its main thread, or in one with so large a stack. */
static void in_child(size_t stack, void *(*run)(void *), void *data)
{
    pid_t child = fork();
    int status;

    if (!child) {
        if (stack == MAIN)
            (void)run(data);
        else
            NEED(!pthread_join(start(stack, run, data), NULL));
        _exit(0);
    }
    status = child_status(child);
    if (status)
        print_message("stack of %zu, case %p\n", stack, data);
    assert_int_equal(status, 0);
}

/* In threads with stacks of many sizes, but not below the least of this machine. */
static void in_small_stacks(void *(*run)(void *))
{
    static const size_t sizes[] = {16, 20, 24, 32, 48, 64, 96, 128, 160, 192, 256, 512, 1024};
    unsigned cases = 0;

    for (uintptr_t i = 0; i < COUNT_OF(sizes); i++) {
        pthread_attr_t attributes;

        assert_int_equal(pthread_attr_init(&attributes), 0);
        if (!pthread_attr_setstacksize(&attributes, sizes[i] * UNIT)) {
            in_child(sizes[i] * UNIT, run, (void *)i);
            cases++;
        }
        pthread_attr_destroy(&attributes);
    }
    assert_true(cases >= 4);
}

TEST(test_reports_in_threads_with_small_stacks)
{
    in_small_stacks(check_all);
}

/* As many groups as there is room for are shown, and it is said that there are more. */
static void *check_groups(void *unused)
{
    const char *text = fixture_format((IUnknown *)groups, STACKSPLICE_FORMAT_TEXT, NULL);

    NEED(strstr(text, "DoubleError: two") && strstr(text, "and 1 more error\n"));
    text = fixture_format((IUnknown *)groups, STACKSPLICE_FORMAT_SENTRY, NULL);
    NEED(strstr(text, "\"is_exception_group\":true"));
    text = fixture_format((IUnknown *)groups, STACKSPLICE_FORMAT_JSON, NULL);
    NEED(strstr(text, "\"exceptions_left_out\":1") || strstr(text, "ValueError"));
    check_fingerprint(groups);
    return NULL;
}

TEST(test_groups_in_groups_need_no_more_than_there_is)
{
    in_small_stacks(check_groups);
}

static void *run_often(void *data)
{
    for (uintptr_t i = 0; i < 200; i++) {
        int unused = 0;

        NEED(stacksplice_resolve((uintptr_t)fixture_format + 1 + i % 50, set_found, &unused) ==
             S_OK);
    }
    return data;
}

static void *run_threads_at_once(void *unused)
{
    pthread_t threads[4];

    for (size_t i = 0; i < 4; i++)
        threads[i] = start((i % 2 ? 1024 : 128) * UNIT, run_often, NULL);
    for (size_t i = 0; i < 4; i++)
        NEED(!pthread_join(threads[i], NULL));
    return unused;
}

TEST(test_threads_with_and_without_room_at_once)
{
    in_child(MAIN, run_threads_at_once, NULL);
}

/* ---- No memory for a larger one --------------------------------------------------------------*/

static void limit_memory(rlim_t bytes)
{
    struct rlimit limit;

    NEED(!getrlimit(RLIMIT_AS, &limit));
    limit.rlim_cur = bytes;
    NEED(!setrlimit(RLIMIT_AS, &limit));
}

static void *check_without_memory(void *unused)
{
    void *volatile block = malloc(32 << 10); /* a thread's first takes more of the system */
    const char *text;

    free(block);
    limit_memory(1);
    text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL);
    NEED(strstr(text, "stripped_library.so"));
    NEED(!strstr(text, "(int****")); /* which takes the stack that cannot be had */
    limit_memory(RLIM_INFINITY);
    check_all((void *)0); /* what could not be found is not remembered */
    return unused;
}

/* Emulators do not hold a program to the limit; memcheck itself would end by it. */
static bool is_limit_held(void)
{
    void *memory;

    if (UNDER_VALGRIND)
        return false;
    limit_memory(1);
    memory = mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    limit_memory(RLIM_INFINITY);
    if (memory != MAP_FAILED)
        munmap(memory, 1 << 20);
    return memory == MAP_FAILED;
}

TEST(test_without_memory_for_a_stack_frames_are_poor)
{
#if SANITIZED
    SKIP("sanitizers end a process that has no memory");
#endif
    if (!is_limit_held())
        SKIP("nothing holds this process to its limit of address space");
    in_child(256 * UNIT, check_without_memory, NULL);
}

/* ---- The end of a stack ----------------------------------------------------------------------*/

static uintptr_t end_of_stack(void)
{
    pthread_attr_t attributes;
    void *low = NULL;
    size_t size;

    NEED(!pthread_getattr_np(pthread_self(), &attributes));
    NEED(!pthread_attr_getstack(&attributes, &low, &size));
    pthread_attr_destroy(&attributes);
    return (uintptr_t)low;
}

static NOINLINE void recurse(uintptr_t until)
{
    char room[256];

    __asm__ volatile("" ::"r"(room) : "memory");
    if ((uintptr_t)__builtin_frame_address(0) > until)
        recurse(until);
    else
        check_all((void *)0);
    __asm__ volatile("" ::"r"(room) : "memory"); /* no tail call */
}

static void *recurse_in_thread(void *left)
{
    recurse(end_of_stack() + (uintptr_t)left);
    return NULL;
}

/* Where the main thread's stack ends is not told to the kilobyte under memcheck. */
TEST(test_reports_near_the_end_of_a_recursion)
{
    static const uintptr_t left[] = {12, 100, 300, 600};

    for (size_t i = 0; i < COUNT_OF(left); i++)
        in_child(LARGE, recurse_in_thread, (void *)(left[i] * UNIT));
    for (size_t i = 0; MAIN_END_IS_TOLD && i < COUNT_OF(left); i++)
        in_child(MAIN, recurse_in_thread, (void *)((left[i] + 32) * UNIT));
}

GROUP(make_error, NULL)
