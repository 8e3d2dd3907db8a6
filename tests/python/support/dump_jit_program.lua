-- Rests in many ways: by its argument.  Prints the stack that debug.traceback says, and a line with a dot.
local ffi, jit = require "ffi", require "jit"
ffi.cdef [[
int usleep(unsigned);
void qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *));
]]

local function told()
  for line in debug.traceback():gmatch "\t([^\n]*)" do print(line) end
  print "." io.flush()
end

local function rest()
  local number, text, flag, list = 1.5, "a\0b", false, { "x", 2, key = { 3 }, [0] = "zero", [-1] = 7 }
  local cdata, password = ffi.new "int[3]", "hunter2" -- as these lines are one: no other is current below
  told() io.read "*a" return number, text, flag, list, cdata, password
end

local function deep(count, ...)
  if count == 0 then return (rest()) end
  local result = deep(count - 1, ...)
  return result
end

local object = setmetatable({}, {
  __index = function() local x = deep(2, "more") return x end,
  __concat = function(left) local x = left.missing return x end,
})

local forms = {}

function forms.interpreted() deep(3) return 1 end

function forms.metamethods()
  local x = object .. "a" return x end

function forms.builtins()
  local step = coroutine.wrap(function()
    coroutine.yield()
    table.sort({ 2, 1 }, function() deep(1, 2) return false end)
  end)
  step()
  pcall(function()
    xpcall(function() string.gsub("a", ".", function() step() return "b" end) return 1 end, print)
    return 1
  end)
end

function forms.callback()
  local numbers = ffi.new("int[2]", 2, 1)
  local compare = ffi.cast("int (*)(const void *, const void *)", function() deep(2) return 0 end)
  ffi.C.qsort(numbers, 2, 4, compare)
  return 1
end

function forms.reader() -- the loop is called twice: to protect the compiler, and by the compiler
  load(function() deep(2) return nil end)
  return 1
end

function forms.hook()
  debug.sethook(function() debug.sethook() deep(1) return 1 end, "l")
  local x = 1
  return x
end

function forms.hot() -- compiled code that gives up, and the interpreter goes on
  local total = 0
  for i = 1, 1000 do
    total = total + (i == 1000 and deep(1) or i)
  end
  return total
end

function forms.compiled()
  told() for _ = 1, math.huge do end return 1 end

function forms.calling() -- C from compiled code
  local function nap(time) ffi.C.usleep(time) return time end
  told() for i = 1, math.huge do nap(math.min(math.max(i - 200, 1) * 1000, 100000)) end return 1 end

function forms.exits() -- often leaves compiled code, for the interpreter, the collector and the compiler
  local kept = {}
  local function step(i)
    if i % 7 == 0 then kept[i % 100] = { i } end
    if i % 11 == 0 then kept[i % 100] = tostring(i) end
    if i % 1001 == 0 then kept = {} end
    return #kept + i
  end
  told() for i = 1, math.huge do step(i) end return 1 end

-- The loop calls nothing, and what the last call in C left on Lua's stack is old.
local function spin()
  jit.off() told() os.time() for i = 1, math.huge do local x = i end return 1 end -- luacheck: ignore

function forms.returned() spin() return 1 end

function forms.returned_inside()
  local step = coroutine.wrap(function()
    string.gsub("a", ".", function() coroutine.wrap(function() spin() return 1 end)() return "b" end)
  end)
  step()
  return 1
end

function forms.helpers() -- parts of the loop that have a frame of their own
  jit.off() told() local n, floor = 0, math.floor for i = 1, math.huge do n = i % 3 + floor(i / 7) end return n end

function forms.kept() -- C that the loop calls without a word in the state
  local list, sin, fmod, x, y = { 1, 2, 3 }, math.sin, math.fmod
  jit.off() told() os.time() for i = 1, math.huge do x = sin(i ^ 1.5) y = fmod(i, 7) + #list end return x, y
end

local name = arg and arg[1] or form -- luacheck: ignore
pcall(function() forms[name]() return 1 end)
