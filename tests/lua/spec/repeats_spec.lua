-- luacheck: std +busted
-- Captures that the core repeats by a plan.  Each program runs in a process that compares every
-- repeated capture with a full one.  Blind plans ignore the conditions that the binding reports; then
-- each program must end in such a comparison.

local programs = dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "programs.lua")

-- The code of each function lies where one lay that was collected.
local collected_code = [[
  local stacksplice = require "stacksplice"
  local body = string.rep("x = x + 1 ", 150)
  for i = 1, 200 do
    local name = ("g%03d"):format(i)
    load(([=[
      local stacksplice, x = ..., 0
      local function %s() %s local frames = stacksplice.capture() return frames end
      for _ = 1, 8 do
        local frames = %s()
        assert(frames[1].name == "%s")
      end]=]):format(name, body, name, name), "=" .. name)(stacksplice)
    collectgarbage()
  end
]]

-- After some uses the name that a module has for a function is looked up again.
local renamed_function = [[
  local stacksplice = require "stacksplice"
  local module, name = {}
  package.loaded.module = module
  function module.old() local frames = stacksplice.capture() return frames end
  local f = module.old
  for i = 1, 12000 do
    if i == 100 then
      module.old, module.new = nil, f
    end
    name = select(2, pcall(f))[1].name
  end
  assert(name == "module.new", name)
]]

-- The activations of both calls are alike but for a mark of the inner one.
local tail_called = [[
  local stacksplice = require "stacksplice"
  local function place() local frames = stacksplice.capture() return frames end
  local function tail() return place() end
  local function call(f) local frames = f() return frames end
  for i = 1, 200 do
    local frames, tails = call(i % 20 < 10 and place or tail), 0
    for _, frame in ipairs(frames) do
      tails = tails + ((frame.reason or ""):find("^Lua tail calls") and 1 or 0)
    end
    assert(tails == (i % 20 < 10 and 0 or 1), tails)
  end
]]

-- The code outlives each collection, and so do its tokens.
local collected_between = [[
  local stacksplice = require "stacksplice"
  local function place() local frames = stacksplice.capture() return frames end
  for _ = 1, 300 do
    assert(place()[1].name == "place")
    collectgarbage()
  end
]]

local function run(program, mode)
  local command = "ulimit -c 0; STACKSPLICE_VERIFY_PLANS=%s LUA_INIT= %s -e %s"
  return programs.output(command:format(mode, programs.lua, programs.quoted(program)))
end

local function verified(program)
  return tonumber(run(program, "count"):match("^stacksplice: (%d+) repeated captures verified\n$"))
end

local cases = {
  ["a collection"] = collected_code, ["another name"] = renamed_function, ["a tail call"] = tail_called,
}

describe("repeated captures", function()
  it("outlive collections", function()
    assert.is_true(verified(collected_between) > 200)
  end)

  for name, program in pairs(cases) do
    it("are right after " .. name, function()
      assert.is_true(verified(program) > 100)
    end)

    it("are found wrong without the conditions after " .. name, function()
      assert.matches("a repeated capture differs from a full one", run(program, "blind"), 1, true)
    end)
  end
end)
