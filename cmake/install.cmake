# cmake --install: headers, libraries, the CMake package and the pkg-config files.  All of it is
# relocatable: nothing written here holds an absolute path.
#
# A binding takes part by its target: stacksplice_winrt, stacksplice_lua, stacksplice_python become
# stacksplice::winrt, ::lua, ::python.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/stacksplice)
set(pkgconfig_dir ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

install(DIRECTORY core/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
# The schemas of the JSON reports.
install(DIRECTORY core/schema/ DESTINATION ${CMAKE_INSTALL_DATADIR}/stacksplice
  COMPONENT development)

set(components "")
foreach(component stacksplice winrt cpp lua python)
  set(target stacksplice_${component})
  if(component STREQUAL "stacksplice")
    set(target stacksplice)
  endif()
  if(NOT TARGET ${target})
    continue()
  endif()
  list(APPEND components ${component})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${component})
  install(TARGETS ${target} EXPORT stacksplice-targets
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime
    NAMELINK_COMPONENT development
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  if(EXISTS ${PROJECT_SOURCE_DIR}/bindings/${component}/include)
    install(DIRECTORY bindings/${component}/include/
      DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
  endif()
endforeach()

# Programs that know libstacksplice-winrt only need not know where the core is.  What CMake would change
# at the installation it builds with an empty element, for which the loader takes the current folder.
set_target_properties(stacksplice_winrt PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")

# The Lua module, where Lua looks for it under the prefix; it finds the core from its own place, or
# beside it, where LuaRocks puts both, or in the folder of the build.
if(TARGET stacksplice_lua_module)
  set_target_properties(stacksplice_lua_module PROPERTIES
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN;$ORIGIN/../..;$ORIGIN/../../lib")
  install(TARGETS stacksplice_lua_module
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/lua/${STACKSPLICE_LUA_FOUND} COMPONENT lua)
  # The helper for busted.
  install(DIRECTORY bindings/lua/stacksplice
    DESTINATION ${CMAKE_INSTALL_DATADIR}/lua/${STACKSPLICE_LUA_FOUND} COMPONENT lua
    FILES_MATCHING PATTERN "*.lua")
  # The annotations that editors read.
  if(EXISTS ${PROJECT_SOURCE_DIR}/bindings/lua/library)
    install(DIRECTORY bindings/lua/library DESTINATION ${CMAKE_INSTALL_DATADIR}/stacksplice/lua
      COMPONENT lua FILES_MATCHING PATTERN "*.lua")
  endif()
endif()

# What reads other processes, and what lets debuggers use it.  Gdb looks beside the library for a file
# of its name.
if(TARGET stacksplice_inspect)
  install(TARGETS stacksplice_inspect RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
  set(debuggers ${CMAKE_INSTALL_DATADIR}/stacksplice/debuggers)
  get_property(debugger_files TARGET stacksplice_inspect PROPERTY DEBUGGER_FILES)
  install(FILES ${debugger_files} DESTINATION ${debuggers} COMPONENT runtime)
  file(RELATIVE_PATH to_debuggers /${CMAKE_INSTALL_LIBDIR} /${debuggers})
  configure_file(inspect/debuggers/auto_load.py.in
    ${PROJECT_BINARY_DIR}/libstacksplice.so.${PROJECT_VERSION}-gdb.py @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/libstacksplice.so.${PROJECT_VERSION}-gdb.py
    DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime)
endif()

# The CMake package.
install(EXPORT stacksplice-targets NAMESPACE stacksplice::
  DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(cmake/stacksplice-config.cmake.in
  ${PROJECT_BINARY_DIR}/stacksplice-config.cmake INSTALL_DESTINATION ${package_dir})
# While the version is 0.x, a minor release may change what a program was compiled against.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/stacksplice-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/stacksplice-config.cmake
  ${PROJECT_BINARY_DIR}/stacksplice-config-version.cmake
  DESTINATION ${package_dir} COMPONENT development)

# pkg-config: the prefix is found from the place of the .pc file itself.
file(RELATIVE_PATH pc_prefix /${pkgconfig_dir} /)
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
# A program that is linked by it finds the library where it is, as one that CMake builds does; packagers,
# whose folders the loader knows, turn that off as for our own binaries.
set(pc_rpath "")
if(NOT CMAKE_SKIP_RPATH AND NOT CMAKE_SKIP_INSTALL_RPATH)
  set(pc_rpath "-Wl,-rpath,\${libdir}")
endif()
# pc_file(COMPONENT DESCRIPTION [LINKER_FLAG...]): the file of a component.  All but the core require the
# core; none requires an interpreter, which the host brings itself, static or not.
function(pc_file component pc_description)
  if(NOT component IN_LIST components)
    return()
  endif()
  set(pc_name stacksplice-${component})
  set(pc_requires "stacksplice = ${PROJECT_VERSION}")
  set(pc_folder "")
  if(component STREQUAL "stacksplice")
    set(pc_name stacksplice)
    set(pc_requires "")
  elseif(component STREQUAL "winrt")
    set(pc_folder /stacksplice/winrt)
  endif()
  set(pc_libs "")
  if(ARGN)
    string(JOIN " " pc_libs "-L\${libdir}" ${ARGN})
  endif()
  configure_file(cmake/stacksplice.pc.in ${PROJECT_BINARY_DIR}/${pc_name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${pc_name}.pc
    DESTINATION ${pkgconfig_dir} COMPONENT development)
endfunction()
pc_file(stacksplice "${PROJECT_DESCRIPTION}" ${pc_rpath} -lstacksplice)
pc_file(winrt "The Windows Runtime error API of stacksplice by its bare header and function names"
  -Wl,--push-state,--no-as-needed,-lstacksplice-winrt,--pop-state)
pc_file(cpp "stacksplice for C++17 programs")
pc_file(lua "stacksplice for programs that embed Lua ${STACKSPLICE_LUA_FOUND}"
  -lstacksplice-lua -Wl,-z,nodelete)
pc_file(python "stacksplice for programs that embed or extend Python")

# The Python package, which C programs import, too.  Its core is the one of this installation.  Last,
# so that where it is stands at the end of what an installation prints.
if(TARGET stacksplice_python_extension)
  set(package ${STACKSPLICE_PYTHON_DIR}/stacksplice)
  install(DIRECTORY bindings/python/stacksplice/ DESTINATION ${package} COMPONENT python
    FILES_MATCHING PATTERN "*.py" PATTERN "*.pyi" PATTERN "py.typed" PATTERN "templates/*"
    PATTERN "__pycache__" EXCLUDE)
  install(DIRECTORY ${PROJECT_BINARY_DIR}/python/stacksplice/ DESTINATION ${package}
    USE_SOURCE_PERMISSIONS COMPONENT python
    FILES_MATCHING PATTERN "*.so*" PATTERN "stacksplice-inspect" PATTERN "_debuggers/*.py" PATTERN "*.schema.json" PATTERN "libstacksplice.so.0" EXCLUDE PATTERN "__pycache__" EXCLUDE)
  if(EXISTS ${PROJECT_SOURCE_DIR}/pages)
    install(DIRECTORY pages/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT python)
  else()
    message(STATUS "Manual pages and completions: none, these are in the source package of a release")
  endif()
  set(core $<TARGET_SONAME_FILE_NAME:stacksplice>)
  file(RELATIVE_PATH to_libraries /${package} /${CMAKE_INSTALL_LIBDIR})
  string(REGEX REPLACE "/$" "" to_libraries "${to_libraries}")
  install(CODE "
    set(folder \"\${CMAKE_INSTALL_PREFIX}/${STACKSPLICE_PYTHON_DIR}\")
    file(CREATE_LINK ${to_libraries}/${core} \"\$ENV{DESTDIR}\${folder}/stacksplice/${core}\" SYMBOLIC)
    message(STATUS \"Python finds the package by:\")
    execute_process(COMMAND \${CMAKE_COMMAND} -E echo \"export PYTHONPATH=\${folder}\")"
    COMPONENT python)
endif()
