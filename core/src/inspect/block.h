/* The block by which others read this process: see stacksplice/debugger.h. */
#ifndef SS_BLOCK_H
#define SS_BLOCK_H

#include <stacksplice/debugger.h>

/* What stacksplice_inspection is.  Only a fail fast changes it. */
extern stacksplice_inspection_block ss_inspection;

#endif
