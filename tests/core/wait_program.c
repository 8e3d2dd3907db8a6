/*
 * wait_program WAY [WAIT]: the main thread waits in one of the ways that the kernel has, while a
 * worker crashes or misses a deadline.  Prints what the wait returned.  wait_test.py looks at it.
 */
#include "check.h"
#include "instruments.h"

#include <stacksplice/crash.h>
#include <stacksplice/deadline.h>
#include <stacksplice/stacksplice.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

/* ---- The waits of the main thread ------------------------------------------------------------*/

enum { MILLISECONDS = 300, LIMIT = 60 /* seconds */ };

static int ends[2], queue, set, epoll;
static sem_t semaphore;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static const struct timespec a_moment = {.tv_nsec = MILLISECONDS * 1000000L};

static struct timespec in_a_minute(clockid_t clock)
{
    struct timespec time;

    (void)clock_gettime(clock, &time);
    time.tv_sec += LIMIT;
    return time;
}

static struct pollfd ended(void)
{
    return (struct pollfd){.fd = ends[0], .events = POLLIN};
}

static int wait_poll(void)
{
    struct pollfd one = ended();

    return poll(&one, 1, -1);
}

static int wait_poll_limit(void)
{
    struct pollfd one = ended();

    return poll(&one, 1, LIMIT * 1000);
}

static int wait_ppoll(void)
{
    struct pollfd one = ended();
    const struct timespec limit = {.tv_sec = LIMIT};

    return ppoll(&one, 1, &limit, NULL);
}

static int select_until(struct timeval *limit)
{
    fd_set set_of_one;

    FD_ZERO(&set_of_one);
    FD_SET((unsigned)ends[0], &set_of_one);
    return select(ends[0] + 1, &set_of_one, NULL, NULL, limit);
}

static int wait_select(void)
{
    return select_until(NULL);
}

static int wait_select_limit(void)
{
    struct timeval limit = {.tv_sec = LIMIT};

    return select_until(&limit);
}

static int wait_pselect(void)
{
    fd_set set_of_one;
    sigset_t none;

    sigemptyset(&none);
    FD_ZERO(&set_of_one);
    FD_SET((unsigned)ends[0], &set_of_one);
    return pselect(ends[0] + 1, &set_of_one, NULL, NULL, NULL, &none);
}

static int epoll_until(int limit)
{
    struct epoll_event event = {.events = EPOLLIN};

    CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event) == 0);
    return epoll_wait(epoll, &event, 1, limit);
}

static int wait_epoll(void)
{
    return epoll_until(-1);
}

static int wait_epoll_limit(void)
{
    return epoll_until(LIMIT * 1000);
}

static int wait_read(void)
{
    char byte;

    return (int)read(ends[0], &byte, 1);
}

/* With a limit of time on the socket itself. */
static int wait_receive(void)
{
    const struct timeval limit = {.tv_sec = LIMIT};
    char byte;

    CHECK(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    return (int)recv(ends[0], &byte, 1, 0);
}

static int wait_sleep(void)
{
    return (int)sleep(1);
}

static int wait_usleep(void)
{
    return usleep(999999);
}

static int wait_nanosleep(void)
{
    struct timespec left;

    return nanosleep(&a_moment, &left);
}

static int wait_clock(void)
{
    struct timespec left;

    errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &a_moment, &left);
    return errno ? -1 : 0;
}

static int wait_clock_until(void)
{
    struct timespec time;

    (void)clock_gettime(CLOCK_MONOTONIC, &time);
    time.tv_sec++;
    errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
    return errno ? -1 : 0;
}

/* For the signal of the program itself both end with EINTR, so its handler tells that it came. */
static volatile sig_atomic_t awaited;
static atomic_bool awaits_signal;

static void note_awaited(int number)
{
    awaited = number;
}

static int wait_pause(void)
{
    atomic_store(&awaits_signal, true);
    (void)pause();
    errno = 0;
    return awaited == SIGUSR1 ? 0 : -2;
}

static int wait_sigsuspend(void)
{
    sigset_t one, none;

    sigemptyset(&none);
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    (void)pthread_sigmask(SIG_BLOCK, &one, NULL);
    atomic_store(&awaits_signal, true);
    (void)sigsuspend(&none);
    errno = 0;
    return awaited == SIGUSR1 ? 0 : -2;
}

typedef struct letter {
    long type;
    char text[1];
} letter;

static int wait_msgrcv(void)
{
    letter got;

    return (int)msgrcv(queue, &got, 1, 0, 0);
}

static struct sembuf down = {.sem_op = -1};

static int wait_semop(void)
{
    return semop(set, &down, 1);
}

static int wait_semtimedop(void)
{
    const struct timespec limit = {.tv_sec = LIMIT};

    return semtimedop(set, &down, 1, &limit);
}

static int wait_sem(void)
{
    return sem_wait(&semaphore);
}

static int wait_sem_limit(void)
{
    const struct timespec time = in_a_minute(CLOCK_REALTIME);

    return sem_timedwait(&semaphore, &time);
}

static bool is_signalled;

static int wait_cond(void)
{
    const struct timespec time = in_a_minute(CLOCK_REALTIME);

    (void)pthread_mutex_lock(&mutex);
    while (!is_signalled && !errno)
        errno = pthread_cond_timedwait(&condition, &mutex, &time);
    (void)pthread_mutex_unlock(&mutex);
    return errno ? -1 : 0;
}

static const struct {
    const char *name;
    int (*wait)(void);
} waits[] = {
    {"poll", wait_poll},
    {"poll-limit", wait_poll_limit},
    {"ppoll", wait_ppoll},
    {"select", wait_select},
    {"select-limit", wait_select_limit},
    {"pselect", wait_pselect},
    {"epoll", wait_epoll},
    {"epoll-limit", wait_epoll_limit},
    {"read", wait_read},
    {"receive", wait_receive},
    {"sleep", wait_sleep},
    {"usleep", wait_usleep},
    {"nanosleep", wait_nanosleep},
    {"clock", wait_clock},
    {"clock-until", wait_clock_until},
    {"pause", wait_pause},
    {"sigsuspend", wait_sigsuspend},
    {"msgrcv", wait_msgrcv},
    {"semop", wait_semop},
    {"semtimedop", wait_semtimedop},
    {"sem", wait_sem},
    {"sem-limit", wait_sem_limit},
    {"cond", wait_cond},
};

/* Queues and sets outlive a process that does not remove them. */
static void prepare_waits(bool with_lasting)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_handler = note_awaited;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK((epoll = epoll_create1(0)) >= 0);
    CHECK(sem_init(&semaphore, 0, 0) == 0);
    queue = with_lasting ? msgget(IPC_PRIVATE, 0600) : -1;
    set = with_lasting ? semget(IPC_PRIVATE, 1, 0600) : -1;
}

static void remove_waits(void)
{
    if (queue >= 0)
        (void)msgctl(queue, IPC_RMID, NULL);
    if (set >= 0)
        (void)semctl(set, 0, IPC_RMID);
}

/* End the wait in each way that may be meant. */
static void wake(void)
{
    const letter sent = {1, {0}};
    struct sembuf up = {.sem_op = 1};

    if (atomic_load(&awaits_signal))
        (void)kill(getpid(), SIGUSR1);
    CHECK(write(ends[1], "", 1) == 1);
    (void)sem_post(&semaphore);
    (void)pthread_mutex_lock(&mutex);
    is_signalled = true;
    (void)pthread_cond_signal(&condition);
    (void)pthread_mutex_unlock(&mutex);
    if (queue >= 0)
        (void)msgsnd(queue, &sent, 1, 0);
    if (set >= 0)
        (void)semop(set, &up, 1);
}

/* ---- The worker ------------------------------------------------------------------------------*/

static atomic_bool is_waiting;

/* Until the main thread sleeps, for half a second: the kernel says so twice. */
static void await_wait(void)
{
    char path[64], text[16];
    FILE *file;

    while (!atomic_load(&is_waiting))
        (void)usleep(1000);
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/syscall", (int)getpid());
    do {
        (void)usleep(50000);
        CHECK((file = fopen(path, "r")) != NULL);
        CHECK(fgets(text, sizeof text, file));
        (void)fclose(file);
    } while (!strncmp(text, "running", 7));
}

static volatile int *volatile nowhere =
    (volatile int *)16; /* UBSAN ends a process itself for NULL */

static void *crash(void *unused)
{
    await_wait();
    *nowhere = 1;
    return unused;
}

static void note_report(void *noted)
{
    atomic_store((atomic_bool *)noted, true);
}

static void *miss(void *unused)
{
    static atomic_bool is_reported;
    const stacksplice_deadline_options options = {
        sizeof options, NULL, STACKSPLICE_DEADLINE_NO_TEXT, note_report, &is_reported};
    stacksplice_deadline deadline;

    await_wait();
    CHECK(stacksplice_deadline_begin(0, &options, &deadline) == S_OK);
    while (!atomic_load(&is_reported))
        (void)usleep(1000);
    CHECK(stacksplice_deadline_end(deadline) == S_FALSE);
    wake();
    return unused;
}

/* ---- Handlers of the host, which run after ours ----------------------------------------------*/

static sigjmp_buf place;

static void jump(int number)
{
    siglongjmp(place, number);
}

/* It needs what the main thread has, who waits with it. */
static void take_and_exit(int number)
{
    (void)pthread_mutex_lock(&mutex);
    _exit(number);
}

static void handle_with(void (*handler)(int))
{
    CHECK(signal(SIGSEGV, handler) != SIG_ERR);
}

static void *recover(void *unused)
{
    await_wait();
    if (!sigsetjmp(place, 1))
        *nowhere = 1;
    wake();
    return unused;
}

/* ---- Ways ------------------------------------------------------------------------------------*/

static void install(void)
{
    const stacksplice_crash_options options = {sizeof options, NULL, 1000, 0};

    CHECK(stacksplice_install_crash_handler(&options) == S_OK);
}

static int wait_as(const char *name)
{
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++)
        if (!strcmp(waits[i].name, name)) {
            errno = 0;
            atomic_store(&is_waiting, true);
            return waits[i].wait();
        }
    exit(3);
}

static void wait_beside(void *(*worker)(void *), const char *name)
{
    pthread_t thread;
    sigset_t one;
    int result;

    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    (void)pthread_sigmask(SIG_BLOCK, &one, NULL);
    CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);
    (void)pthread_sigmask(SIG_UNBLOCK, &one, NULL);
    result = wait_as(name);
    printf("%s %d %s\n", name, result, result < 0 ? strerror(errno) : "-");
    remove_waits();
}

/* A thread that answers nothing, for a second: until its child ends. */
static void *start_child(void *unused)
{
    pid_t child = vfork();

    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int file = 0; file < 3; file++)
            (void)close(file);
        (void)usleep(5000000);
        _exit(0);
    }
    return unused;
}

/* Leaves by exit() while the report is written, and was never asked: it blocks all signals. */
static void exit_in_report(void)
{
    pthread_t thread;
    sigset_t all;

    install();
    CHECK(pthread_create(&thread, NULL, start_child, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, crash, NULL) == 0);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_BLOCK, &all, NULL);
    atomic_store(&is_waiting, true);
    (void)usleep(400000); /* the thread crashes after 50 ms, most likely */
}

static void *fail_fast(void *unused)
{
    await_wait();
    RoFailFastWithErrorContext(E_FAIL);
    return unused;
}

/* The same for a failure that asks nobody; standard error is not read for 5 seconds. */
static void exit_in_failure(void)
{
    pthread_t thread;

    CHECK(pthread_create(&thread, NULL, fail_fast, NULL) == 0);
    atomic_store(&is_waiting, true);
    (void)usleep(400000);
}

static void *pause_and_exit(void *unused)
{
    (void)pause();
    _exit(7);
    return unused;
}

/* More threads than have their stacks shown, each of which ends the process if its wait ends. */
static void crash_among_many(void)
{
    pthread_attr_t small;
    pthread_t thread;

    install();
    CHECK(pthread_attr_init(&small) == 0);
    CHECK(pthread_attr_setstacksize(&small, 64 << 10) == 0);
    for (int i = 0; i < 300; i++)
        CHECK(pthread_create(&thread, &small, pause_and_exit, NULL) == 0);
    (void)usleep(200000);
    *nowhere = 1;
}

/* Waits with a lock that the host's handler takes. */
static void wait_locked(void)
{
    (void)pthread_mutex_lock(&mutex);
    handle_with(take_and_exit);
    install();
    wait_beside(crash, "nanosleep");
    (void)pthread_mutex_unlock(&mutex);
    (void)pause();
}

int main(int count, char **arguments)
{
    const char *way = arguments[1], *name = count > 2 ? arguments[2] : "";

    if (SANITIZED)
        return 77; /* its waits are not those of the kernel */
    setvbuf(stdout, NULL, _IONBF, 0);
    prepare_waits(!strcmp(way, "deadline"));
    if (!strcmp(way, "exit")) {
        exit_in_report();
    } else if (!strcmp(way, "exit-failure")) {
        exit_in_failure();
    } else if (!strcmp(way, "many")) {
        crash_among_many();
    } else if (!strcmp(way, "lock")) {
        wait_locked();
    } else {
        if (!strcmp(way, "recover"))
            handle_with(jump);
        install();
        wait_beside(!strcmp(way, "crash") ? crash : !strcmp(way, "recover") ? recover : miss, name);
    }
    puts("went on");
    return 0;
}
