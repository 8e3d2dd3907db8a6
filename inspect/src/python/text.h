/* A str of a target, as UTF-8. */
#ifndef SSI_PYTHON_TEXT_H
#define SSI_PYTHON_TEXT_H

#include "python/layout.h"

/* The text of the str at ADDRESS, cut to a few thousand characters; NULL if it is none, or without
   memory. */
const char *ssi_python_text(const ssi_memory *memory, const ssi_python_layout *layout,
                            uint64_t address);

#endif
