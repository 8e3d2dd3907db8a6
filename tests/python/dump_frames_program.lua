-- A program without stacksplice that rests in known Lua functions.  It prints for each frame, the
-- innermost first, its source and line, then a line with a dot, and waits for standard input to end.
local running = { (coroutine.running()) }

local function print_frames(co, level)
  while true do
    local info = debug.getinfo(co, level, "Sl")
    if not info then
      return
    end
    if info.what ~= "C" then
      print((info.source:gsub("^[@=]", "")) .. ":" .. info.currentline)
    end
    level = level + 1
  end
end

local function note()
  print_frames(running[#running], 3)
  for at = #running - 1, 1, -1 do
    print_frames(running[at], 0)
  end
  print(".")
  io.flush()
end

local function rest()
  -- One line, so that this frame has the same line in both.
  note() io.read("a")
  return 1
end

local function inside(body)
  local co = coroutine.create(function(...)
    coroutine.yield()
    body(...)
    return 1
  end)
  coroutine.resume(co)
  table.insert(running, co)
  assert(coroutine.resume(co))
  table.remove(running)
end

local object = setmetatable({}, {
  __index = function() rest() return 1 end,
  __add = function(a) return a.missing end,
  __lt = function(a) local sum = a + 1 return sum end,
  __concat = function(a) inside(function() return a < a or 1 end) return "" end,
})

local function deep(count)
  if count > 0 then
    local result = deep(count - 1)
    return result
  end
  local text = object .. ""
  return text
end

local chunk = assert(load("local f = ...\nlocal ok, x = pcall(function()\n\n  return (f(7))\nend)\nreturn x", "=given"))

local function replaced()
  return (string.gsub("a", "a", function() return chunk(deep) and "b" end))
end

local function sorted()
  table.sort({ 2, 1 }, function() inside(replaced) return false end)
end

xpcall(sorted, print)
