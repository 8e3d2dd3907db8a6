/*
 * The pipes to the debugger that serves a target.  What the program asks is a line on standard
 * output that begins with "?"; the answer comes on standard input.  The document that the program
 * writes has no such line: its lines begin with punctuation of JSON.
 */
#ifndef SSI_CHANNEL_H
#define SSI_CHANNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SSI_LINE = 8192 };

/* The next line from the debugger without its end; false if no more comes. */
bool ssi_channel_line(char line[SSI_LINE]);
/* Ask "?WHAT ADDRESS SIZE". */
void ssi_channel_ask(const char *what, uint64_t address, size_t size);
/* SIZE bytes that follow a line; false if they do not come. */
bool ssi_channel_bytes(void *out, size_t size);

#endif
