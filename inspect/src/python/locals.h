/* The local variables of a frame of a target. */
#ifndef SSI_PYTHON_LOCALS_H
#define SSI_PYTHON_LOCALS_H

#include "base/written.h"
#include "python/layout.h"

/* Write those of the frame at FRAME, which runs the code object at CODE, as one JSON object.  What
   cannot be read is left out. */
void ssi_python_locals(const ssi_memory *memory, const ssi_python_layout *layout, uint64_t frame,
                       uint64_t code, ssi_written *to);

#endif
