/*
 * The whole program stacksplice-inspect: a core file with its program, or what a debugger sends.
 *
 * Input: 'c' or 'C' (with local variables), the length of the program and its bytes, then the core
 * file; or another letter, then the debugger's lines and answers.
 */
#include "input.h"

#include <sys/mman.h>
#include <unistd.h>

#include "inspect_texts.h"

int ssi_main(int unused, char **arguments);
#define SSI_VERSION "of the fuzz target"
#define main ssi_main
#include "../../inspect/src/main.c"
#undef main

static int file_of(const uint8_t *bytes, size_t size, char path[32])
{
    int fd = memfd_create("input", MFD_CLOEXEC);

    ALWAYS(fd >= 0);
    for (ssize_t put = 0; size; size -= (size_t)put, bytes += put)
        ALWAYS((put = write(fd, bytes, size)) > 0);
    snprintf(path, 32, "/proc/self/fd/%d", fd);
    return fd;
}

/* What a core file names is not opened: no such folder is. */
static int read_core(input *in, bool with_locals)
{
    char core[32], program[32];
    size_t length = input_u32(in);
    char *arguments[] = {"inspect", "--core",        core, "--exe", program,
                         "--root",  "/proc/self/no", NULL, NULL};
    int files[2], status;

    length = length < in->left ? length : in->left;
    files[0] = file_of(in->at, length, program);
    files[1] = file_of(in->at + length, in->left - length, core);
    arguments[7] = with_locals ? "--locals" : NULL;
    status = ssi_main(7, arguments);
    (void)close(files[0]);
    (void)close(files[1]);
    return status;
}

/* The first line has the options, with blanks between. */
static int read_served(input *in)
{
    char line[256] = "", *arguments[16] = {"inspect", "--served"}, path[32], *rest = line;
    int count = 2, status = 2, file;

    for (size_t at = 0; in->left && *in->at != '\n' && at < sizeof line - 1; at++)
        input_bytes(in, &line[at], 1);
    while (count < 15 && (arguments[count] = strtok_r(rest, " ", &rest)))
        count++;
    arguments[count] = NULL;
    file = file_of(in->at, in->left, path);
    if (freopen(path, "r", stdin))
        status = ssi_main(count, arguments);
    (void)close(file);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    input in = {bytes, size};
    char kind;
    int status;

    if (!freopen("/dev/null", "w", stdout))
        return 0;
    input_bytes(&in, &kind, 1);
    status = kind == 'c' || kind == 'C' ? read_core(&in, kind == 'C') : read_served(&in);
    ALWAYS(status == 0 || status == 2);
    forget_texts();
    return 0;
}
