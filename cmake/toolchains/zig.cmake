# zig's C compiler (clang), which brings the headers and symbols of each glibc: what is built with it runs
# with that glibc and each newer one, whatever the machine that builds has; or musl's.  STACKSPLICE_ZIG is its
# path, STACKSPLICE_ZIG_TARGET such as x86_64-linux-gnu.2.28 or x86_64-linux-musl.
set(zig_target "$ENV{STACKSPLICE_ZIG_TARGET}")
string(REGEX REPLACE "-.*" "" zig_machine "${zig_target}")
set(zig_after "")
if(zig_machine STREQUAL CMAKE_HOST_SYSTEM_PROCESSOR AND NOT zig_target MATCHES "-musl$")
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
if(zig_target MATCHES "-musl$")
  # Programs open libdw, which one without a loader cannot.  Variables of musl are reached by its table of
  # addresses: in zig's list of musl's symbols all variables have one address, and copies of them would be one.
  string(APPEND CMAKE_C_FLAGS_INIT " -fPIC")
  string(APPEND CMAKE_EXE_LINKER_FLAGS_INIT " -dynamic -pie")
endif()
