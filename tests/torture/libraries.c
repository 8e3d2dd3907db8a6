/* Libraries that take turns at one address. */
#include "torture.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char *const originals[] = {TURN_SMALL, TURN_LARGE};
static char folder_name[200];
static unsigned copies;

static void copy_name(char *out, size_t size, unsigned which, unsigned thread)
{
    (void)snprintf(out, size, "%s/turn-%u-%u.so", folder_name, which, thread);
}

static void copy(const char *from, const char *to)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    char buffer[4096];
    size_t n;

    if (!in || !out)
        stop("%s cannot be copied to %s", from, to);
    while ((n = fread(buffer, 1, sizeof buffer, in)) > 0)
        if (fwrite(buffer, 1, n, out) != n)
            stop("%s cannot be written", to);
    (void)fclose(in);
    if (fclose(out) != 0)
        stop("%s cannot be written", to);
}

/* A file of its own for each thread, so that no thread keeps another one's library loaded. */
void library_begin(const char *folder, unsigned threads)
{
    char name[300];

    (void)snprintf(folder_name, sizeof folder_name, "%s", folder);
    copies = threads;
    for (unsigned which = 0; which < 2; which++)
        for (unsigned i = 1; i <= threads; i++) {
            copy_name(name, sizeof name, which, i);
            copy(originals[which], name);
        }
}

void library_end(void)
{
    char name[300];

    for (unsigned which = 0; which < 2; which++)
        for (unsigned i = 1; i <= copies; i++) {
            copy_name(name, sizeof name, which, i);
            (void)unlink(name);
        }
}

static NODE void leaf(void)
{
    journal_c(self, (uintptr_t)leaf, __builtin_frame_address(0));
    path_step(self);
    AFTER();
    self->depth--;
}

static NODE void call_library(worker *w, int (*turn)(void (*)(void)))
{
    journal_c(w, (uintptr_t)call_library, __builtin_frame_address(0));
    journal_c(w, (uintptr_t)turn, NULL);
    (void)turn(leaf);
    AFTER();
    w->depth -= 2;
}

void library_step(worker *w)
{
    int (*turn)(void (*)(void));
    char name[300];
    void *library, *symbol;

    copy_name(name, sizeof name, draw(w, 2), w->number);
    library = dlopen(name, RTLD_NOW);
    if (!library)
        stop("%s", dlerror());
    symbol = dlsym(library, "turn");
    memcpy(&turn, &symbol, sizeof turn);
    call_library(w, turn);
    loader_is_busy(true);
    (void)dlclose(library);
    loader_is_busy(false);
    w->libraries++;
}
