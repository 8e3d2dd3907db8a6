# musl instead of glibc, by Debian's wrapper around gcc.  Libraries built for it are looked for in
# the folder STACKSPLICE_TARGET_ROOT: tests/target_root.py fills one.  There is no C++ library for it.
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER NOTFOUND)
# The wrapper leaves out what every gcc for musl asks the linker for.
foreach(kind EXE SHARED MODULE)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT -Wl,--eh-frame-hdr)
endforeach()
set(STACKSPLICE_TARGET_ROOT "$ENV{STACKSPLICE_TARGET_ROOT}" CACHE PATH
  "Where libraries of the target machine are unpacked")
if(STACKSPLICE_TARGET_ROOT)
  # gcc's own library is one for glibc, of which it needs one function.
  set(CMAKE_C_STANDARD_LIBRARIES "\"${STACKSPLICE_TARGET_ROOT}/lib/find_object.o\"")
endif()
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES STACKSPLICE_TARGET_ROOT)
set(CMAKE_FIND_ROOT_PATH ${STACKSPLICE_TARGET_ROOT} /usr/lib/x86_64-linux-musl)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
