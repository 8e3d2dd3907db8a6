-- luacheck: std +busted, globals debug string _G
-- pcall, xpcall and handler behave as the standard ones do.
local stacksplice = require "stacksplice"

local function results(...)
  return {n = select("#", ...), ...}
end

describe("stacksplice.pcall", function()
  it("gives all results of a success", function()
    assert.same({n = 1, true}, results(stacksplice.pcall(function() end)))
    assert.same({n = 5, true, 1, nil, 3, nil}, results(stacksplice.pcall(function(...) return ... end, 1, nil, 3, nil)))
  end)

  it("fails on a value that cannot be called, as pcall does", function()
    local ok, message = stacksplice.pcall(nil)
    assert.is_false(ok)
    assert.equal(select(2, pcall(nil)), message)
  end)

  it("gives as many results as fit", function()
    local values = {}
    for i = 1, 50000 do values[i] = i end
    assert.equal(50001, select("#", stacksplice.pcall(table.unpack, values)))
    for count = 1, 60 do
      assert.equal(count + 1, select("#", stacksplice.xpcall(table.unpack, print, values, 1, count)))
    end
  end)

  it("lets the function yield", function()
    local co = coroutine.wrap(function()
      return stacksplice.pcall(function(a)
        local b = coroutine.yield(a + 1)
        local c = coroutine.yield(b + 1)
        return a, b, c
      end, 1)
    end)
    assert.equal(2, co())
    assert.equal(11, co(10))
    assert.same({n = 4, true, 1, 10, 20}, results(co(20)))
  end)

  it("catches an error after a yield", function()
    local value = {}
    local co = coroutine.wrap(function()
      return stacksplice.pcall(function() coroutine.yield() error(value) end)
    end)
    co()
    local got = results(co())
    assert.equal(3, got.n)
    assert.is_false(got[1])
    assert.is_true(rawequal(value, got[2]))
    assert.is_true(rawequal(value, got[3].value))
  end)

  it("closes what is to be closed", function()
    local closed
    stacksplice.pcall(function()
      local _ <close> = setmetatable({}, {__close = function(_, e) closed = e end})
      error("x", 0)
    end)
    assert.equal("x", closed)
  end)

  it("nests", function()
    local inner
    local ok, value, err = stacksplice.pcall(function()
      inner = results(stacksplice.pcall(error, "inner", 0))
      error("outer", 0)
    end)
    assert.same({false, "outer"}, {ok, value})
    assert.equal("outer", err.message)
    assert.equal("inner", inner[3].message)
  end)
end)

describe("stacksplice.xpcall", function()
  it("gives the handler's result and the error of what was raised", function()
    local value = {}
    local ok, got, err = stacksplice.xpcall(error, function(v) return {handled = v} end, value)
    assert.is_false(ok)
    assert.is_true(rawequal(value, got.handled))
    assert.is_true(rawequal(value, err.value))
  end)

  it("gives all results of a success", function()
    assert.same({n = 3, true, 1, 2}, results(stacksplice.xpcall(function(...) return ... end, print, 1, 2)))
  end)

  it("survives a handler that fails", function()
    local ok, got, err = stacksplice.xpcall(error, function() error("again") end, "x")
    assert.is_false(ok)
    assert.is_not_nil(got)
    assert.is_userdata(err)
    -- and the next error is captured as usual
    local _, _, after = stacksplice.pcall(error, "after", 0)
    assert.equal("after", after.message)
    assert.is_true(#after.stack > 2)
  end)

  it("lets the function yield", function()
    local co = coroutine.wrap(function()
      return stacksplice.xpcall(function() coroutine.yield(1) error("late", 0) end, function(m) return m .. "!" end)
    end)
    assert.equal(1, co())
    local got = results(co())
    assert.same({false, "late!"}, {got[1], got[2]})
    assert.equal("late", got[3].message)
  end)
end)

describe("a call that yields inside a handler and ends outside", function()
  it("leaves later captures intact", function()
    local co = coroutine.wrap(function()
      stacksplice.xpcall(function() coroutine.yield() error("late", 0) end, function(m) return m end)
      coroutine.yield()
    end)
    stacksplice.xpcall(error, function() co() end, "first")
    co()
    stacksplice.xpcall(error, function() return stacksplice.xpcall(error, tostring, {}) end, "second")
    local _, _, err = stacksplice.pcall(error, "captured", 0)
    assert.is_nil(err.stack[1].reason)
    co = coroutine.wrap(function()
      stacksplice.xpcall(function() coroutine.yield() error("late", 0) end, function(m) return m end)
    end)
    co()
    stacksplice.xpcall(error, function() co() end, "third")
    _, _, err = stacksplice.pcall(error, "captured", 0)
    assert.is_nil(err.stack[1].reason)
  end)
end)

describe("the handler", function()
  it("works at the limit of Lua's stack", function()
    local function deep(n)
      return 1 + deep(n + 1)
    end
    local ok, message = xpcall(deep, stacksplice.handler, 1)
    assert.is_false(ok)
    assert.truthy(tostring(message):find("stack overflow"))
    local _, got, err = stacksplice.pcall(deep, 1)
    assert.truthy(got:find("stack overflow"))
    assert.truthy(err.message:find("stack overflow"))
    local gaps = {}
    for _, frame in ipairs(err.stack) do
      if frame.kind == "gap" then
        gaps[#gaps + 1] = frame.reason
      end
    end
    assert.are.same({err.stack.frames_left_out .. " frames omitted here: stack longer than the limit"}, gaps)
    assert.is_true(err.stack.frames_left_out > 10000)
    local whole = stacksplice.capture()
    assert.are.equal(whole[#whole].address, err.stack[#err.stack].address)
  end)

  it("may run inside another handler", function()
    local ok, got = xpcall(error, function(value)
      local inner_ok, inner = xpcall(error, stacksplice.handler, "inner")
      assert(not inner_ok and inner == "inner")
      return stacksplice.handler(value)
    end, "outer")
    assert.is_false(ok)
    assert.equal("outer", got)
  end)
end)

describe("bad arguments", function()
  local function fails(pattern, f, ...)
    local before = stacksplice.originate("before")
    local ok, message = pcall(f, ...)
    assert.is_false(ok)
    assert.truthy(tostring(message):find(pattern), tostring(message))
    assert.equal(before, stacksplice.take_error())
  end

  it("are named and change nothing", function()
    fails("bad argument #1.*value expected", stacksplice.pcall)
    fails("bad argument #2.*function expected", stacksplice.xpcall, print)
    fails("bad argument #2.*function expected", stacksplice.xpcall, print, 1)
    fails("bad argument #1.*number expected", stacksplice.capture, "x")
    fails("bad argument #1.*negative", stacksplice.capture, -1)
    fails("bad argument #2.*negative", stacksplice.capture, 0, -1)
    fails("bad argument #2.*no integer", stacksplice.capture, 0, 1.5)
    fails("bad argument #1.*value expected", stacksplice.originate)
    fails("bad argument #2.*number expected", stacksplice.originate, "x", {})
    fails("bad argument #2.*failing HRESULT", stacksplice.originate, "x", 0)
    fails("bad argument #2.*32%-bit", stacksplice.originate, "x", 1 << 40)
    fails("bad argument #1.*value expected", stacksplice.error_info)
    fails("bad argument #3.*number expected", stacksplice.traceback, coroutine.create(print), "x", {})
    fails("bad argument #2.*number expected", stacksplice.traceback, "x", "y")
    fails("stacksplice.error expected", stacksplice.originate("before").text, {})
    fails("stacksplice.error expected", stacksplice.originate("before").json)
  end)
end)
