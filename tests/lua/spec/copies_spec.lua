-- luacheck: std +busted
-- A C module with its own copy of the binding beside the module: one state, one set of errors.
local stacksplice = require "stacksplice"
local other = require "stacksplice_test_border"

local function raise(value)
  error(value, 0)
end

describe("two copies of the binding in one state", function()
  it("give back the very value", function()
    for _, value in ipairs {{}, "text", 42, io.tmpfile(), string.gmatch("", "")} do
      local ok, got, err = stacksplice.pcall(other.border, raise, value)
      assert.is_false(ok)
      assert.is_true(rawequal(value, got))
      assert.is_true(rawequal(value, err.value))
      assert.equal(1, #err.propagation)
    end
  end)

  it("keep one error through many borders", function()
    local value = {}
    local _, got, again = stacksplice.pcall(other.border, other.border, raise, value)
    assert.is_true(rawequal(value, got))
    assert.equal(2, #again.propagation)
    assert.is_true(rawequal(again, stacksplice.error_info(value)))
  end)

  it("know each other's error objects", function()
    local ok, err = pcall(other.fail)
    assert.is_false(ok)
    assert.equal("no entry", err.message)
    assert.is_true(rawequal(err, select(3, stacksplice.pcall(raise, err))))
    assert.is_true(rawequal(err, select(2, pcall(other.border, raise, err))))
  end)

  it("remember each other's raises", function()
    local value = {}
    xpcall(raise, other.handler, value)
    assert.is_true(rawequal(value, stacksplice.error_info(value).value))
    xpcall(raise, other.handler, "text")
    assert.equal("text", stacksplice.error_info("text").value)
  end)

  it("show whole stacks without gaps, whichever captures", function()
    local function stack_of(handler)
      local value = {}
      xpcall(raise, handler, value)
      local names = {}
      for _, frame in ipairs(stacksplice.error_info(value).stack) do
        assert.not_equal("gap", frame.kind, frame.reason)
        if frame.kind == "script" then
          names[#names + 1] = frame.name
        end
      end
      return names
    end
    assert.same(stack_of(stacksplice.handler), stack_of(other.handler))
  end)

  it("leave no error in the slot", function()
    assert.is_nil(stacksplice.peek_error())
  end)
end)
