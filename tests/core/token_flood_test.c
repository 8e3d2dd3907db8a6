/*
 * More descriptions than there is room for: what is new is told, what is old says that it was
 * dropped, and no token ever comes to mean something else.
 */
#include "base/thread.h"
#include "splice/pool.h"
#include "instruments.h"
#include "frames.h"
#include "support.h"
#include "threads.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>

enum {
    CELLS = 8192,    /* the room that these tests leave */
    MANY = 100000,   /* of one cell each */
    LENGTH = 100000, /* bytes of a long name */
    RECENT = CELLS / 8
};

static uintptr_t tokens[MANY];
static atomic_uint next_name; /* so that each test makes new ones */

static stacksplice_hresult try_intern(const char *function, uint32_t line, uintptr_t *token)
{
    stacksplice_token_info info = {SCRIPT_TOKEN, .language = "test", .function = function,
                                   .file = "made.test", .line = line};

    return stacksplice_intern(&info, token);
}

static stacksplice_hresult try_numbered(uint32_t number, uintptr_t *token)
{
    char name[32];

    (void)snprintf(name, sizeof name, "f%u", number);
    return try_intern(name, number, token);
}

static uintptr_t numbered(uint32_t number)
{
    uintptr_t token = 0;

    assert_int_equal(try_numbered(number, &token), S_OK);
    return token;
}

typedef enum answer { WRONG, TOLD, SAID_DROPPED } answer;

/* What is said of the TOKEN that was made for that number. */
static answer ask(uintptr_t token, uint32_t number)
{
    char room[SS_TOKEN_ROOM], name[32];
    stacksplice_token_info info;

    (void)ss_token_read(token, &info, room, sizeof room);
    if (info.kind == STACKSPLICE_FRAME_GAP)
        return strcmp(info.reason, SS_TOKEN_DROPPED_REASON) == 0 ? SAID_DROPPED : WRONG;
    (void)snprintf(name, sizeof name, "f%u", number);
    return info.line == number && strcmp(info.function, name) == 0 &&
                   strcmp(info.file, "made.test") == 0 && strcmp(info.language, "test") == 0
               ? TOLD
               : WRONG;
}

static void flood(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        (void)numbered(atomic_fetch_add(&next_name, 1));
}

static int ascending(const void *a, const void *b)
{
    uintptr_t left = *(const uintptr_t *)a, right = *(const uintptr_t *)b;

    return left < right ? -1 : left > right;
}

TEST(test_flood_by_number)
{
    uint32_t first = atomic_fetch_add(&next_name, MANY), told = 0;

    for (uint32_t i = 0; i < MANY; i++) {
        tokens[i] = numbered(first + i);
        assert_int_equal(ask(tokens[i], first + i), TOLD);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        answer a = ask(tokens[i], first + i);

        assert_int_not_equal(a, WRONG);
        assert_true(a == TOLD || i < MANY - RECENT); /* what is young is never dropped */
        told += a == TOLD;
    }
    assert_true(told < CELLS);
    assert_true(numbered(first) != tokens[0]); /* another token, and the old one stays a gap */
    assert_int_equal(ask(tokens[0], first), SAID_DROPPED);
    qsort(tokens, MANY, sizeof tokens[0], ascending);
    for (uint32_t i = 1; i < MANY; i++)
        assert_true(tokens[i - 1] < tokens[i]); /* no two meanings of one token */
}

static long resident_kib(void)
{
    struct rusage usage;

    assert_int_equal(getrusage(RUSAGE_SELF, &usage), 0);
    return usage.ru_maxrss;
}

/* CELLS are 1 MiB; 25 MB are described. */
TEST(test_flood_by_bytes)
{
    static char name[LENGTH + 1];
    long before = resident_kib();
    uintptr_t token;

    memset(name, 'x', LENGTH);
    for (uint32_t i = 0; i < MANY / 4; i++) {
        name[snprintf(name, sizeof name, "%u", i)] = 'x';
        assert_int_equal(try_intern(name, i, &token), S_OK);
    }
    assert_true(SANITIZED || resident_kib() - before < 4096);
}

TEST(test_what_is_met_again_stays)
{
    uint32_t number = atomic_fetch_add(&next_name, 1);
    uintptr_t token = numbered(number);

    for (unsigned i = 0; i < 200; i++) {
        flood(RECENT / 2);
        assert_true(numbered(number) == token);
    }
}

static uint32_t held_count;

static void hold_them(void)
{
    for (uint32_t i = 0; i < held_count; i++)
        ss_token_hold(tokens[i]);
}

/* New code is told all the same where more is held than there is room. */
TEST(test_what_is_held_stays)
{
    for (uint32_t more = 0; more < 2; more++) {
        uint32_t first;

        held_count = more ? 2 * CELLS : CELLS / 2;
        first = atomic_fetch_add(&next_name, held_count);
        ss_token_set_holder(hold_them);
        for (uint32_t i = 0; i < held_count; i++)
            tokens[i] = numbered(first + i);
        flood(10 * CELLS);
        ss_token_set_holder(NULL);
        for (uint32_t i = 0; i < held_count; i++) {
            answer a = ask(tokens[i], first + i);

            assert_true(more ? a != WRONG : a == TOLD);
        }
        assert_int_equal(ask(numbered(first), first), TOLD);
        flood(10 * CELLS); /* nobody holds them any more */
        for (uint32_t i = 0; i < held_count; i++)
            assert_int_equal(ask(tokens[i], first + i), SAID_DROPPED);
    }
}

/* ---- Threads, forks, signals, memory ---------------------------------------------------------*/

enum { WRITERS = 3, READERS = 2, SHARED = 512 };

/* What writers made lately, each in places of its own. */
static struct {
    _Atomic uintptr_t token; /* 0 while the number changes */
    _Atomic uint32_t number;
} shared[WRITERS * SHARED];
static atomic_bool writers_done;

static void *write_many(void *data)
{
    uint32_t first = *(uint32_t *)data * SHARED;

    for (uint32_t i = 0; i < MANY / 2; i++) {
        uint32_t number = atomic_fetch_add(&next_name, 1);
        uintptr_t token = 0;

        if (try_numbered(number, &token) != S_OK || ask(token, number) == WRONG)
            return "a writer";
        atomic_store(&shared[first + i % SHARED].token, 0);
        atomic_store(&shared[first + i % SHARED].number, number);
        atomic_store(&shared[first + i % SHARED].token, token);
    }
    return NULL;
}

static void *read_many(void *data)
{
    for (uint32_t at = 0; !atomic_load(&writers_done); at = (at + 1) % (WRITERS * SHARED)) {
        uintptr_t token = atomic_load(&shared[at].token);
        uint32_t number = atomic_load(&shared[at].number);

        if (token && atomic_load(&shared[at].token) == token && ask(token, number) == WRONG)
            return "a reader";
    }
    return NULL;
}

TEST(test_threads_flood)
{
    pthread_t threads[WRITERS + READERS];
    uint32_t numbers[WRITERS + READERS];
    void *who;

    writers_done = false;
    for (uint32_t i = 0; i < WRITERS + READERS; i++) {
        numbers[i] = i;
        threads[i] = thread_start(i < WRITERS ? write_many : read_many, &numbers[i]);
    }
    for (size_t i = 0; i < WRITERS + READERS; i++) {
        if (i == WRITERS)
            writers_done = true;
        who = thread_end(threads[i]);
        if (who)
            fail_msg("%s read something else", (const char *)who);
    }
}

static void *flood_on(void *data)
{
    while (!atomic_load(&writers_done))
        flood(100);
    return NULL;
}

/* Whether all of many new names are told; for a child, which cannot use cmocka. */
static bool floods_well(void)
{
    for (uint32_t i = 0; i < 4 * CELLS; i++) {
        uint32_t number = atomic_fetch_add(&next_name, 1);
        uintptr_t token = 0;

        if (try_numbered(number, &token) != S_OK || ask(token, number) != TOLD)
            return false;
    }
    return true;
}

TEST(test_flood_in_a_forked_child)
{
    uint32_t number = atomic_fetch_add(&next_name, 1);
    uintptr_t before = numbered(number);
    pthread_t thread;

    writers_done = false;
    thread = thread_start(flood_on, NULL);
    for (unsigned i = 0; i < 10; i++) {
        pid_t child = fork();

        if (child == 0) {
            alarm(60); /* a lock that nobody frees ends here */
            _exit(!(floods_well() && ask(before, number) == SAID_DROPPED));
        }
        child_check(child);
    }
    writers_done = true;
    (void)thread_end(thread);
}

static atomic_uint handled, wrong_in_handler;

/* It interrupts the writer, with the lock and without. */
static void flood_in_handler(int number)
{
    uint32_t name = atomic_fetch_add(&next_name, 1);
    uintptr_t token = 0;
    stacksplice_hresult hr;

    hr = try_intern("in a handler", name, &token);
    wrong_in_handler +=
        hr == S_OK ? !ss_token_is_script(token) : token != ss_token_of(SS_TOKEN_NO_WAIT);
    handled++;
}

TEST(test_handlers_interrupt_the_writer)
{
    struct sigaction action = {.sa_handler = flood_in_handler, .sa_flags = SA_RESTART}, former;
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};

    assert_int_equal(sigaction(SIGALRM, &action, &former), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &often, NULL), 0);
    while (handled < 500)
        flood(100);
    assert_int_equal(setitimer(ITIMER_REAL, &never, NULL), 0);
    assert_int_equal(sigaction(SIGALRM, &former, NULL), 0);
    assert_int_equal(wrong_in_handler, 0);
}

/* In a child, which has mapped nothing yet of what it is refused now. */
static int without_memory(void)
{
    struct rlimit limit, none;
    uintptr_t token = 0, known;
    uint32_t i = 0;

    ss_pool_limit = SS_POOL_CELLS;
    known = numbered(0);
    if (getrlimit(RLIMIT_AS, &limit) != 0)
        return 1;
    none = limit;
    none.rlim_cur = 1;
    if (setrlimit(RLIMIT_AS, &none) != 0)
        return 2;
    if (mmap(NULL, 1 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
        return CHILD_SKIPS; /* an emulator that knows of limits and does not keep them */
    while (i < SS_POOL_CELLS && try_intern("fills the room", ++i, &token) == S_OK)
        continue;
    if (token != ss_token_of(SS_TOKEN_NO_MEMORY))
        return 3;
    if (try_numbered(0, &token) != S_OK || token != known || ask(known, 0) != TOLD)
        return 4;
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        return 5;
    return try_intern("fills the room", i, &token) == S_OK && ss_token_is_script(token) ? 0 : 6;
}

TEST(test_one_that_cannot_be_mapped)
{
    pid_t child;

    if (SANITIZED)
        SKIP("sanitizers have mapped the whole address space");
    child = fork();
    if (child == 0)
        _exit(without_memory());
    child_check_unless(child, NO_LIMITS);
}

int main(void)
{
    ss_pool_limit = CELLS;
    return run_all_tests();
}
