rockspec_format = "3.0"
package = "stacksplice"
version = "scm-0"
-- `luarocks make` in a copy of the sources; `luarocks pack stacksplice` then makes the rock to give away.
source = {
   url = "."
}
description = {
   summary = "One error, one stack, every language",
   detailed = [[
Errors that cross between Lua, C and Python keep the script's own error value, one combined stack
with the frames of all languages in true order, and the chain of languages that received them.
`lua -lstacksplice script.lua` shows the report of each uncaught error. For Lua 5.1 to 5.5 and LuaJIT.]],
   license = "MIT",
   maintainer = "The stacksplice authors",
   labels = {"error", "debug", "traceback", "embedding"}
}
supported_platforms = {"linux"}
dependencies = {
   "lua >= 5.1, < 5.6"
}
-- CMake builds the core library and the module; both go into one folder, where each finds the other.
build = {
   type = "command",
   build_command = "cmake -S . -B build/luarocks -DCMAKE_BUILD_TYPE=Release"
      .. " -DSTACKSPLICE_BUILD_TESTS=OFF -DSTACKSPLICE_LUA=ON"
      .. " -DSTACKSPLICE_LUA_INCLUDE_DIR=\"$(LUA_INCDIR)\""
      .. " -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_INSTALL_PREFIX=build/luarocks/stage"
      .. " && cmake --build build/luarocks",
   -- Copied without symbolic links, which LuaRocks cannot deploy.
   install_command = "rm -rf build/luarocks/stage"
      .. " && cmake --install build/luarocks --strip --prefix build/luarocks/stage"
      .. " && mkdir -p \"$(LIBDIR)\" \"$(LUADIR)\""
      .. " && cp -L build/luarocks/stage/lib/lua/*/stacksplice.so"
      .. " build/luarocks/stage/lib/libstacksplice.so.0 \"$(LIBDIR)\""
      .. " && cp -r build/luarocks/stage/share/lua/*/stacksplice \"$(LUADIR)\"",
   copy_directories = {"bindings/lua/library"}
}
-- The specs that need no other package, with what the build has just made.
test = {
   type = "command",
   script = "tests/lua/rock_test.lua"
}
