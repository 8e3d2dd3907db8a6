-- luacheck: std +busted, globals pcall xpcall
-- install{pcall = true}: an error that pcall or xpcall caught, raised again, has the frames of the place where it failed.
local stacksplice = require "stacksplice"

local here = debug.getinfo(1, "S").source:sub(2)
local SEAM = "caught by pcall here, raised again"
local original, original_xpcall = pcall, xpcall
local lua_assert = package.loaded._G.assert -- not that of the specs
local uninstall

local function deep(value)
  local result = error(value, 0)
  return result
end
local function fail(value) local result = deep(value) return result end
-- Where `error` begins no line, so that the numbers below are what they say.
local DEEP, FAIL = debug.getinfo(deep, "S").linedefined + 1, debug.getinfo(fail, "S").linedefined

-- "11 14 | 30": the lines of this file up to the caller of F, and "|" for the seam.
local function story(f, ...)
  local ok, value, err = stacksplice.pcall(f, ...)
  local parts = {}
  for _, frame in ipairs(err and err.stack or {}) do
    if frame.kind == "gap" then
      parts[#parts + 1] = frame.reason == SEAM and "|" or "(" .. frame.reason .. ")"
    elseif frame.source == here and frame.name ~= "story" then
      parts[#parts + 1] = tostring(frame.currentline)
    elseif frame.name == "story" then
      break
    end
  end
  return table.concat(parts, " "), value, err, ok
end

local function expected(line, ...)
  return (("%d %d | %d"):format(DEEP, FAIL, line)) .. table.concat({...}, " ")
end

local function line_of(f) return debug.getinfo(f, "S").linedefined end

-- A case with the pcall that keeps.
local function case(name, f)
  it(name, function()
    uninstall = stacksplice.install{pcall = true}
    finally(uninstall)
    f()
  end)
end

local values = {"a text", ("a long text "):rep(8), 7, 0.5, false, {}}

describe("an error that pcall caught", function()
  for _, value in ipairs(values) do
    case("has its first frames when it is raised again: " .. type(value), function()
      local function again() local ok, e = pcall(fail, value) if not ok then error(e, 0) end end
      local got, raised = story(again)
      assert.equal(value, raised)
      assert.equal(expected(line_of(again)), got:match("^%d+ %d+ | %d+"))
    end)
  end

  case("has them behind the place that error puts in front", function()
    local function again() local ok, e = pcall(fail, "x") if not ok then error(e) end end
    local got, raised = story(again)
    assert.equal(("%s:%d: x"):format(debug.getinfo(1, "S").short_src, line_of(again)), raised)
    assert.equal(expected(line_of(again)), got:match("^%d+ %d+ | %d+"))
  end)

  case("has them when assert raises it", function()
    local function variable() local ok, e = pcall(fail, "x") lua_assert(ok, e) end
    local function results() lua_assert(pcall(fail, "x")) end
    assert.equal(expected(line_of(variable)), story(variable):match("^%d+ %d+ | %d+"))
    assert.equal(expected(line_of(results)), story(results):match("^%d+ %d+ | %d+"))
  end)

  case("has them when a function that was given it raises it", function()
    local function raise(_, e) local result = error(e, 0) return result end
    local function check(ok, e) if not ok then error(e, 0) end end
    local function variable() local ok, e = pcall(fail, "x") if not ok then raise(1, e) end end
    local function results() check(pcall(fail, "x")) end
    assert.equal(("%d %d | %d %d"):format(DEEP, FAIL, line_of(raise), line_of(variable)),
      story(variable):match("^%d+ %d+ | %d+ %d+"))
    assert.equal(("%d %d | %d %d"):format(DEEP, FAIL, line_of(check), line_of(results)),
      story(results):match("^%d+ %d+ | %d+ %d+"))
  end)

  case("has them however often it is caught", function()
    local function once() local ok, e = pcall(fail, "x") if not ok then error(e, 0) end end
    local function twice() local ok, e = pcall(once) if not ok then error(e, 0) end end
    assert.equal(("%d %d | %d | %d"):format(DEEP, FAIL, line_of(once), line_of(twice)),
      story(twice):match("^%d+ %d+ | %d+ | %d+"))
  end)

  case("has both ends of many", function()
    local function recurse(n) if n == 0 then local r = deep("x") return r end local r = recurse(n - 1) return r end
    local function again() local ok, e = pcall(recurse, 100) if not ok then error(e, 0) end end
    local _, _, err = story(again)
    local seen, omitted = 0, 0
    for _, frame in ipairs(err.stack) do
      if frame.reason == SEAM then break end
      if frame.source == here then seen = seen + 1 end
      if frame.kind == "gap" then omitted = omitted + tonumber(frame.reason:match("^(%d+) frames omitted")) end
    end
    assert.equal(102, seen + omitted) -- and error
    assert.equal(DEEP, err.stack[1].currentline or err.stack[2].currentline)
  end)

  case("has them when a coroutine ends with it", function()
    local function again() local ok, e = pcall(fail, "x") if not ok then error(e, 0) end end
    local function resume() lua_assert(coroutine.resume(coroutine.create(again))) end
    assert.equal(expected(line_of(again)), story(resume):match("^%d+ %d+ | %d+"))
  end)

  case("is the context of one whose text has its own", function()
    local function wrap() local ok, e = pcall(fail, "x") if not ok then error("no price: " .. e, 0) end end
    local got, raised, err = story(wrap)
    assert.equal("no price: x", raised)
    assert.equal(tostring(line_of(wrap)), got:match("^%d+"))
    assert.equal("x", err.cause.message)
    assert.equal("context", err.relation)
    assert.equal(DEEP, err.cause.stack[1].currentline or err.cause.stack[2].currentline)
  end)

  case("is not one with an equal text", function()
    local function literal() local ok = pcall(fail, "x") if not ok then error("x", 0) end end
    local function set() local ok, e = pcall(fail, "x") e = e and "x" if not ok then error(e, 0) end end
    local function other()
      do local ok, e = pcall(fail, "x") lua_assert(not ok and e) end
      local ok, e = false, "x"
      if not ok then error(e, 0) end
    end
    local function inside()
      local ok, e = pcall(fail, "x")
      local function change() e = "x" end
      change()
      if not ok then error(e, 0) end
    end
    for _, f in ipairs{literal, set, other, inside} do
      assert.is_nil(story(f):find("|", 1, true))
    end
  end)

  case("is not one of an activation before", function()
    local function once(raises, f)
      local ok, e = f(fail, "x")
      if raises and not ok then error(e, 0) end
    end
    once(false, pcall)
    assert.is_nil(story(once, true, original):find(tostring(DEEP), 1, true))
  end)

  case("is not one in another variable", function()
    local function two()
      local ok, e = pcall(fail, "x")
      local fine, other = pcall(deep, "x")
      if not ok and not fine then error(other, 0) end
      return e
    end
    assert.equal(("%d | %d"):format(DEEP, line_of(two) + 3), story(two):match("^%d+ | %d+"))
  end)
end)

describe("the pcall that keeps them", function()
  case("is removed by uninstall", function()
    if rawget(_G, "jit") then return end
    assert.not_equal(original, pcall)
    uninstall()
    assert.equal(original, pcall)
  end)

  case("gives what the original gives", function()
    local function collect(...) return {n = select("#", ...), ...} end
    local function overflow() local r = overflow() return r end
    local cases = {
      {function(...) return ... end, 1, nil, 3, nil}, {function() end}, {error}, {error, nil}, {error, "x", 0},
      {error, {}}, {n = 1}, {1, 2}, {setmetatable({}, {__call = function(_, x) return x end}), 5}, {pcall, error, "x"},
      {string.rep}, {function() error("x") end}, {function() error("x", 2) end}, {function() error("x", 3) end},
    }
    for i, what in ipairs(cases) do
      local unpack_all, n = table.unpack or unpack, what.n or #what -- luacheck: ignore
      local wanted, got = collect(original(unpack_all(what, 1, n))), collect(pcall(unpack_all(what, 1, n)))
      assert.same(wanted, got, "case " .. i)
    end
    local _, overflowed = pcall(overflow)
    assert.is_not_nil(overflowed:find("stack overflow", 1, true))
    local _, refused = original(function() pcall() end)
    assert.is_not_nil(refused:find("bad argument #1 to 'pcall' (value expected)", 1, true))
  end)

  case("has the original's name in tracebacks", function()
    local text
    pcall(function() text = debug.traceback() end)
    assert.is_not_nil(text:find("'pcall'", 1, true))
  end)

  case("lets coroutines yield where the original does", function()
    local function body() return pcall(function() return coroutine.yield(1) + 1 end) end
    local function run(f)
      local co = coroutine.create(f)
      local first = {coroutine.resume(co)}
      return first, {coroutine.resume(co, 5)}
    end
    local function plain() return original(function() return coroutine.yield(1) + 1 end) end
    local first, second = run(body)
    local wanted, wanted_second = run(plain)
    assert.same(wanted, first)
    assert.equal(wanted_second[1], second[1])
    assert.equal(wanted_second[3], second[3])
  end)

  case("keeps frames also where the coroutine yielded before", function()
    if _VERSION == "Lua 5.1" then return end
    local function waits(value) coroutine.yield() local r = deep(value) return r end
    local function again() local ok, e = pcall(waits, "x") if not ok then error(e, 0) end end
    local co = coroutine.create(again)
    coroutine.resume(co)
    local function resume() lua_assert(coroutine.resume(co)) end
    assert.equal(("%d %d | %d"):format(DEEP, line_of(waits), line_of(again)), story(resume):match("^%d+ %d+ | %d+"))
  end)
end)

describe("the xpcall that keeps them", function()
  local function same(e) return e end
  local function texted(e) return "handled: " .. tostring(e) end
  local function table_of(e) return {e} end
  local function fails_once(e) if e == "x" then error({e}) end return e end

  for name, handler in pairs{same = same, texted = texted, table = table_of, tostring = tostring, fails_once = fails_once} do
    case("gives what the handler made of it the frames where it failed: " .. name, function()
      local function again() local ok, e = xpcall(fail, handler, "x") if not ok then error(e, 0) end end
      if _VERSION == "Lua 5.1" then
        function again()
          local ok, e = xpcall(function() local r = fail("x") return r end, handler)
          if not ok then error(e, 0) end
        end
      end
      local got, line = story(again), line_of(again)
      local wanted = ("%d %d %s| %d"):format(DEEP, FAIL, _VERSION == "Lua 5.1" and line + 1 .. " " or "",
        _VERSION == "Lua 5.1" and line + 2 or line)
      assert.equal(wanted, got:sub(1, #wanted))
    end)
  end

  case("has one message and the frames, where debug.traceback had put them into the text", function()
    local function later(e) return debug.traceback(e, 2) end
    local function no_place() local r = error("x") return r end
    local function again() local ok, e = xpcall(no_place, debug.traceback) if not ok then error(e) end end
    local function again_later() local ok, e = xpcall(no_place, later) if not ok then error(e, 0) end end
    local function wraps() local ok, e = xpcall(coroutine.wrap(no_place), later) if not ok then error(e, 0) end end
    local function of_another()
      local co = coroutine.create(no_place)
      local ok, e = xpcall(no_place, function() return debug.traceback(co, "x") end)
      if not ok then error(e, 0) end
    end
    local short = debug.getinfo(1, "S").short_src
    local place = ("%s:%d: "):format(short, line_of(no_place))
    for f, message in pairs{[again] = ("%s:%d: "):format(short, line_of(again)) .. place .. "x", [again_later] = place .. "x"} do
      local got, raised, err = story(f)
      assert.equal(message, err.message)
      assert.is_not_nil(raised:find("\nstack traceback:\n", 1, true))
      assert.equal(("%d | %d"):format(line_of(no_place), line_of(f)), got:match("^%d+ | %d+"))
    end
    local _, _, err = story(wraps)
    assert.is_nil(err.message:find("traceback", 1, true))
    assert.equal(line_of(no_place), err.stack[1].currentline or err.stack[2].currentline)
    _, _, err = story(of_another)
    assert.equal("x\nstack traceback:", err.message:match("x\nstack traceback:"))
  end)

  case("gives what the original gives", function()
    local function collect(...) return {n = select("#", ...), ...} end
    local function recurse(e) error(e) end
    local function place() return {debug.getinfo(2, "S").short_src, debug.getinfo(2, "l").currentline} end
    local function overflow() local r = overflow() return r end
    local function overflowed(e) return tostring(e):find("stack overflow", 1, true) ~= nil end
    local cases = {
      {function(...) return ... end, same, 1, nil, 3, nil}, {function() end, same}, {error, same}, {n = 3, error, same, nil},
      {error, same, "x", 0}, {error, table_of, {}}, {n = 2, nil, same}, {1, same, 2}, {pcall, same, error, "x"},
      {string.rep, same}, {function() error("x") end, same}, {function() error("x") end, place},
      {function() local t = nil return t.x end, place}, {function() error("x") end, recurse},
      {function() error("x") end, fails_once}, {overflow, overflowed}, {function() return xpcall(error, same) end, same},
      {function() error("x") end, function() end},
    }
    for i, what in ipairs(cases) do
      local unpack_all, n = table.unpack or unpack, what.n or #what -- luacheck: ignore
      local wanted = collect(original_xpcall(unpack_all(what, 1, n)))
      assert.same(wanted, collect(xpcall(unpack_all(what, 1, n))), "case " .. i)
    end
  end)

  case("refuses what the original refuses", function()
    for i, what in ipairs{{n = 0}, {n = 1, error}, {n = 2, error, 5}, {n = 2, error, {}}, {n = 2}} do
      local unpack_all = table.unpack or unpack -- luacheck: ignore
      local function call(xpcall) -- luacheck: ignore
        return xpcall(unpack_all(what, 1, what.n))
      end
      local wanted, got = {original(call, original_xpcall)}, {original(call, xpcall)}
      assert.same(wanted, got, "case " .. i)
    end
  end)

  case("shows a handler the levels that the original shows", function()
    local function levels()
      local found, level = {}, 2
      local at = debug.getinfo(level, "Slf")
      while at and #found < 4 do
        found[#found + 1] = at.short_src .. ":" .. at.currentline .. ":" .. tostring(at.what)
        level = level + 1
        at = debug.getinfo(level, "Slf")
      end
      return found
    end
    local function local_of() return {debug.getlocal(2, 1)} end
    local function indexes() local missing = nil return missing.x end
    local function raises() error("x") end
    for _, handler in ipairs{levels, local_of} do
      for _, f in ipairs{indexes, raises} do
        assert.same(select(2, original_xpcall(f, handler)), select(2, xpcall(f, handler)))
      end
    end
    local function traced(e) return (debug.traceback(e, 2):gsub("\n%s+%[C%]: in [^\n]*xpcall.*", "")) end
    assert.same({original_xpcall(indexes, traced)}, {xpcall(indexes, traced)})
    assert.same({original_xpcall(raises, traced)}, {xpcall(raises, traced)})
  end)

  case("calls a handler for errors of its own as often as the original", function()
    local count = 0
    local function recurse(e) count = count + 1 error(e, 0) end
    original_xpcall(error, recurse)
    local wanted = count
    count = 0
    xpcall(error, recurse)
    assert.is_true(math.abs(wanted - count) <= 2, wanted .. " and " .. count)
  end)

  case("keeps nothing where Lua itself ended the handler", function()
    local function recurse(e) error(e, 0) end
    local function again() local ok, e = xpcall(fail, recurse) if not ok then error(e, 0) end end
    assert.is_nil(story(again):find("|", 1, true))
  end)

  case("lets coroutines yield where the original does", function()
    if _VERSION == "Lua 5.1" then return end
    local function waits(value) coroutine.yield(1) local r = deep(value) return r end
    local function again() local ok, e = xpcall(waits, texted, "x") if not ok then error(e, 0) end end
    local co = coroutine.create(again)
    assert.same({true, 1}, {coroutine.resume(co)})
    local function resume() lua_assert(coroutine.resume(co)) end
    local got, raised = story(resume)
    assert.equal("handled: x", raised:match("handled: x$"))
    assert.equal(("%d %d | %d"):format(DEEP, line_of(waits), line_of(again)), got:match("^%d+ %d+ | %d+"))
    co = coroutine.wrap(function() return xpcall(function() return coroutine.yield() + 1 end, same) end)
    co()
    assert.same({true, 6}, {co(5)})
  end)

  case("leaves to its handler what a coroutine ended with", function()
    local function wraps() return coroutine.wrap(function() local r = fail("x") return r end)() end
    local function resumes()
      local ok, e = coroutine.resume(coroutine.create(function() local r = fail("x") return r end))
      if not ok then error(e, 0) end
    end
    for _, f in ipairs{wraps, resumes} do
      local found = {}
      local _, value = xpcall(f, stacksplice.handler)
      for _, frame in ipairs(stacksplice.error_info(value).stack) do found[#found + 1] = frame.source == here and frame.currentline or nil end
      assert.is_not_nil(value:find("x$"))
      assert.same({DEEP, FAIL}, {found[1], found[2]})
    end
  end)

  case("calls a handler that captures as the original does", function()
    local function report(handler, call)
      local found = {}
      local _, err = call(function() fail("x") end, handler)
      for _, frame in ipairs(err.stack) do found[#found + 1] = tostring(frame.name) .. ":" .. tostring(frame.currentline) end
      return (table.concat(found, " "):gsub(" lua_pcall.*", ""))
    end
    local function noted(e) stacksplice.handler(e) return stacksplice.error_info(e) end
    assert.equal(report(noted, original_xpcall), report(noted, xpcall))
  end)
end)
