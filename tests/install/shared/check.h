/* Shared by the outside projects: check an expectation, and collect a report into a buffer. */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                  \
    do {                                                                  \
        if (!(condition)) {                                               \
            printf("FAILED %s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                      \
        }                                                                 \
    } while (0)

typedef struct report {
    char text[65536];
    size_t used;
} report;

static inline int report_write(const char *text, size_t length, void *data)
{
    report *r = (report *)data;
    CHECK(r->used + length < sizeof r->text);
    memcpy(r->text + r->used, text, length);
    r->used += length;
    r->text[r->used] = '\0';
    return 0;
}

/* CHECK that the report holds TEXT, and show the report when it does not. */
static inline void report_holds(const report *r, const char *text, int line)
{
    if (strstr(r->text, text) == NULL) {
        printf("FAILED line %d: no \"%s\" in the report:\n%s\n", line, text, r->text);
        exit(1);
    }
}
#define REPORT_HOLDS(r, text) report_holds(r, text, __LINE__)

#endif
