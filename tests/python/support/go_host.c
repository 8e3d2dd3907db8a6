/*
 * go_host LIBRARY ORDER HOW: loads a library of Go "before" or "after" the crash handler, or before
 * it with "others_first"; its faults must stay its own.  HOW "crash": then C crashes, called from a
 * thread of Go's; "abort": here.
 */
#include <stacksplice/crash.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void install(uint32_t others_first)
{
    const stacksplice_crash_options options = {sizeof options, NULL, 0, others_first};

    (void)stacksplice_install_crash_handler(&options);
}

static __attribute__((noinline)) void crash(void)
{
    int *volatile nowhere = (int *)8;

    *nowhere = 1;
}

int main(int count, char **arguments)
{
    void *library;

    if (count != 4)
        return 2;
    if (!strcmp(arguments[2], "after"))
        install(0);
    library = dlopen(arguments[1], RTLD_NOW);
    if (!library)
        return 3;
    if (strcmp(arguments[2], "after"))
        install(!strcmp(arguments[2], "others_first"));
    printf("recovered %d", ((int (*)(void))dlsym(library, "Recovers"))());
    printf(" %d\n", ((int (*)(void))dlsym(library, "RecoversElsewhere"))());
    (void)fflush(stdout);
    if (!strcmp(arguments[3], "crash"))
        ((void (*)(void (*)(void)))dlsym(library, "CallElsewhere"))(crash);
    if (!strcmp(arguments[3], "abort"))
        abort();
    puts("end");
    return 0;
}
