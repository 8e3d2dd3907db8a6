/* One stack of native and script frames for each thread. */
#ifndef SSI_SPLICE_H
#define SSI_SPLICE_H

#include "lua/lua.h"
#include "native/native.h"
#include "target/frame.h"
#include "target/target.h"

/* Give each run of SCRIPTS to the thread on whose stack its marker lies. */
void ssi_splice_assign(const ssi_target *target, ssi_scripts *scripts);
/* The combined stack of THREAD, innermost frame first.  NATIVE NULL: none can be had, because of
   WHY. */
void ssi_splice(const ssi_target *target, ssi_native *native, const char *why,
                const ssi_thread *thread, ssi_luas *luas, ssi_scripts *scripts, ssi_frames *out);

#endif
