/*
 * The main program of a fuzz target in builds without libFuzzer: runs the target over files and
 * folders of inputs, so that what a fuzzer once found stays a test.
 */
#include "input.h"

#include <dirent.h>
#include <sys/stat.h>

static unsigned replayed;

static void replay_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    struct stat status;
    uint8_t *bytes;
    size_t size;

    if (!file || fstat(fileno(file), &status)) {
        perror(path);
        exit(1);
    }
    /* Of exactly this size, so that a sanitizer sees each read beyond it. */
    size = (size_t)status.st_size;
    bytes = malloc(size ? size : 1);
    ALWAYS(bytes && fread(bytes, 1, size, file) == size);
    (void)fclose(file);
    (void)LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
    replayed++;
}

static void replay_folder(const char *path)
{
    DIR *folder = opendir(path);
    struct dirent *entry;
    char name[4096];

    if (!folder) {
        replay_file(path);
        return;
    }
    while ((entry = readdir(folder)))
        if (entry->d_name[0] != '.') {
            ALWAYS((size_t)snprintf(name, sizeof name, "%s/%s", path, entry->d_name) < sizeof name);
            replay_file(name);
        }
    (void)closedir(folder);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        replay_folder(argv[i]);
    printf("%u inputs\n", replayed);
    return replayed ? 0 : 1;
}
