/* What the tokens of a target stand for. */
#ifndef SSI_TOKEN_H
#define SSI_TOKEN_H

#include "errors/block.h"

/* The frame of ELEMENT of a stack: that of a token, or a native one with its address alone.
 *LEFT_OUT grows by the frames that it stands for, if it is the gap in a long stack. */
ssi_frame ssi_token_frame(const ssi_block *block, uint64_t element, uint64_t *left_out);
/* What TOKEN stands for in any copy of stacksplice in TARGET. */
ssi_frame ssi_token_look_up(const ssi_target *target, const ssi_blocks *blocks, uint64_t token);

#endif
