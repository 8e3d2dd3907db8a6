/*
 * A token's description as a row of words: equal infos give equal rows.
 *
 * Each string starts at a new word.  Strings are cut to the limits in contracts.md, so a row has a
 * bounded size.  Readers see "..." at the end of a cut string.
 */
#ifndef SS_CONTENT_H
#define SS_CONTENT_H

#include "base/platform.h"
#include <stacksplice/source.h>

#include <string.h>

enum {
    SS_CONTENT_STRINGS = 6,
    SS_CONTENT_HEAD = 4, /* words before those of the strings */
    SS_LANGUAGE_BYTES = 63,
    SS_FILE_BYTES = 4095,
    SS_NAME_BYTES = 1023, /* of functions, interpreters and reasons */
};

#define SS_CUT_MARK "..."

typedef struct ss_content {
    uint64_t head[SS_CONTENT_HEAD];
    const char *strings[SS_CONTENT_STRINGS]; /* borrowed from the info */
    uint32_t lengths[SS_CONTENT_STRINGS];    /* bytes kept; also 0 for an absent string */
    uint32_t words;                          /* including the head */
    uint32_t hash;
} ss_content;

/* What the head stores about a string. */
typedef struct ss_content_string {
    bool present, cut;
    uint32_t length; /* without the "..." */
} ss_content_string;

/* Encode INFO as a row; its strings must outlive CONTENT. */
void ss_content_of(const stacksplice_token_info *info, ss_content *content);

/* Decode INFO, without its strings, from the head of a row. */
void ss_content_info(const uint64_t head[SS_CONTENT_HEAD], stacksplice_token_info *info);

ss_content_string ss_content_string_at(const uint64_t head[SS_CONTENT_HEAD], uint32_t i);

/* The member of INFO that holds string I; the language is the first. */
const char **ss_content_member(stacksplice_token_info *info, uint32_t i);

/* ---- The words one after the other ------------------------------------------------------------*/

typedef struct ss_content_cursor {
    const ss_content *content;
    uint32_t head, string;
    uint32_t left; /* bytes of the string */
    const char *at;
} ss_content_cursor;

static inline void ss_content_begin(ss_content_cursor *c, const ss_content *content)
{
    *c = (ss_content_cursor){.content = content};
}

/* The next word; there are content->words. */
static inline uint64_t ss_content_next(ss_content_cursor *c)
{
    uint64_t word = 0;
    uint32_t bytes;

    if (c->head < SS_CONTENT_HEAD)
        return c->content->head[c->head++];
    while (!c->left) {
        c->at = c->content->strings[c->string];
        c->left = c->content->lengths[c->string++];
    }
    bytes = c->left < sizeof word ? c->left : (uint32_t)sizeof word;
    memcpy(&word, c->at, bytes);
    c->at += bytes;
    c->left -= bytes;
    return word;
}

#endif
