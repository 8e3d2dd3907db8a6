/* What a dying process writes to stderr, and its report file, schema "stacksplice-report/1":
   docs/reference/json.md describes it. */
#include "crash/crash.h"

#include "base/thread.h"
#include "report/visit.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* ---- Output ----------------------------------------------------------------------------------*/

enum { STDERR_PATIENCE_MS = 5000 };

int ss_crash_stderr = STDERR_FILENO;

/*
 * Whether the reader of stderr takes PIPE_BUF bytes.  A pipe that nobody reads would hold a process
 * that crashes for ever.  A reader that was too slow once is not waited for again.
 */
static bool is_read(void)
{
    static atomic_bool was_too_slow; /* (ATOMIC) */
    struct pollfd stderr_now = {.fd = ss_crash_stderr, .events = POLLOUT};
    int ready;

    do
        ready = poll(&stderr_now, 1, atomic_load(&was_too_slow) ? 0 : STDERR_PATIENCE_MS);
    while (ready < 0 && errno == EINTR);
    atomic_store(&was_too_slow, ready == 0);
    return ready != 0;
}

/* Descriptors that leak are a frequent reason for the end of a process. */
int ss_crash_open(const char *path, int flags)
{
    int file = open(path, flags, 0600), error = errno;
    struct rlimit limit, higher;

    if (file >= 0 || error != EMFILE || getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return file;
    higher = limit;
    higher.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &higher) == 0) {
        file = open(path, flags, 0600);
        error = errno;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
    errno = error;
    return file;
}

int ss_crash_write(const char *text, size_t length, void *data)
{
    const int *file = data;

    while (length) {
        ssize_t done;

        if (file == &ss_crash_stderr && !is_read())
            return 1;
        done = write(*file, text, length < PIPE_BUF ? length : PIPE_BUF);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return 1;
        text += done;
        length -= (size_t)done;
    }
    return 0;
}

/* ---- The report file -------------------------------------------------------------------------*/

enum { NAMES_TRIED = 10 };

static char path[SS_BINARY_PATH_MAX];
static char text[SS_BINARY_PATH_MAX];
static struct utsname machine;
static ss_writer file_writer;

/* ---- Time ------------------------------------------------------------------------------------*/

static char *put_digits(char *at, unsigned value, unsigned digits)
{
    for (unsigned i = digits; i--; value /= 10)
        at[i] = (char)('0' + value % 10);
    return at + digits;
}

/*
 * "20240229T235959Z", or with separators "2024-02-29T23:59:59Z", in UTC.  Avoids gmtime_r, which
 * takes the time zone's lock and may read files.
 */
static void put_time(int64_t seconds, bool separators, char out[21])
{
    int64_t days = seconds / 86400;
    unsigned of_day = (unsigned)(seconds % 86400);
    /*
     * Count years from March, so that the leap day is the last day of a year, in eras of 400 years,
     * which all have the same number of days.
     */
    int64_t shifted = days + 719468, era = shifted / 146097;
    unsigned of_era = (unsigned)(shifted % 146097);
    unsigned year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    unsigned of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    unsigned from_march = (5 * of_year + 2) / 153;
    unsigned day = of_year - (153 * from_march + 2) / 5 + 1;
    unsigned month = from_march < 10 ? from_march + 3 : from_march - 9;
    unsigned year = (unsigned)(era * 400) + year_of_era + (month <= 2);
    const unsigned parts[] = {year, month, day, of_day / 3600, of_day / 60 % 60, of_day % 60};

    for (unsigned i = 0; i < SS_COUNT_OF(parts); i++) {
        if (i == 3)
            *out++ = 'T';
        else if (i && separators)
            *out++ = i < 3 ? '-' : ':';
        out = put_digits(out, parts[i], i ? 2 : 4);
    }
    *out++ = 'Z';
    *out = 0;
}

/* ---- The file --------------------------------------------------------------------------------*/

static bool make_path(const char *directory, const struct timespec *now)
{
    ss_kept_text kept = {path, sizeof path, 0};
    uint64_t random; /* keeps others from creating the names first */
    char stamp[21];

    /* If the kernel has no random numbers yet, the nanoseconds must do. */
    if (getrandom(&random, sizeof random, GRND_NONBLOCK) != (ssize_t)sizeof random)
        random = (uint64_t)now->tv_nsec;
    put_time(now->tv_sec, false, stamp);
    ss_writer_init(&file_writer, ss_writer_keep, &kept);
    ss_writer_text(&file_writer, directory);
    ss_writer_text(&file_writer, "/stacksplice-");
    ss_writer_decimal(&file_writer, (uint64_t)getpid());
    ss_writer_text(&file_writer, "-");
    ss_writer_text(&file_writer, stamp);
    ss_writer_text(&file_writer, "-");
    ss_writer_hex(&file_writer, random, 16);
    ss_writer_text(&file_writer, ".json");
    return ss_writer_finish(&file_writer);
}

static const char *report_directory(const ss_crash_more *more)
{
    const char *directory =
        more && more->directory ? more->directory : secure_getenv("STACKSPLICE_REPORT_DIR");

    if (directory)
        return directory;
    directory = secure_getenv("TMPDIR");
    return directory && *directory ? directory : "/tmp";
}

/* Create a new file that no other report uses, or return -1; never follows an existing link. */
static int create(const char *directory, struct timespec *now)
{
    int file = -1;

    errno = ENAMETOOLONG;
    for (unsigned i = 0; file < 0 && i < NAMES_TRIED; i++) {
        clock_gettime(CLOCK_REALTIME, now);
        if (!make_path(directory, now))
            return -1;
        file = ss_crash_open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW);
        if (file < 0 && errno != EEXIST)
            return -1;
    }
    return file;
}

/* ---- Contents --------------------------------------------------------------------------------*/

static void put_link(ss_emit *e, const char *key, const char *link)
{
    ssize_t length = readlink(link, text, sizeof text - 1);

    text[length > 0 ? length : 0] = 0;
    ss_emit_text(e, key, length > 0 ? text : NULL);
}

/* Omit the environment and the command line: both may hold secrets. */
static void put_header(ss_emit *e, const char *event, const ss_crash_more *more, int64_t now)
{
    char stamp[21];

    put_time(now, true, stamp);
    ss_emit_begin(e, "header", STACKSPLICE_OBJECT);
    ss_emit_text(e, "event", event);
    ss_emit_text(e, "time", stamp);
    ss_emit_integer(e, "pid", getpid());
    ss_emit_integer(e, "thread_id", (int64_t)ss_thread_id());
    put_link(e, "process", "/proc/self/exe");
    put_link(e, "cwd", "/proc/self/cwd");
    ss_emit_text(e, "core_version", stacksplice_version());
    if (!uname(&machine)) {
        ss_emit_text(e, "host", machine.nodename);
        ss_emit_text(e, "arch", machine.machine);
        ss_emit_text(e, "platform", machine.sysname);
        ss_emit_text(e, "platform_release", machine.release);
    }
    if (more)
        more->put_header(e);
    ss_emit_end(e, STACKSPLICE_OBJECT);
}

static bool put_module(const ss_binary *binary, void *data)
{
    ss_emit *e = data;

    ss_emit_begin(e, NULL, STACKSPLICE_OBJECT);
    ss_emit_text(e, "path", binary->path);
    ss_emit_text(e, "build_id", *binary->build_id ? binary->build_id : NULL);
    ss_emit_hex(e, "start", binary->start, 1);
    ss_emit_hex(e, "end", binary->end, 1);
    ss_emit_end(e, STACKSPLICE_OBJECT);
    return !e->stopped;
}

static bool put_report(int file, const ss_facts *facts, const char *event,
                       const ss_crash_more *more, int64_t now, ss_binary *scratch)
{
    ss_report report = {.w = &file_writer,
                        .all_frames = true,
                        .crashed_at = more ? more->crashed_at : 0,
                        .failfast = scratch};
    ss_json json;
    ss_emit e = {&json.visitor, false};

    ss_writer_init(&file_writer, ss_crash_write, &file);
    ss_json_init(&json, &file_writer, true);
    ss_emit_begin(&e, NULL, STACKSPLICE_OBJECT);
    ss_emit_text(&e, "schema", SS_SCHEMA_FILE);
    put_header(&e, event, more, now);
    ss_visit_error(&report, &e, "error", facts, NULL, 0);
    if (more)
        more->put_members(&report, &e);
    ss_emit_begin(&e, "modules", STACKSPLICE_ARRAY);
    if (!more || !more->without_modules)
        (void)ss_binary_each(scratch, SS_LOADER_LONG, put_module, &e);
    ss_emit_end(&e, STACKSPLICE_ARRAY);
    ss_emit_end(&e, STACKSPLICE_OBJECT);
    ss_writer_text(&file_writer, "\n");
    return ss_writer_finish(&file_writer);
}

/* strerror may allocate, and takes the locale's lock. */
static const char *meaning(int error)
{
    switch (error) {
    case ENOENT:
        return "there is no such folder; ";
    case ENOTDIR:
        return "that is no folder; ";
    case EACCES:
    case EPERM:
    case EROFS:
        return "this process may not write there; ";
    case ENOSPC:
    case EDQUOT:
        return "no space is left; ";
    case EMFILE:
    case ENFILE:
        return "too many files are open; ";
    default:
        return "";
    }
}

static void begin_failure(ss_writer *out, const char *directory)
{
    ss_writer_text(out, "stacksplice: no report file in ");
    ss_writer_utf8(out, directory, strlen(directory), SS_ESCAPE_LINE);
    ss_writer_text(out, ": ");
}

void ss_crash_write_file(const ss_facts *facts, const char *event, const ss_crash_more *more,
                         ss_binary *scratch, ss_writer *stderr_writer)
{
    const char *directory = report_directory(more);
    struct timespec now;
    bool complete, has_nothing;
    int file, error;

    if (!*directory) {
        ss_writer_text(stderr_writer,
                       more && more->directory
                           ? "stacksplice: no report file: its folder is empty\n"
                           : "stacksplice: no report file: STACKSPLICE_REPORT_DIR is empty\n");
        return;
    }
    file = create(directory, &now);
    if (file < 0) {
        error = errno;
        begin_failure(stderr_writer, directory);
        ss_writer_text(stderr_writer, meaning(error));
        ss_writer_text(stderr_writer, "errno ");
        ss_writer_decimal(stderr_writer, (uint64_t)error);
        ss_writer_text(stderr_writer, "\n");
        return;
    }
    complete = put_report(file, facts, event, more, now.tv_sec, scratch);
    has_nothing = !complete && lseek(file, 0, SEEK_CUR) == 0;
    if (close(file))
        complete = false;
    if (has_nothing && unlink(path) == 0) {
        begin_failure(stderr_writer, directory);
        ss_writer_text(stderr_writer, "nothing can be written to it\n");
        return;
    }
    ss_writer_text(stderr_writer,
                   complete ? "stacksplice: report file " : "stacksplice: incomplete report file ");
    ss_writer_utf8(stderr_writer, path, strlen(path), SS_ESCAPE_LINE);
    ss_writer_text(stderr_writer, "\n");
}
