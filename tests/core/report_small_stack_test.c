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

/* Found in the library of others, with the longest name that demanglers take. */
static uintptr_t address_of_long_name(void)
{
    void *library = dlopen(STRIPPED_LIBRARY, RTLD_NOW);

    have_cxx = dlopen("libstdc++.so.6", RTLD_NOW | RTLD_LOCAL) != NULL;
    return library ? (uintptr_t)dlsym(library, STRIPPED_LONG_NAME) : 0;
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
    return long_name == 0;
}

static int set_found(const stacksplice_frame *frame, void *data)
{
    *(int *)data |= frame->function && strstr(frame->function, "(int****");
    return 0;
}

static void check_kind(unsigned kind)
{
    static char fingerprint[33];
    const char *text;
    int found = 0;

    switch (kind % 5) {
    case 0:
        text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_TEXT, NULL);
        NEED(strstr(text, "ValueError: text\n"));
        NEED(strstr(text, TEXT_PLACE));
        NEED(strstr(text, "line 1, in f\n        /*\n"));
        break;
    case 1:
        text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_JSON, NULL);
        NEED(strstr(text, "report_small_stack_test.c\",\"line\":1"));
        NEED(strstr(text, JSON_PLACE));
        break;
    case 2:
        NEED(stacksplice_fingerprint((IUnknown *)error, fingerprint) == S_OK);
        NEED(strlen(fingerprint) == 32);
        break;
    case 3:
        text = fixture_format((IUnknown *)error, STACKSPLICE_FORMAT_SENTRY, NULL);
        NEED(strstr(text, "report_small_stack_test.c\",\"abs_path\":"));
        NEED(strstr(text, "\"debug_id\":\""));
        break;
    default:
        NEED(stacksplice_resolve(long_name + 1, set_found, &found) == S_OK);
        NEED(found || !have_cxx);
    }
}

static void *check_all(void *first)
{
    for (unsigned i = 0; i < 5; i++)
        check_kind((unsigned)(uintptr_t)first + i);
    return NULL;
}

static void in_child(void (*run)(size_t), size_t number)
{
    pid_t child = fork();
    int status = 0;

    if (!child) {
        run(number);
        _exit(0);
    }
    assert_true(child > 0);
    status = child_status(child);
    if (status)
        print_message("case %zu\n", number);
    assert_int_equal(status, 0);
}

/* ---- Threads ---------------------------------------------------------------------------------*/

static const size_t sizes[] = {16, 20, 24, 32, 48, 64, 96, 128, 160, 192, 256, 512, 1024};

static void run_thread(size_t number)
{
    pthread_attr_t attributes;
    pthread_t thread;

    NEED(!pthread_attr_init(&attributes));
    NEED(!pthread_attr_setstacksize(&attributes, sizes[number] * UNIT));
    NEED(!pthread_create(&thread, &attributes, check_all, (void *)number));
    NEED(!pthread_join(thread, NULL));
}

static bool can_be(size_t size)
{
    pthread_attr_t attributes;
    bool can;

    pthread_attr_init(&attributes);
    can = !pthread_attr_setstacksize(&attributes, size);
    pthread_attr_destroy(&attributes);
    return can;
}

TEST(test_reports_in_threads_with_small_stacks)
{
    unsigned cases = 0;

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        if (can_be(sizes[i] * UNIT)) { /* not below the least of this machine */
            in_child(run_thread, i);
            cases++;
        }
    }
    assert_true(cases >= 4);
}

static void *run_often(void *data)
{
    for (uintptr_t i = 0; i < 200; i++) {
        int unused = 0;

        NEED(stacksplice_resolve((uintptr_t)data + i % 50, set_found, &unused) == S_OK);
    }
    return NULL;
}

static void run_threads_at_once(size_t number)
{
    pthread_t threads[4];
    pthread_attr_t attributes;

    NEED(!pthread_attr_init(&attributes));
    for (size_t i = 0; i < 4; i++) {
        NEED(!pthread_attr_setstacksize(&attributes, (i % 2 ? 1024 : 128) * UNIT));
        NEED(!pthread_create(&threads[i], &attributes, run_often,
                             (void *)((uintptr_t)fixture_format + 1)));
    }
    for (size_t i = 0; i < 4; i++)
        NEED(!pthread_join(threads[i], NULL));
}

TEST(test_threads_with_and_without_room_at_once)
{
    in_child(run_threads_at_once, 0);
}

/* ---- Groups in groups -------------------------------------------------------------------------*/

enum { GROUPS = 12 };

/* GROUPS of one member each; the innermost of all is ERROR. */
static IRestrictedErrorInfo *make_groups(void)
{
    static error_double groups[GROUPS];
    static IRestrictedErrorInfo *members[GROUPS + 1];

    members[GROUPS] = error;
    for (int i = GROUPS; i-- > 0;) {
        error_double *group = &groups[i];

        error_double_init(group, 1);
        group->has_stack = group->has_details = 1;
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

/* As many as there is room for are shown, and it is said that there are more. */
static void *check_groups(void *groups)
{
    static char fingerprint[33];
    const char *text = fixture_format(groups, STACKSPLICE_FORMAT_TEXT, NULL);

    NEED(strstr(text, "DoubleError: two") && strstr(text, "and 1 more error\n"));
    text = fixture_format(groups, STACKSPLICE_FORMAT_SENTRY, NULL);
    NEED(strstr(text, "\"is_exception_group\":true"));
    text = fixture_format(groups, STACKSPLICE_FORMAT_JSON, NULL);
    NEED(strstr(text, "\"exceptions_left_out\":1") || strstr(text, "ValueError"));
    NEED(stacksplice_fingerprint(groups, fingerprint) == S_OK);
    return NULL;
}

static void run_groups(size_t number)
{
    pthread_attr_t attributes;
    pthread_t thread;
    IRestrictedErrorInfo *groups = make_groups();

    NEED(!pthread_attr_init(&attributes));
    NEED(!pthread_attr_setstacksize(&attributes, sizes[number] * UNIT));
    NEED(!pthread_create(&thread, &attributes, check_groups, groups));
    NEED(!pthread_join(thread, NULL));
}

TEST(test_groups_in_groups_need_no_more_than_there_is)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (can_be(sizes[i] * UNIT))
            in_child(run_groups, i);
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

static void run_without_memory(size_t kilobytes)
{
    pthread_attr_t attributes;
    pthread_t thread;

    NEED(!pthread_attr_init(&attributes));
    NEED(!pthread_attr_setstacksize(&attributes, kilobytes * UNIT));
    NEED(!pthread_create(&thread, &attributes, check_without_memory, NULL));
    NEED(!pthread_join(thread, NULL));
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
    in_child(run_without_memory, 256);
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

static void run_deep(size_t left)
{
    pthread_t thread;

    NEED(!pthread_create(&thread, NULL, recurse_in_thread, (void *)left));
    NEED(!pthread_join(thread, NULL));
}

/* Where the main thread's stack ends is not told to the kilobyte under memcheck. */
static void run_deep_in_main(size_t left)
{
    recurse_in_thread((void *)(left + 32 * UNIT));
}

TEST(test_reports_near_the_end_of_a_recursion)
{
    static const size_t left[] = {12, 100, 300, 600};

    for (size_t i = 0; i < sizeof left / sizeof *left; i++)
        in_child(run_deep, left[i] * UNIT);
    for (size_t i = 0; MAIN_END_IS_TOLD && i < sizeof left / sizeof *left; i++)
        in_child(run_deep_in_main, left[i] * UNIT);
}

GROUP(make_error, NULL)
