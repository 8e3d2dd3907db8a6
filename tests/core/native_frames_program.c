/*
 * native_frames_program COMMAND...: runs COMMAND if the library knows native frames; else says that
 * it does not and ends with 77, ctest's word for a test that was skipped.
 */
#include "frames.h"

#include <unistd.h>

int main(int argc, char **argv)
{
    if (!has_native_frames()) {
        puts("skipped: native frames not supported on this platform");
        return 77;
    }
    if (argc > 1)
        (void)execvp(argv[1], argv + 1);
    perror("native_frames_program");
    return 1;
}
