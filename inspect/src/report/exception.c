#include "report/exception.h"

#include "report/json.h"
#include "report/write.h"

#include <stdio.h>

static void put_exception(const ssi_scripts *scripts, const ssi_exception *e)
{
    fputs("{\"language\":", stdout);
    ssi_put_text(e->language);
    ssi_put_member("state", e->state);
    ssi_put_member("relation", e->relation);
    ssi_put_member("type", e->type);
    printf(",\"arguments\":%s,\"stack\":", e->arguments ? e->arguments : "null");
    ssi_write_frames(scripts->frames.items + e->first, e->count);
    fputs("}", stdout);
}

void ssi_put_exceptions(const ssi_scripts *scripts, int thread)
{
    bool any = false;

    for (size_t i = 0; i < scripts->exception_count; i++) {
        if (scripts->exceptions[i].thread != thread)
            continue;
        fputs(any ? ",\n" : ",\n\"exceptions\":[", stdout);
        put_exception(scripts, &scripts->exceptions[i]);
        any = true;
    }
    if (any)
        fputs("]", stdout);
}
