-- LuaJIT and Lua 5.1 look for modules in C in the same folders, where stacksplice.so is for Lua 5.1.
-- Called as the last thing here, the module sees require as its caller.
local file = assert(package.searchpath("luajit-stacksplice", package.cpath))
return assert(package.loadlib(file, "luaopen_stacksplice"))(...)
