-- luacheck: std +busted, globals coroutine debug
-- stacksplice.wrap and stacksplice.resume do what Lua's own do, and remember.
local stacksplice = require "stacksplice"

local modern = _VERSION > "Lua 5.3"
if _VERSION == "Lua 5.2" then _G.stacksplice = stacksplice end -- its messages name global functions only
local ENDED = "the coroutine ended here; its caller had resumed it"

-- What one of the two pairs of functions makes of a case: all results as a text.  In a coroutine, whose
-- stack, which some cases make large, is gone afterwards.
local function results_of(wrap, resume, f)
  local results = coroutine.wrap(function() return table.pack(pcall(f, wrap, resume)) end)()
  collectgarbage()
  for i = 1, results.n do
    local text = tostring(results[i]):gsub("0x%x+", "0x"):gsub("'stacksplice%.", "'coroutine.")
    results[i] = math.type(results[i]) or type(results[i]) .. ":" .. text
  end
  return table.concat(results, "\n")
end

local cases = {
  ["results"] = function(wrap, resume)
    return wrap(function(...) return ... end)(1, nil, 3), resume(coroutine.create(select), "#", nil, nil)
  end,
  ["yields"] = function(wrap, resume)
    local f = wrap(function(a, ...) local b, c = coroutine.yield(a, ...) return b, c end)
    local co = coroutine.create(function(...) coroutine.yield(...) error("late") end)
    return f(1, 2), select("#", f(nil, nil)), resume(co, 1, 2), resume(co), coroutine.status(co)
  end,
  ["a string"] = function(wrap) wrap(error)("text", 0) end,
  ["a string with its place"] = function(wrap) wrap(function() error("text") end)() end,
  ["a number"] = function(wrap) wrap(error)(42) end,
  ["a float"] = function(wrap) wrap(error)(4.5) end,
  ["nothing"] = function(wrap) wrap(error)() end,
  ["false"] = function(wrap) wrap(error)(false) end,
  ["a table"] = function(wrap) wrap(error)({}) end,
  ["an error of Lua's"] = function(wrap) wrap(function() return nil + 1 end)() end,
  ["wrapped in wrapped"] = function(wrap)
    local function nest(n) if n == 0 then error("deep") end wrap(nest)(n - 1) end
    nest(5)
  end,
  ["a dead one"] = function(wrap) local f = wrap(next) f({}) f({}) end,
  ["one that failed"] = function(wrap) local f = wrap(error) pcall(f, "x") f() end,
  ["the results of resume"] = function(_, resume)
    local co = coroutine.create(error)
    local a, b = resume(co, "text", 0)
    local c, d = resume(co)
    local e, f = resume(coroutine.running())
    return a, b, c, d, e, f, coroutine.status(co), debug.traceback(co)
  end,
  ["itself"] = function(wrap, resume)
    local f f = wrap(function() return pcall(f) end)
    local co co = coroutine.create(function() return resume(co) end)
    return select(2, f()), resume(co)
  end,
  ["too many arguments"] = function(_, resume)
    local function deep(n) if n == 0 then coroutine.yield() else deep(n - 1) end return n end
    local co = coroutine.create(deep)
    resume(co, 60000)
    return resume(co, table.unpack({}, 1, 900000))
  end,
  ["too many results"] = function(wrap, resume)
    local many = {}
    local function deep(n)
      if n > 0 then return 1 + deep(n - 1) end
      many[1], many[2] = resume(coroutine.create(table.unpack), {}, 1, 900000)
      return wrap(table.unpack)({}, 1, 900000)
    end
    return pcall(deep, 60000), many[1], many[2]
  end,
  ["no thread"] = function(_, resume) return pcall(resume), pcall(resume, 1), pcall(resume, print) end,
  ["no function"] = function(wrap) return pcall(wrap), pcall(wrap, 1), pcall(wrap, {}) end,
  ["an iterator"] = function(wrap)
    local sum = 0
    for i in wrap(function() for i = 1, 5 do coroutine.yield(i) end end) do sum = sum + i end
    return tostring(sum)
  end,
  ["an overflow"] = function(wrap) local function f() return wrap(f)() end f() end,
  ["whether it may yield"] = function(wrap, resume)
    return wrap(coroutine.isyieldable)(), resume(coroutine.create(coroutine.isyieldable))
  end,
}

if modern then
  local function with_close(source)
    return load("local wrap, resume = ... local function closing(f) return setmetatable({}, {__close = f}) end " .. source)
  end
  cases["a variable that is closed"] = with_close("local closed wrap(function() local c <close> = closing(function(_, e) "
    .. "closed = e end) error('text', 0) end)() ")
  cases["a closer that fails"] = with_close("wrap(function() local c <close> = closing(function() error('other', 0) end) "
    .. "error('text', 0) end)()")
  cases["a closer that fails with a table"] = with_close("wrap(function() local c <close> = closing(function() error({}) end) "
    .. "error('text', 0) end)()")
  cases["what resume leaves open"] = with_close("local closed local co = coroutine.create(function() local c <close> = "
    .. "closing(function(_, e) closed = e end) error('text', 0) end) local a, b = resume(co) local before = closed "
    .. "return a, b, before, coroutine.close(co), closed")
  cases["one that was closed"] = with_close("local co = coroutine.create(function() coroutine.yield() end) resume(co) "
    .. "coroutine.close(co) return resume(co)")
end

describe("wrap and resume", function()
  for name, f in pairs(cases) do
    it("do what Lua's own do with " .. name, function()
      local theirs = results_of(coroutine.wrap, coroutine.resume, f)
      local ours = results_of(stacksplice.wrap, stacksplice.resume, f)
      assert.equal(theirs, ours)
      assert.is_nil(stacksplice.peek_error())
    end)
  end

  it("let a coroutine that failed be looked at", function()
    local function fail() error({}) end
    local co = coroutine.create(function() fail() end)
    local _, value = stacksplice.resume(co)
    assert.is_table(value)
    assert.equal(debug.traceback(co), stacksplice.traceback(co))
    assert.truthy(stacksplice.traceback(co):find("fail", 1, true))
    local err = stacksplice.error_info(value)
    assert.equal("traceback", err.stack[1].trust)
    assert.equal(ENDED, err.stack[4].reason)
    assert.equal("error", err.stack[1].name)
  end)

  it("tell one story however often the error is wrapped", function()
    local function nest(n)
      if n == 0 then
        error("deep", 0)
      end
      stacksplice.wrap(nest)(n - 1)
    end
    local _, message, err = stacksplice.pcall(nest, 4)
    assert.equal(message, err.message)
    local gaps = 0
    for _, frame in ipairs(err.stack) do
      gaps = gaps + (frame.kind == "gap" and 1 or 0)
    end
    assert.equal(1, gaps)
    assert.truthy(message:find("deep$"))
  end)

  it("do not take an equal text for the same error", function()
    local function first() error("same", 0) end
    local function second() error("same", 0) end
    local one = stacksplice.wrap(first)
    pcall(one)
    local _, _, err = stacksplice.pcall(second)
    for _, frame in ipairs(err.stack) do
      assert.is_true(frame.trust ~= "traceback")
      assert.is_true(frame.kind ~= "gap")
    end
  end)

  if modern then
    it("do not take what a closer raises for the equal error before it", function()
      local run = load([[local wrap, value, closer = ...
        local function inner() error(value, 0) end
        wrap(function()
          local c <close> = setmetatable({}, {__close = closer})
          inner()
        end)()]])
      local function is_known(value, closer)
        local ok, _, err = stacksplice.pcall(run, stacksplice.wrap, value, closer)
        assert.is_false(ok)
        for _, frame in ipairs(err.stack) do
          if frame.name == "inner" then return true end
        end
        return false
      end
      for _, value in ipairs({"equal", ("equal "):rep(20), 7, 0.5, false}) do
        local function raise() error(value, 0) end
        assert.is_true(is_known(value, function() end))
        assert.is_true(is_known(value, function() pcall(raise) end))
        assert.is_false(is_known(value, raise))
      end
    end)
  end
end)

-- _G.assert is Lua's, assert is busted's.
describe("an error that resume returned", function()
  local function check(ok, ...)
    if not ok then error((...), 0) end
    return ...
  end
  local function check_all(...)
    if not ... then error(select(2, ...), 0) end
  end
  local function failing(value)
    local function inner() error(value, 0) end
    return coroutine.create(function() inner() end)
  end
  -- The names of what F's error has of the coroutine that failed, and its value.
  local function lost_frames(f)
    local ok, value, err = stacksplice.pcall(f)
    assert.is_false(ok)
    local names = {}
    for _, frame in ipairs(err.stack) do
      if frame.trust == "traceback" then names[#names + 1] = frame.name or "?" end
    end
    return table.concat(names, " "), value
  end
  local long = ("long "):rep(20)

  for name, case in pairs {
    ["raised where it was returned"] = function(resume, value)
      local ok, e = resume(failing(value))
      if not ok then error(e, 0) end
    end,
    ["raised with a place"] = function(resume, value)
      local ok, e = resume(failing(value))
      if not ok then error(e) end
    end,
    ["raised with the caller's place"] = function(resume, value)
      local function step()
        local ok, e = resume(failing(value))
        if not ok then error(e, 2) end
      end
      step()
    end,
    ["raised after others"] = function(resume, value)
      local ok, e = resume(failing(value))
      stacksplice.pcall(error, "another", 0)
      stacksplice.pcall(error, value, 0)
      if not ok then error(e, 0) end
    end,
    ["asserted"] = function(resume, value) _G.assert(resume(failing(value))) end,
    ["asserted at the end"] = function(resume, value) return _G.assert(resume(failing(value))) end,
    ["checked by a function"] = function(resume, value) check(resume(failing(value))) end,
    ["checked by one with any arguments"] = function(resume, value) check_all(resume(failing(value))) end,
  } do
    for _, value in ipairs {"short", long, 42} do
      it("keeps its frames: " .. name .. ", " .. value, function()
        local names, raised = lost_frames(function() case(stacksplice.resume, value) end)
        assert.truthy(names:find("error.* function <"), names)
        assert.truthy(tostring(raised):find(value .. "$"))
      end)
    end
  end

  it("keeps them out of coroutines in coroutines", function()
    local function step(n)
      if n == 0 then _G.assert(stacksplice.resume(failing("deep"))) end
      _G.assert(stacksplice.resume(coroutine.create(step), n - 1))
    end
    local names, value = lost_frames(function() step(3) end)
    assert.truthy(names:find("error.* function <"), names)
    assert.truthy(value:find("deep$"), value)
  end)

  for name, case in pairs {
    ["elsewhere"] = function(resume, value)
      local ok, e = resume(failing(value))
      local function other() error(value, 0) end
      return other(), ok, e
    end,
    ["where the results are no more"] = function(resume, value)
      do local _ = resume(failing(value)) end
      error(value, 0)
    end,
    ["in a later call of the same function"] = function(resume, value)
      local function step(fails)
        if fails then error(value, 0) end
        local ok, e = resume(failing(value))
        return ok, e
      end
      step(false)
      step(true)
    end,
    ["by a check of something else"] = function(resume, value)
      local function step(fails)
        if fails then check(false, value) end
        return (resume(failing(value)))
      end
      step(false)
      step(true)
    end,
    ["after an equal one of the same call"] = function(resume, value)
      local _, e = resume(failing(value))
      local ok, other = resume(coroutine.create(error), e, 0)
      error(ok or e, 0, other)
    end,
    ["behind another place"] = function(resume, value)
      local ok, e = resume(failing(value))
      error(ok or "here: " .. e, 0)
    end,
  } do
    for _, value in ipairs {"short", long} do
      it("is not taken for an equal one: " .. name .. ", " .. #value, function()
        assert.equal("", lost_frames(function() case(stacksplice.resume, value) end))
      end)
    end
  end
end)

describe("a coroutine that fails in what a function in C had called", function()
  local is_jit = rawget(_G, "jit") ~= nil
  local LOST = "functions that C called here may be missing: LuaJIT drops them where a coroutine fails"
  local function leaf() error({}) end
  local line = debug.getinfo(leaf, "S").linedefined
  local function with(event) return setmetatable({}, {[event] = function() leaf() return "" end}) end
  local calls = { -- of C, and that have lost nothing
    sort = function() table.sort({2, 1}, function() leaf() return false end) end,
    ["sort in sort"] = function() table.sort({2, 1}, function() table.sort({2, 1}, leaf) return false end) end,
    gsub = function() string.gsub("x", "x", function() leaf() end) end,
    require = function()
      package.preload["fails.when.loaded"], package.loaded["fails.when.loaded"] = function() leaf() end, nil
      require "fails.when.loaded"
    end,
    ["gsub in a coroutine"] = function()
      stacksplice.wrap(function() string.gsub("x", "x", function() leaf() end) end)()
    end,
  }
  local others = {
    tostring = function() tostring(with "__tostring") end,
    index = function() return with("__index").missing .. "" end,
    iterator = function() for _ in function() leaf() end do _G.assert(false) end end,
    direct = function() leaf() return 1 end,
    ["after a call of C"] = function() table.sort({2, 1}, function(a, b) return a < b end) leaf() return 1 end,
  }
  -- The error of a coroutine that runs F; whether it has the line of the raise, and that gap.
  local function seen_of(f, how)
    local _, _, err = stacksplice.pcall(function()
      if how == "wrap" then stacksplice.wrap(f)() end
      local _, value = stacksplice.resume(coroutine.create(f))
      error(value)
    end)
    local raised, lost
    for _, frame in ipairs(err.stack) do
      raised = raised or frame.currentline == line
      lost = lost or frame.reason == LOST
    end
    return raised or false, lost or false
  end

  for _, how in ipairs {"wrap", "resume"} do
    for name, f in pairs(calls) do
      it("has the raise, or a gap in LuaJIT: " .. name .. ", " .. how, function()
        local raised, lost = seen_of(f, how)
        assert.equal(not is_jit, raised)
        assert.equal(is_jit, lost)
      end)
    end
    for name, f in pairs(others) do
      it("has no such gap without that: " .. name .. ", " .. how, function()
        local raised, lost = seen_of(f, how)
        assert.is_true(raised)
        assert.is_false(lost)
      end)
    end
    it("has no such gap where that function itself raises, " .. how, function()
      for _, f in ipairs {function() table.concat({{}}) return 1 end, function() error({}) return 1 end,
          function() return _G.assert(nil, "no") .. "" end} do
        local _, lost = seen_of(f, how)
        assert.is_false(lost)
      end
    end)
  end
end)

describe("install", function()
  it("replaces wrap, resume and traceback until it is uninstalled", function()
    local wrap, resume, traceback = coroutine.wrap, coroutine.resume, debug.traceback
    local uninstall = stacksplice.install()
    assert.is_true(coroutine.wrap ~= wrap and coroutine.resume ~= resume)
    assert.is_true(debug.traceback ~= traceback and debug.traceback ~= stacksplice.traceback) -- one for each name
    local text = coroutine.wrap(function()
      local _, value = coroutine.resume(coroutine.create(function(value) error(value) end), {})
      return debug.traceback("m", 0), value
    end)()
    assert.truthy(text:find("traceback'", 1, true))
    for _ = 1, 2 do
      uninstall()
      assert.is_true(coroutine.wrap == wrap and coroutine.resume == resume and debug.traceback == traceback)
    end
  end)

  it("lets debug.traceback name itself as Lua's own does", function()
    local said, uninstall = {}, nil
    for i = 1, 2 do
      said[i] = debug.traceback("hi", 0) .. tostring(select(2, pcall(debug.traceback, "hi", {})))
        .. tostring(select(2, pcall(debug.traceback, coroutine.create(function() end), "hi", {})))
      uninstall = uninstall or stacksplice.install()
    end
    uninstall()
    assert.equal(said[1], said[2])
    assert.truthy(said[1]:find("traceback", 1, true))
  end)

  it("leaves what others put there meanwhile", function()
    local wrap, resume, traceback = coroutine.wrap, coroutine.resume, debug.traceback
    local uninstall = stacksplice.install()
    local function other() end
    coroutine.wrap, debug.traceback = other, other
    uninstall()
    local left = {coroutine.wrap, debug.traceback}
    coroutine.wrap, debug.traceback = wrap, traceback
    assert.same({other, other}, left)
    assert.is_true(coroutine.resume == resume)
  end)

  it("leaves what others had put there before", function()
    local own = {wrap = coroutine.wrap, resume = coroutine.resume, traceback = debug.traceback}
    local calls = {wrap = 0, resume = 0, traceback = 0}
    local function counting(name)
      return function(...)
        calls[name] = calls[name] + 1
        return own[name](...)
      end
    end
    local theirs = {wrap = counting "wrap", resume = counting "resume", traceback = counting "traceback"}
    coroutine.wrap, coroutine.resume, debug.traceback = theirs.wrap, theirs.resume, theirs.traceback
    local uninstall = stacksplice.install()
    coroutine.wrap(function() end)()
    coroutine.resume(coroutine.create(function() end))
    local text = debug.traceback("m")
    uninstall()
    local left = {wrap = coroutine.wrap, resume = coroutine.resume, traceback = debug.traceback}
    coroutine.wrap, coroutine.resume, debug.traceback = own.wrap, own.resume, own.traceback
    assert.same({wrap = 1, resume = 1, traceback = 1}, calls)
    assert.same(theirs, left)
    assert.equal("m\nstack traceback:", text:match("^[^\n]*\n[^\n]*"))
  end)

  it("lets the lines of coroutines be counted", function()
    local wrap, lines = coroutine.wrap, {}
    local function count(_, line) lines[#lines + 1] = line end
    coroutine.wrap = function(f) -- luacov's way
      local co = coroutine.create(f)
      debug.sethook(co, count, "l")
      return function(...) return select(2, assert(coroutine.resume(co, ...))) end
    end
    local uninstall = stacksplice.install()
    local f = assert(load("local a = 1\nlocal b = 2\nreturn a + b", "=counted"))
    local sum = coroutine.wrap(f)()
    uninstall()
    coroutine.wrap = wrap
    assert.equal(3, sum)
    assert.same({1, 2, 3}, lines)
  end)

  it("may be called twice", function()
    local wrap = coroutine.wrap
    local first = stacksplice.install()
    local second = stacksplice.install()
    second()
    first()
    assert.is_true(coroutine.wrap == wrap)
  end)

  it("lets functions of coroutines keep the name of the library's", function()
    local uninstall = stacksplice.install()
    local text
    local co = coroutine.create(function()
      local ok, value = pcall(coroutine.resume, coroutine.create(function()
        text = debug.traceback((coroutine.running()))
        error("in it")
      end))
      return ok, value
    end)
    coroutine.resume(co)
    local mixed = stacksplice.pcall(coroutine.wrap, 1)
    local _, message = pcall(coroutine.wrap, 1)
    uninstall()
    assert.is_string(text)
    assert.is_false(mixed)
    assert.truthy(message:find("bad argument #1 to '[%a.]*wrap'") or message:find("bad argument #1 to '?'", 1, true))
    assert.is_nil(message:find("stacksplice", 1, true))
  end)

  it("works where the libraries are not what they were", function()
    local loaded, kept_debug, kept_coroutine = package.loaded, debug, coroutine
    loaded.debug, loaded.coroutine = nil, "no table"
    local ok, uninstall = pcall(stacksplice.install)
    if ok then uninstall() end
    loaded.debug, loaded.coroutine = kept_debug, kept_coroutine
    assert.is_true(ok)
  end)
end)

describe("a finalizer that runs after ours", function()
  it("can use everything that needs no error's stack", function()
    local program = ([[
      local late = setmetatable({}, {__gc = function(self)
        local s = self.module
        local seen = {s.pcall(error, "x")}
        assert(#seen == 2 and seen[1] == false and seen[2] == "x")
        assert(select("#", s.pcall(select, "#", 1, 2)) == 2)
        assert(select(2, s.xpcall(error, function(m) return m .. "!" end, "x")) == "x!")
        assert(s.traceback("tb"):find("^tb\nstack traceback:\n"))
        assert(select(2, xpcall(error, s.handler, "h")) == "h")
        assert(s.wrap(function() return 1 end)() == 1)
        assert(select(2, s.resume(coroutine.create(error), "w", 0)) == "w")
        assert(not pcall(s.wrap(error), "w"))
        io.stdout:write("all is well\n")
      end})
      late.module = require "stacksplice"
      keep = late
    ]])
    local name = os.tmpname()
    local file = assert(io.open(name, "w"))
    file:write(("package.cpath = %q\n"):format(package.cpath), program)
    file:close()
    local interpreter
    for i = 0, -10, -1 do
      interpreter = arg and arg[i] or interpreter
    end
    local pipe = assert(io.popen(("'%s' '%s' 2>&1"):format(interpreter, name)))
    local output = pipe:read("*a")
    pipe:close()
    os.remove(name)
    assert.equal("all is well\n", output)
  end)
end)

describe("tail calls", function()
  local said = "Lua tail calls replaced the frames of the callers"
  local function fail(value) error(value) end

  it("are said where Lua keeps no frame of the callers", function()
    local line = debug.getinfo(fail, "S").linedefined
    local function middle(value) return fail(value) end
    local function outer(value) middle(value) return 1 end
    local err, at = select(3, stacksplice.pcall(outer, {})), nil
    for i, frame in ipairs(err.stack) do
      if frame.currentline == line then at = i end
    end
    assert.equal("gap lua " .. said, table.concat({err.stack[at + 1].kind, err.stack[at + 1].language,
      err.stack[at + 1].reason}, " "))
    assert.equal(debug.getinfo(outer, "S").linedefined, err.stack[at + 2].currentline)
    assert.truthy(err:text():find("\n%s*%[gap: " .. said .. "%]\n"))
    assert.truthy(err:json():find('"reason":"' .. said .. '"', 1, true))
    assert.is_nil(err:text():match(said .. ".*" .. said))
  end)

  it("are said of a coroutine that failed, however many there are", function()
    local function deep(n, value)
      if n == 0 then error(value) end
      local function again() deep(n - 1, value) return 1 end
      return again()
    end
    local value = {}
    stacksplice.resume(coroutine.create(deep), 100, value)
    local err, count = stacksplice.error_info(value), 0
    for _, frame in ipairs(err.stack) do
      if frame.reason == said then count = count + 1 end
      if frame.reason == ENDED then break end
    end
    assert.equal(100, count)
  end)

  it("are said of one that failed with many frames", function()
    local before = stacksplice.set_max_frames(2000)
    finally(function()
      stacksplice.set_max_frames(before)
    end)
    local function deep(n, value)
      if n == 0 then error(value) end
      local function again() deep(n - 1, value) return 1 end
      return again()
    end
    local value, elements, returned = {}, 0, nil
    stacksplice.resume(coroutine.create(deep), 250, value)
    for _, frame in ipairs(stacksplice.error_info(value).stack) do
      if frame.reason == ENDED then returned = true break end
      if frame.kind == "gap" or frame.source ~= "[C]" then elements = elements + 1 end
    end
    assert.is_true(returned)
    assert.equal(251 + 250, elements)
  end)
end)

describe("debug.traceback of install()", function()
  local short = debug.getinfo(1, "S").short_src

  local function fail() local r = error("x", 0) return r end
  local function inner() local r = fail() return r end
  local function deep(n) if n == 0 then local r = fail() return r end local r = deep(n - 1) return r end
  local function line_of(f) return debug.getinfo(f, "S").linedefined end

  -- "12 13 | 20": the lines of this file that the text of HANDLER has, and "|" for the seam.
  local function lines_of(f, handler)
    local parts = {}
    local _, text = xpcall(f, handler)
    for line in text:gmatch("\n\t([^\n]*)") do
      local number = line:sub(1, #short + 1) == short .. ":" and line:match("^(%d+)", #short + 2)
      parts[#parts + 1] = number or (line:find(ENDED, 1, true) and "|") or (line:find("...", 1, true) == 1 and "...") or nil
    end
    return table.concat(parts, " "), text
  end

  local function wraps() local r = coroutine.wrap(inner)() return r end
  local function wraps_twice() local r = coroutine.wrap(wraps)() return r end
  local function later(e) local text = debug.traceback(e, 2) return text end
  local function with_itself(e) local text = debug.traceback(e) return text end
  local function begins(with, text) assert.equal(with, text:sub(1, #with)) end

  for name, options in pairs{["with pcall"] = {pcall = true}, without = {}} do
    it("has the frames of the coroutine that ended: " .. name, function()
      finally(stacksplice.install(options))
      local there = ("%d %d | "):format(line_of(fail), line_of(inner))
      begins(there .. line_of(wraps), (lines_of(wraps, debug.traceback)))
      begins(there .. line_of(wraps), (lines_of(wraps, later)))
      begins(line_of(with_itself) .. " " .. there .. line_of(wraps), (lines_of(wraps, with_itself)))
      begins(("%s%d "):format(there, line_of(wraps)), (lines_of(wraps_twice, debug.traceback)))
      assert.is_not_nil(lines_of(wraps_twice, debug.traceback):find(" " .. line_of(wraps_twice), 1, true))
    end)

    it("has both ends of many: " .. name, function()
      finally(stacksplice.install(options))
      local found, text = lines_of(function() coroutine.wrap(deep)(100) end, debug.traceback)
      begins(tostring(line_of(fail)), found)
      assert.is_not_nil(found:find("...", 1, true))
      -- the message and a title, 22 lines of the coroutine, a seam, 22 of its callers
      assert.is_true(select(2, text:gsub("\n", "")) < 47)
    end)

    it("is that of Lua where no coroutine ended: " .. name, function()
      local plain = debug.traceback
      finally(stacksplice.install(options))
      local function both(e) return {plain(e), (debug.traceback(e))} end
      local function alone() pcall(wraps) local r = inner() return r end
      local _, texts = xpcall(alone, both)
      assert.equal(texts[1], texts[2])
      coroutine.wrap(function() _, texts = xpcall(inner, both) end)()
      assert.equal(texts[1], texts[2])
    end)
  end
end)
