/*
 * Frames of files that are not loaded: the same as those of the process, over thousands of
 * addresses; refused files; damaged ones.
 */
#include "failing_allocator.h"

#include <stacksplice/debugger.h>
#include <stacksplice/winrt/winerror.h>

#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "instruments.h"
#include "random.h"
#include "support.h"

static const stacksplice_hresult missing = __HRESULT_FROM_WIN32(ERROR_FILE_NOT_FOUND),
                                 no_binary = __HRESULT_FROM_WIN32(ERROR_BAD_FORMAT),
                                 other_build = __HRESULT_FROM_WIN32(ERROR_INVALID_DATA);

/* Frames as text, one a line. */
typedef struct told {
    char text[8192];
    size_t length;
    uint64_t offset;
    char build_id[130], module[4096];
    int stop;
} told;

static int tell(const stacksplice_frame *frame, void *data)
{
    told *t = data;
    uint64_t from_start = frame->function ? frame->function_offset : 0; /* see compare */
    int length;

    if (frame->kind != STACKSPLICE_FRAME_NATIVE)
        return 0;
    length = snprintf(t->text + t->length, sizeof t->text - t->length, "%s+%llu %s:%u:%u%s\n",
                      frame->function ? frame->function : "?", (unsigned long long)from_start,
                      frame->file ? frame->file : "?", frame->line, frame->column,
                      frame->inlined ? " inlined" : "");
    t->length = t->length + (size_t)length < sizeof t->text ? t->length + (size_t)length
                                                            : sizeof t->text - 1;
    t->offset = frame->module_offset;
    snprintf(t->build_id, sizeof t->build_id, "%s", frame->build_id ? frame->build_id : "");
    snprintf(t->module, sizeof t->module, "%s", frame->module ? frame->module : "");
    return t->stop;
}

static stacksplice_hresult in_file(const char *path, const char *build_id, uint64_t offset, told *t)
{
    memset(t, 0, sizeof *t);
    return stacksplice_resolve_file(path, build_id, offset, tell, t);
}

static void in_process(uintptr_t address, told *t)
{
    memset(t, 0, sizeof *t);
    assert_int_equal(stacksplice_resolve(address, tell, t), S_OK);
}

#ifdef HAVE_LIBDW

/* The path of this program. */
static const char *own(void)
{
    static told t;

    in_process((uintptr_t)in_process + 1, &t);
    return t.module;
}

/* ---- The same answers ------------------------------------------------------------------------*/

enum { SAMPLES = 400 }; /* of each segment with code */

typedef struct tally {
    unsigned modules, addresses, lines, inlined;
} tally;

/*
 * Compare one address.  One difference is meant: for a function without a name the process knows
 * its start from the unwind data, which no report shows.
 */
static void compare(uintptr_t address, tally *sum)
{
    static told live, saved;

    in_process(address, &live);
    if (!*live.module || access(live.module, R_OK))
        return; /* the kernel's */
    assert_int_equal(in_file(live.module, live.build_id, live.offset, &saved), S_OK);
    assert_string_equal(saved.text, live.text);
    assert_string_equal(saved.module, live.module);
    assert_string_equal(saved.build_id, live.build_id);
    assert_true(saved.offset == live.offset);
    sum->addresses++;
    sum->lines += strstr(saved.text, "?:0:0") == NULL;
    sum->inlined += strstr(saved.text, " inlined") != NULL;
}

static void compare_module(const struct dl_phdr_info *info, tally *sum)
{
    sum->modules++;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        uintptr_t start = info->dlpi_addr + segment->p_vaddr;

        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) || !segment->p_memsz)
            continue;
        for (int n = 0; n < (UNDER_VALGRIND ? SAMPLES / 10 : SAMPLES); n++)
            compare(start + 1 + next_random((uint32_t)segment->p_memsz), sum);
    }
}

typedef struct modules {
    int count;
    struct dl_phdr_info infos[16];
} modules;

static int note_module(struct dl_phdr_info *info, size_t size, void *data)
{
    modules *all = data;

    (void)size;
    if (all->count < (int)COUNT_OF(all->infos))
        all->infos[all->count++] = *info;
    return 0;
}

TEST(test_answers_are_those_of_the_process)
{
    static modules all;
    static told t;
    tally sum = {0};

    (void)in_file(own(), NULL, 1, &t); /* loads libdw and a C++ run-time, so that both are listed */
    (void)dl_iterate_phdr(note_module, &all); /* looking up takes the loader's lock */
    for (int n = 0; n < all.count; n++)
        compare_module(&all.infos[n], &sum);
    printf("%u addresses in %u modules: %u with lines, %u inlined\n", sum.addresses, sum.modules,
           sum.lines, sum.inlined);
    assert_true(sum.modules >= 3 && sum.addresses >= 3 * SAMPLES / 10);
    assert_true(sum.lines >= SAMPLES / 10 && sum.inlined >= 1);
}

TEST(test_more_files_than_are_kept_open_and_the_first_again)
{
    static told before, after, other;
    char path[] = "/tmp/resolve_file_XXXXXX", command[4200];

    in_process((uintptr_t)in_file + 1, &before);
    assert_non_null(mkdtemp(path));
    for (int i = 0; i < 40; i++) {
        snprintf(command, sizeof command, "cp '%s' %s/%d", own(), path, i);
        assert_int_equal(system(command), 0);
        snprintf(command, sizeof command, "%s/%d", path, i);
        assert_int_equal(in_file(command, NULL, 0x1200, &other), S_OK);
        assert_int_equal(in_file(before.module, before.build_id, before.offset, &after), S_OK);
        assert_string_equal(after.text, before.text);
    }
    snprintf(command, sizeof command, "rm -r %s", path);
    assert_int_equal(system(command), 0);
}

TEST(test_a_callback_stops_it)
{
    told t = {.stop = 1};

    assert_int_equal(stacksplice_resolve_file(own(), NULL, 0x1200, tell, &t), S_FALSE);
}

TEST(test_a_symbol_alone_has_no_line)
{
    static told whole, brief;

    in_process((uintptr_t)in_file + 1, &whole);
    assert_non_null(strstr(whole.text, "resolve_file_test.c:"));
    memset(&brief, 0, sizeof brief);
    assert_int_equal(
        stacksplice_resolve_symbol(whole.module, whole.build_id, whole.offset, tell, &brief), S_OK);
    assert_string_equal(brief.text, "in_file+1 ?:0:0\n");
    assert_true(brief.offset == whole.offset);
    assert_int_equal(stacksplice_resolve_symbol("/nonexistent", NULL, 1, tell, &brief), missing);
    assert_int_equal(stacksplice_resolve_symbol(whole.module, NULL, 1, NULL, NULL), E_POINTER);
}

TEST(test_a_symbol_alone_where_there_is_none)
{
    static told t;

    assert_int_equal(stacksplice_resolve_symbol(own(), NULL, UINT64_C(1) << 40, tell, &t), S_OK);
    assert_string_equal(t.text, "?+0 ?:0:0\n");
}

/* ---- Refused ---------------------------------------------------------------------------------*/

TEST(test_refused_files)
{
    static told t;
    char *long_path = malloc(5000);

    assert_non_null(long_path);
    memset(long_path, 'a', 4999);
    long_path[4999] = 0;
    assert_int_equal(in_file(own(), NULL, 0, &t), E_INVALIDARG);
    assert_int_equal(in_file(long_path, NULL, 1, &t), E_INVALIDARG);
    assert_int_equal(in_file(own(), long_path, 1, &t), E_INVALIDARG);
    assert_int_equal(in_file(NULL, NULL, 1, &t), E_POINTER);
    assert_int_equal(stacksplice_resolve_file(own(), NULL, 1, NULL, NULL), E_POINTER);
    assert_int_equal(in_file("/nonexistent", NULL, 1, &t), missing);
    assert_int_equal(in_file("", NULL, 1, &t), missing);
    assert_int_equal(in_file("/tmp", NULL, 1, &t), missing);
    assert_int_equal(in_file("/dev/null", NULL, 1, &t), missing);
    assert_int_equal(in_file(__FILE__, NULL, 1, &t), no_binary);
    assert_int_equal(in_file(own(), "0123456789abcdef", 1, &t), other_build);
    assert_int_equal(t.length, 0);
    free(long_path);
}

TEST(test_an_offset_behind_the_file_has_no_name)
{
    static told t;

    assert_int_equal(in_file(own(), NULL, UINT64_C(1) << 40, &t), S_OK);
    assert_string_equal(t.text, "?+0 ?:0:0\n");
    assert_int_equal(in_file(own(), NULL, UINT64_MAX, &t), S_OK);
    assert_string_equal(t.text, "?+0 ?:0:0\n");
}

/* ---- Damaged ---------------------------------------------------------------------------------*/

enum { DAMAGED = 400 };

static char *read_own(size_t *size)
{
    FILE *file = fopen(own(), "rb");
    char *bytes;

    assert_non_null(file);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    bytes = malloc(*size);
    assert_non_null(bytes);
    assert_int_equal(fread(bytes, 1, *size, file), *size);
    fclose(file);
    return bytes;
}

static void write_damaged(const char *path, char *bytes, size_t size, unsigned kind)
{
    FILE *file = fopen(path, "wb");

    assert_non_null(file);
    if (kind % 3 == 0)
        size = next_random((uint32_t)size);
    for (unsigned i = 0; kind % 3 && size && i < 1u << kind % 7; i++) /* header, or anywhere */
        bytes[next_random(kind % 3 == 1 ? 1024 : (uint32_t)size)] ^= (char)(1u << next_random(8));
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

TEST(test_damaged_files_are_refused_or_read_in_part)
{
    static told t;
    char path[] = "/tmp/resolve_file_XXXXXX";
    unsigned refused = 0;

    close(mkstemp(path));
    for (unsigned i = 0; i < (UNDER_VALGRIND ? DAMAGED / 10 : DAMAGED); i++) {
        size_t size;
        char *bytes = read_own(&size);

        write_damaged(path, bytes, size, i);
        free(bytes);
        for (uint64_t offset = 1; offset < size; offset += size / 8) {
            stacksplice_hresult hr = in_file(path, NULL, offset, &t);

            assert_true(hr == S_OK || hr == no_binary);
            refused += hr == no_binary;
        }
    }
    unlink(path);
    assert_true(refused > 0);
}

/* ---- Memory ----------------------------------------------------------------------------------*/

static int set_up(void **state)
{
    (void)state;
    return memory_use();
}

TEST(test_without_memory_it_says_so_and_answers_later)
{
    static told t;
    unsigned failed = 0;

    for (long nth = 1; nth <= 6; nth++) {
        stacksplice_hresult hr;

        memory_arm(nth);
        hr = in_file(own(), NULL, 0x1100 + (uint64_t)nth, &t);
        memory_disarm();
        assert_true(hr == S_OK || hr == E_OUTOFMEMORY);
        failed += hr == E_OUTOFMEMORY;
        assert_int_equal(in_file(own(), NULL, 0x1100 + (uint64_t)nth, &t), S_OK);
    }
    assert_true(failed >= 2);
}

GROUP(set_up, NULL)

#else

TEST(test_a_build_without_libdw_says_so)
{
    static told t;

    (void)missing, (void)no_binary, (void)other_build, (void)in_process;
    assert_int_equal(in_file("/nonexistent", NULL, 1, &t),
                     __HRESULT_FROM_WIN32(ERROR_MOD_NOT_FOUND));
    assert_non_null(stacksplice_lines_missing());
}

#endif
