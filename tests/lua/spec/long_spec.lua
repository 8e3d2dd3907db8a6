-- Stacks that are longer than the limit.
local stacksplice = require("stacksplice")

local LIMIT = 512
local SHALLOW = 5

local function deep(n, f)
  if n == 0 then
    return (f())
  end
  local result = deep(n - 1, f)
  return result
end

local function fail()
  error({})
end

local function error_at(n)
  return (select(3, stacksplice.pcall(deep, n, fail)))
end

local function capture_at(n)
  return deep(n, stacksplice.capture)
end

-- How many frames there were.
local function length(stack)
  return #stack + stack.frames_left_out - (stack.frames_left_out > 0 and 1 or 0)
end

local function gaps(stack)
  local reasons = {}
  for _, frame in ipairs(stack) do
    if frame.kind == "gap" and frame.reason:find("omitted", 1, true) then
      reasons[#reasons + 1] = frame.reason
    end
  end
  return reasons
end

local function outer(stack)
  local found = {}
  for i = #stack - 7, #stack do
    found[#found + 1] = stack[i].address
  end
  return found
end

describe("a long stack", function()
  local function keeps_both_ends(stack_at)
    local shallow = stack_at(SHALLOW)
    assert.are.equal(0, shallow.frames_left_out)
    for _, depth in ipairs({511, 512, 513, 3000, 100000}) do
      local stack = stack_at(depth)
      assert.are.equal(length(shallow) + depth - SHALLOW, length(stack))
      assert.are.same({stack.frames_left_out .. " frames omitted here: stack longer than the limit"}, gaps(stack))
      assert.are.same(outer(shallow), outer(stack))
      assert.are.equal(shallow[1].address, stack[1].address)
    end
  end

  it("of an error keeps both ends", function()
    keeps_both_ends(function(n)
      return error_at(n).stack
    end)
  end)

  it("of capture keeps both ends", function()
    keeps_both_ends(capture_at)
    local just = LIMIT - #capture_at(SHALLOW) + SHALLOW
    assert.are.equal(0, capture_at(just).frames_left_out)
    assert.are.equal(2, capture_at(just + 1).frames_left_out)
  end)

  it("of a coroutine that failed keeps both ends of it, and what resumed it", function()
    for _, depth in ipairs({SHALLOW, 3000}) do
      local _, message = stacksplice.resume(coroutine.create(deep), depth, fail)
      local err = stacksplice.error_info(message)
      local names = {}
      for _, frame in ipairs(err.stack) do
        names[frame.name or frame.reason or "?"] = true
      end
      assert.is_true(names["the coroutine ended here; its caller had resumed it"] and names.f and names.deep)
      assert.are.same(outer(stacksplice.capture()), outer(err.stack))
      assert.are.equal(depth > LIMIT, err.stack.frames_left_out > 0)
    end
  end)

  it("of a propagation node keeps both ends", function()
    local err = error_at(SHALLOW)
    local node = deep(3000, function()
      return stacksplice.propagate(err).propagation[1].stack
    end)
    assert.is_true(node.frames_left_out > 2400)
    assert.are.equal(1, #gaps(node))
    assert.are.same(outer(stacksplice.capture()), outer(node))
  end)

  it("is cut where a limit is given", function()
    local whole = deep(SHALLOW, function()
      return stacksplice.capture()
    end)
    local newest = deep(SHALLOW, function()
      return stacksplice.capture(1, 3)
    end)
    assert.are.equal(3, #newest)
    assert.are.equal(0, newest.frames_left_out)
    assert.are.equal(whole[2].address, newest[1].address)
    newest = deep(3000, function()
      return stacksplice.capture(700, 1000)
    end)
    assert.are.equal(1000, #newest)
    assert.are.same({}, gaps(newest))
  end)

  it("is as long as the program says", function()
    assert.are.equal(LIMIT, stacksplice.set_max_frames(20))
    finally(function()
      stacksplice.set_max_frames(LIMIT)
    end)
    local stack = capture_at(100)
    assert.is_true(#stack < 30 and stack.frames_left_out > 80)
    assert.are.equal(20, stacksplice.set_max_frames(1000))
    assert.are.equal(0, capture_at(600).frames_left_out)
    assert.has_error(function()
      stacksplice.set_max_frames(0)
    end, "bad argument #1 to 'set_max_frames' (must be in 1 to 65535)")
    assert.has_error(function()
      stacksplice.set_max_frames(65536)
    end, "bad argument #1 to 'set_max_frames' (must be in 1 to 65535)")
    assert.has_error(function()
      stacksplice.set_max_frames("many")
    end)
  end)
end)
