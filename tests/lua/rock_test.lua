-- luarocks test: the specs that need neither busted nor another module, with the module that
-- `luarocks make` left in build/luarocks.
local version = _VERSION:match("%d+%.%d+")
local folder = "build/luarocks/stage/lib/lua/" .. version
local pipe = assert(io.popen("pwd"))
package.cpath = pipe:read("*l") .. "/" .. folder .. "/?.so;" .. package.cpath
pipe:close()

local file = io.open(folder .. "/stacksplice.so")
if not file then
  io.stderr:write("there is no ", folder, "/stacksplice.so: run luarocks make for Lua ", version, " first\n")
  os.exit(1)
end
file:close()

local words = {[-1] = arg[-1], [0] = "tests/lua/spec_runner.lua"}
local specs = {"causes", "collector", "coroutine", "handler", "standalone", "traceback", "tutorial"}
for _, name in ipairs(specs) do
  words[#words + 1] = "tests/lua/spec/" .. name .. "_spec.lua"
end
arg = words -- luacheck: globals arg
dofile(arg[0])
