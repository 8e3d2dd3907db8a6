/*
 * A value of a target as JSON, from which texts for reports are made: None, True, False, and small
 * numbers and texts as themselves, others as an object whose one member says what they are.
 */
#ifndef SSI_PYTHON_VALUE_H
#define SSI_PYTHON_VALUE_H

#include "base/written.h"
#include "python/layout.h"

/* The int at ADDRESS, if it is one of at most 60 bits and not negative. */
bool ssi_python_number(const ssi_memory *memory, const ssi_python_layout *layout, uint64_t address,
                       uint64_t *out);
void ssi_python_value(const ssi_memory *memory, const ssi_python_layout *layout, uint64_t address,
                      ssi_written *to);

#endif
