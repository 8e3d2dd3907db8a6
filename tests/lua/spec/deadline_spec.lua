-- luacheck: std +busted
-- deadline(seconds, f, ...): what a missed one reports, and the error that ends the function.
local stacksplice = require "stacksplice"

local programs = dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "programs.lua")

local TIMED_OUT = 0x800705B4
local NEVER = 3600

local function soon(name)
  return {seconds = 0.02, name = name, interrupt = true, report = false}
end

-- As a script does that never ends.
local function spin()
  while true do end
end

-- The same, but it calls C.
local function call_forever()
  while true do string.rep("x", 3) end
end

local function wait(seconds)
  local stop = os.clock() + seconds
  while os.clock() < stop do end
end

describe("deadline", function()
  it("returns what the function returns", function()
    local function all(...) return select("#", ...), ... end
    assert.same({4, 1, nil, 3}, {stacksplice.deadline(NEVER, all, 1, nil, 3, nil)})
    assert.same({0}, {all(stacksplice.deadline(NEVER, function() end))})
  end)

  it("lets errors through", function()
    local value = {}
    local ok, got = pcall(stacksplice.deadline, NEVER, error, value)
    assert.is_false(ok)
    assert.equal(value, got)
  end)

  it("keeps the frames of an error for the handlers outside, in coroutines, too", function()
    local function fail() error("no") end
    local function outer() stacksplice.deadline(NEVER, fail) end
    local first = debug.getinfo(fail, "S").linedefined
    local last = debug.getinfo(outer, "S").linedefined
    local function check()
      local _, _, err = stacksplice.pcall(outer)
      local lines = {}
      for _, frame in ipairs(err.stack) do
        lines[#lines + 1] = frame.currentline
      end
      local text = table.concat(lines, " ")
      assert.truthy(text:find(first .. " .*" .. last), text)
    end
    check()
    coroutine.wrap(check)()
  end)

  it("is met by a coroutine that fails", function()
    local co = coroutine.create(function() stacksplice.deadline(soon(), error, {}) end)
    assert.is_false(coroutine.resume(co))
    wait(0.1)
    assert.is_false(coroutine.resume(co))
  end)

  it("lets the function yield", function()
    local co = coroutine.wrap(function(...)
      return stacksplice.deadline(NEVER, function(...) return coroutine.yield(...) end, ...)
    end)
    assert.equal(1, co(1))
    assert.equal(2, co(2))
  end)

  it("refuses other arguments", function()
    local cases = {
      {"bad argument #1 to 'deadline' (number expected, got nil)", nil, print},
      {"bad argument #1 to 'deadline' (seconds must be between 0 and 4294967)", -1, print},
      {"bad argument #1 to 'deadline' (seconds must be between 0 and 4294967)", 0 / 0, print},
      {"bad argument #1 to 'deadline' (field 'seconds' is not a number)", {}, print},
      {"bad argument #1 to 'deadline' (field 'name' is not a string)", {seconds = 1, name = {}}, print},
      {"bad argument #1 to 'deadline' (field 'report' can only be false if 'interrupt' is true)",
       {seconds = 1, report = false}, print},
    }
    for _, case in ipairs(cases) do
      local ok, message = pcall(function() stacksplice.deadline(case[2], case[3]) end)
      assert.is_false(ok)
      assert.equal(case[1], (message:gsub("^.-:%d+: ", "")))
    end
    local ok, message = pcall(function() stacksplice.deadline(1) end)
    assert.is_false(ok)
    assert.truthy(message:find("bad argument #2 to 'deadline' (value expected)", 1, true), message)
  end)
end)

describe("a missed deadline", function()
  it("is reported, and the function goes on", function()
    local folder = os.tmpname()
    os.remove(folder)
    local source = [[
local stacksplice = require "stacksplice"
local function reported()
  local done = os.execute("ls reports/*.json >reports/list 2>&1") -- 0 in Lua 5.1
  return done == true or done == 0
end
local function inner() while not reported() do end return "went on" end
local function outer() local value = inner() return value end
print(stacksplice.deadline({seconds = 0.02, name = "rules"}, outer))
]]
    assert(os.execute("mkdir -p " .. folder .. "/reports"))
    local file = assert(io.open(folder .. "/late.lua", "w"))
    file:write(source)
    file:close()
    local command = "cd %s && STACKSPLICE_REPORT_DIR=reports %s late.lua; cat reports/*.json; cd /; rm -r %s"
    local text = programs.output(command:format(folder, programs.lua, folder))
    local function said(pattern) assert.truthy(text:find(pattern), text) end
    said("DeadlineExceeded: rules did not finish within 0%.02 s\nStack of thread ")
    said('in inner[^\n]*\n%s+%(Lua%) File "late.lua", line 7, in ')
    said("went on\n")
    said('"event":"deadline"')
    said('"deadline_name":"rules"')
  end)

  it("ends the function by an error", function()
    local ok, value, err = stacksplice.pcall(stacksplice.deadline, soon("rules"), function() spin() end)
    assert.is_false(ok)
    assert.equal("rules did not finish within 0.02 s", err.message)
    assert.equal(TIMED_OUT, err.hresult)
    assert.equal(err, value)
    local names = {}
    for _, frame in ipairs(err.stack) do
      names[#names + 1] = frame.kind == "script" and frame.name or nil
    end
    assert.equal("spin", names[1])
  end)

  it("cuts a long name between two characters", function()
    local function message(name)
      local _, err = pcall(stacksplice.deadline, soon(name), spin)
      return err.message
    end
    local ending = " did not finish within 0.02 s"
    assert.equal("a" .. ("é"):rep(31) .. ending, message("a" .. ("é"):rep(60)))
    assert.equal(("é"):rep(31) .. ending, message(("é"):rep(60)))
    assert.equal(("€"):rep(21) .. ending, message(("€"):rep(22)))
    assert.equal(("x"):rep(63) .. ending, message(("x"):rep(64)))
    assert.equal("", message(""):sub(1, -#ending - 1))
  end)

  it("is not swallowed by pcall", function()
    local ok, err = pcall(stacksplice.deadline, soon(), function()
      while true do pcall(spin) end
    end)
    assert.is_false(ok)
    assert.equal("this function did not finish within 0.02 s", err.message)
    wait(0.05) -- nothing is raised any more
  end)

  it("may be taken by stacksplice.pcall in the function", function()
    local ok = stacksplice.deadline(soon(), function()
      return (stacksplice.pcall(spin))
    end)
    assert.is_false(ok)
  end)

  it("ends coroutines of the function, those that call C and those that do not", function()
    for _, hang in ipairs {spin, call_forever} do
      local ok, err = pcall(stacksplice.deadline, soon(), function()
        local inner = coroutine.wrap(function() coroutine.wrap(hang)() end)
        inner()
      end)
      assert.is_false(ok)
      assert.equal(TIMED_OUT, err.hresult)
    end
  end)

  it("ends what runs where Lua calls no hooks, and what Lua calls because of the error", function()
    local function looping(event) return setmetatable({}, {[event] = spin}) end
    local ways = {
      handler = function() xpcall(spin, spin) end,
      handler_at_work = function() xpcall(error, spin) end,
      handler_elsewhere = function() xpcall(spin, coroutine.wrap(spin)) end,
      handler_of_coroutine = function() coroutine.wrap(xpcall)(spin, spin) end,
      finalizer = function()
        looping("__gc") -- luacheck: no unused
        collectgarbage()
      end,
      hook = function()
        local called
        debug.sethook(function()
          if not called then
            called = true
            spin()
          end
        end, "", 1)
        spin()
      end,
      new_coroutines = function() while true do pcall(coroutine.wrap(spin)) end end,
    }
    if _VERSION > "Lua 5.3" then
      local opened = load("local c <close> = ... coroutine.yield() error('no')")
      function ways.closed_coroutine()
        local co = coroutine.create(opened)
        coroutine.resume(co, looping("__close"))
        coroutine.close(co)
      end
      function ways.failed_coroutine()
        local wrapped = coroutine.wrap(opened)
        wrapped(looping("__close"))
        pcall(wrapped)
      end
    end
    for name, way in pairs(ways) do
      local ok, err = pcall(stacksplice.deadline, soon(), way)
      debug.sethook()
      assert.is_false(ok, name)
      assert.equal(TIMED_OUT, type(err) == "userdata" and err.hresult or err, name)
    end
  end)

  it("ends a function that goes on after the error", function()
    local function chain()
      local again = setmetatable({}, {})
      getmetatable(again).__close = function() load("local f, c <close> = ... f()")(spin, again) end
      load("local f, c <close> = ... f()")(spin, again)
    end
    local spins = true -- Lua 5.3 may run what is left of them when the deadline is over
    local function finalizers()
      for _ = 1, 3 do setmetatable({}, {__gc = function() while spins do end end}) end
      collectgarbage()
    end
    local ok, err = pcall(stacksplice.deadline, soon(), function()
      stacksplice.pcall(spin)
      if _VERSION > "Lua 5.3" then pcall(chain) end
      while true do
        stacksplice.pcall(finalizers)
        pcall(stacksplice.xpcall, spin, spin)
      end
    end)
    spins = false
    assert.is_false(ok)
    assert.equal(TIMED_OUT, err.hresult)
  end)

  it("does not end other code while the function is suspended", function()
    local co = coroutine.create(function()
      return stacksplice.deadline(soon("suspended"), function()
        coroutine.yield()
        spin()
      end)
    end)
    assert(coroutine.resume(co))
    wait(0.1)
    local ok, err = coroutine.resume(co)
    assert.is_false(ok)
    assert.equal("suspended did not finish within 0.02 s", err.message)
  end)

  it("nests", function()
    local ok, err = pcall(stacksplice.deadline, soon("outer"), function()
      stacksplice.deadline(NEVER, spin)
    end)
    assert.is_false(ok)
    assert.equal("outer did not finish within 0.02 s", err.message)
    local inner
    stacksplice.deadline({seconds = NEVER, interrupt = true}, function()
      ok, inner = pcall(stacksplice.deadline, soon("inner"), spin)
    end)
    assert.is_false(ok)
    assert.equal("inner did not finish within 0.02 s", inner.message)
  end)

  it("puts the former hook back", function()
    local counted = 0
    local function count() counted = counted + 1 end
    debug.sethook(count, "", 1000)
    local ok = pcall(stacksplice.deadline, soon(), spin)
    local hook, mask, number = debug.gethook()
    debug.sethook()
    assert.is_false(ok)
    assert.equal(count, hook)
    assert.same({"", 1000}, {mask, number})
    assert.is_true(counted > 0)
  end)

  it("is never raised after the function", function()
    for i = 1, 200 do
      pcall(stacksplice.deadline, {seconds = 0.001, interrupt = true, report = false}, function()
        for _ = 1, i * 200 do end
      end)
      for _ = 1, 1000 do end
    end
  end)

  it("is forgotten with its coroutine", function()
    local co = coroutine.create(function() stacksplice.deadline(soon(), coroutine.yield) end)
    assert(coroutine.resume(co))
    co = nil -- luacheck: no unused
    collectgarbage()
    collectgarbage()
    wait(0.05)
  end)
end)

describe("report_on_signal", function()
  it("reports every thread when the signal comes", function()
    local folder = programs.output("mktemp -d"):match("[^\n]+")
    local script = [[
      require "stacksplice.host".report_on_signal(10)
      local function rules()
        local stop = os.time() + 60
        io.open(os.getenv("READY"), "w"):close()
        while not io.open(os.getenv("DONE")) and os.time() < stop do end
        print(os.time() < stop and "went on" or "was not done")
      end
      os.execute([=[(
        until test -e $READY; do sleep 0.1; done
        kill -USR1 $PPID
        until ls $STACKSPLICE_REPORT_DIR/*.json; do sleep 0.1; done
        touch $DONE
      ) >/dev/null 2>&1 &]=])
      rules()
    ]]
    local command = "STACKSPLICE_REPORT_DIR=%s READY=%s/ready DONE=%s/done %s -e %s; rm -r %s"
    local quoted = programs.quoted(script)
    local out = programs.output(command:format(folder, folder, folder, programs.lua, quoted, folder))
    assert.truthy(out:find("ReportRequested: signal 10 asked for the stacks of all threads", 1, true), out)
    assert.truthy(out:find("in rules", 1, true), out)
    assert.truthy(out:find("went on", 1, true), out)
  end)

  it("refuses what is no signal that can be caught", function()
    local host = require "stacksplice.host"
    for _, wrong in ipairs {0, -1, 9, 11, 1e9} do
      local ok, message = pcall(host.report_on_signal, wrong)
      assert.is_false(ok)
      assert.truthy(message:find("bad argument #1 to '[%a_.?]+' %(a signal that can be caught"), message)
    end
    local _, message = pcall(host.report_on_signal)
    assert.truthy(message:find("number expected", 1, true), message)
  end)
end)
