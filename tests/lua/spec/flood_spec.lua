-- luacheck: std +busted
-- Chunks by the hundred thousand: ordinary functions are told all the same, in bounded memory.
local stacksplice = require "stacksplice"

local MADE = 300000
local DROPPED = "name of this frame evicted: too many newer code locations"

local function script_frames(stack)
  local found = {}
  for _, frame in ipairs(stack) do
    if frame.kind == "script" and frame.language == "lua" then
      found[#found + 1] = frame.name .. ":" .. frame.currentline
    end
  end
  return found
end

local function steady()
  return script_frames(stacksplice.capture())[1]
end

local function resident_kib()
  for line in io.lines("/proc/self/status") do
    local kib = line:match("VmRSS:%s+(%d+)")
    if kib then
      return tonumber(kib)
    end
  end
end

local function flood(count, format)
  for i = 1, count do
    assert(load("return ...", format:format(i)))
    stacksplice.pcall(assert(load("error{}", format:format(i))))
  end
end

describe("a flood of chunks #long", function()
  local before, error_object, its_frames, memory, held, told

  setup(function()
    before = steady()
    for i = 1, 2 do -- two of one place, of which one stays unread
      local stack = stacksplice.capture()
      if i == 1 then told = script_frames(stack) else held = stack end
    end
    error_object = select(3, stacksplice.pcall(function()
      error("before the flood")
    end))
    its_frames = script_frames(error_object.stack)
    memory = resident_kib()
  end)

  local function check()
    assert.equal(before, steady())
    assert.same(its_frames, script_frames(error_object.stack))
    local function ordinary()
      error("ordinary error")
    end
    local text = select(3, stacksplice.pcall(ordinary)):text()
    assert.truthy(text:find("in function <" .. debug.getinfo(1, "S").short_src, 1, true), text)
    assert.falsy(text:find(DROPPED, 1, true), text)
  end

  it("of many names", function()
    for round = 1, MADE // 10000 do
      flood(10000, "=chunk" .. round .. " %d")
      check()
    end
    assert.is_true(resident_kib() - memory < 80 * 1024, resident_kib())
  end)

  it("of long names", function()
    flood(8000, "@%d" .. ("x"):rep(100000))
    check()
    assert.is_true(resident_kib() - memory < 80 * 1024, resident_kib())
  end)

  it("and a stack that nobody read before", function()
    local dropped = 0
    for _, frame in ipairs(held) do
      if frame.kind == "script" and frame.language == "lua" then
        assert.equal(table.remove(told, 1), frame.name .. ":" .. frame.currentline)
      elseif frame.reason == DROPPED then
        table.remove(told, 1)
        dropped = dropped + 1
      end
    end
    assert.same({}, told)
    assert.is_true(dropped > 0)
  end)
end)
