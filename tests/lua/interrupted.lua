-- luacheck: std luajit
-- Deadlines that report, at all moments of LuaJIT's loop, of its own functions and of its machine code.
local stacksplice = require "stacksplice"

if arg[1] == "off" then
  jit.off()
elseif arg[1] == "hot" then
  jit.opt.start("hotloop=2", "hotexit=2")
end

local function leaf(n)
  local t = {tostring(n) .. "x"}
  return #t + string.len(t[1])
end

local function nest(n)
  return n == 0 and leaf(n) or 1 + nest(n - 1)
end

local function work()
  local stop = os.clock() + 0.01
  while os.clock() < stop do
    for i = 1, 100 do nest(i % 5) end
    pcall(nest, 3)
    string.gsub("abc", ".", leaf)
    table.sort({5, 3, 2, 8, 1}, function(a, b) return leaf(a) < leaf(b) or a < b end)
    coroutine.wrap(function() nest(2) coroutine.yield() end)()
    assert(setmetatable({}, {__index = function(_, key) return nest(#key) end}).field)
  end
end

for i = 1, 300 do
  stacksplice.deadline({seconds = 0.0007 * (i % 13), name = "work"}, work)
end
