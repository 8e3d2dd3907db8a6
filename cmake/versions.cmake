# STACKSPLICE_LUAS: the versions of Lua that are known, the oldest first.
file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../bindings/shared/versions.h line REGEX "SS_LUAS")
string(REGEX MATCHALL "[0-9]+\\.[0-9]+" STACKSPLICE_LUAS "${line}")
