/* How a walk fills the stack of native.h. */
#ifndef SSI_NATIVE_STACK_H
#define SSI_NATIVE_STACK_H

#include "native/native.h"

/* The frame that was put last, or NULL. */
const ssi_native_frame *ssi_native_last(const ssi_native_stack *stack);
/* False without memory. */
bool ssi_native_put(ssi_native_stack *stack, const ssi_native_frame *frame);
/* The walk has ended: put the frames in their order. */
void ssi_native_complete(ssi_native_stack *stack);

#endif
