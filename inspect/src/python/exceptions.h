/* The exceptions that a thread of a target has: one on its way, and those that are being handled.
 */
#ifndef SSI_PYTHON_EXCEPTIONS_H
#define SSI_PYTHON_EXCEPTIONS_H

#include "python/code.h"
#include "target/frame.h"

/* Add those of the thread state at THREAD, whose number is ID, with what they were made from. */
void ssi_python_exceptions(ssi_scripts *scripts, ssi_codes *codes, uint64_t thread, int id);

#endif
