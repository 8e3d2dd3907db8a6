/* An address means what it meant when its stack was captured: plugins that were unloaded since. */
#include "error_test.h"
#include "frames.h"
#include "instruments.h"
#include "libraries.h"
#include "text.h"

#include <stacksplice/source.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROOM = 600, TEXT = 1 << 16 };

typedef int (*entry_function)(int (*f)(void *), void *data);

static void *load(const char *path, entry_function *entry)
{
    void *library = open_library(path);

    (void)find_in(library, "plugin_entry", entry);
    return library;
}

static void unload(void *library, const char *path)
{
    assert_int_equal(dlclose(library), 0);
    assert_null(dlopen(path, RTLD_NOW | RTLD_NOLOAD));
}

static const char *report(IRestrictedErrorInfo *error, stacksplice_format_kind kind)
{
    static char text[TEXT];

    *text = 0;
    assert_int_equal(stacksplice_format(UNKNOWN(error), kind, NULL, append, text), S_OK);
    return text;
}

static int originate(void *data)
{
    (void)data;
    return RoOriginateErrorW(E_FAIL, 0, NULL) ? 1 : 0;
}

static int propagate(void *data)
{
    (void)data;
    (void)stacksplice_propagate(E_FAIL, NULL);
    return 1;
}

/* The element of STACK that is in the plugin whose entry is ENTRY. */
static uintptr_t in_plugin(entry_function entry, const uintptr_t *frames, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (frames[i] - (uintptr_t)entry + 256 < 512)
            return frames[i];
    return 0;
}

typedef struct seen {
    bool first, second, is_module_known;
    uint64_t offset;
} seen;

static int look(const stacksplice_frame *frame, void *data)
{
    seen *s = data;

    s->first |= frame->function && strstr(frame->function, "plugin_first");
    s->second |= frame->function && strstr(frame->function, "plugin_second");
    if (frame->module && strstr(frame->module, "unloaded_first")) {
        s->is_module_known = true;
        if (!s->offset)
            s->offset = frame->module_offset;
    }
    s->second |= frame->module && strstr(frame->module, "unloaded_second");
    return 0;
}

static seen look_at(const uintptr_t *frames, uint32_t count)
{
    seen s = {0};

    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(stacksplice_resolve(frames[i], look, &s), S_OK);
    return s;
}

static seen look_at_error(void *error)
{
    uintptr_t frames[ROOM];
    uint32_t count = 0;

    assert_int_equal(stacksplice_error_stack(UNKNOWN(error), ROOM, frames, &count), S_OK);
    return look_at(frames, count);
}

static const struct plugin {
    const char *path, *other;
    bool has_build_id;
} plugins[] = {{FIRST_LIBRARY, SECOND_LIBRARY, true},
               {BARE_FIRST_LIBRARY, BARE_SECOND_LIBRARY, false}};

/* Whether the names of unloaded code can be had: its file is known by its build-id. */
static bool has_names(const struct plugin *plugin)
{
#ifdef HAVE_LIBDW
    return plugin->has_build_id;
#else
    (void)plugin;
    return false;
#endif
}

static void skip_without_unloads(void)
{
    NEEDS_NATIVE_FRAMES();
#ifndef __GLIBC__
    SKIP("this C library unloads nothing");
#endif
}

static void *hold_error(entry_function entry)
{
    entry(originate, NULL);
    return take();
}

static void *hold_node(entry_function entry)
{
    IRestrictedErrorInfo *error;
    void *node;

    originate(NULL);
    entry(propagate, NULL);
    error = take();
    node = head_of(error);
    release(error);
    return node;
}

static void check_error(IRestrictedErrorInfo *error, const struct plugin *plugin,
                        const char fingerprint[33])
{
    static const stacksplice_format_kind kinds[] = {
        STACKSPLICE_FORMAT_TEXT, STACKSPLICE_FORMAT_JSON, STACKSPLICE_FORMAT_SENTRY};
    char now[33];

    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        const char *text = report(error, kinds[i]);

        assert_null(strstr(text, "_second"));
        assert_true(kinds[i] == STACKSPLICE_FORMAT_SENTRY || strstr(text, "unloaded_first"));
    }
    assert_int_equal(stacksplice_fingerprint(UNKNOWN(error), now), S_OK);
    if (*fingerprint && has_names(plugin))
        assert_string_equal(now, fingerprint);
}

/* With IS_ASKED, what is held is read before the unload and after it, and else by nobody before the
   next plugin came; with IS_LATER, that one fails, too. */
static void keep(const struct plugin *plugin, void *(*hold)(entry_function), bool is_asked,
                 bool is_later)
{
    entry_function entry;
    void *library = load(plugin->path, &entry);
    void *held = hold(entry);
    char fingerprint[33] = "";
    seen before = {0}, s;

    if (is_asked) {
        before = look_at_error(held);
        assert_true(before.is_module_known);
        if (hold == hold_error)
            assert_int_equal(stacksplice_fingerprint(held, fingerprint), S_OK);
    }
    unload(library, plugin->path);
    if (is_asked) {
        s = look_at_error(held);
        assert_true(s.is_module_known);
        assert_int_equal(s.offset, before.offset);
    }
    library = load(plugin->other, &entry);
    if (is_later) {
        IRestrictedErrorInfo *later = hold_error(entry);

        s = look_at_error(later);
        assert_true(s.second);
        assert_false(s.first || s.is_module_known);
        release(later);
    }
    s = look_at_error(held);
    assert_true(s.is_module_known);
    assert_false(s.second);
    assert_int_equal(s.first, has_names(plugin));
    if (is_asked)
        assert_int_equal(s.offset, before.offset);
    if (hold == hold_error)
        check_error(held, plugin, fingerprint);
    release(held);
    dlclose(library);
}

FRESH_TEST(test_errors_and_nodes_keep_the_modules_of_their_frames)
{
    skip_without_unloads();
    for (size_t i = 0; i < COUNT_OF(plugins); i++)
        for (int way = 0; way < 4; way++) {
            keep(&plugins[i], hold_error, way & 1, way & 2);
            keep(&plugins[i], hold_node, way & 1, way & 2);
        }
}

/* As plug-ins of a server that are loaded for each request: more often than there are records. */
FRESH_TEST(test_a_library_that_comes_and_goes)
{
    entry_function entry, former = NULL;
    IRestrictedErrorInfo *error;
    int moved = 0;
    void *library;
    seen s = {0};

    skip_without_unloads();
    for (int round = 0; round < (UNDER_VALGRIND ? 20 : 4200); round++) {
        library = load(FIRST_LIBRARY, &entry);
        moved += entry != former;
        former = entry;
        (void)stacksplice_code_epoch();
        unload(library, FIRST_LIBRARY);
        (void)stacksplice_code_epoch();
        if (moved > 20)
            SKIP("the loader puts a library at ever new places, as under an emulator");
    }
    library = load(FIRST_LIBRARY, &entry);
    entry(originate, NULL);
    error = take();
    unload(library, FIRST_LIBRARY);
    s = look_at_error(error);
    assert_true(s.is_module_known);
    release(error);
}

/* ---- Stacks of others ------------------------------------------------------------------------*/

typedef struct captured {
    uintptr_t frames[ROOM];
    uint32_t count;
    uint64_t epoch;
} captured;

static int capture(void *data)
{
    captured *c = data;

    (void)stacksplice_capture(0, ROOM, c->frames, &c->count, NULL);
    c->epoch = stacksplice_code_epoch();
    return 1;
}

/* Frames of what stays have the addresses that they had, and what comes back is the same code. */
FRESH_TEST(test_settled_stack_keeps_its_modules)
{
    static const char *const next[] = {SECOND_LIBRARY, FIRST_LIBRARY};
    static captured c, before;

    skip_without_unloads();
    for (size_t i = 0; i < COUNT_OF(next); i++) {
        entry_function entry, again;
        void *library = load(FIRST_LIBRARY, &entry);
        uintptr_t address;
        seen s;

        entry(capture, &c);
        address = in_plugin(entry, c.frames, c.count);
        assert_true(address);
        c.epoch = stacksplice_settle(c.frames, c.count, c.epoch);
        assert_int_equal(in_plugin(entry, c.frames, c.count), address);
        before = c;
        unload(library, FIRST_LIBRARY);
        library = load(next[i], &again);
        c.epoch = stacksplice_settle(c.frames, c.count, c.epoch);
        for (uint32_t at = 0; at < c.count; at++)
            assert_true(c.frames[at] == before.frames[at] ||
                        in_plugin(entry, &before.frames[at], 1));
        s = look_at(c.frames, c.count);
        assert_true(s.is_module_known);
        assert_false(s.second);
        if (next[i] == next[1] && entry == again)
            assert_int_equal(in_plugin(entry, c.frames, c.count), address);
        assert_int_equal(dlclose(library), 0);
    }
    assert_int_equal(stacksplice_settle(NULL, 0, 1), 1);
}

/* Load the library at PATH, have the core see it, and unload it; returns where its entry was. */
static entry_function come_and_go(const char *path)
{
    entry_function entry;
    void *library = load(path, &entry);

    (void)stacksplice_code_epoch();
    unload(library, path);
    (void)stacksplice_code_epoch();
    return entry;
}

/* One address in stacks of three times: while FIRST was there, after that was gone, and after SECOND was, too.
   A library that comes back is the same code, so others come. */
FRESH_TEST(test_an_address_belongs_to_what_was_there_at_its_time)
{
    static captured c;
    entry_function entry, again;
    void *library = load(FIRST_LIBRARY, &entry);
    uintptr_t of_first, of_none[2];
    uint64_t then[2];
    seen s;

    skip_without_unloads();
    entry(capture, &c);
    of_first = in_plugin(entry, c.frames, c.count);
    unload(library, FIRST_LIBRARY);
    then[0] = stacksplice_code_epoch();
    of_none[0] = of_none[1] = of_first;
    again = come_and_go(SECOND_LIBRARY);
    then[1] = stacksplice_code_epoch();
    if (again != entry)
        SKIP("the loader puts the libraries apart");
    (void)come_and_go(BARE_SECOND_LIBRARY);

    (void)stacksplice_settle(&of_first, 1, c.epoch);
    s = look_at(&of_first, 1);
    assert_true(s.is_module_known);
    assert_false(s.second);
    for (int i = 0; i < 2; i++) {
        (void)stacksplice_settle(&of_none[i], 1, then[i]);
        s = look_at(&of_none[i], 1);
        assert_false(stacksplice_is_token(of_none[i]) || s.is_module_known || s.second);
    }
    library = load(BARE_FIRST_LIBRARY, &again);
    (void)come_and_go(BARE_SECOND_LIBRARY);
    (void)stacksplice_settle(of_none, 1, then[0]);
    s = look_at(of_none, 1);
    assert_true(again != entry || stacksplice_is_token(of_none[0]));
    assert_false(s.is_module_known || s.second);
    assert_int_equal(dlclose(library), 0);
}

/* The name that scripts had for a function ends with its code. */
FRESH_TEST(test_name_of_a_function_ends_with_its_code)
{
    entry_function first, second;
    void *library = load(FIRST_LIBRARY, &first);

    skip_without_unloads();
    assert_int_equal(stacksplice_name_function((uintptr_t)first, "toy", "first"), S_OK);
    assert_int_equal(stacksplice_name_function((uintptr_t)first, "toy", "other"), S_FALSE);
    unload(library, FIRST_LIBRARY);
    library = load(SECOND_LIBRARY, &second);
    if (first == second)
        assert_int_equal(stacksplice_name_function((uintptr_t)second, "toy", "second"), S_OK);
    assert_int_equal(dlclose(library), 0);
}

/* ---- Binaries that are replaced while they are loaded -----------------------------------------*/

#define REPLACED                                                                                 \
    "... no files and lines of C frames in binaries that were replaced on disk since they were " \
    "loaded\n"

#define EDITED "... no lines of files that were changed after their binary was built\n"

static void copy_file(const char *from, const char *to)
{
    static char bytes[1 << 20];
    FILE *file = fopen(from, "rb");
    size_t size;

    assert_non_null(file);
    size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(size && size < sizeof bytes);
    file = fopen(to, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

/* How the file PATH becomes another one; NEXT is that one. */
static void by_rename(const char *path, const char *next)
{
    assert_int_equal(rename(next, path), 0);
}

static void by_moving_away(const char *path, const char *next)
{
    char old[200];

    (void)snprintf(old, sizeof old, "%s.old", path);
    assert_int_equal(rename(path, old), 0);
    assert_int_equal(rename(next, path), 0);
    assert_int_equal(unlink(old), 0);
}

static void by_date(const char *path, const char *next)
{
    const struct timespec times[2] = {{0, UTIME_OMIT}, {1, 0}};

    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    assert_int_equal(unlink(next), 0);
}

static void not_at_all(const char *path, const char *next)
{
    (void)path;
    assert_int_equal(unlink(next), 0);
}

static const struct replacement {
    void (*replace)(const char *path, const char *next);
    bool has_build_id, is_same, is_met; /* an error came before */
} replacements[] = {
    {by_rename, true, false, false},     {by_rename, false, false, false},
    {by_rename, false, false, true},     {by_moving_away, false, false, false},
    {by_moving_away, true, false, true}, {by_date, false, false, true},
    {by_date, true, true, true}, /* a build-id tells that it is the same */
    {not_at_all, true, true, true},      {not_at_all, false, true, true},
};

static void replace_one(const struct replacement *r)
{
    const struct plugin *plugin = &plugins[!r->has_build_id];
    char folder[] = "/tmp/stacksplice-replaced-XXXXXX", path[100], next[100];
    const char *text;
    entry_function entry;
    IRestrictedErrorInfo *error;
    void *library;
    seen s;

    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/unloaded_first.so", folder);
    (void)snprintf(next, sizeof next, "%s/next.so", folder);
    copy_file(plugin->path, path);
    copy_file(plugin->other, next);
    library = load(path, &entry);
    if (r->is_met)
        (void)stacksplice_code_epoch();
    r->replace(path, next);
    entry(originate, NULL);
    error = take();
    s = look_at_error(error);
    assert_true(s.is_module_known);
    assert_false(s.second);
#ifdef HAVE_LIBDW
    assert_int_equal(s.first, r->is_same);
#endif
    text = report(error, STACKSPLICE_FORMAT_TEXT);
    assert_null(strstr(text, "plugin_second"));
#ifdef HAVE_LIBDW
    assert_int_equal(strstr(text, REPLACED) == NULL, r->is_same);
    assert_int_equal(strstr(text, "return f(data) + 1;") != NULL, r->replace == not_at_all);
    assert_int_equal(strstr(text, EDITED) != NULL, r->is_same && r->replace == by_date);
    assert_int_equal(strstr(report(error, STACKSPLICE_FORMAT_JSON), "f(data)") != NULL,
                     r->replace == not_at_all);
#endif
    release(error);
    assert_int_equal(dlclose(library), 0);
    assert_int_equal(unlink(path) | rmdir(folder), 0);
}

FRESH_TEST(test_replaced_binary_is_not_read)
{
    skip_without_unloads();
    for (size_t i = 0; i < COUNT_OF(replacements); i++)
        replace_one(&replacements[i]);
}
