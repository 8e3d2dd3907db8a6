/* JSON: a visitor that writes JSON to a sink. */
#ifndef SS_JSON_H
#define SS_JSON_H

#include "base/writer.h"
#include <stacksplice/read.h>

typedef struct ss_json {
    stacksplice_visitor visitor;
    ss_writer *w;
    bool comma; /* the next value needs a comma */
} ss_json;

void ss_json_init(ss_json *json, ss_writer *w);

#endif
