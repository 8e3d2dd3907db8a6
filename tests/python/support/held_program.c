/*
 * A thread that nobody can interrupt: it waits for the child of its vfork, which waits for a line
 * on standard input.  It then prints "on".  Another thread has a stack too long for a pipe.
 */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

enum { FRAMES = 2000 };

static void *hold(void *unused)
{
    char byte;

    if (!vfork()) {
        (void)!write(1, "held\n", 5);
        (void)!read(0, &byte, 1);
        _exit(0);
    }
    puts("on");
    fflush(stdout);
    return unused;
}

static volatile int depth;

__attribute__((noinline)) static void fall(int n)
{
    pthread_t thread;

    if (n)
        fall(n - 1);
    else if (!pthread_create(&thread, NULL, hold, NULL))
        pause();
    depth = n;
}

int main(void)
{
    fall(FRAMES);
    return 0;
}
