/* JSON that is written before its time: while a process is stopped. */
#ifndef SSI_WRITTEN_H
#define SSI_WRITTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ssi_written {
    char *bytes; /* owned */
    size_t length, room;
    bool failed; /* without memory; it stays so */
} ssi_written;

void ssi_write(ssi_written *to, const char *text);
void ssi_write_format(ssi_written *to, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* One character inside of a text. */
void ssi_write_character(ssi_written *to, uint32_t character);
/* Bytes of any kind as a text of hexadecimal digits, in quotes. */
void ssi_write_hex(ssi_written *to, const void *bytes, size_t length);
/* A value of which only the type is shown, and what stands for values that were left out. */
void ssi_write_other(ssi_written *to, const char *type, uint64_t address);
void ssi_write_left_out(ssi_written *to, bool is_pair);

#endif
