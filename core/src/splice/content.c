#include "splice/content.h"

#include "splice/hash.h"

/*
 * The head holds kind, trust, flags and a bit for each cut string (a byte each).  Then follow, for
 * each string, its length plus one, or 0 for an absent string (two bytes each); then line and
 * column.
 */
enum { CHUNK = 1, ASYNCHRONOUS = 2 };

static const struct {
    size_t member;
    uint32_t most;
    uint8_t word, shift; /* where the head stores its length */
} strings[SS_CONTENT_STRINGS] = {
    {offsetof(stacksplice_token_info, language), SS_LANGUAGE_BYTES, 0, 32},
    {offsetof(stacksplice_token_info, function), SS_NAME_BYTES, 0, 48},
    {offsetof(stacksplice_token_info, file), SS_FILE_BYTES, 3, 0},
    {offsetof(stacksplice_token_info, reason), SS_NAME_BYTES, 3, 16},
    {offsetof(stacksplice_token_info, interpreter), SS_NAME_BYTES, 3, 32},
    {offsetof(stacksplice_token_info, calls), SS_NAME_BYTES, 3, 48},
};

enum { THE_FILE = 2 };

const char **ss_content_member(stacksplice_token_info *info, uint32_t i)
{
    return (const char **)(void *)((char *)info + strings[i].member);
}

ss_content_string ss_content_string_at(const uint64_t head[SS_CONTENT_HEAD], uint32_t i)
{
    uint32_t stored = (uint16_t)(head[strings[i].word] >> strings[i].shift);

    return (ss_content_string){stored != 0, head[0] >> (24 + i) & 1, stored ? stored - 1 : 0};
}

/* How many bytes of TEXT to keep, at most MOST; never cuts inside a character. */
static uint32_t kept_of(const char *text, uint32_t most, bool *cut)
{
    uint32_t length = (uint32_t)strnlen(text, most + 1);

    *cut = length > most;
    if (!*cut)
        return length;
    for (length = most; length && (text[length] & 0xC0) == 0x80;)
        length--;
    return length;
}

static uint32_t hash_of(const ss_content *content)
{
    uint64_t hash = SS_HASH_START;

    for (uint32_t i = 0; i < SS_CONTENT_HEAD; i++)
        hash = ss_hash_word(hash, content->head[i]);
    for (uint32_t i = 0; i < SS_CONTENT_STRINGS; i++)
        if (content->lengths[i])
            hash = ss_hash_bytes(hash, content->strings[i], content->lengths[i]);
    return (uint32_t)hash;
}

void ss_content_of(const stacksplice_token_info *info, ss_content *content)
{
    uint64_t *head = content->head;
    uint32_t flags = (info->chunk ? CHUNK : 0) | (info->asynchronous ? ASYNCHRONOUS : 0);

    head[1] = (uint64_t)info->line << 32 | info->end_line;
    head[2] = (uint64_t)info->column << 32 | info->end_column;
    head[0] = (uint64_t)info->kind | (uint64_t)info->trust << 8;
    head[3] = 0;
    content->words = SS_CONTENT_HEAD;
    for (uint32_t i = 0; i < SS_CONTENT_STRINGS; i++) {
        const char *text = *ss_content_member((stacksplice_token_info *)info, i);
        uint32_t kept;
        bool cut;

        content->strings[i] = text;
        content->lengths[i] = 0;
        if (!text)
            continue;
        content->lengths[i] = kept = kept_of(text, strings[i].most, &cut);
        if (cut && i == THE_FILE)
            flags |= CHUNK; /* the cut text names no file, or another one */
        head[0] |= (uint64_t)cut << (24 + i);
        head[strings[i].word] |= (uint64_t)(kept + 1) << strings[i].shift;
        content->words += (kept + 7) / 8;
    }
    head[0] |= (uint64_t)flags << 16;
    content->hash = hash_of(content);
}

void ss_content_info(const uint64_t head[SS_CONTENT_HEAD], stacksplice_token_info *info)
{
    uint32_t flags = head[0] >> 16 & 0xFF;

    memset(info, 0, sizeof *info);
    info->size = sizeof *info;
    info->kind = (stacksplice_frame_kind)(head[0] & 0xFF);
    info->trust = (stacksplice_trust)(head[0] >> 8 & 0xFF);
    info->line = (uint32_t)(head[1] >> 32);
    info->end_line = (uint32_t)head[1];
    info->column = (uint32_t)(head[2] >> 32);
    info->end_column = (uint32_t)head[2];
    info->chunk = (flags & CHUNK) != 0;
    info->asynchronous = (flags & ASYNCHRONOUS) != 0;
}
