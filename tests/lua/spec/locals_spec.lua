-- host.install {locals = true}: the local variables of Lua's frames in reports, without running any code of scripts.
local stacksplice = require "stacksplice"
local host = require "stacksplice.host"

describe("local variables", function()
  local uninstall, calls

  local function called() calls = calls + 1 error("code of the script ran") end

  local hostile = {}
  for _, name in ipairs {"index", "len", "pairs", "tostring", "name", "eq", "lt", "call", "concat", "gc", "close"} do
    hostile["__" .. name] = called
  end
  hostile.__gc = nil

  -- A spec with them on, in which no code of scripts may run for them.
  local function shown(name, f)
    it(name, function()
      calls = 0
      uninstall = host.install {locals = true}
      finally(function()
        uninstall()
        assert.equal(0, calls)
      end)
      f()
    end)
  end

  -- The error of fails(...), under that name.
  local function error_of(fails, ...)
    local ok, value = stacksplice.xpcall(function(...) -- Lua 5.1's takes no arguments
      local result = fails(...)
      return result
    end, stacksplice.handler, ...)
    assert.is_false(ok)
    return stacksplice.error_info(value)
  end

  -- What its report has below the function that was called by that name.
  local function lines_of(failure, name)
    local found = {}
    local inside = false
    for line in failure:text():gmatch "[^\n]+" do
      if not line:find "^        " then
        inside = (line .. " "):find(" in " .. name .. " ", 1, true) -- its place may be inferred
      elseif inside and line:find "^        [%a_.][%w_.]* = " and line ~= "        arg = nil" then -- 5.1 has it
        found[#found + 1] = line:sub(9)
      end
    end
    return found
  end

  local function text_of(value)
    local function fails(value) -- luacheck: ignore
      error {}
    end
    local lines = lines_of(error_of(fails, value), "fails")
    return (lines[1]:gsub("^value = ", ""))
  end

  shown("are those of each function", function()
    local function inner(a, b)
      local made = 3
      local hidden = 1 -- luacheck: ignore
      local hidden = 2 -- luacheck: ignore
      do local ended = 4 assert(ended) end
      for index = 1, 2 do error {made, a, b, index} end
    end
    local function outer(around, ...)
      local inner = inner -- luacheck: ignore
      inner(around + 1, ...)
      return true
    end
    local failure = error_of(outer, 1, nil)
    assert.same({"a = 2", "b = nil", "hidden = 2", "index = 1", "made = 3"}, lines_of(failure, "inner"))
    assert.same({"around = 1", "inner = <function>"}, lines_of(failure, "fails"))
    assert.truthy(failure:json():gsub('"arg":"nil",', ""):find('"locals":{"around":"1","inner":"<function>"}', 1, true))
  end)

  shown("have texts of values", function()
    for value, text in pairs {
      [true] = "true", [5] = "5", [-1.5] = "-1.5", [1e300] = "1e+300", ["a\n\"\\\0é"] = '"a\\n\\"\\\\\\000é"',
      [{}] = "{}", [{1, "x", nil, {2}}] = '{1, "x", [4] = {2}}', [{[2.5] = 1}] = "{[2.5] = 1}", [{["a b"] = 1}] = '{["a b"] = 1}',
      [print] = "<function>", [io.stdout] = "<userdata>", [coroutine.create(function() end)] = "<thread>",
    } do
      assert.equal(text, text_of(value))
    end
    assert.equal("nil", text_of(nil))
    assert.equal(math.type(1.0) == "float" and "1.0" or "1", text_of(1.0))
  end)

  shown("call no metamethod", function()
    local proxy = setmetatable({1, shown = 2}, hostile)
    assert.equal("{1, shown = 2}", text_of(proxy))
    assert.equal("{{1, shown = 2}}", text_of {proxy})
    setmetatable(proxy, nil)
  end)

  shown("have limits", function()
    assert.equal('"' .. ("x"):rep(200) .. '"', text_of(("x"):rep(200)))
    assert.equal('"' .. ("x"):rep(200) .. '"...', text_of(("x"):rep(201)))
    assert.equal('"' .. ("x"):rep(199) .. '"...', text_of(("x"):rep(199) .. "éé"))
    local many = {}
    for i = 1, 100 do many[i] = i end
    assert.equal("{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, ...}", text_of(many))
    local around = {1}
    around[2] = around
    assert.equal("{1, {1, {1, {...}}}}", text_of(around))
    local long = {}
    for i = 1, 9 do long[i] = ("x"):rep(150) end
    local text = '"' .. ("x"):rep(150) .. '", '
    assert.equal("{" .. text:rep(3) .. "...}", text_of(long))
    assert.is_true(#text_of {long, long, long} <= 500)
  end)

  shown("are at most 20 of a function, in 32 functions", function()
    local names = {}
    for i = 1, 30 do names[i] = ("v%02d"):format(i) end
    local lines = lines_of(error_of(load(("local %s = 1 error {}"):format(table.concat(names, ", ")))), "fails")
    assert.equal(21, #lines)
    assert.equal("v01 = 1", lines[1])
    assert.equal("v20 = nil", lines[20])
    assert.equal("... = <more are not shown>", lines[21])
    local function deep(depth)
      if depth == 0 then error {} end
      deep(depth - 1)
      return true
    end
    local json = error_of(deep, 99):json()
    local _, count = json:gsub('"locals":{"depth":', "")
    assert.equal(32, count)
    _, count = json:gsub('"locals":{"...":"<not shown from here outward>"}', "")
    assert.equal(1, count)
    assert.truthy(json:find('"depth":"31".-"<not shown from here outward>"'))
  end)

  shown("are those of coroutines, and of what resumed them", function()
    local function inner(value) error {value} end
    local function around(given)
      local co = stacksplice.wrap(function(argument) inner(argument + 1) return true end)
      co(given + 1)
      return true
    end
    local failure = error_of(around, 1)
    assert.same({"value = 3"}, lines_of(failure, "inner"))
    assert.truthy(failure:text():find "        argument = 2\n.*        given = 1\n")
  end)

  shown("are found each time where a stack recurs", function()
    local function inner(number) error {number} end
    local function again(number)
      inner(number)
      return true
    end
    for number = 1, 300 do
      assert.same({"number = " .. number}, lines_of(error_of(again, number), "inner"))
    end
  end)

  shown("keep no secrets", function()
    local function fails(password, settings, url, long) -- luacheck: ignore
      error {}
    end
    local failure = error_of(fails, "hunter2", {api_key = "hunter2", [3] = 1}, "http://bob:hunter2@host/",
      ("x"):rep(180) .. " password=hunter2hunter2hunter2")
    local report, json = failure:text(), failure:json()
    assert.is_nil(report:find("hunter2", 1, true))
    assert.is_nil(json:find("hunter2", 1, true))
    assert.truthy(report:find("password = [redacted: password]", 1, true))
    assert.truthy(report:find('api_key = "[redacted: key]"', 1, true))
    assert.truthy(report:find('url = "http://[redacted: credentials]@host/"', 1, true))
  end)

  shown("are values at the raise", function()
    local function fails(given)
      local value = {count = given}
      local ok, failure = stacksplice.pcall(function()
        local held = value
        error {held}
      end)
      value.count = 2
      assert(not ok)
      return failure
    end
    assert.truthy(stacksplice.error_info(fails(1)):text():find "held = {count = 1}")
  end)

  shown("are in reports of errors that Lua's traceback tells all else of", function()
    local function fails(number) error("no " .. number) end
    local _, text = xpcall(function() fails(7) return 1 end, stacksplice.report)
    assert.truthy(text:find "\n        number = 7\n")
  end)

  shown("are off by default", function()
    uninstall()
    local function fails(value) error {value} end -- luacheck: ignore
    assert.same({}, lines_of(error_of(fails, 1), "fails"))
    stacksplice.install()()
    assert.is_nil(error_of(fails, 1):json():find('"locals":', 1, true))
  end)
end)
