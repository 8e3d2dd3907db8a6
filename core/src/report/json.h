/* JSON: a visitor that writes JSON to a sink, without secrets. */
#ifndef SS_JSON_H
#define SS_JSON_H

#include "base/writer.h"
#include <stacksplice/read.h>

typedef struct ss_json {
    stacksplice_visitor visitor;
    ss_writer *w;
    bool comma;       /* the next value needs a comma */
    bool failfast;    /* the process is failing */
    bool locals;      /* in an object of local variables */
    bool identifiers; /* in a list of them */
} ss_json;

void ss_json_init(ss_json *json, ss_writer *w, bool failfast);

#endif
