-- luacheck: std +busted
-- luacheck: globals jit loadstring
-- Code that is compiled anew each time, in the memory of code that was collected: every frame has the
-- file, the line and the function that run, in whatever way the function was called.
local stacksplice = require "stacksplice"

local load = loadstring or load
local is_jit = rawget(_G, "jit") ~= nil
local minor = tonumber(_VERSION:match("5%.(%d)"))
local has_new_metamethods = minor >= 2 and not is_jit

-- How a level calls its inner function: the code, and what that function returns.  An error does not leave those of
-- `keeps`.
local ways = {
  {"local r = inn()"}, {"local r = ({m = inn}):m()"}, {"table.sort({2, 1}, inn)"}, {"string.gsub('a', 'a', inn)"},
  {"local r = tostring(setmetatable({}, {__tostring = inn}))", "''"}, {"for _ in inn do end", "nil"},
  {"local r = setmetatable({}, {__index = inn}).field"}, {"setmetatable({}, {__newindex = inn}).field = 1"},
  {"local r = setmetatable({}, {__call = inn})()"}, {"local r = -setmetatable({}, {__unm = inn})"},
  {"local r = setmetatable({}, {__add = inn}) + 1"}, {"local r = setmetatable({}, {__concat = inn}) .. 'a'"},
  {"local m = {__eq = inn}; local r = setmetatable({}, m) == setmetatable({}, m)"},
  {"local m = {__lt = inn}; local r = setmetatable({}, m) < setmetatable({}, m)"},
  {"local m = {__le = inn}; local r = setmetatable({}, m) <= setmetatable({}, m)"},
  {"package.loaded.churn = nil; package.preload.churn = inn; require 'churn'", "true"},
  {"local r = pcall(inn)", keeps = true}, {"local r = stacksplice.pcall(inn)", keeps = true},
  {"local r = xpcall(inn, function() end)", keeps = true}, {"local r = load(inn)", "nil", keeps = true},
  {"coroutine.resume(coroutine.create(inn))", keeps = true},
  {"coroutine.wrap(inn)()", keeps = true}, {"stacksplice.wrap(inn)()", keeps = is_jit},
}
if has_new_metamethods then
  ways[#ways + 1] = {"local r = #setmetatable({}, {__len = inn})"}
  ways[#ways + 1] = {"for _ in pairs(setmetatable({}, {__pairs = inn})) do end", "next, {}"}
  ways[#ways + 1] = {"setmetatable({}, {__gc = inn}); collectgarbage()", keeps = true, collects = true}
end
if minor >= 4 then
  ways[#ways + 1] = {"do local c <close> = setmetatable({}, {__close = inn}) end"}
end

local seed = 1
local function random(n)
  seed = seed * 16807 % 2147483647
  return seed % n + 1
end

local function way_for(error_leaves, collected)
  local way
  repeat
    way = ways[random(#ways)]
  until not (error_leaves and way.keeps) and not (way.collects and (collected or random(40) > 1))
  return way
end

-- The code of a program, and its frames from the outside inward: the line of each, and that where its function begins.
local function program(error_leaves)
  local lines, frames, collected = {"local L, leaf, stacksplice = ..."}, {}, false
  local function emit(text)
    lines[#lines + 1] = text
    return #lines
  end
  local depth = random(7) + 2
  for level = 1, depth do
    local call = ("L.f%d()"):format(level + 1)
    for _ = 1, random(4) do emit("") end
    local outer = emit(("function L.f%d()"):format(level))
    if random(3) == 1 then
      frames[#frames + 1] = {emit("  local r = " .. call), outer}
    else
      local way = way_for(error_leaves, collected)
      collected = collected or way.collects
      local inner = emit("  local function inn()")
      local calls = emit("    local r = " .. call)
      emit("    return " .. (way[2] or "false"))
      emit("  end")
      frames[#frames + 1] = {emit("  " .. way[1]), outer}
      frames[#frames + 1] = {calls, inner}
    end
    emit("  return false")
    emit("end")
  end
  local last = emit(("function L.f%d()"):format(depth + 1))
  frames[#frames + 1] = {emit("  local r = leaf()"), last}
  emit("  return r")
  emit("end")
  return table.concat(lines, "\n"), frames
end

-- Whether STACK, from the inside outward, has these frames of the chunk and none of another one.
local function differences(stack, name, frames)
  local got, want = {}, {}
  for _, frame in ipairs(stack) do
    if frame.language == "lua" and (frame.source or ""):find("^churn") then
      local begins = (frame.name or ""):match("^function <.*:(%d+)>$")
      local expected = frames[#frames - #got]
      got[#got + 1] = ("%s:%d"):format(frame.source, frame.currentline)
      if begins and expected and tonumber(begins) ~= expected[2] then got[#got] = got[#got] .. " in " .. frame.name end
    end
  end
  for i = #frames, 1, -1 do want[#want + 1] = ("%s:%d"):format(name, frames[i][1]) end
  if table.concat(got, " ") ~= table.concat(want, " ") then
    return ("got  %s\n  want %s"):format(table.concat(got, " "), table.concat(want, " "))
  end
end

local function run(round, wrong)
  local name = round % 3 == 0 and "churn" .. round or "churn"
  local error_leaves, done = round % 2 == 0, false
  local text, frames = program(error_leaves)
  local functions = {}
  local function check(what, stack)
    local different = differences(stack, name, frames)
    if different then wrong[#wrong + 1] = ("round %d, %s:\n  %s\n%s"):format(round, what, different, text) end
  end
  local function leaf()
    if error_leaves then error({}) end
    if done then return false end -- it was called again, as sort does
    done = true
    check("capture", (stacksplice.capture()))
    check("caught inside", (select(3, stacksplice.pcall(error, {})).stack))
    return false
  end
  assert(load(text, "@" .. name))(functions, leaf, stacksplice)
  local ok, value, err = stacksplice.pcall(functions.f1)
  if error_leaves then
    assert(not ok and type(value) == "table", value)
    check("error", err.stack)
  else
    assert(ok, value)
    assert(done)
  end
end

-- Modes of the collector, and what ends each.
local modes = {
  ["as it is"] = function() return function() end end,
  ["in small steps"] = function()
    local pause, speed
    if minor == 5 then
      pause, speed = collectgarbage("param", "pause", 100), collectgarbage("param", "stepmul", 100)
      return function()
        collectgarbage("param", "pause", pause)
        collectgarbage("param", "stepmul", speed)
      end
    end
    pause, speed = collectgarbage("setpause", 100), collectgarbage("setstepmul", 200)
    return function()
      collectgarbage("setpause", pause)
      collectgarbage("setstepmul", speed)
    end
  end,
}
if minor >= 4 then
  modes["by generations"] = function()
    local before = collectgarbage("generational")
    return function() collectgarbage(before) end
  end
end

-- A function that calls BEFORE, and then a metamethod that calls F.  Lua puts the metamethod above all of the many
-- registers, which this function has not set: there lies what was left by BEFORE, and the collector marks it.
local variables = {}
for i = 1, 150 do variables[i] = "v" .. i end
local above_what_was_left = load(([[
  local before, object, never = ...
  before()
  if never then local %s = 1 end
  local _ = -object]]):format(table.concat(variables, ", ")))

local function churn(rounds, first, begin)
  local wrong, restore = {}, begin()
  seed = first
  above_what_was_left(function()
    collectgarbage()
    stacksplice.pcall(error, {})
    stacksplice.capture()
  end, setmetatable({}, {__unm = function()
    for round = 1, rounds do run(round, wrong) end
  end}))
  restore()
  assert.equal(0, #wrong, wrong[1])
end

describe("frames of code that is compiled anew", function()
  for name, begin in pairs(modes) do
    it("are those that run, with a collector " .. name, function()
      churn(300, 7, begin)
    end)
  end
end)

describe("frames of code that is compiled anew, for long #long", function()
  for name, begin in pairs(modes) do
    it("are those that run, with a collector " .. name, function()
      for first = 11, 20 do churn(2000, first, begin) end
    end)
  end
end)
