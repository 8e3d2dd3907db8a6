# The sources of the Lua binding, for each target that is made of them.
set(sources
  ../shared/lua_chunks.c
  ../shared/value_text.c
  src/life/state.c
  src/calibrate/layout.c
  src/calibrate/learn.c
  src/frames/sites.c
  src/frames/source.c
  src/frames/splice.c
  src/frames/tokens.c
  src/frames/words.c
  src/value/describe.c
  src/value/error_object.c
  src/value/leave.c
  src/value/text.c
  src/value/ties.c
  src/cross/again.c
  src/cross/call.c
  src/cross/caught.c
  src/cross/closing.c
  src/cross/interrupt.c
  src/cross/raise.c
  src/traceback/traceback.c
  src/api/capture.c
  src/api/deadline.c
  src/api/setup.c
  src/api/module.c
  src/api/report.c)

# How the insides of a copy of Lua are learnt: of one that is made of C functions, and of LuaJIT.
set(calibration
  src/calibrate/filler.c
  src/calibrate/probes.c
  src/calibrate/snippets.c)
set(calibration_jit
  src/calibrate/jit.c)

# Those of all these that need nothing of Lua's headers.
set(of_any_version
  ../shared/lua_chunks.c
  ../shared/value_text.c
  src/calibrate/filler.c
  src/calibrate/layout.c
  src/calibrate/snippets.c)
