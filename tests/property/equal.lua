-- The Lua side of test_equal_errors.py: random steps that raise, catch, keep and raise again errors whose
-- texts, types and lines are all equal.  The lines of the chunk "equal" that a stack has tell its error.
local stacksplice, host = ...
local random, budget, check = host.random, host.budget, host.check
local fly, flying, add, lose = host.fly, host.flying, host.add, host.lose
local load = rawget(_G, "loadstring") or load -- 5.1's load takes no text
local LONG = ("one long text of an error "):rep(3)
local texts = {"equal", LONG, 7, false, 0.5}
local source = "local go = ...\n"
for i = 0, 9 do source = source .. ("function d%d(...) local r = go(...) return r end\n"):format(i) end

local function go(path, f, ...)
  local digit = path:sub(1, 1)
  if digit == "" then
    f(...)
    return 1
  end
  local r = _G["d" .. digit](path:sub(2), f, ...)
  return r
end
load(source, "=equal")(go)

local function new_text()
  local n = random(#texts + 2)
  if n <= #texts then return texts[n] end
  if n == #texts + 1 then return LONG:sub(1, 10) .. LONG:sub(11) end
  return {}
end

local function raise(value) error(value, 0) end

-- A new error, with a number of its own.
local function leaf() fly(host.number()) go(host.path(), raise, new_text()) end
-- VALUE is raised as any value is.  One without identity is a new error, here; one with it may be, if nobody
-- has seen it so far.
local function again(value)
  add(host.number(), type(value) == "table" or type(value) == "userdata")
  go(host.path(), raise, value)
end

local node
local kept = {} -- {error object, its truth, value}

local function keep(err, value)
  kept[#kept + 1] = {err, flying(), value}
  if #kept > 8 then table.remove(kept, 1) end
end

-- Errors inside of clean-up code, which do not come out of it.
local function clean_up()
  local now = flying()
  stacksplice.pcall(node)
  fly(now)
end

-- What to do with an error that was caught: ERR may be nil.
local function handle(value, err)
  if err then
    check(err, "handled")
    if random(3) == 1 then keep(err, value) end
  end
  if random(4) == 1 then clean_up() end
  local n = random(5)
  if n == 1 and err then error(err, 0) end
  if n == 2 then again(value) end
  if n == 3 and #kept > 0 then
    local old = kept[random(#kept)]
    fly(old[2])
    check(old[1], "kept")
    if random(2) == 1 then error(old[1], 0) end
    again(old[3])
  end
  if n == 4 and err then error(stacksplice.propagate(err), 0) end
end

local function claim(ok, e)
  if not ok then error(e, 0) end
end
-- Until 5.2 Lua's own takes only texts, and raises another error for all else.
local assert_any = type(select(2, pcall(assert, false, {}))) == "table" and assert or claim

local steps = {
  leaf, leaf,
  function()
    local ok, e, err = stacksplice.pcall(node)
    if not ok then handle(e, err) end
  end,
  function()
    local ok, e, err = stacksplice.xpcall(node, function(e) return e end)
    if not ok then handle(e, err) end
  end,
  function()
    local ok, e = pcall(node)
    if not ok then handle(e) end
  end,
  function()
    local ok, e = xpcall(node, stacksplice.handler)
    local err = stacksplice.error_info(e) -- of a text: the last one with it
    if not ok then handle(e, type(e) == "table" and err or nil) end
  end,
  function() -- nobody asks
    local ok = xpcall(node, stacksplice.handler)
    return ok
  end,
  function() stacksplice.wrap(node)() end,
  function()
    local ok, e = pcall(coroutine.wrap(node))
    if not ok then handle(e) end
  end,
  function()
    local ok, e = stacksplice.resume(coroutine.create(node))
    if not ok then
      if random(3) == 1 then clean_up() end
      again(e)
    end
  end,
  function()
    local ok, e = stacksplice.resume(coroutine.create(node))
    local fine, other = ok, e
    local first = flying()
    if not ok then fine, other = stacksplice.resume(coroutine.create(node)) end
    local second = flying()
    if not ok and (fine or random(2) == 1) then
      fly(first)
      lose() -- of two in one function nobody knows which it is
      error(e, 0)
    end
    if not fine then
      fly(second)
      lose()
      error(other, 0)
    end
  end,
  function() assert_any(stacksplice.resume(coroutine.create(node))) end,
  function() claim(stacksplice.resume(coroutine.create(node))) end,
  function() host.pcall(node) end,
  function() host.pcall(node) end,
  function() host.pcallk(node) end,
  function() host.plain(node) end,
  function() host.with_handler(node) end,
  function() host.resume(node) end,
  function() host.kept() end,
  function() host.call(node) end,
  function() host.python() end,
  function() host.python() end,
  function() table.sort({2, 1}, function() node() return false end) end,
  function() return setmetatable({}, {__index = function() node() end}).x end,
}
local closing = load([[
local node, clean_up, random, flying, fly, host = ...
return function()
  local a <close> = setmetatable({}, {__close = function() clean_up() end})
  local b <close> = setmetatable({}, {__close = function()
    local now = flying()
    if random(4) == 1 and not host.keeps_first() then node() end
    fly(now)
  end})
  node()
end]])
if closing then
  steps[#steps + 1] = closing(function() node() end, clean_up, random, flying, fly, host)
  steps[#steps + 1] = steps[#steps]
end

function node()
  if not budget() then return end
  local count = random(2)
  for _ = 1, count do steps[random(#steps)]() end
end

return node
