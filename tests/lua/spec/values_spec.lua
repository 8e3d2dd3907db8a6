-- luacheck: std +busted
-- Error values of every type get through every protected call unchanged, with their stack.
local stacksplice = require "stacksplice"

local function raise(value)
  error(value, 0)
end

describe("an error value that is not a number", function()
  it("is found again although it does not equal itself", function()
    local _, got, err = stacksplice.pcall(raise, 0 / 0)
    assert.is_true(got ~= got)
    assert.equal(err, stacksplice.error_info(got))
    assert.is_nil(stacksplice.error_info(0))
  end)
end)

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
    assert.equal('{text = "x' .. ("\u{e4}"):rep(99) .. '"...}', text)
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
