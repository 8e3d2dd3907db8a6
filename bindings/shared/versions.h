/*
 * The versions of CPython and Lua that are known, each list in order, and both as texts for people say
 * them.  CMake and the tests read the lists from here, so each is one line.
 */
#ifndef SS_SHARED_VERSIONS_H
#define SS_SHARED_VERSIONS_H

#define SS_CPYTHONS "3.11 3.12 3.13 3.14 3.15"
#define SS_CPYTHON_RANGE "3.11 to 3.15"
#define SS_LUAS "5.1 5.2 5.3 5.4 5.5"
#define SS_LUA_RANGE "5.1 to 5.5"

#endif
