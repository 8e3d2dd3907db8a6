# Filled with the install rules: headers, libraries, the CMake package, pkg-config files.
