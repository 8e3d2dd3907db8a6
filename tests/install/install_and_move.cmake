# cmake -DBUILD=... -DSTAGE=... -DPREFIX=... [-DPACKAGE=...] -P: install BUILD under STAGE, then move it
# to PREFIX.  PACKAGE is the folder of the Python package there, if it was built.
file(REMOVE_RECURSE ${STAGE} ${PREFIX})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${BUILD} --prefix ${STAGE}
  RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "cmake --install failed:\n${output}")
endif()

if(PACKAGE)
  set(package ${BUILD}/python/stacksplice)
  file(GLOB files RELATIVE ${package} ${package}/*.* ${package}/_*/*.py ${package}/_tools/*/*.py
    ${package}/_tools/html/templates/*.*)
  foreach(file IN LISTS files)
    if(NOT EXISTS ${STAGE}/${PACKAGE}/stacksplice/${file})
      message(FATAL_ERROR "${file} of the Python package was not installed")
    endif()
  endforeach()
endif()

# Text that still names the first place would break after the move.
file(GLOB_RECURSE texts ${STAGE}/*.cmake ${STAGE}/*.pc ${STAGE}/*.h ${STAGE}/*.hpp)
foreach(text IN LISTS texts)
  file(READ ${text} content)
  foreach(path IN ITEMS ${STAGE} ${BUILD})
    string(FIND "${content}" ${path} at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${text} holds the path ${path}")
    endif()
  endforeach()
endforeach()

# So would an include directory that lets <stacksplice.h> or <roerrorapi.h> be found by chance.
file(RENAME ${STAGE} ${PREFIX})
