/* Parts of JSON on standard output. */
#ifndef SSI_JSON_H
#define SSI_JSON_H

#include <stdint.h>

/* TEXT as a string; what is no UTF-8 becomes U+FFFD. */
void ssi_put_text(const char *text);
/* A comma, NAME and the value; nothing if TEXT is NULL or NUMBER 0. */
void ssi_put_member(const char *name, const char *text);
void ssi_put_number(const char *name, uint64_t number);

#endif
