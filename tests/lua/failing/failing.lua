-- luacheck: std +busted
-- Specs that fail, for busted_spec.lua: each in another way.
local stacksplice = require "stacksplice"
local border = require "stacksplice_test_border"
local has_python, python = pcall(require, "stacksplice_test_python")

local function inner(value)
  error(value, 0)
end

describe("these specs", function()
  it("fail with a text", function()
    inner("a text")
  end)

  it("fail with an assertion", function()
    local function check() assert.equal(1, 2) end
    check()
  end)

  it("fail with an error of C", function()
    local function calls_c() border.fail() end
    calls_c()
  end)

  it("fail with a table that crossed a border", function()
    border.border(inner, {})
  end)

  it("fail with a cause", function()
    local _, first = stacksplice.pcall(inner, {hresult = 0x80070002})
    stacksplice.error("the effect", first)
  end)

  it("fail in a coroutine", function()
    local function in_coroutine() inner("in a coroutine") end
    coroutine.wrap(function() in_coroutine() end)()
  end)

  it("succeed", function() end)

  if has_python then
    it("fail with an error of Python", function()
      local function calls_python()
        python.run("def divide(n):\n    return 1 // n\ndivide(0)")
      end
      calls_python()
    end)
  end
end)
