-- luacheck: std +busted
-- What errors take outside of Lua's memory counts for Lua's collector.
local stacksplice = require "stacksplice"

-- The collector begins a cycle when the last one has ended, and looks at four KiB or more for each that is counted.
local function begin_at_once()
  if _VERSION < "Lua 5.4" then
    local pause, speed = collectgarbage("setpause", 100), collectgarbage("setstepmul", _VERSION == "Lua 5.2" and 4000 or 800)
    return function()
      collectgarbage("setpause", pause)
      collectgarbage("setstepmul", speed)
    end
  elseif _VERSION == "Lua 5.4" then
    local mode = collectgarbage("incremental", 100, 4) -- it counts not bytes but slots
    return function()
      collectgarbage("incremental", 200, 100)
      collectgarbage(mode)
    end
  end
  local mode = collectgarbage("incremental")
  local pause, speed = collectgarbage("param", "pause", 100), collectgarbage("param", "stepmul", 400)
  return function()
    collectgarbage("param", "pause", pause)
    collectgarbage("param", "stepmul", speed)
    collectgarbage(mode)
  end
end

-- Errors have a long stack, which Lua need not make anew for each.
local function at_depth(depth, f)
  if depth == 0 then return f() end
  at_depth(depth - 1, f)
  return depth
end

-- The KiB that an error has outside: itself, and its stack three times.
local function size_of(err)
  return (512 + 3 * 8 * #err.stack) / 1024
end

describe("the memory of errors", function()
  it("is counted by Lua's collector, also where nothing else makes garbage", function()
    local restore = begin_at_once()
    local others = {}
    for i = 1, 5000 do others[i] = {i} end
    collectgarbage()
    collectgarbage()
    local heap, live, most, size = collectgarbage("count"), setmetatable({}, {__mode = "k"}), 0, nil
    at_depth(180, function()
      for _ = 1, 20 do
        for _ = 1, heap / 50 do
          local _, _, err = stacksplice.pcall(error, "text")
          size = size or size_of(err)
          live[err] = true
        end
        local count = 0
        for _ in pairs(live) do count = count + 1 end
        most = math.max(most, count)
      end
    end)
    restore()
    assert.truthy(#others == 5000)
    -- During a cycle at most a quarter of the heap is counted.  An error that is made in one is finalized at the end of
    -- the next, and leaves the table in the one after.
    local part = _VERSION == "Lua 5.2" and 1 or 3 / 4 -- which does less for each
    assert.truthy(most * size < heap * part, ("%d errors of %g KiB beside %g KiB"):format(most, size, heap))
  end)

  it("does not start a collector that a script has stopped", function()
    local alive = setmetatable({}, {__mode = "k"})
    collectgarbage()
    collectgarbage("stop")
    for _ = 1, 100 do
      alive[{}] = true
      stacksplice.pcall(error, "text")
    end
    local count = 0
    for _ in pairs(alive) do
      count = count + 1
    end
    collectgarbage("restart")
    assert.equal(100, count)
  end)
end)
