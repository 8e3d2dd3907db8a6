-- luacheck: std +busted
-- What an error was made from, notes, and raising again.
local stacksplice = require "stacksplice"

local function raise(value)
  error(value, 0)
end

local function error_of(f, ...)
  return select(3, stacksplice.pcall(f, ...))
end

describe("a cause", function()
  it("is the field of the error value", function()
    local _, inner, first = stacksplice.pcall(raise, {code = 1})
    local effect = {code = 2, cause = inner}
    local err = error_of(raise, effect)
    assert.equal(first, err.cause)
    assert.is_true(rawequal(first, err.cause))
    assert.is_true(rawequal(inner, err.cause.value))
    assert.is_true(rawequal(effect, err.value))
    assert.equal("cause", err.relation)
    assert.is_nil(first.cause)
    assert.is_nil(first.relation)
  end)

  it("may be an error object, a string or a table that was never raised", function()
    local known = error_of(raise, "the first")
    assert.equal(known, error_of(raise, {cause = known}).cause)
    local text = error_of(raise, {cause = "only a text"}).cause
    assert.equal("only a text", text.message)
    assert.equal("only a text", text.value)
    local never = setmetatable({}, {__tostring = function() return "never raised" end})
    local err = error_of(raise, {cause = never})
    assert.is_true(rawequal(never, err.cause.value))
    assert.equal("never raised", tostring(err.cause))
    assert.equal("gap", err.cause.stack[1].kind)
    assert.equal("frames here had already returned", err.cause.stack[1].reason)
    assert.equal(err.cause, stacksplice.error_info(never))
  end)

  it("is no other data under that name", function()
    for _, data in ipairs {1, true, print, coroutine.create(function() end)} do
      assert.is_nil(error_of(raise, {cause = data}).cause)
    end
    assert.is_nil(error_of(raise, {cause = false}).cause)
    assert.is_nil(error_of(raise, setmetatable({}, {__index = {cause = "inherited"}})).cause)
  end)

  it("is asked of userdata as their metatable gives it", function()
    local file = io.tmpfile()
    local methods = debug.getmetatable(file).__index
    methods.cause = "in the metatable"
    local err = error_of(raise, file)
    methods.cause = nil
    assert.equal("in the metatable", err.cause.message)
  end)

  it("has causes of its own", function()
    local value
    for i = 1, 20 do
      value = {hresult = 0x80070000 + i, cause = value}
    end
    local err = error_of(raise, value)
    for i = 20, 1, -1 do
      assert.equal(0x80070000 + i, err.hresult)
      err = err.cause
    end
    assert.is_nil(err)
  end)

  it("is in the reports", function()
    local err = error_of(raise, {cause = error_of(raise, "deep inside")})
    assert.truthy(err:text():find("deep inside", 1, true))
    assert.truthy(err:json():find("deep inside", 1, true))
  end)

  it("that leads back to its effect ends there", function()
    local a, b = {}, {}
    a.cause, b.cause = b, a
    local err = error_of(raise, a)
    assert.is_true(rawequal(b, err.cause.value))
    assert.is_nil(err.cause.cause)
    local own = {}
    own.cause = own
    assert.is_nil(error_of(raise, own).cause)
  end)

  it("of a very long chain is cut, and nothing overflows", function()
    local value
    for _ = 1, 100000 do
      value = {cause = value}
    end
    local err, depth = error_of(raise, value), 0
    while err do
      err, depth = err.cause, depth + 1
    end
    assert.equal(151, depth)
    value = nil
    for _ = 1, 400 do -- a loop of retries: each is an error before it is a cause
      value = {cause = value}
      err = error_of(raise, value)
    end
    depth = 0
    while err do
      err, depth = err.cause, depth + 1
    end
    assert.truthy(depth <= 151, depth)
  end)

  it("survives with its effect, and is collected with it", function()
    local weak = setmetatable({}, {__mode = "v"})
    local effect = {}
    do
      local cause = {}
      weak.cause, weak.effect = cause, effect
      effect.cause = cause
      cause.effect = effect -- a circle of values
      error_of(raise, effect)
      effect.cause = nil
    end
    error_of(raise, "another")
    collectgarbage()
    collectgarbage()
    assert.is_true(rawequal(weak.cause, stacksplice.error_info(effect).cause.value))
    stacksplice.originate(effect)
    collectgarbage()
    assert.is_true(rawequal(weak.cause, stacksplice.take_error().cause.value))
    effect = nil -- luacheck: ignore
    for _ = 1, 4 do
      stacksplice.peek_error()
      collectgarbage()
    end
    assert.is_nil(weak.effect)
    assert.is_nil(weak.cause)
  end)

  it("that is a string lives with its effect", function()
    local err = error_of(raise, {cause = "text " .. 1})
    error_of(raise, "another")
    collectgarbage()
    collectgarbage()
    assert.equal("text 1", err.cause.value)
    local value = err.value
    err = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    stacksplice.originate(value)
    assert.equal("text 1", stacksplice.take_error().cause.value)
  end)

  it("is one error however often and by whomever it is asked", function()
    local value = {cause = "text"}
    value.again = setmetatable({cause = value}, {__tostring = function(self)
      stacksplice.originate(value)
      stacksplice.take_error()
      return "again " .. tostring(self.cause.cause)
    end})
    local err = error_of(raise, value.again)
    assert.equal("again text", err.message)
    assert.is_true(rawequal(value, err.cause.value))
    assert.equal(err.cause.cause, stacksplice.error_info(value).cause)
  end)
end)

describe("stacksplice.error", function()
  local function fail(...)
    stacksplice.error(...)
  end

  it("raises as error does", function()
    local line = debug.getinfo(fail, "S").linedefined + 1
    local place = debug.getinfo(1, "S").short_src .. ":" .. line .. ": "
    assert.equal(place .. "text", (select(2, pcall(fail, "text"))))
    local value = {}
    assert.is_true(rawequal(value, select(2, pcall(fail, value))))
    assert.equal(12, (select(2, pcall(fail, 12))))
    assert.equal(false, (select(2, pcall(fail, false, "cause"))))
    assert.is_false((pcall(stacksplice.error)))
    assert.is_nil(stacksplice.peek_error())
  end)

  it("gives any value a cause", function()
    local cause = error_of(raise, {})
    for _, value in ipairs {"text", 12, false, {}, string.gmatch("", ""), io.tmpfile()} do
      local ok, got, err = stacksplice.pcall(fail, value, cause)
      assert.is_false(ok)
      assert.equal(cause, err.cause)
      assert.equal(got, err.value)
      assert.equal(cause, stacksplice.error_info(got).cause)
    end
  end)

  it("is found after a plain pcall, too", function()
    local _, got = pcall(fail, "text", "its cause")
    local err = stacksplice.error_info(got)
    assert.equal("its cause", err.cause.message)
    assert.equal(debug.getinfo(fail, "S").linedefined + 1, err.stack[1].currentline)
  end)

  it("is not in the stack itself", function()
    local err = error_of(fail, "text")
    assert.equal(debug.getinfo(fail, "S").linedefined + 1, err.stack[1].currentline)
  end)

  it("leaves the cause that an error has", function()
    local value = {cause = "the first"}
    local err = error_of(raise, value)
    for _, known in ipairs {value, err} do
      local ok, message = pcall(fail, known, "another")
      assert.is_false(ok)
      assert.truthy(tostring(message):find("error already", 1, true))
    end
    assert.equal("the first", err.cause.message)
    assert.is_true(rawequal(err, select(2, pcall(fail, err))))
    assert.is_true(rawequal(value, select(2, pcall(fail, value))))
  end)

  it("keeps the causes of texts as long as they are wanted", function()
    local err
    for i = 1, 10 do
      err = error_of(fail, "text " .. i, err)
      error_of(raise, "another")
      collectgarbage()
    end
    for i = 10, 1, -1 do
      assert.truthy(err.message:find("text " .. i, 1, true))
      assert.equal(err.message, err.value)
      err = err.cause
    end
    assert.is_nil(err)
  end)
end)

describe("raising an error object again", function()
  it("adds nothing", function()
    local err = error_of(raise, {})
    local stack = #err.stack
    for _ = 1, 3 do
      assert.is_true(rawequal(err, select(2, pcall(error, err))))
      assert.is_true(rawequal(err, select(3, stacksplice.pcall(error, err))))
      assert.is_true(rawequal(err, error_of(function() error(err, 2) end)))
    end
    assert.equal(0, #err.propagation)
    assert.equal(stack, #err.stack)
  end)

  it("adds a node by propagate, and leaves the thread's slot alone", function()
    local err = error_of(raise, {})
    local function again()
      error(stacksplice.propagate(err))
    end
    assert.is_true(rawequal(err, select(2, pcall(again))))
    assert.is_nil(stacksplice.peek_error())
    assert.equal(1, #err.propagation)
    assert.equal("lua", err.propagation[1].language)
    assert.equal(debug.getinfo(again, "S").linedefined + 1, err.propagation[1].stack[1].currentline)
    local other = stacksplice.originate("other")
    assert.is_true(rawequal(err, stacksplice.propagate(err.value)))
    assert.equal(2, #err.propagation)
    assert.equal(other, stacksplice.take_error())
    assert.equal(0, #other.propagation)
  end)

  it("adds a node to the thread's error without an argument", function()
    local err = stacksplice.originate("text")
    assert.equal(err, stacksplice.propagate())
    assert.equal(1, #err.propagation)
    assert.equal(err, stacksplice.take_error())
    assert.is_false((pcall(stacksplice.propagate)))
  end)
end)

describe("notes", function()
  it("are added and told in order", function()
    local err = error_of(raise, {})
    assert.same({}, err.notes)
    assert.is_true(rawequal(err, err:add_note("while loading x")))
    err:add_note("a\0b"):add_note("")
    assert.same({"while loading x", "a\0b", ""}, err.notes)
    assert.is_false((pcall(err.add_note, err)))
    assert.is_false((pcall(err.add_note, "no error", "note")))
  end)

  it("are bounded", function()
    local err = error_of(raise, {})
    for i = 1, 1000 do
      err:add_note("note " .. i)
    end
    assert.equal(150, #err.notes)
    assert.equal("note 150", err.notes[150])
  end)
end)

describe("an error object", function()
  it("joins texts as its message", function()
    local err = error_of(raise, "the message")
    assert.equal("failed: the message", "failed: " .. err)
    assert.equal("the message!", err .. "!")
    assert.equal("the messagethe message", err .. err)
  end)

  it("tells what is known of it", function()
    local err = error_of(raise, {hresult = 0x80070002})
    assert.equal(2, err.errno)
    assert.is_nil(error_of(raise, {}).errno)
    assert.is_nil(err.errors)
    assert.equal("integer", math.type(err.thread_id))
    assert.truthy(err.fingerprint:match("^%x+$"))
    assert.equal(32, #err.fingerprint)
  end)
end)

-- The method runs because of an error, and what it raises takes the place of that one.
if load("local c <close> = nil") then
  describe("an error in a method __close has the one that it replaces as its context", function()
    local environment = setmetatable({
      closing = function(f) return setmetatable({}, {__close = f}) end, stacksplice = stacksplice, raise = raise,
    }, {__index = _G})

    local function compile(source)
      return assert(load(source, "=case", "t", environment))
    end

    local function with_handler(chunk)
      local _, value = xpcall(chunk, stacksplice.handler)
      return stacksplice.error_info(value)
    end

    local function in_coroutine(way)
      return function(chunk)
        return select(2, coroutine.resume(coroutine.create(way), chunk))
      end
    end

    local ways = {
      ["stacksplice.pcall"] = error_of, ["xpcall"] = with_handler, ["stacksplice.pcall in a coroutine"] = in_coroutine(error_of),
      ["xpcall in a coroutine"] = in_coroutine(with_handler),
    }

    -- "second 2 < first 5 < ...": messages, each with the line that its stack has first, and their contexts.
    local function story(err)
      local parts = {}
      while err do
        local line
        for _, frame in ipairs(err.stack) do
          line = line or frame.source == "case" and frame.currentline or frame.kind == "gap" and "(gap)"
        end
        parts[#parts + 1] = tostring(err.message) .. " " .. tostring(line) .. (err.relation == "cause" and " caused by" or "")
        err = err.cause
      end
      return table.concat(parts, " < ")
    end

    for name, case in pairs {
      ["with a text"] = {"second 2 < first 4", "local c <close> = closing(function()\nerror('second', 0)\nend)\nerror('first', 0)"},
      ["far inside"] = {"second 2 < first 4", "local function f() local x, y\nerror('second', 0) end\nlocal function g()"
        .. " local a, b, c <close> = 1, 2, closing(function() local x, y, z pcall(f) f() end)\nerror('first', 0) end\ng()"},
      ["with tables"] = {"{2} 2 < {1} 4", "local c <close> = closing(function()\nerror({2})\nend)\nerror({1})"},
      ["by a tail call"] = {"second 2 < first 3", "local function f()\nerror('second', 0) end\n"
        .. "local c <close> = closing(function() return f() end) error('first', 0)"},
      ["in three of them"] = {"4 2 < 3 3 < 2 4 < 1 5", "local a <close> = closing(function()\nerror('4', 0) end) "
        .. "local b <close> = closing(function()\nerror('3', 0) end) local c <close> = closing(function()\nerror('2', 0) end)\n"
        .. "error('1', 0)"},
      ["that a function of C raises"] = {"case:2: bad argument #1 to 'rep' (string expected, got no value) 2 < first 4",
        "local c <close> = closing(function()\nstring.rep()\nend)\nerror('first', 0)"},
      ["that is equal"] = {"same 2 < same 4", "local c <close> = closing(function()\nerror('same', 0)\nend)\nerror('same', 0)"},
      ["that names its cause"] = {'{cause = "cause"} 2 caused by < cause (gap)',
        "local c <close> = closing(function()\nerror({cause = 'cause'})\nend)\nerror('first', 0)"},
      ["that stacksplice.error raises"] = {"case:2: second 2 < first 4",
        "local c <close> = closing(function()\nstacksplice.error('second')\nend)\nerror('first', 0)"},
      ["that is the first again"] = {"{1} 4", "local c <close> = closing(function(_, e)\nerror(e)\nend)\nerror({1})"},
      ["after another one was caught in it"] = {"second 3 < first 5", "local c <close> = closing(function()\n"
        .. "stacksplice.pcall(raise, 'first') xpcall(raise, stacksplice.handler, 'third')\nerror('second', 0)\nend)\nerror('first', 0)"},
      ["with nothing on its way"] = {"second 2", "do local c <close> = closing(function()\nerror('second', 0) end) end\nerror('first', 0)"},
      ["in a call without a handler"] = {"second 4", "local ok, e = pcall(function()\n"
        .. "local c <close> = closing(function() error('second', 0) end)\nerror('first', 0) end)\nerror(e, 0)"},
      ["in a wrapped coroutine"] = {"case:5: second (gap) < first 4", "local co = stacksplice.wrap(function()\n"
        .. "local c <close> = closing(function() error('second', 0)\nend)\nerror('first', 0) end)\nco()"},
      ["in a wrapped coroutine, with tables"] = {"{2} (gap) < {1} 4", "local co = stacksplice.wrap(function()\n"
        .. "local c <close> = closing(function() error({2})\nend)\nerror({1}) end)\nco()"},
    } do
      for way, call in pairs(ways) do
        it(name .. ", by " .. way, function()
          assert.equal(case[1], story(call(compile(case[2]))))
        end)
      end
    end
  end)
end
