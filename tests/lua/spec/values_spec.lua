-- luacheck: std +busted
-- Error values of every type get through every protected call unchanged, with their stack.
local stacksplice = require "stacksplice"

local function values()
  return {
    {"nil", nil},
    {"false", false},
    {"true", true},
    {"integer", 42},
    {"float", 1.5},
    {"string", "plain text"},
    {"string with NULs", "a\0b\0"},
    {"long string", ("x"):rep(100000)},
    {"invalid UTF-8", "\xff\xfe"},
    {"table", {}},
    {"table with __tostring", setmetatable({}, {__tostring = function() return "printed" end})},
    {"table with a failing __tostring",
      setmetatable({}, {__tostring = function() error("no") end})},
    {"table whose __tostring gives a table",
      setmetatable({}, {__tostring = function() return {} end})},
    {"table that errors on everything", setmetatable({}, {
      __index = error, __newindex = error, __eq = error, __tostring = error, __name = {},
    })},
    {"userdata", io.tmpfile()},
    {"function", function() end},
    {"C function", string.gmatch("", "")},
    {"coroutine", coroutine.create(function() end)},
  }
end

local function raise(value)
  error(value, 0)
end

-- A function called by C has no name of its own.
local raise_name = ("function <%s:%d>"):format(debug.getinfo(raise, "S").short_src,
  debug.getinfo(raise, "S").linedefined)

describe("an error value that is not a number", function()
  it("is found again although it does not equal itself", function()
    local _, got, err = stacksplice.pcall(raise, 0 / 0)
    assert.is_true(got ~= got)
    assert.equal(err, stacksplice.error_info(got))
    assert.is_nil(stacksplice.error_info(0))
  end)
end)

local function script_frames(stack)
  local list = {}
  for _, frame in ipairs(stack) do
    if frame.kind == "script" then
      list[#list + 1] = frame
    end
  end
  return list
end

for _, case in ipairs(values()) do
  local name, value = case[1], case[2]

  describe("an error value that is a " .. name, function()
    it("is told by stacksplice.pcall and in every form", function() -- as by all ways in handler_spec.lua
      local count = select("#", stacksplice.pcall(raise, value))
      local _, got, err = stacksplice.pcall(raise, value)
      assert.equal(3, count)
      assert.is_true(rawequal(value, got))
      assert.equal("lua", err.language)
      assert.equal(0x80004005, err.hresult)
      assert.equal(raise_name, script_frames(err.stack)[1].name)
      assert.is_string(err:text())
      assert.equal("{", err:json():sub(1, 1))
    end)

    it("is put into the slot by originate and taken out again", function()
      local err = stacksplice.originate(value)
      assert.is_true(rawequal(value, err.value))
      assert.equal(err, stacksplice.peek_error())
      assert.equal(err, stacksplice.take_error())
      assert.is_nil(stacksplice.peek_error())
      assert.is_nil(stacksplice.take_error())
    end)
  end)
end

describe("the message", function()
  local function message(value)
    local _, _, err = stacksplice.pcall(raise, value)
    return err.message
  end

  it("is the whole string", function()
    assert.equal("a\0b\0", message("a\0b\0"))
    assert.equal(100000, #message(("x"):rep(100000)))
  end)

  it("is what tostring gives", function()
    assert.equal("nil", message(nil))
    assert.equal("false", message(false))
    assert.equal("42", message(42))
    assert.equal("printed", message(setmetatable({}, {__tostring = function() return "printed" end})))
  end)

  it("is the fields of a table that has no text", function()
    assert.equal('{code = 2, message = "no price"}', message({message = "no price", code = 2}))
    assert.equal('{1, 2.5, true, {...}, "a\\n\\"b\\"\\000", _ok = function}',
      message({1, 2.5, true, {}, "a\n\"b\"\0", _ok = print}))
    assert.equal('{["a b"] = 1, [0] = "zero", [1.5] = 3, [{...}] = 4}',
      message({["a b"] = 1, [0] = "zero", [1.5] = 3, [{}] = 4}))
    assert.equal("{hidden = 1}", message(setmetatable({hidden = 1}, {__index = error, __pairs = error})))
  end)

  it("is cut for large tables and long texts", function()
    local row, named = {}, {}
    for i = 1, 1000 do row[i] = i named["field" .. i] = i end
    assert.truthy(message(row):find("^{1, 2, 3, .*, 23, 24, %.%.%.}$"))
    assert.equal(24, select(2, message(named):gsub(" = ", "")))
    assert.truthy(message(named):find(", ...}", 1, true))
    local text = message({text = "x" .. ("\u{e4}"):rep(1000)})
    assert.truthy(#text < 200)
    assert.truthy(utf8.len(text), "cut within a character")
    assert.truthy(text:find('..."}', 1, true))
  end)

  it("says what has neither text nor fields", function()
    assert.equal("(error object is a table value)", message({}))
    assert.equal("(error object is a function value)", message(print))
    assert.equal("(error object is a thread value)", message(coroutine.create(print)))
  end)

  it("says why __tostring failed, and what the value has", function()
    local function failing(fields, f) return message(setmetatable(fields, {__tostring = f})) end
    assert.equal("{code = 1} (its __tostring failed: no)", failing({code = 1}, function() error("no", 0) end))
    assert.equal("(error object is a table value) (its __tostring failed: no)",
      failing({}, function() error("no", 0) end))
    assert.equal("{code = 1} (its __tostring failed with a table value)",
      failing({code = 1}, function() error({}) end))
    assert.equal("{code = 1} (its __tostring failed: '__tostring' must return a string)",
      failing({code = 1}, function() return {} end))
    assert.truthy(failing({code = 1}, function() coroutine.yield() end)
      :find("^{code = 1} %(its __tostring failed: attempt to yield"))
    assert.truthy(failing({code = 1}, tostring):find("^{code = 1} %(its __tostring failed: .*overflow"))
  end)
end)

describe("the HRESULT", function()
  local function hresult(value)
    local _, _, err = stacksplice.pcall(raise, value)
    return err.hresult
  end

  it("is that of the table's field, signed or not", function()
    assert.equal(0x80070057, hresult({hresult = 0x80070057}))
    assert.equal(0x80070057, hresult({hresult = -2147024809}))
  end)

  it("is E_FAIL for a field that is no failing integer", function()
    for _, field in ipairs {0, 1, 1.5, "0x80070057", true, 0x180070057, -2147483649} do
      assert.equal(0x80004005, hresult({hresult = field}))
    end
  end)

  it("is not looked up through metamethods of a table", function()
    assert.equal(0x80004005, hresult(setmetatable({}, {__index = {hresult = 0x80070057}})))
  end)
end)

describe("an error value that is raised again", function()
  it("keeps its error when it has an identity", function()
    local value = {}
    local _, _, first = stacksplice.pcall(raise, value)
    local _, _, second = stacksplice.pcall(function() raise(value) end)
    assert.equal(first, second)
    assert.is_true(rawequal(first, second))
  end)

  it("is a new error when it has none", function()
    local _, _, first = stacksplice.pcall(raise, "same")
    local _, _, second = stacksplice.pcall(raise, "same")
    assert.not_equal(first, second)
  end)

  it("may be the error object itself", function()
    local value = {}
    local _, _, first = stacksplice.pcall(raise, value)
    local ok, got, again = stacksplice.pcall(raise, first)
    assert.is_false(ok)
    assert.is_true(rawequal(first, got))
    assert.is_true(rawequal(first, again))
  end)

  it("is collected with everything tied to it", function()
    local weak = setmetatable({}, {__mode = "v"})
    do
      local value = {}
      weak.value = value
      local _, _, err = stacksplice.pcall(raise, value)
      weak.err = err
      stacksplice.originate(value)
      stacksplice.take_error()
    end
    stacksplice.pcall(raise, "another")
    collectgarbage()
    stacksplice.pcall(raise, "another")
    collectgarbage()
    collectgarbage()
    assert.is_nil(weak.err)
    assert.is_nil(weak.value)
  end)
end)

describe("many errors", function()
  it("leave the memory of Lua and of the process flat", function()
    local function run(n)
      for i = 1, n do
        stacksplice.pcall(raise, i % 2 == 0 and {} or "text " .. i)
        xpcall(raise, stacksplice.handler, {})
        stacksplice.originate({})
        stacksplice.propagate()
        stacksplice.take_error()
      end
      collectgarbage()
      collectgarbage()
      local file = assert(io.open("/proc/self/statm"))
      local _, pages = file:read("n", "n")
      file:close()
      return collectgarbage("count"), pages * 4
    end
    -- A table of Lua stays as large as the most that it held between two collections.
    local before, resident_before = run(10000)
    local after, resident = run(10000)
    assert.is_true(after < before * 1.1 + 16, ("%g KB grew to %g KB"):format(before, after))
    assert.is_true(resident < resident_before + 1024, ("%d KB grew to %d KB"):format(resident_before, resident))
  end)
end)

describe("a value with a finalizer", function()
  -- Lua runs the finalizer of what hangs on the value before the value's own.
  it("can be an error again in it", function()
    local seen = {}
    do
      local value = setmetatable({}, {__gc = function(self)
        seen.info = stacksplice.error_info(self) or "none"
        seen.ok, seen.value, seen.error = stacksplice.pcall(error, self)
        seen.same = rawequal(seen.value, self)
        seen.language = seen.error.language
        seen.value, seen.error = nil, nil
      end})
      stacksplice.pcall(error, value)
    end
    for _ = 1, 4 do
      stacksplice.peek_error() -- lets go of what nobody holds any more
      collectgarbage()
    end
    assert.equal("none", seen.info)
    assert.is_false(seen.ok)
    assert.is_true(seen.same)
    assert.equal("lua", seen.language)
  end)
end)

describe("a value whose __tostring makes an error of it", function()
  it("is one error", function()
    local value = setmetatable({}, {__tostring = function(self)
      stacksplice.originate(self)
      return "text"
    end})
    local _, _, err = stacksplice.pcall(error, value)
    assert.equal(err, stacksplice.take_error())
    assert.equal(err, stacksplice.error_info(value))
  end)
end)

describe("originate", function()
  it("takes a value whose HRESULT is that of no memory", function()
    local err = stacksplice.originate({hresult = 0x8007000E})
    assert.equal(0x8007000E, err.hresult)
    assert.equal(err, stacksplice.take_error())
  end)
end)
