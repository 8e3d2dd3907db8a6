# stacksplice_flags: what every target of ours compiles and links with.  Not exported.
set(in_tests
  "$<BOOL:$<FILTER:$<TARGET_PROPERTY:SOURCE_DIR>,INCLUDE,${PROJECT_SOURCE_DIR}/(tests|bench)>>")
add_library(stacksplice_flags INTERFACE)
target_compile_features(stacksplice_flags INTERFACE c_std_11)
target_compile_options(stacksplice_flags INTERFACE
  -Wall -Wextra -Wshadow
  # Callbacks of tests and benchmarks have the parameters that they are given.
  "$<${in_tests}:-Wno-unused-parameter>"
  $<$<COMPILE_LANGUAGE:C>:-Wconversion -Wstrict-prototypes -Wmissing-prototypes>
  $<$<BOOL:${STACKSPLICE_WERROR}>:-Werror>
  -fvisibility=hidden
  # Our own frames must unwind in every build, also where unwind tables are off by default.
  -fasynchronous-unwind-tables)
target_compile_definitions(stacksplice_flags INTERFACE _GNU_SOURCE)
# Reports name a binary by it; not every toolchain makes one unasked, nor one as long.
target_link_options(stacksplice_flags INTERFACE LINKER:--build-id=sha1)
# Hardening of what is installed; a test reads it (tests/install/hardening.py).  Sanitizers have checks
# of their own.
include(CheckCCompilerFlag)
foreach(flag stack-protector-strong cf-protection)
  check_c_compiler_flag(-f${flag} STACKSPLICE_HAVE_${flag})
  if(STACKSPLICE_HAVE_${flag})
    target_compile_options(stacksplice_flags INTERFACE "$<$<NOT:${in_tests}>:-f${flag}>")
  endif()
endforeach()
string(TOUPPER "CMAKE_C_FLAGS_${CMAKE_BUILD_TYPE}" build_flags)
if("${CMAKE_C_FLAGS} ${${build_flags}}" MATCHES "-O[1-3s]" AND
    NOT "${CMAKE_C_FLAGS} ${${build_flags}}" MATCHES "-fsanitize")
  set(STACKSPLICE_FORTIFIED ON)
  target_compile_options(stacksplice_flags INTERFACE
    "$<$<NOT:${in_tests}>:-U_FORTIFY_SOURCE;-D_FORTIFY_SOURCE=2>")
endif()
# Functions are bound when a binary is loaded.  At a first call it would also take three kilobytes of
# stack (registers of AVX-512), which a small alternate stack of a signal handler has not got.
target_link_options(stacksplice_flags INTERFACE LINKER:-z,relro,-z,now)
# Objects, vtables and thread-exit handlers of ours outlive the interpreter that loaded us.
add_library(stacksplice_nodelete INTERFACE)
target_link_options(stacksplice_nodelete INTERFACE LINKER:-z,nodelete)
# At a thread's first use of a library that was loaded at run time, glibc takes memory from the heap,
# which a signal handler must not use, and ends the process when there is none.  Our few bytes a
# thread fit into what it sets aside for such libraries.
include(CheckSymbolExists)
check_symbol_exists(__GLIBC__ features.h STACKSPLICE_HAVE_GLIBC)
if(STACKSPLICE_HAVE_GLIBC)
  target_compile_options(stacksplice_nodelete INTERFACE -ftls-model=initial-exec)
endif()
