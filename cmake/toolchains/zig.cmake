# zig's C compiler (clang), which brings the headers and symbols of each glibc: what is built with it runs
# with that glibc and each newer one, whatever the machine that builds has.  STACKSPLICE_ZIG is its path,
# STACKSPLICE_ZIG_TARGET such as x86_64-linux-gnu.2.28.
set(zig_target "$ENV{STACKSPLICE_ZIG_TARGET}")
string(REGEX REPLACE "-.*" "" zig_machine "${zig_target}")
set(zig_after "")
if(zig_machine STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR)
  # Debian's pyconfig.h includes <x86_64-linux-gnu/python3.11/pyconfig.h>.  zig's own headers come first.
  set(zig_after "-idirafter /usr/include")
else()
  set(CMAKE_SYSTEM_NAME Linux)
  set(CMAKE_SYSTEM_PROCESSOR ${zig_machine})
endif()
set(CMAKE_C_COMPILER "$ENV{STACKSPLICE_ZIG}" cc -target ${zig_target})
# It adds debugging information unasked, with the paths of this machine.
set(CMAKE_C_FLAGS_INIT "-g0 ${zig_after}")
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT -Wl,--strip-debug)
endforeach()
