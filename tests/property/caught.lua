-- The programs of test_caught.py: random steps that fail, swallow, keep, compare, format and raise again errors
-- with equal texts, under install{pcall = true}.  Arguments: the first seed, how many programs.
-- luacheck: globals pcall xpcall
local stacksplice = require "stacksplice"
local first, count = tonumber(arg[1]), tonumber(arg[2])
local load = rawget(_G, "loadstring") or load -- 5.1's load takes no text
local unpack = table.unpack or rawget(_G, "unpack")
local here = debug.getinfo(1, "S").source:sub(2)
local SEAM = "caught by pcall here, raised again"
local RETURNED = "frames here had already returned"
local original = pcall
local LONG = ("one long text of an error "):rep(3)
local texts = {"equal", "equal", LONG, 7, false}

-- ---- The truth ------------------------------------------------------------------------------------

-- An error is the list of the places where it was raised, the last one first.  A place is what a stack begins
-- with there: lines of the chunk "equal", or one of this file.
local flying
local places_of_file = {}

local function born(path)
  local lines = {}
  for digit in path:reverse():gmatch("%d") do lines[#lines + 1] = "d" .. digit end
  flying = {table.concat(lines, " ") .. " "}
end

-- The caller raises EARLIER again, or a new error if there is none, in its line.
local function raised(earlier)
  local line = debug.getinfo(2, "l").currentline
  places_of_file[line] = true
  flying = {"r" .. line .. " ", unpack(earlier or {})}
end

-- What the stack says, in this form; whether frames are left out.
local function segments(stack)
  local found, now, cut = {}, {}, false
  local function close()
    found[#found + 1] = table.concat(now)
    now = {}
  end
  for _, frame in ipairs(stack) do
    if frame.reason == SEAM then
      close()
    elseif frame.kind == "gap" then
      cut = cut or frame.reason:find("omitted", 1, true) ~= nil
    elseif frame.source == "equal" then
      now[#now + 1] = "d" .. frame.currentline - 2 .. " "
    elseif frame.source == here and places_of_file[frame.currentline] then
      now[#now + 1] = "r" .. frame.currentline .. " "
    end
  end
  close()
  return found, cut
end

local checked, seams = 0, 0
local function begins(text, with) return text:sub(1, #with) == with end

local function fault(found, seed)
  print(("seed %d: the stack says\n  %s\nthe error was raised at\n  %s"):format(seed, table.concat(found, "\n  "),
    table.concat(flying, "\n  ")))
  os.exit(1)
end

-- The stack may know less than all places, but nothing else.
local seed
local function check(err)
  -- LuaJIT has dropped the frames of an error inside of a handler: what follows is outside of that handler.
  if rawget(_G, "jit") and err.stack[1].reason == RETURNED then return end
  local found, cut = segments(err.stack)
  checked = checked + 1
  seams = seams + #found - 1
  for i = 1, cut and 1 or #found do
    local place = flying[#found + 1 - i]
    local right = place and begins(found[i], place)
    for _, any in ipairs(cut and flying or {}) do right = right or begins(found[i], any) end
    if not right then fault(found, seed) end
  end
end

-- ---- The programs ---------------------------------------------------------------------------------

local random = math.random
local budget = 0
local node
local kept = {} -- {value, its truth}

local source = "local go = ...\n"
for i = 0, 9 do source = source .. ("function d%d(...) local r = go(...) return r end\n"):format(i) end
local function go(path, f, ...)
  if path == "" then
    f(...)
    return 1
  end
  local r = _G["d" .. path:sub(1, 1)](path:sub(2), f, ...)
  return r
end
load(source, "=equal")(go)

local function path()
  local digits = {}
  for i = 1, random(4) do digits[i] = random(10) - 1 end
  return table.concat(digits)
end

local function raise(value) error(value, 0) end
local function leaf(value)
  local where = path()
  born(where)
  go(where, raise, value == nil and texts[random(#texts)] or value)
end

local function keep(value, truth)
  kept[#kept + 1] = {value, truth}
  if #kept > 8 then table.remove(kept, 1) end
end

local function claim(ok, e) if not ok then raised(flying) error(e, 0) end end
local function give(e) local result = e return result end
local function hand(_, e) if true then raised(flying) error(e, 0) end end
local function hand_equal(_, e) if e then raised() error(e == "equal" and "equal" or LONG, 0) end end
local function same(e) return e end
local function retext(e) return type(e) == "string" and e .. " handled" or texts[random(#texts)] end
local function busy(e)
  local now = flying
  pcall(node)
  flying = now
  return e
end
local function fails_once(e)
  if type(e) ~= "table" then error({e}, 0) end
  return e[1]
end
local function traced(e) return debug.traceback(tostring(e), 2) end
local handlers = {same, retext, fails_once, traced, debug.traceback, tostring, busy}
local function handler() return handlers[random(#handlers)] end
local function change(_, e) e = e and texts[random(#texts)] raised() error(e, 0) end

-- Each gets what it caught, and swallows it or raises something.
local ways = {
  function() local ok, e = pcall(node) if not ok then keep(e, flying) end end,
  function() local ok, e = pcall(node) if not ok then raised(flying) error(e, 0) end end,
  function() local ok, e = pcall(node) if not ok then raised(flying) error(e) end end,
  function() local ok, e = pcall(node) if type(e) == "string" then raised(flying) assert(ok, e) end end,
  function() local ok, e = pcall(node) local copy = e if not ok then raised(flying) error(copy, 0) end end,
  function() local ok, e = pcall(node) if not ok then hand(1, e) end end,
  function() local ok, e = pcall(node) if not ok then hand_equal(1, e) end end,
  function() local ok, e = pcall(node) if not ok then change(1, e) end end,
  function() claim(pcall(node)) end,
  function() claim(xpcall(node, handler())) end,
  function() local ok, e = xpcall(node, handler()) if not ok then keep(e, flying) end end,
  function() local ok, e = xpcall(node, handler()) if not ok then raised(flying) error(e, 0) end end,
  function() local ok, e = xpcall(node, handler()) if not ok then raised(flying) error(e) end end,
  function() local ok, e = xpcall(node, handler()) if not ok then raised() error("equal", 0) end return e end,
  function() -- two in one place
    local ok, e
    for _ = 1, 2 do ok, e = (random(2) == 1 and xpcall or pcall)(node, handler()) end
    if not ok then raised() error(e, 0) end
  end,
  function() local ok, e = pcall(node) if not ok then raised() error("equal", 0) end return e end,
  function() local ok, e = pcall(node) if not ok then e = e and "equal" raised() error(e, 0) end end,
  function()
    local ok, e = pcall(node)
    local now = flying
    if random(2) == 1 then original(node) end
    if not ok then raised(now) error(e, 0) end
  end,
  function() -- two that may be equal
    local ok, e = pcall(node)
    local now = flying
    local fine, other = pcall(node)
    local later = flying
    if not ok and random(2) == 1 then raised(now) error(e, 0) end
    if not fine then raised(later) error(other, 0) end
  end,
  function() -- registers that are used again
    do local ok, e = pcall(node) if not ok then keep(e, flying) end end
    local ok, e = false, "equal"
    if not ok and random(2) == 1 then raised() error(e, 0) end
  end,
  function()
    for i = 1, 3 do
      local ok, e = pcall(node)
      if not ok and i > 1 then raised(flying) error(e, 0) end
    end
  end,
  function()
    local ok, e = pcall(node)
    local function set(value) e = e and value end
    if not ok then set("equal") raised() error(e, 0) end
  end,
  function()
    local ok, e = pcall(node)
    if not ok and type(e) == "string" then raised() error("new: " .. e, 0) end
  end,
  function()
    local ok, e = pcall(node)
    if not ok and e == "equal" then raised(flying) error(give(e), 0) end
  end,
  function() local old = kept[random(8)] if old then raised(old[2]) error(old[1], 0) end end,
  function() local ok, e = original(node) if not ok then raised(flying) error(e, 0) end end,
  function() local ok, e = coroutine.resume(coroutine.create(node)) if not ok then keep(e, flying) end end,
  function() coroutine.wrap(function() local ok, e = pcall(node) if not ok then keep(e, flying) end end)() end,
  function()
    local ok, _, err = stacksplice.pcall(node)
    if not ok then check(err) end
  end,
  function()
    if not coroutine.isyieldable then return end -- from 5.3 on
    local body = coroutine.wrap(function()
      local ok, e = pcall(function() coroutine.yield() node() end)
      if not ok then keep(e, flying) end
    end)
    body() body()
  end,
}

function node()
  budget = budget - 1
  if budget <= 0 then return end
  if random(4) == 1 then leaf() end
  ways[random(#ways)]()
  if random(3) == 1 then leaf() end
end

local uninstall = stacksplice.install{pcall = true}
for i = first, first + count - 1 do
  seed = i
  math.randomseed(seed)
  kept = {}
  for _ = 1, 6 do
    budget = 40
    local ok, _, err = stacksplice.pcall(node)
    if not ok then check(err) end
  end
end
uninstall()
print(("programs %d checked %d seams %d"):format(count, checked, seams))
