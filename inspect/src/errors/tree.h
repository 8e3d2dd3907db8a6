/* An error with its members and what it was made from. */
#ifndef SSI_TREE_H
#define SSI_TREE_H

#include "errors/object.h"

/* The number of the error at RECORD in the list of errors; 0 if it cannot be read. */
size_t ssi_error_tree(ssi_error_reader *r, uint64_t record);
/* The same of a RECORD without an error: a result and a stack. */
size_t ssi_error_alone(ssi_error_reader *r, const stacksplice_record *record);

#endif
