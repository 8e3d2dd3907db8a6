/* Frames that were saved are read by the same fields as they were written by. */
#include "report_fixture.h"
#include "support.h"

#include <stacksplice/read.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The fields of a frame as they were handed over; numbers and flags as text. */
typedef struct saved {
    stacksplice_visitor visitor;
    stacksplice_fields fields;
    struct {
        const char *key;
        char text[64];
    } values[32];
    unsigned count;
    const char *refused; /* the key that is refused, or NULL */
} saved;

static int save_text(stacksplice_visitor *self, const char *key, const char *text, size_t length)
{
    saved *s = (saved *)self;

    s->values[s->count].key = key;
    (void)snprintf(s->values[s->count++].text, 64, "%.*s", (int)length, text);
    return 0;
}

static int save_number(stacksplice_visitor *self, const char *key, int64_t value)
{
    char text[32];

    return save_text(self, key, text,
                     (size_t)snprintf(text, sizeof text, "%llx", (unsigned long long)value));
}

static int save_hex(stacksplice_visitor *self, const char *key, uint64_t value, unsigned digits)
{
    (void)digits;
    return save_number(self, key, (int64_t)value);
}

static int save_flag(stacksplice_visitor *self, const char *key, int value)
{
    return save_number(self, key, value);
}

static int ignore(stacksplice_visitor *self, const char *key, stacksplice_container container)
{
    (void)self;
    (void)key;
    (void)container;
    return 0;
}

static int ignore_end(stacksplice_visitor *self, stacksplice_container container)
{
    return ignore(self, NULL, container);
}

/* The text of KEY in *TEXT, NULL if there is none; nonzero if it is refused. */
static int look_for(stacksplice_fields *self, const char *key, const char **text)
{
    saved *s = (saved *)((char *)self - offsetof(saved, fields));

    *text = NULL;
    for (unsigned i = 0; i < s->count; i++) {
        if (!strcmp(s->values[i].key, key))
            *text = s->values[i].text;
    }
    return s->refused && !strcmp(s->refused, key) ? 7 : 0;
}

static int find_text(stacksplice_fields *self, const char *key, stacksplice_told_text *out)
{
    const char *text;
    int failed = look_for(self, key, &text);

    if (text)
        *out = (stacksplice_told_text){text, strlen(text)};
    return failed;
}

static int find_number(stacksplice_fields *self, const char *key, uint64_t most, uint64_t *out)
{
    const char *text;
    int failed = look_for(self, key, &text);

    if (text)
        *out = strtoull(text, NULL, 16);
    assert_true(*out <= most);
    return failed;
}

static int find_truth(stacksplice_fields *self, const char *key, int *out)
{
    uint64_t number = 0;
    int failed = find_number(self, key, 1, &number);

    *out = number != 0;
    return failed;
}

static int find_locals(stacksplice_fields *self, const char *key, stacksplice_told_locals *out)
{
    const char *text;

    (void)out;
    return look_for(self, key, &text);
}

static saved save(const stacksplice_frame *frame)
{
    saved s = {.visitor = {.size = sizeof s.visitor,
                           .begin = ignore,
                           .end = ignore_end,
                           .boolean = save_flag,
                           .integer = save_number,
                           .hex = save_hex,
                           .utf8 = save_text},
               .fields = {find_text, find_number, find_truth, find_locals}};

    assert_int_equal(stacksplice_frame_visit(frame, NULL, &s.visitor), S_OK);
    return s;
}

TEST(test_a_frame_is_read_back)
{
    const stacksplice_frame frames[] = {
        {.size = sizeof *frames,
         .kind = STACKSPLICE_FRAME_SCRIPT,
         .trust = STACKSPLICE_TRUST_INFERRED,
         .language = "python",
         .function = "f",
         .file = "x.py",
         .line = UINT32_MAX,
         .end_line = 2,
         .column = 3,
         .end_column = 4,
         .interpreter = "i",
         .calls = "g",
         .address = UINTPTR_MAX},
        {.size = sizeof *frames,
         .kind = STACKSPLICE_FRAME_NATIVE,
         .trust = STACKSPLICE_TRUST_EXACT,
         .language = "native",
         .function = "lua_callk",
         .function_offset = 5,
         .module = "/m",
         .module_offset = 6,
         .build_id = "ab",
         .inlined = 1},
        {.size = sizeof *frames,
         .kind = STACKSPLICE_FRAME_GAP,
         .trust = STACKSPLICE_TRUST_TRACEBACK,
         .language = "lua",
         .reason = "why",
         .asynchronous = 1},
    };

    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        saved s = save(&frames[i]);
        stacksplice_told_frame back;
        saved again;

        assert_int_equal(stacksplice_frame_read(&s.fields, &back), 0);
        again = save(&back.frame);
        assert_int_equal(again.count, s.count);
        for (unsigned v = 0; v < s.count; v++)
            assert_string_equal(again.values[v].text, s.values[v].text);
        assert_int_equal(back.glue, i == 1);
        for (unsigned refused = 0; refused < s.count; refused++) {
            s.refused = s.values[refused].key;
            assert_int_equal(stacksplice_frame_read(&s.fields, &back), 7);
        }
    }
}
