/* Texts that live until the program ends.  All of the output's names are here, each once. */
#ifndef SSI_TEXTS_H
#define SSI_TEXTS_H

#include <stddef.h>

/* A copy of LENGTH bytes with a NUL; NULL without memory, and when there are too many. */
const char *ssi_text(const char *bytes, size_t length);
const char *ssi_text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
