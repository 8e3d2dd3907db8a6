-- A program without stacksplice that rests in known Lua functions.  It prints for each frame, the
-- innermost first, its source, line and name, then a line with a dot, and waits for standard input to end.
local running = { (coroutine.running()) }

local function print_frames(co, level)
  while true do
    local info = debug.getinfo(co, level, "Sln")
    if not info then
      return
    end
    if info.what ~= "C" then
      local source = info.source:gsub("^[@=]", "")
      local name = info.name or info.what == "main" and "main chunk"
      if name == "?" or name == "integer index" then
        name = nil -- Lua has none
      elseif info.namewhat == "metamethod" then
        name = "metamethod '" .. name .. "'"
      end
      name = name or ("function <%s:%d>"):format(source, info.linedefined)
      print(source .. ":" .. info.currentline .. ":" .. name)
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

-- luacheck: push ignore
-- Each calls a function by another name.
local ways = {
  function(f) global = f global() end,
  function(f) local t = { field = f } t.field() end,
  function(f) local t = { method = f } t:method() end,
  function(f) local t = { f } t[1]() end,
  function(f) local t, key = { key = f }, "key" t[key]() end,
  function(f) local t, key = { key = f }, "k" t[key .. "ey"]() end,
  function(f) local t = { ["not a name"] = f } t["not a name"]() end,
  function(f) local t = { inner = { f = f } } t.inner.f() end,
  function(f) (function() f() end)() end,
  function(f) for _ in f do break end end,
  function(f) (f or print)() end,
  function(f) local g = f if g then g = f or g end g() end,
  function(f) local _ENV = { entry = f } entry() end,
  function(f) return f() end,
  function(f) return (f()) end,
  function(f) setmetatable({}, { __newindex = f }).x = 1 end,
  function(f) setmetatable({}, { __newindex = f })[1] = 1 end,
  function(f) return #setmetatable({}, { __len = f }) end,
  function(f) return -setmetatable({}, { __unm = f }) end,
  function(f) return ~setmetatable({}, { __bnot = f }) end,
  function(f) return setmetatable({}, { __eq = f }) == setmetatable({}, {}) end,
  function(f) return setmetatable({}, { __le = f }) <= {} end,
  function(f) return setmetatable({}, { __lt = f }) > 1 end,
  function(f) return setmetatable({}, { __shr = f }) >> 1 end,
  function(f) return 2 ^ setmetatable({}, { __pow = f }) end,
  function(f) return setmetatable({}, { __idiv = f }) // 2.5 end,
  function(f) setmetatable({}, { __call = f })() end,
  function(f) local called = setmetatable({}, { __call = f }) called() end,
  load("local f = ... local closed <close> = setmetatable({}, { __close = f })", "=closing")
    or function(f) return f() .. "" end,
  function(f)
    debug.sethook(function() debug.sethook() f() end, "l")
    return 1
  end,
  function(f) (function() setmetatable({}, { __gc = f }) end)() collectgarbage() end,
}
-- luacheck: pop

local function call(number)
  local way = ways[number] or sorted
  way(function() call(number + 1) return 1 end)
end

xpcall(call, print, 1)
