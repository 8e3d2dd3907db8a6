/* Writes what Python knows beside frames. */
#ifndef SSI_REPORT_PYTHON_H
#define SSI_REPORT_PYTHON_H

#include "target/frame.h"
#include "target/target.h"

/* The member "pythons" of a process, and the member "python" of THREAD. */
void ssi_put_pythons(const ssi_scripts *scripts);
void ssi_put_attached(const ssi_scripts *scripts, const ssi_machine *machine,
                      const ssi_thread *thread);

#endif
