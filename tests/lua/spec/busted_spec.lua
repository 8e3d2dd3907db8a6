-- luacheck: std +busted
-- The helper for busted, in real runs of specs that fail.
local root = debug.getinfo(1, "S").source:match("^@(.-)tests/lua/spec/")
if root == "" then root = "./" end

local programs = dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "programs.lua")

-- What a run of the failing specs prints with these options.
local function run(options)
  local modules = programs.assignment("LUA_PATH", root .. "bindings/lua/?.lua;" .. package.path)
  local script = ([[arg = {[0] = "busted", %s "%stests/lua/failing/failing.lua"}
    require "busted.runner"({standalone = false})]]):format(options, root)
  return programs.output(("%s %s -e %s"):format(modules, programs.lua, programs.quoted(script)))
end

local with_helper = '"--helper=stacksplice.busted", '
local with_python = pcall(require, "stacksplice_test_python")

describe("busted's helper", function()
  local handlers = {"utfTerminal", "plainTerminal", "TAP", "gtest", "json", "junit"}

  for _, handler in ipairs(handlers) do
    it("shows stacks with the output handler " .. handler, function()
      local options = ('"-o", "%s", '):format(handler)
      local plain, text = run(options), run(options .. with_helper)
      assert.truthy(text:find("a text", 1, true), text)
      assert.truthy(text:find("stack traceback:", 1, true), text)
      assert.truthy(text:find("in upvalue [^%s]+inner") or text:find("in upvalue .inner."), text)
      assert.truthy(text:find("no entry", 1, true))
      assert.falsy(plain:find("received by", 1, true))
      assert.truthy(text:find("received by lua", 1, true), text)
      assert.truthy(text:find("Caused by", 1, true), text)
      if with_python then
        assert.truthy(text:find("ZeroDivisionError", 1, true), text)
        assert.truthy(text:find("in divide", 1, true), text)
        assert.truthy(text:find("in calls_python", 1, true), text)
      end
    end)
  end

  it("keeps the frames of a coroutine that failed", function()
    local plain, text = run('"-o", "plainTerminal", '), run('"-o", "plainTerminal", ' .. with_helper)
    assert.falsy(plain:find("in in_coroutine", 1, true), plain)
    local stack = (text .. "\n\n"):match("in a coroutine\n(.-)\n\n")
    assert.truthy(stack:find("in in_coroutine", 1, true), text)
    assert.truthy(stack:find("in inner", 1, true), text)
    assert.falsy(stack:find("busted", 1, true), text)
  end)

  it("leaves out what runs the specs", function()
    local text = run('"-o", "plainTerminal", ' .. with_helper)
    local trace = text:match("a text\n(stack traceback:.-)\n\n")
    assert.is_string(trace, text)
    assert.falsy(trace:find("busted", 1, true), trace)
    assert.falsy(trace:find("xpcall", 1, true), trace)
  end)

  it("changes neither what fails nor the first lines", function()
    local plain, text = run('"-o", "TAP", '), run('"-o", "TAP", ' .. with_helper)
    local function results(output)
      local list = {}
      for line in output:gmatch("[^\n]+") do
        if line:find("^ok") or line:find("^not ok") or line:find("^1%.%.") then
          list[#list + 1] = line
        end
      end
      return list
    end
    assert.same(results(plain), results(text))
    assert.truthy(#results(text) >= 8)
    local _, count = text:gsub("# Failure message: ", "")
    assert.equal(select(2, plain:gsub("# Failure message: ", "")), count)
  end)
end)
