/*
 * The colours of text reports: those that scripts' tracebacks have, and one for the mark of each
 * language, which known_glue.c chooses.  All can be read on light and on dark terminals.
 */
#ifndef SS_COLOR_H
#define SS_COLOR_H

#include "report/report.h"

#define SS_COLOR_PLACE "\033[35m" /* file, line, function, message */
#define SS_COLOR_TYPE "\033[1;35m"
#define SS_COLOR_MARK "\033[1m" /* of a language that has chosen none */
#define SS_COLOR_NONE ""

/* Begin COLOR, one of these, and end it, where the report is coloured. */
static inline void ss_color_begin(const ss_report *r, const char *color)
{
    if (r->color)
        ss_writer_text(r->w, color);
}

static inline void ss_color_end(const ss_report *r, const char *color)
{
    if (r->color && *color)
        ss_writer_text(r->w, "\033[0m");
}

#endif
