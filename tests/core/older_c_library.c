/*
 * For LD_PRELOAD: a C library without _dl_find_object, as before glibc 2.35, for those who look it
 * up.  All else that programs look up is found.
 */
#include <dlfcn.h>
#include <string.h>

typedef void *(*look_up)(void *handle, const char *name);

static look_up real;

/* dlsym has had two versions of its own. */
static __attribute__((constructor)) void begin(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};

    for (size_t i = 0; !real && i < sizeof versions / sizeof *versions; i++) {
        void *found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);

        memcpy(&real, &found, sizeof real);
    }
}

/* RTLD_NEXT asks who calls: so this is left by a jump, which the compiler's options see to. */
void *dlsym(void *restrict handle, const char *restrict name)
{
    if (!real)
        begin();
    return real(handle, strcmp(name, "_dl_find_object") == 0 ? "" : name);
}
