# Debian's cross compiler for 64-bit Arm; what is built is run by user-mode emulation.  Libraries of
# that machine beyond the C library's are looked for in the folder STACKSPLICE_TARGET_ROOT, too:
# tests/target_root.py fills one.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(STACKSPLICE_TARGET_ROOT "$ENV{STACKSPLICE_TARGET_ROOT}" CACHE PATH
  "Where libraries of the target machine are unpacked")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES STACKSPLICE_TARGET_ROOT)
if(STACKSPLICE_TARGET_ROOT)
  # Debian splits some headers by machine.
  set(CMAKE_C_FLAGS_INIT "-idirafter \"${STACKSPLICE_TARGET_ROOT}/include/aarch64-linux-gnu\"")
endif()
set(CMAKE_FIND_ROOT_PATH ${STACKSPLICE_TARGET_ROOT} /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# "max" has pointer authentication: return addresses are signed where the compiler was told to.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-cpu;max;-L;/usr/aarch64-linux-gnu)
