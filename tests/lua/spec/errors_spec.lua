-- luacheck: std +busted, globals debug
-- Error objects, frames, traceback, install.
local stacksplice = require "stacksplice"
local border = require "stacksplice_test_border"

local function raise(value)
  error(value, 0)
end

describe("capture", function()
  it("skips and limits", function()
    local all = stacksplice.capture()
    local some = stacksplice.capture(1, 2)
    assert.equal(2, #some)
    assert.equal(all[2].address, some[1].address)
    assert.equal(all[3].address, some[2].address)
    assert.same({frames_left_out = 0}, stacksplice.capture(100000))
    assert.same({frames_left_out = 0}, stacksplice.capture(0, 0))
  end)

  it("shows native frames with their module", function()
    local native
    for _, frame in ipairs(stacksplice.capture()) do
      native = native or frame.kind == "native" and frame
    end
    assert.equal("native", native.language)
    assert.is_string(native.module)
    assert.equal("integer", math.type(native.offset))
  end)
end)

describe("an error object", function()
  local err
  before_each(function()
    err = select(3, stacksplice.pcall(raise, "the message"))
  end)

  it("has its fields and no others", function()
    assert.equal(0x80004005, err.hresult)
    assert.equal("the message", err.message)
    assert.equal("the message", err.value)
    assert.equal("lua", err.language)
    assert.equal("string", err.type_name)
    assert.same({}, err.propagation)
    assert.is_nil(err.nothing)
    assert.is_nil(err[1])
  end)

  it("has texts of any length", function()
    for _, length in ipairs({0, 1, 255, 256, 257, 5000}) do
      local text = ("x\0"):rep(length):sub(1, length)
      local other = select(3, stacksplice.pcall(raise, text))
      assert.equal(text, other.message)
      assert.equal(text, tostring(other))
      assert.equal("string", other.type_name)
      assert.equal(32, #other.fingerprint)
    end
  end)

  it("tells its type whole, however long the name is", function()
    local name = ("Name"):rep(100)
    local value = setmetatable({}, {__name = name})
    local long = select(3, stacksplice.pcall(error, value))
    assert.equal(name, long.type_name)
    assert.same({name}, long.type_names)
    assert.is_true(long:isinstance(name))
    assert.is_false(long:isinstance(name:sub(1, 127)))
  end)

  it("cannot be changed or unmasked", function()
    assert.has_error(function() err.message = "other" end)
    assert.is_false(getmetatable(err))
  end)
end)

describe("originate", function()
  it("takes an HRESULT, signed or not", function()
    assert.equal(0x80070005, stacksplice.originate("a", 0x80070005).hresult)
    assert.equal(0x80070005, stacksplice.originate("b", -2147024891).hresult)
    stacksplice.take_error()
  end)
end)

describe("error_info", function()
  it("knows only what was seen", function()
    assert.is_nil(stacksplice.error_info({}))
    assert.is_nil(stacksplice.error_info("never raised"))
    assert.is_nil(stacksplice.error_info(string.gmatch("", "")))
  end)
end)

describe("traceback", function()
  it("shows the whole of other languages' frames, however long their texts are", function()
    local function raise_long() return (border.among_others(stacksplice.traceback)) end
    local file, name = raise_long():match("\n\t(f+):1: in toy function '(p+)'")
    assert.equal("1000 1000", #file .. " " .. #name)
  end)

  it("names a function by where it was defined if its name is too long to keep", function()
    local field = ("f"):rep(120)
    package.loaded.long_names = {[field] = function() return stacksplice.capture()[1].name end}
    local _, name = pcall(package.loaded.long_names[field])
    package.loaded.long_names = nil
    assert.truthy(name:find("^function <.*errors_spec"), name)
  end)
end)

describe("the memory of errors", function()
  it("is not freed through a finalizer that gets something else", function()
    local _, _, err = stacksplice.pcall(error, "text")
    local finalize = debug.getmetatable(err).__gc
    for _, other in ipairs({{}, io.stdout, "text", 1}) do
      assert.is_false(pcall(finalize, other))
    end
    assert.is_false(pcall(finalize))
    assert.equal("text", err.message)
  end)
end)

describe("the module", function()
  it("says its version", function()
    assert.truthy(stacksplice._VERSION:find("^stacksplice %d+%.%d+%.%d+$"))
  end)
end)
