/* What all folders use: the memory of another process, lists, texts and JSON. */
#ifndef SSI_BASE_H
#define SSI_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The memory of another process or of a core file: a run of this program reads one.  Every read is
 * checked: what is not there, or not readable, gives false, and nothing is ever followed unread.  So
 * does every read when too much was read already: what is damaged can lead in circles, or from
 * everywhere to everywhere.
 */

/* All SIZE bytes at ADDRESS to OUT, or false. */
typedef bool (*ssi_reader)(void *data, uint64_t address, void *out, size_t size);

/* From now on READ gives the memory; DATA is for it. */
void ssi_read_by(ssi_reader read, void *data);
bool ssi_read(uint64_t address, void *out, size_t size);

static inline bool ssi_read_word(uint64_t address, uint64_t *out)
{
    return address && ssi_read(address, out, sizeof *out);
}

/* 0 where nothing can be read. */
static inline uint64_t ssi_word(uint64_t address)
{
    uint64_t value = 0;

    return ssi_read_word(address, &value) ? value : 0;
}

/* From now on as much as at the start may be read. */
void ssi_budget_renew(void);
/* Whether something was refused since then because too much was read. */
bool ssi_budget_is_spent(void);

/* Lists that grow.  A list that cannot grow keeps what it has. */

/* Room for one more element of SIZE bytes in the list of COUNT that the pointer at ITEMS points to,
 *with CAPACITY; false without memory. */
bool ssi_grow(void *items, size_t count, size_t *capacity, size_t size);
/* Add the ITEM of SIZE bytes to such a list; false without memory. */
bool ssi_append(void *items, size_t *count, size_t *capacity, const void *item, size_t size);

/* Values by keys other than 0.  All zero is an empty one. */

typedef struct ssi_entry {
    uint64_t key, value; /* key 0: free */
} ssi_entry;

typedef struct ssi_map {
    ssi_entry *entries; /* owned */
    size_t count, room; /* ROOM is 0 or a power of two */
} ssi_map;

/* The value of KEY, or NULL. */
const uint64_t *ssi_map_find(const ssi_map *map, uint64_t key);
/* False without memory. */
bool ssi_map_put(ssi_map *map, uint64_t key, uint64_t value);

/* Texts that live until the program ends.  All of the output's names are here, each once. */

/* A copy of LENGTH bytes with a NUL; NULL without memory, and when there are too many. */
const char *ssi_text(const char *bytes, size_t length);
const char *ssi_text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* JSON. */

typedef struct ssi_written {
    char *bytes; /* owned */
    size_t length, room;
    bool failed;        /* without memory; it stays so */
    bool shows_secrets; /* in the texts of values */
} ssi_written;

void ssi_write(ssi_written *to, const char *text);
void ssi_write_bytes(ssi_written *to, const char *bytes, size_t length);
void ssi_write_format(ssi_written *to, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A text, in quotes; what is no UTF-8 becomes U+FFFD. */
void ssi_write_text(ssi_written *to, const char *bytes, size_t length);
/* The same of one that may have halves of pairs: they stay. */
void ssi_write_characters(ssi_written *to, const char *bytes, size_t length);
/* A comma, NAME and the value; nothing if TEXT is NULL, or NUMBER 0. */
void ssi_write_member(ssi_written *to, const char *name, const char *text);
void ssi_write_number(ssi_written *to, const char *name, uint64_t number);
/* Send what was written to standard output. */
void ssi_write_out(ssi_written *to);

/* How much of a process's variables is read; of each value what its text shows. */

enum {
    SSI_SHOWN_FRAMES = 32,           /* of a thread, the innermost */
    SSI_SHOWN_VARIABLES = 20,        /* of a frame */
    SSI_SHOWN_CHARACTERS = 16 * 1024 /* of a text, which are searched for secrets */
};

#endif
