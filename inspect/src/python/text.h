/* A str of a target, as UTF-8. */
#ifndef SSI_PYTHON_TEXT_H
#define SSI_PYTHON_TEXT_H

#include "python/layout.h"

/* The beginning of a str, until the next one is read. */
typedef struct ssi_python_characters {
    const unsigned char *bytes;
    unsigned kind; /* the bytes of a character */
    size_t count;
} ssi_python_characters;

/* False if there is no str at ADDRESS. */
bool ssi_python_characters_of(const ssi_memory *memory, const ssi_python_layout *layout,
                              uint64_t address, ssi_python_characters *out);
uint32_t ssi_python_character(const ssi_python_characters *of, size_t at);

/* Whether the str at ADDRESS is TEXT, which is short and ASCII. */
bool ssi_python_text_is(const ssi_memory *memory, const ssi_python_layout *layout, uint64_t address,
                        const char *text);

/* The text of the str at ADDRESS, cut to some thousand characters; NULL if it is none, or without
   memory. */
const char *ssi_python_text(const ssi_memory *memory, const ssi_python_layout *layout,
                            uint64_t address);

#endif
