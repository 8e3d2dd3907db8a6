/* Writes the exceptions of scripts that threads have as JSON. */
#ifndef SSI_REPORT_EXCEPTION_H
#define SSI_REPORT_EXCEPTION_H

#include "target/frame.h"

/* A comma and the member "exceptions" with those of THREAD, as the process itself knows it; nothing
   if it has none. */
void ssi_put_exceptions(const ssi_scripts *scripts, int thread);

#endif
