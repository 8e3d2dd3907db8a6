-- luacheck: std +busted
-- The helper for busted, in real runs of specs that fail.
local root = debug.getinfo(1, "S").source:match("^@(.-)tests/lua/spec/")
if root == "" then root = "./" end

local programs = dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "programs.lua")

local outputs = {}

-- What a run of the failing specs prints with these options, and in this environment: the same each time.
local function run(options, environment, specs)
  environment, specs = environment or "GITHUB_ACTIONS=false", specs or "failing"
  local key = options .. environment .. specs
  if outputs[key] then
    return outputs[key]
  end
  local modules = programs.assignment("LUA_PATH", root .. "bindings/lua/?.lua;" .. package.path)
  local script = ([[arg = {[0] = "busted", %s "%stests/lua/failing/%s.lua"}
    require "busted.runner"({standalone = false})]]):format(options, root, specs)
  outputs[key] = programs.output(("%s %s %s -e %s"):format(
    environment, modules, programs.lua, programs.quoted(script)))
  return outputs[key]
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
      local words = _VERSION > "Lua 5.2" and "in upvalue " or "in function "
      assert.truthy(text:find(words .. "[^%s]+inner") or text:find(words .. ".inner."), text)
      assert.truthy(text:find("no entry", 1, true))
      assert.falsy(plain:find("received it", 1, true))
      assert.truthy(text:find("Lua received it", 1, true), text)
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

  describe("in a workflow of GitHub", function()
    local function annotations(options, environment, specs)
      local list = {}
      for line in run(options .. with_helper, environment, specs):gmatch("[^\n]+") do
        if line:find("^::error ") then
          list[#list + 1] = line
        end
      end
      return list
    end

    it("annotates each failing spec at the line that raised", function()
      local list = annotations('"-o", "json", ', "GITHUB_ACTIONS=true GITHUB_WORKSPACE=/nowhere")
      assert.same({}, list)
      list = annotations('"-o", "json", ', "GITHUB_ACTIONS=true GITHUB_WORKSPACE=$PWD/" .. root)
      assert.equal(with_python and 7 or 6, #list, table.concat(list, "\n"))
      local text = "\n" .. table.concat(list, "\n") .. "\n"
      local line = text:match("\n::error file=tests/lua/failing/failing.lua,line=(%d+)," ..
        "title=these specs fail with a text::[^\n]*a text\n")
      assert.equal("8", line, text)
      assert.truthy(text:find("\n::error file=tests/lua/[%w_]+%.c,line=%d+,title=these specs fail with an error of C::"),
        text)
    end)

    it("writes none elsewhere", function()
      assert.same({}, annotations('"-o", "TAP", ', "GITHUB_ACTIONS=false"))
    end)

    it("shows no secrets", function()
      local list = annotations('"-o", "TAP", ', "GITHUB_ACTIONS=true GITHUB_WORKSPACE=$PWD/" .. root, "secret")
      assert.equal(2, #list)
      for _, line in ipairs(list) do
        assert.falsy(line:find("hunter2", 1, true), line)
        assert.truthy(line:find("title=these specs password=[redacted%3A password] fail with", 1, true), line)
      end
    end)

    it("lets no text of an error end an annotation", function()
      local github = dofile(root .. "bindings/lua/stacksplice/github.lua")
      local place = {file = "a,b:c.lua", line = 3}
      assert.equal("::error file=a%2Cb%3Ac.lua,line=3,title=x%0Ay::100%25%0D%0A::error::forged",
        github.command(place, "x\ny", "100%\r\n::error::forged"))
    end)
  end)

  it("adds no secrets", function()
    local function count(text)
      return select(2, text:gsub("hunter2", ""))
    end
    local plain, text = run('"-o", "TAP", ', nil, "secret"), run('"-o", "TAP", ' .. with_helper, nil, "secret")
    assert.truthy(text:find("[redacted: credentials]", 1, true), text)
    assert.equal(count(plain), count(text))
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
