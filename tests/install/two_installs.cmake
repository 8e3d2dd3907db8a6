# cmake -DBUILD=... -DSOURCE=... -DWORK=... -DPYTHON=... -DGENERATOR=... -DCOMPILER=... -P
# Makes installations that know nothing of each other:
#   WORK/this   what BUILD has built; WORK/copy the same once more
#   WORK/next   the next minor release, whose core has one function more, and whose bindings use it
file(REMOVE_RECURSE ${WORK}/this ${WORK}/copy ${WORK}/next)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN}:\n${out}")
  endif()
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/this)
# What pip installs, in a folder of its own.
file(COPY ${BUILD}/python DESTINATION ${WORK}/this)
file(COPY ${WORK}/this/ DESTINATION ${WORK}/copy)

# The sources of the next release: only what the build reads.
set(next ${WORK}/source)
file(REMOVE_RECURSE ${next})
file(COPY ${SOURCE}/CMakeLists.txt ${SOURCE}/cmake ${SOURCE}/core ${SOURCE}/crash ${SOURCE}/inspect
  DESTINATION ${next})
foreach(part cpp lua lupa python shared known_glue.c)
  file(COPY ${SOURCE}/bindings/${part} DESTINATION ${next}/bindings)
endforeach()

set(header ${next}/core/include/stacksplice/stacksplice.h)
file(READ ${header} text)
string(REGEX MATCH "STACKSPLICE_VERSION_MINOR ([0-9]+)" found "${text}")
math(EXPR minor "${CMAKE_MATCH_1} + 1")
string(REPLACE "${found}" "STACKSPLICE_VERSION_MINOR ${minor}" text "${text}")
string(REPLACE "STACKSPLICE_API const char *stacksplice_version(void);"
  "STACKSPLICE_API const char *stacksplice_version(void);\nSTACKSPLICE_API int stacksplice_added_later(void);"
  text "${text}")
file(WRITE ${header} "${text}")
file(APPEND ${next}/core/stacksplice.map
  "STACKSPLICE_0.${minor} { global: stacksplice_added_later; } STACKSPLICE_0.${CMAKE_MATCH_1};\n")
file(APPEND ${next}/core/src/com/version.c
  "\nint stacksplice_added_later(void)\n{\n    return 1;\n}\n")

# Nothing here depends on how fast its code is, and most of its minutes are the compiler's.
run(${CMAKE_COMMAND} -S ${next} -B ${WORK}/build -G ${GENERATOR}
  -DCMAKE_C_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=None -DCMAKE_C_FLAGS=-O0
  -DSTACKSPLICE_PYTHON=${PYTHON} -DSTACKSPLICE_BUILD_TESTS=OFF
  # A binding of the next release that uses what is new there.
  -DCMAKE_MODULE_LINKER_FLAGS=-Wl,-u,stacksplice_added_later
  -DCMAKE_SHARED_LINKER_FLAGS=-Wl,-u,stacksplice_added_later)
run(${CMAKE_COMMAND} --build ${WORK}/build
  --target stacksplice_python_extension stacksplice_lua_module stacksplice_winrt)
foreach(component runtime lua)
  run(${CMAKE_COMMAND} --install ${WORK}/build --prefix ${WORK}/next --component ${component})
endforeach()
file(COPY ${next}/bindings/python/stacksplice DESTINATION ${WORK}/build/python)
file(COPY ${WORK}/build/python DESTINATION ${WORK}/next)
