/* Taking a fuzzer's bytes apart. */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What must hold, whatever the input: libFuzzer reports the abort with its input. */
#define ALWAYS(condition)                                                           \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

typedef struct input {
    const uint8_t *at;
    size_t left;
} input;

/* COUNT bytes into OUT, which stays zero where the input ends before. */
static inline void input_bytes(input *in, void *out, size_t count)
{
    size_t taken = count < in->left ? count : in->left;

    memset(out, 0, count);
    if (taken)
        memcpy(out, in->at, taken);
    in->at += taken;
    in->left -= taken;
}

static inline uint32_t input_u32(input *in)
{
    uint32_t value;

    input_bytes(in, &value, sizeof value);
    return value;
}

/* A copy of up to LIMIT bytes, ended by a NUL, exactly as large: the caller frees it.  Two bytes of
   the input give its length. */
static inline char *input_text(input *in, size_t limit, size_t *length)
{
    uint16_t wanted;
    char *text;

    input_bytes(in, &wanted, sizeof wanted);
    *length = wanted % (limit + 1);
    *length = *length < in->left ? *length : in->left;
    text = malloc(*length + 1);
    ALWAYS(text);
    input_bytes(in, text, *length);
    text[*length] = 0;
    return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

#endif
