-- luacheck: std +busted, globals debug _G
-- A captured stack whose frames are looked up at its first use.
local stacksplice = require "stacksplice"

-- In 5.1 neither # nor ipairs asks a metamethod: stacks are read at once.
local is_read_later = _VERSION > "Lua 5.1"

local function is_unread(stack)
  return not is_read_later or debug.getmetatable(stack) ~= nil and rawlen(stack) == 0
end

local function is_ordinary(stack)
  return debug.getmetatable(stack) == nil and #stack > 1 and rawlen(stack) == #stack
end

-- Its fields, without the address: one text for each frame.
local function tell(stack)
  local frames = {}
  for i, frame in ipairs(stack) do
    frames[i] = table.concat({frame.kind, frame.language, tostring(frame.name), tostring(frame.currentline)}, " ")
  end
  return table.concat(frames, "\n")
end

-- Two stacks of one place.
local function capture_twice()
  local stacks = {}
  for i = 1, 2 do
    stacks[i] = stacksplice.capture()
  end
  return stacks[1], stacks[2]
end

local uses = {
  index = function(stack) return stack[1] end,
  ["index of nothing"] = function(stack) return stack.nothing end,
  ["the length"] = function(stack) return #stack end,
  ipairs = function(stack) for i in ipairs(stack) do local _ = i end end,
  pairs = function(stack) for key in pairs(stack) do local _ = key end end,
  unpack = table.unpack,
  ["an assignment"] = function(stack) stack.mine = nil end,
  ["frames_left_out"] = function(stack) return stack.frames_left_out end,
  sort = function(stack) table.sort(stack, function() return false end) end,
}

describe("a captured stack", function()
  for name, use in pairs(uses) do
    it("is looked up by " .. name, function()
      local stack, other = capture_twice()
      assert.is_true(is_unread(stack))
      use(stack)
      assert.is_true(is_ordinary(stack))
      local seen = {}
      for key in next, stack do
        seen[key] = true
      end
      assert.is_true(seen[1] and seen[#stack] and seen.frames_left_out)
      if name ~= "sort" then
        assert.equal(tell(other), tell(stack))
      end
    end)
  end

  it("has only its frames and their count", function()
    local stack, count = stacksplice.capture(), 0
    for key, value in pairs(stack) do
      assert.equal(stack[key], value)
      assert.is_true(key == "frames_left_out" and value == 0 or math.type(key) == "integer")
      count = count + 1
    end
    assert.equal(#stack + 1, count)
  end)

  it("begins where it is asked to, however deep the stack is", function()
    local depth = _VERSION > "Lua 5.1" and 70000 or 10000 -- its stacks end there
    local function down(n)
      if n > 0 then
        local result = down(n - 1)
        return result
      end
      local far = stacksplice.capture(depth + 30000, 1)[1] or "nothing"
      return {stacksplice.capture(depth, 1)[1], far}
    end
    local function outermost()
      local result = down(depth)
      return result
    end
    local found = outermost()
    assert.equal("down", found[1].name)
    assert.equal("nothing", found[2])
  end)

  describe("has of a call of a function in C", function()
    local wanted = {
      ["the name"] = {"up name of near", [[
        local up, object, module = look, {name = look}, {size = {of = look}}
        local function outer(...) up() ; object:name() ; module.size.of(...) end
        outer(1, 2, 3) ; local near = look ; near()]]},
      ["its own among those of the line"] = {"b a b a", "local a, b = look, look ; for i = 1, 2 do a(b()) end"},
      ["the name that a coroutine calls it by"] = {"step step", [[
        local t = {step = look}
        local co = coroutine.wrap(function() t.step() coroutine.yield() t.step() end)
        co() ; co()]]},
      ["the name of what called it"] = {"pcall", "pcall(look)"},
      -- Lua's own traceback names a message handler after the instruction that failed.
      ["none if nothing calls it"] = {"- - -", [[
        xpcall(function() local x = nil + 1 end, look) ; xpcall(function() local x = {} .. 'y' end, look)
        setmetatable({}, {__gc = look}) ; for i = 1, 100000000 do local t = {} if seen[3] then break end end]]},
      ["each at a place that calls and fails"] = {"f - f - f -", [[
        local function call(f) f(1, 2) end
        for i = 1, 3 do call(look) xpcall(call, look) end]]},
    }

    -- The name that the function of the script outside of it calls it by.
    local function look(seen)
      for _, frame in ipairs(stacksplice.capture()) do
        if frame.source == "called.lua" then
          seen[#seen + 1] = frame.calls or "-"
          return
        end
      end
    end

    for what, case in pairs(wanted) do
      it(what, function()
        for _ = 1, 20 do -- captures are kept, and repeated
          local seen = {}
          local env = setmetatable({seen = seen, look = coroutine.wrap(function()
            while true do
              look(seen)
              coroutine.yield()
            end
          end)}, {__index = _G})
          assert(load(case[2], "@called.lua", "t", env))()
          assert.equal(case[1], table.concat(seen, " "))
        end
      end)
    end
  end)

  it("is shown with that name where the function has another one", function()
    local again, object = string.rep, {arrange = table.sort}
    local function fail() again("x", {}) end
    local _, _, err = stacksplice.pcall(function() object.arrange({2, 1}, fail) end)
    local text = err:text({all_frames = true}) -- brief ones leave out functions of Lua that are nameless
    assert.truthy(text:find(" (Lua: again)", 1, true))
    assert.truthy(text:find(" (Lua: arrange)", 1, true))
    assert.truthy(err:json():find('"calls":"arrange"', 1, true))
    _, _, err = stacksplice.pcall(function() table.sort({2, 1}, fail) end)
    assert.truthy(err:text({all_frames = true}):find(" (Lua: again)", 1, true))
    assert.falsy(err:text():find("(Lua: sort)", 1, true))
  end)

  it("has the kind of a metamethod, and the place of what has no name", function()
    local function take()
      local stack = stacksplice.capture()
      return stack
    end
    local hooked
    local object = setmetatable({}, {__index = function() local stack = take() return stack end})
    assert.truthy(object.field[2].name:find("^metamethod '_*index'$")) -- Lua 5.3 says "__index"
    assert.truthy(({function() local stack = take() return stack end})[1]()[2].name:find("^function <"))
    debug.sethook(function() debug.sethook() hooked = take() end, "l")
    assert.truthy(hooked[2].name:find("^function <"))
  end)

  it("can be written to at once", function()
    local stack, other = capture_twice()
    stack[1] = "first"
    table.insert(other, "last")
    assert.equal("first", stack[1])
    assert.equal("last", other[#other])
    assert.equal(#stack + 1, #other)
    assert.equal(stack[2].address, other[2].address)
  end)

  it("tells of functions that are gone", function()
    local chunk = assert(load("local capture = ...\nlocal stack = capture()\nreturn stack", "=gone"))
    local stack = chunk(stacksplice.capture)
    chunk = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.is_true(is_unread(stack))
    assert.equal("gone", stack[1].source)
    assert.equal(2, stack[1].currentline)
  end)

  it("keeps its metatable until then", function()
    local stack = stacksplice.capture()
    local frames = assert(#stacksplice.capture())
    assert.is_false((pcall(setmetatable, stack, {})))
    assert.is_false(getmetatable(stack))
    assert.equal(frames, #stack)
    assert.equal(stack, setmetatable(stack, {}))
  end)

  it("believes no script", function()
    local stack, other = capture_twice()
    local key = next(stack)
    local metatable = debug.getmetatable(stack)
    for _, value in ipairs({io.stdout, {}, 1, "text"}) do
      local forged = rawset(stacksplice.capture(), key, value)
      assert.equal(0, #forged)
      assert.equal(value, rawget(forged, key))
    end
    assert.is_nil(debug.setmetatable({}, metatable)[1])
    assert.equal(0, #debug.setmetatable({}, metatable))
    assert.is_false((pcall(metatable.__index, io.stdout, 1)))
    rawset(stack, key, rawget(other, key))
    assert.equal(tell(other), tell(stack))
  end)
end)

describe("a function that a tail call began", function()
  local compile = loadstring or load -- luacheck: ignore 113 (5.1)

  -- The name of the function that captures, at line 2 of the chunk.
  local function name_in(source)
    local chunk = assert(compile("local capture, stack = ...\n" .. source .. "\nreturn stack", "=case"))
    for _, frame in ipairs(chunk(stacksplice.capture)) do
      if frame.currentline == 2 then return frame.name end
    end
  end

  it("does not have the name by which the one before was called", function()
    for _, called in ipairs {
      "local function first() return last() end\nlocal x = first()",
      "local function first() return last() end\nlocal function between() local x = first() return x end\nbetween()",
      "function case_first() return last() end\nlocal x = case_first()",
      "local function first() return last() end\nlocal coroutine_of = coroutine.wrap(function()\nlocal x = first() end)\n"
        .. "coroutine_of()",
      "local first\nfor x in function() first = true return last() end do break end",
    } do
      local name = name_in("local function last() stack = capture() return stack end\n" .. called)
      assert.truthy(name:find("^function <case:2>$"), name .. " in " .. called)
      name = name_in("function case_last() stack = capture() return stack end local last = case_last\n" .. called)
      assert.truthy(name == "case_last" or name == "function <case:2>", name .. " in " .. called)
    end
    _G.case_first, _G.case_last = nil, nil
  end)

  it("has its name where it was called by it", function()
    assert.equal("last", name_in("local function last() stack = capture() return stack end\nlast()"))
    assert.equal("last", name_in("local function last() stack = capture() return stack end\n"
      .. "local function between() local x = last() return x end\nbetween()"))
    assert.equal("case_last", name_in("function case_last() stack = capture() return stack end\ncase_last()"))
    assert.equal("case_last", name_in("function case_last() case_last = nil stack = capture() return stack end\ncase_last()"))
    _G.case_last = nil
  end)
end)
