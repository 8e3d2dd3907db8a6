/* Tokens and function names. */
#include "splice/pool.h"
#include "frames.h"
#include "support.h"
#include "threads.h"

#include <stacksplice/script.h>
#include <stdlib.h>

static const stacksplice_token_info model = {SCRIPT_TOKEN, .language = "lua", .function = "f",
                                             .file = "a.lua", .line = 1};

static uintptr_t intern(const stacksplice_token_info *info)
{
    uintptr_t token = 0;

    assert_int_equal(stacksplice_intern(info, &token), S_OK);
    return token;
}

/* What TOKEN stands for, until the next call; NULL when it is not known. */
static const stacksplice_token_info *look(uintptr_t token)
{
    static stacksplice_token_info info;
    static char room[SS_TOKEN_ROOM];

    (void)ss_token_read(token, &info, room, sizeof room);
    return info.reason && strcmp(info.reason, "frame does not belong to this process") == 0 ? NULL
                                                                                            : &info;
}

TEST(test_token_same_content_same_token)
{
    char function[] = "f", file[] = "a.lua", language[] = "lua";
    stacksplice_token_info copy = model;
    uintptr_t token = intern(&model);
    const stacksplice_token_info *info;

    copy.function = function;
    copy.file = file;
    copy.language = language;
    assert_true(intern(&copy) == token);
    info = look(token);
    assert_non_null(info);
    memset(function, 'x', 1); /* strings were copied */
    assert_string_equal(info->function, "f");
    assert_string_equal(info->file, "a.lua");
    assert_string_equal(info->language, "lua");
    assert_null(info->reason);
    assert_int_equal(info->line, 1);
}

TEST(test_token_every_member_counts)
{
    stacksplice_token_info variants[19];
    uintptr_t tokens[19];
    size_t n = 0;

    for (size_t i = 0; i < SS_COUNT_OF(variants); i++)
        variants[i] = model;
    variants[n++].language = "python";
    variants[n++].function = "g";
    variants[n++].function = NULL;
    variants[n++].function = "";
    variants[n++].file = "b.lua";
    variants[n++].file = NULL;
    variants[n++].line = 2;
    variants[n++].end_line = 1;
    variants[n++].column = 1;
    variants[n++].end_column = 1;
    variants[n++].trust = STACKSPLICE_TRUST_INFERRED;
    variants[n++].trust = STACKSPLICE_TRUST_TRACEBACK;
    variants[n++].interpreter = "sub";
    variants[n++].calls = "h";
    variants[n++].chunk = 1;
    variants[n++].reason = "r";
    variants[n].reason = "r";
    variants[n++].kind = STACKSPLICE_FRAME_GAP;
    variants[n++].asynchronous = 1;
    n++; /* the model itself */
    assert_int_equal(n, SS_COUNT_OF(variants));
    for (size_t i = 0; i < n; i++)
        tokens[i] = intern(&variants[i]);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++)
            assert_true(tokens[i] != tokens[j]);
}

TEST(test_token_is_no_address)
{
    uintptr_t token = intern(&model);

    assert_true(token >> 48 == 0x5353);
    assert_true(token % 16 == 8);
    assert_true(ss_token_is(token));
    assert_false(ss_token_is(token - 1));
    assert_false(ss_token_is((uintptr_t)&token));
    assert_false(ss_token_is(0));
    assert_true(ss_token_is(SS_TOKEN_BASE + 16 * (uintptr_t)0xfffffff + 8));
    assert_null(look(SS_TOKEN_BASE + 16 * (uintptr_t)0xfffffff + 8));
    assert_null(look(SS_TOKEN_BASE + 16 * (uintptr_t)0x3ffffff0000 + 8));
    assert_null(look((uintptr_t)&token));
}

TEST(test_token_refuses_bad_arguments)
{
    stacksplice_token_info info = model;
    uintptr_t token = 77;

    assert_int_equal(stacksplice_intern(NULL, &token), E_POINTER);
    assert_int_equal(stacksplice_intern(&model, NULL), E_POINTER);
    info.language = NULL;
    assert_int_equal(stacksplice_intern(&info, &token), E_POINTER);
    info = model;
    info.size = 8;
    assert_int_equal(stacksplice_intern(&info, &token), E_INVALIDARG);
    info = model;
    info.kind = STACKSPLICE_FRAME_NATIVE;
    assert_int_equal(stacksplice_intern(&info, &token), E_INVALIDARG);
    info.kind = STACKSPLICE_FRAME_GAP;
    assert_int_equal(stacksplice_intern(&info, &token), E_INVALIDARG);
    info = model;
    info.trust = (stacksplice_trust)4;
    assert_int_equal(stacksplice_intern(&info, &token), E_INVALIDARG);
    info.trust = (stacksplice_trust)0;
    assert_int_equal(stacksplice_intern(&info, &token), E_INVALIDARG);
    assert_true(token == 77);
}

TEST(test_token_gaps_say_why)
{
    uintptr_t token = stacksplice_gap("native", "a reason", 0);

    assert_true(token == stacksplice_gap("native", "a reason", 0));
    assert_true(token != stacksplice_gap("lua", "a reason", 0));
    assert_int_equal(look(token)->kind, STACKSPLICE_FRAME_GAP);
    assert_string_equal(look(token)->reason, "a reason");
    for (uint32_t id = 0; id < SS_TOKEN_FIXED_COUNT; id++) {
        assert_int_equal(look(ss_token_of(id))->kind, STACKSPLICE_FRAME_GAP);
        assert_non_null(look(ss_token_of(id))->reason);
    }
}

/* ---- Cut -------------------------------------------------------------------------------------*/

TEST(test_cut_strings_are_whole_characters)
{
    char name[SS_NAME_BYTES + 10], file[SS_FILE_BYTES + 10], room[2 * SS_FILE_BYTES];
    stacksplice_token_info info = {SCRIPT_TOKEN, .language = "test", .function = name,
                                   .file = file};
    uintptr_t token;

    memset(name, 'n', sizeof name);
    memset(file, 'f', sizeof file);
    strcpy(name + SS_NAME_BYTES - 1, "\xE2\x82\xAC"); /* the limit is inside of it */
    file[SS_FILE_BYTES] = '\0';
    assert_int_equal(stacksplice_intern(&info, &token), S_OK);
    (void)ss_token_read(token, &info, room, sizeof room);
    assert_int_equal(strlen(info.function), SS_NAME_BYTES - 1 + 3);
    assert_string_equal(info.function + SS_NAME_BYTES - 1, "...");
    assert_string_equal(info.file, file); /* it fits just so */
    assert_false(info.chunk);
    info.file = strcat(file, "f");
    assert_int_equal(stacksplice_intern(&info, &token), S_OK);
    (void)ss_token_read(token, &info, room, sizeof room);
    assert_string_equal(info.file + SS_FILE_BYTES, "...");
    assert_true(info.chunk); /* no file to be opened */
}

/* Whether TEXT is WHOLE, or a part of it in whole characters and the mark. */
static bool is_cut_of(const char *text, const char *whole)
{
    size_t length = strlen(text);

    if (strcmp(text, whole) == 0)
        return true;
    return length >= 3 && strcmp(text + length - 3, "...") == 0 &&
           strncmp(text, whole, length - 3) == 0 && (whole[length - 3] & 0xC0) != 0x80;
}

TEST(test_read_cuts_to_any_room)
{
    static const char name[] = "na\xC3\xAFve_\xE2\x82\xAC_function_of_some_length";
    const stacksplice_token_info named = {SCRIPT_TOKEN, .language = "test", .function = name,
                                          .file = "made.test", .line = 7};
    uintptr_t token = intern(&named);

    for (size_t room = 0; room < 100; room++) {
        char *buffer = malloc(room + 1); /* so that a checker of memory sees its end */
        stacksplice_token_info info;
        size_t needed = ss_token_read(token, &info, buffer + 1, room);

        assert_int_equal(needed, sizeof "test" + sizeof name + sizeof "made.test");
        assert_int_equal(info.line, 7);
        assert_true(!info.language || is_cut_of(info.language, "test"));
        assert_true(!info.function || is_cut_of(info.function, name));
        assert_true(!info.file || is_cut_of(info.file, "made.test"));
        assert_true(room < needed || strcmp(info.file, "made.test") == 0);
        assert_true(room < needed || strcmp(info.function, name) == 0);
        free(buffer);
    }
}

/* ---- Threads ---------------------------------------------------------------------------------*/

#define RACERS 4
#define CONTENTS 20000
#define NAMES 5000

static uintptr_t raced[RACERS][CONTENTS];

static const char *number_name(uint32_t number)
{
    static _Thread_local char name[32];

    (void)snprintf(name, sizeof name, "numbered %u", number);
    return name;
}

/* The same contents, and names of the same functions, in each thread. */
static void *race(void *data)
{
    stacksplice_token_info info = model;
    uintptr_t *tokens = data;

    for (uint32_t i = 0; i < CONTENTS; i++) {
        info.function = number_name(i);
        info.line = i;
        if (stacksplice_intern(&info, &tokens[i]) < 0)
            return "a token failed";
        if (i % (CONTENTS / NAMES) == 0 &&
            stacksplice_name_function((uintptr_t)(i + 1) * 16, "lua", number_name(i)) < 0)
            return "a name failed";
    }
    return NULL;
}

TEST(test_threads_make_one_token_and_one_name)
{
    pthread_t threads[RACERS];

    for (size_t i = 0; i < RACERS; i++)
        threads[i] = thread_start(race, raced[i]);
    for (size_t i = 0; i < RACERS; i++)
        assert_null(thread_end(threads[i]));
    for (uint32_t i = 0; i < CONTENTS; i++) {
        assert_non_null(look(raced[0][i]));
        assert_int_equal(look(raced[0][i])->line, i);
        for (size_t r = 1; r < RACERS; r++)
            assert_true(raced[r][i] == raced[0][i]);
        if (i % (CONTENTS / NAMES) == 0)
            assert_string_equal(ss_function_name((uintptr_t)(i + 1) * 16), number_name(i));
    }
}

TEST(test_function_names_are_kept)
{
    char name[] = "string.rep";

    assert_null(ss_function_name((uintptr_t)name));
    assert_int_equal(stacksplice_name_function((uintptr_t)name, "lua", name), S_OK);
    name[0] = 'X';
    assert_string_equal(ss_function_name((uintptr_t)name), "string.rep");
    assert_int_equal(stacksplice_name_function((uintptr_t)name, "lua", "other"), S_FALSE);
    assert_string_equal(ss_function_name((uintptr_t)name), "string.rep");
    assert_int_equal(stacksplice_name_function(0, "lua", name), E_POINTER);
    assert_int_equal(stacksplice_name_function(1, NULL, name), E_POINTER);
    assert_int_equal(stacksplice_name_function(1, "lua", NULL), E_POINTER);
}
