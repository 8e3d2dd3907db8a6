# An overlay port of the sources that it lies in:
#     vcpkg install stacksplice --overlay-ports=packaging/vcpkg

# A process has one core, which its programs and modules share.
vcpkg_check_linkage(ONLY_DYNAMIC_LIBRARY)

get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../.." ABSOLUTE)

set(options -DSTACKSPLICE_LUA=OFF)
if("lua" IN_LIST FEATURES)
  set(options -DSTACKSPLICE_LUA=ON "-DSTACKSPLICE_LUA_INCLUDE_DIR=${CURRENT_INSTALLED_DIR}/include")
endif()
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS -DSTACKSPLICE_BUILD_TESTS=OFF ${options})
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/stacksplice)
vcpkg_fixup_pkgconfig()
vcpkg_copy_tools(TOOL_NAMES stacksplice-inspect AUTO_CLEAN)
# Gdb's script beside the library is for scripts in share, of which there is one.
file(GLOB only_once "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
  "${CURRENT_PACKAGES_DIR}/debug/lib/*-gdb.py")
file(REMOVE_RECURSE ${only_once})

vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
file(INSTALL "${CMAKE_CURRENT_LIST_DIR}/usage" DESTINATION "${CURRENT_PACKAGES_DIR}/share/${PORT}")
