-- luacheck: std +busted, globals debug package string coroutine _G case_value
-- stacksplice.handler wherever Lua calls something that can fail: the exact stack, the very value.
local stacksplice = require "stacksplice"

local modern = _VERSION > "Lua 5.3"
local GONE = {["frames here had already returned"] = true,
  ["the coroutine ended here; its caller had resumed it"] = true}
local here = debug.getinfo(1, "S").source:sub(2)
-- Under valgrind: each kind of case once.
local brief = os.getenv("STACKSPLICE_BRIEF_SPECS") ~= nil

-- "2 4 (returned) xpcall 1": the lines of the case, its gaps, and C functions without a native frame,
-- up to the first frame of this file.
local function story(err)
  local parts, last = {}, 0
  for _, frame in ipairs(err and err.stack or {}) do
    if frame.source == here then
      break
    elseif frame.kind == "gap" then
      parts[#parts + 1] = GONE[frame.reason] and "(returned)" or "(" .. frame.reason .. ")"
    elseif frame.source == "[C]" then
      parts[#parts + 1] = frame.name
    elseif frame.kind == "script" then
      parts[#parts + 1] = frame.currentline
    end
    last = frame.source ~= "[C]" and #parts or last -- the function of ours that called the case is not of it
  end
  return err and table.concat(parts, " ", 1, last) or "no error"
end

local recorded, searchers
local environment = setmetatable({
  stacksplice = stacksplice,
  record = function(err) recorded[#recorded + 1] = story(err) end,
  searcher = function(f)
    searchers = searchers + 1
    table.insert(package.searchers, 1, f)
  end,
}, {__index = _G})

local function compile(source)
  return assert(load(source, "=case", "t", environment))
end

-- What plain Lua makes of the case.
local function plainly(chunk)
  return pcall(chunk)
end

local function with_handler(chunk)
  local ok, value = xpcall(chunk, stacksplice.handler)
  return ok, value, not ok and stacksplice.error_info(value) or nil
end

local function with_pcall(chunk)
  return stacksplice.pcall(chunk)
end

local function in_coroutine(way)
  return function(chunk)
    local co = coroutine.create(way)
    local results
    repeat
      results = table.pack(coroutine.resume(co, chunk))
    until coroutine.status(co) == "dead"
    return table.unpack(results, 2, results.n)
  end
end

local function run(way, chunk, value)
  recorded, searchers = {}, 0
  environment.value, _G.case_value = value, value
  package.loaded["case.module"] = nil -- where Lua 5.1 keeps that its loader failed
  local results = table.pack(way(chunk))
  for _ = 1, searchers do
    table.remove(package.searchers, 1)
  end
  return table.unpack(results, 1, results.n)
end

local function same(a, b)
  return rawequal(a, b) or (modern and a == nil and b == "<no error object>")
end

local function check(case, way, chunk, value, expected)
  local plain_ok, plain = run(plainly, chunk, value)
  -- Lua 5.4.9 calls no handler for an overflow of its stack while finalizers are due.
  if case.fills_stack then collectgarbage() end
  local ok, got, err = run(way, chunk, value)
  assert.equal(plain_ok, ok)
  if not ok and not case.anew then
    assert.is_true(same(plain, got), tostring(plain) .. " became " .. tostring(got))
  end
  if case.records then
    assert.equal(case.records, table.concat(recorded, "; "))
  end
  if ok then
    assert.is_nil(expected)
  else
    local told = story(err)
    assert.is_true(told == expected or case.pattern and told:find(expected) ~= nil,
      "expected " .. tostring(expected) .. " but got " .. told)
    assert.is_true(not err or rawequal(got, err.value))
  end
  assert.is_nil(stacksplice.peek_error())
end

-- Each is a program with what is expected: `stack` for a value with identity, `text` for one without
-- where that differs.  Lines are those of the case.
local cases = {
  {"a function", "local function f()\nerror(value, 0)\nend\nf()", "2 4"},
  {"a tail call", "local function f()\nreturn error(value, 0)\nend\nlocal function g() f() end\ng()", nil,
    pattern = "^error 4 5$", stack = "4 5"},
  {"a hook", "local function hook()\ndebug.sethook()\nerror(value, 0)\nend\nlocal function f()\n"
    .. "debug.sethook(hook, 'l')\nlocal x = 1\nreturn x\nend\nf()", "3 7 10"},
  {"a count hook", "local function hook()\ndebug.sethook()\nerror(value, 0)\nend\n"
    .. "debug.sethook(hook, '', 1) local x\n= 1", nil, pattern = "^3 [56]$"},
  {"the reader of load", "local _, e = load(function()\nerror(value, 0)\nend)\nerror(e, 0)", "2 1", text = "4"},
  {"a comparator of table.sort", "table.sort({3, 2, 1}, function()\nerror(value, 0)\nend)", "2 1"},
  {"a replacement of string.gsub", "string.gsub('x', 'x', function()\nerror(value, 0)\nend)", "2 1"},
  {"a searcher of require", "searcher(function()\nerror(value, 0)\nend)\nrequire('no.such.module')", "2 4"},
  {"a loader of require", "package.preload['case.module'] = function()\nerror(value, 0)\nend\n"
    .. "require('case.module')", "2 4"},
  {"a file of dofile", "dofile(FILE)", "2 4 1"},
  {"a chunk of load", "assert(load('\\nerror(case_value, 0)'))()", "2 1"},
  {"an iterator", "for _ in function()\nerror(value, 0)\nend do break end", "2 1"},
  {"an iterator in C", "for _ in error, value, 0 do break end", "1"},
  {"a finalizer that catches", "setmetatable({}, {__gc = function()\nlocal _, _, err = stacksplice.pcall(error, value, 0)\n"
    .. "record(err)\nend})\ncollectgarbage() collectgarbage()", records = "2 5"},
  {"a protected call inside, raised again", "local ok, e = pcall(function()\nerror(value, 0)\nend)\nerror(e, 0)", "4"},
  {"a handled error raised again", "local ok, e = xpcall(function()\nerror(value, 0)\nend, stacksplice.handler)\nerror(e, 0)",
    "2 1", text = "4"},
  {"a handler that fails", "local ok, e = xpcall(error, function() error('again', 0) end, value)\nerror(value, 0)", "2"},
  {"a coroutine's parents", "local a = coroutine.wrap(function()\nlocal b = coroutine.wrap(function()\nlocal c = coroutine.create(function()\n"
    .. "local _, _, err = stacksplice.pcall(function()\nerror(value, 0)\nend)\nrecord(err)\nend)\n"
    .. "assert(coroutine.resume(c))\nend)\nb()\nend)\na()", records = "5 4 9 11 13"},
  {"parents that resumed it from C functions", "local co = coroutine.wrap(function()\nlocal _, _, err = "
    .. "stacksplice.pcall(error, value, 0)\nrecord(err)\nend)\nstring.gsub('x', 'x', function()\nco()\nend)",
    records = "2 6 5"},
  {"a coroutine that is wrapped", "local a = coroutine.wrap(function()\nerror(value, 0)\nend)\na()", wrapped = {"2", "4"}},
  {"a wrapped coroutine in another", "local a = coroutine.wrap(function()\nlocal b = coroutine.wrap(function()\n"
    .. "error(value, 0)\nend)\nb()\nend)\na()", wrapped = {"3", "5 7", in_another = true}},
  {"a wrapped iterator", "for _ in coroutine.wrap(function()\nerror(value, 0)\nend) do break end", wrapped = {"2", "1"}},
  {"a wrapped coroutine that has yielded", "local co = coroutine.wrap(function()\ncoroutine.yield()\nerror(value, 0)\nend)\n"
    .. "co()\nco()", wrapped = {"3", "6"}},
  {"a dead wrapped coroutine", "local co = coroutine.wrap(function() end)\nco()\nco()", "3", anew = true},
  {"a coroutine that resumes itself", "local co\nco = coroutine.wrap(function()\nco()\nend)\nco()", anew = true,
    wrapped = {"3", "5"}, raiser = "co ", in_5_3 = "5"},
  {"a resumed coroutine", "local co = coroutine.create(function()\nerror(value, 0)\nend)\n"
    .. "local ok, e = coroutine.resume(co)\nerror(e, 0)", resumed = {"2", "4", "5"}},
  {"Lua's own error", "local function f()\nreturn 1 + nil\nend\nlocal x = f()", "2 4", anew = true},
  {"an error of a C function", "local function f()\nstring.rep()\nend\nf()", "2 4", anew = true},
  {"an overflow of Lua's stack", "local function f() return 1 + f() end\nf()", anew = true, pattern = true,
    fills_stack = true, stack = "^1 1 1 .*%(%d+ frames omitted here: stack longer than the limit%) .*1 1 2$"},
  {"an overflow of the C stack", "local function f() return (string.gsub('x', 'x', f)) end\nf()", anew = true,
    pattern = true, stack = "^1 1 1 1 [1 ]*%(?[%w: ]*%)?[1 ]* 1 2$"},
  {"an overflow of the C stack in metamethods", "local t t = setmetatable({}, {__index = function(_, k)\nreturn t[k]\nend})\n"
    .. "return t.x", anew = true, pattern = true, stack = "^2 2 2 2 [2 ]*%(?[%w: ]*%)?[2 ]* 2 4$"},
  {"a yield across a protected call", "local ok, e = xpcall(function()\ncoroutine.yield()\nerror(value, 0)\nend, "
    .. "stacksplice.handler)\nrecord(stacksplice.error_info(e))", records = "3 xpcall 1", yields = true},
  {"yields across nested protected calls", "stacksplice.pcall(function()\npcall(function()\ncoroutine.yield()\n"
    .. "local _, _, err = stacksplice.pcall(function()\ncoroutine.yield()\nerror(value, 0)\nend)\nrecord(err)\nend)\nend)",
    records = "6 pcall 4 pcall 2 pcall 1", yields = true},
}

for key, expression in pairs {
  __index = "local _ = t.x", __newindex = "t.x = 1", __call = "t()", __add = "local _ = t + 1",
  __unm = "local _ = -t", __idiv = "local _ = t // 1", __band = "local _ = t & 1", __bnot = "local _ = ~t",
  __len = "local _ = #t", __eq = "local _ = t == setmetatable({}, getmetatable(t))",
  __lt = "local _ = t < t", __le = "local _ = t <= t", __tostring = "tostring(t)", __pairs = "pairs(t)",
} do
  if load(expression) then -- an operator of this Lua
    cases[#cases + 1] = {"the metamethod " .. key, "local t = setmetatable({}, {" .. key
      .. " = function()\nerror(value, 0)\nend})\n" .. expression, "2 4"}
  end
end

if modern then
  for _, case in ipairs {
    {"a closer", "do\nlocal c <close> = setmetatable({}, {__close = function()\nerror(value, 0)\nend})\nend", nil,
      pattern = true, stack = "^3 [45]$"},
    {"a closer that replaces the error", "local c <close> = setmetatable({}, {__close = function()\nerror(value, 0)\nend})\n"
      .. "error('first', 0)", "2"},
    {"a closer that catches", "local c <close> = setmetatable({}, {__close = function()\n"
      .. "local _, _, err = stacksplice.pcall(error, 'in it', 0)\nrecord(err)\nend})\nerror(value, 0)", "5",
      records = "2"},
    {"a closer that catches an equal one", "local c <close> = setmetatable({}, {__close = function()\n"
      .. "local _, _, err = stacksplice.pcall(error, 'equal', 0)\nrecord(err)\nend})\nerror('equal', 0)",
      stack = {xpcall = "no error", pcall = "5"}, records = "2"}, -- of two equal texts it may be either
    {"a closer run by coroutine.close", "local co = coroutine.create(function()\nlocal c <close> = setmetatable({}, "
      .. "{__close = function()\nlocal _, _, err = stacksplice.pcall(error, value, 0)\nrecord(err)\nend})\n"
      .. "coroutine.yield()\nend)\ncoroutine.resume(co)\ncoroutine.close(co)", records = "3 9"},
    {"a closer that fails in coroutine.close", "local co = coroutine.create(function()\nlocal c <close> = setmetatable({}, "
      .. "{__close = function()\nerror(value, 0)\nend})\ncoroutine.yield()\nend)\ncoroutine.resume(co)\n"
      .. "local ok, e = coroutine.close(co)\nassert(not ok)\nerror(e, 0)", "10"},
    {"a closer in a wrapped coroutine that replaces the error", "local co = coroutine.wrap(function()\n"
      .. "local c <close> = setmetatable({}, {__close = function()\nerror(value, 0)\nend})\nerror('first', 0)\nend)\nco()",
      "(returned) 7"},
    {"a finalizer that fails", "setmetatable({}, {__gc = function()\nerror(value, 0)\nend})\ncollectgarbage()"},
  } do
    cases[#cases + 1] = case
  end
else
  cases[#cases + 1] = {"a finalizer that fails", "setmetatable({}, {__gc = function()\nerror(value, 0)\nend})\n"
    .. "collectgarbage()", "(returned)", anew = true, by_call_only = true}
end

-- The frames of a coroutine that failed are told when `installed`; without it there is a gap, where Lua
-- closes it before any handler runs: all but 5.3 do.
local function expected_of(case, text, installed)
  local parts = case.wrapped or case.resumed
  if case.resumed then
    if not installed then return parts[3] end
    return "error " .. parts[1] .. " (returned) " .. parts[2]
  elseif parts then
    if not installed and (modern or parts.in_another or case.in_5_3) then
      return not modern and case.in_5_3 or "(returned) " .. parts[2]:match("%d+$")
    end
    return (case.raiser or "error ") .. parts[1] .. " (returned) " .. parts[2]
  end
  return text and case.text or case.stack or case[3] or type(case.pattern) == "string" and case.pattern or nil
end

local ways = {
  {"xpcall", with_handler}, {"stacksplice.pcall", with_pcall},
  {"xpcall in a coroutine", in_coroutine(with_handler)},
  {"stacksplice.pcall in a coroutine", in_coroutine(with_pcall)},
}

-- Where each case goes one way only: another for each, but one that the case can go.
local function some_ways(case, number)
  if case.yields then return {ways[3 + number % 2]} end
  return {ways[case.by_call_only and 2 or 1 + number % #ways]}
end

-- A value with identity keeps its error for life, so there are new ones for each case.
local function new_values(only_one)
  return (only_one or brief) and {{}} or {{}, "text", 42, true, coroutine.create(function() end)}
end

local path = os.tmpname()
os.remove(path)

local function write_file()
  local file = assert(io.open(path, "w"))
  file:write("local function f()\nerror(case_value, 0)\nend\nf()\n")
  file:close()
end

for _, installed in ipairs {false, true} do
  for number, case in ipairs(cases) do
    local chunk = compile((case[2]:gsub("FILE", ("%q"):format(path))))

    describe("an error in " .. case[1] .. (installed and ", installed" or ""), function()
      for _, way in ipairs(brief and some_ways(case, number) or ways) do
        if not (installed and case.pattern == true) and (not case.yields or way[1]:find("coroutine")) and (not case.by_call_only or way[1]:find("pcall", 1, true) == 13) then
          it("is told through " .. way[1], function()
            local uninstall = installed and stacksplice.install()
            write_file()
            local ok, message = xpcall(function()
              for _, value in ipairs(new_values(case.pattern == true)) do
                local identity = type(value) == "table" or type(value) == "thread"
                local expected = expected_of(case, not identity, installed)
                if type(expected) == "table" then
                  expected = expected[way[1]:find("xpcall") and "xpcall" or "pcall"]
                end
                check(case, way[2], chunk, value, expected)
              end
            end, debug.traceback)
            if uninstall then uninstall() end
            os.remove(path)
            assert.is_true(ok, message)
          end)
        end
      end
    end)
  end
end

-- ---- Values ------------------------------------------------------------------------------------

local raising = compile("local function f(...)\nerror(value, 0)\nend\nf()")

local function failing()
  error("not for you")
end

describe("a metamethod that is our own function", function()
  it("comes to an end", function()
    for _, name in ipairs({"originate", "propagate", "report"}) do
      local value = setmetatable({}, {__tostring = stacksplice[name]})
      pcall(stacksplice[name], value)
      assert.truthy(stacksplice.originate(value).message:find("__tostring failed"))
      stacksplice.take_error()
    end
  end)
end)

describe("an error under a deep stack", function()
  -- To look by lua_getstack for the functions that raised those would take minutes.
  it("is soon known, after errors that the handler has not seen", function()
    for i = 1, 8 do pcall(stacksplice.error, "caught " .. i) end
    local function deep() return 1 + deep() end
    collectgarbage() -- as above
    local ok, message = xpcall(deep, stacksplice.handler)
    assert.is_false(ok)
    assert.truthy(tostring(message):find("stack overflow"))
  end)
end)

describe("an error value", function()
  local hostile = {
    __tostring = failing, __index = failing, __newindex = failing, __eq = failing, __name = "hostile",
    __len = failing, __call = failing, __concat = failing, __lt = failing, __close = failing, __pairs = failing,
  }
  local file_methods = getmetatable(io.stdout)

  for name, new in pairs {
    ["nil"] = function() end, ["false"] = function() return false end, number = function() return 0.5 end,
    ["minus zero"] = function() return -0.0 end, integer = function() return math.mininteger end,
    ["long string"] = function() return ("x"):rep(100000) end, ["empty string"] = function() return "" end,
    ["string with NULs"] = function() return "a\0b\0" end, ["invalid UTF-8"] = function() return "\xff\xfe" end,
    table = function() return {} end, ["protected table"] = function()
      return setmetatable({}, {__metatable = "locked"})
    end,
    ["hostile table"] = function() return setmetatable({}, hostile) end,
    ["table whose __name is no string"] = function() return setmetatable({}, {__name = {}}) end,
    ["table whose __tostring yields"] = function()
      return setmetatable({}, {__tostring = coroutine.yield})
    end,
    ["table whose __tostring overflows"] = function()
      return setmetatable({}, {__tostring = function(self) return tostring(self) end})
    end,
    ["table whose __tostring fails again and again"] = function()
      return setmetatable({}, {__tostring = function(self) error(self) end})
    end,
    userdata = io.tmpfile, ["light userdata"] = function()
      return debug.upvalueid(function() return failing end, 1)
    end,
    ["function"] = function() return function() return stacksplice end end, ["C function"] = function()
      return string.gmatch("", "")
    end,
    thread = function() return coroutine.create(failing) end,
  } do
    it("may be a " .. name, function()
      for _, way in ipairs(brief and {ways[1]} or ways) do
        local value = new()
        local ok, got, err = run(way[2], raising, value)
        assert.is_false(ok)
        assert.is_true(same(value, got))
        assert.equal("2 4", story(err))
        assert.is_true(rawequal(got, err.value))
        assert.equal("lua", err.language)
        assert.is_string(tostring(err))
        assert.is_string(err:text())
        assert.equal("{", err:json():sub(1, 1))
        assert.is_nil(stacksplice.peek_error())
      end
      local value = new()
      local err = stacksplice.originate(value)
      assert.is_true(rawequal(value, err.value))
      assert.equal(err, stacksplice.peek_error())
      assert.equal(err, stacksplice.take_error())
      assert.is_nil(stacksplice.take_error())
    end)
  end

  it("may be a userdata whose __tostring fails", function()
    local kept = file_methods.__tostring
    file_methods.__tostring = failing
    local ok, message = pcall(function()
      for _, way in ipairs(ways) do
        local value = io.tmpfile()
        local _, got, err = run(way[2], raising, value)
        assert.is_true(rawequal(value, got))
        assert.equal("2 4", story(err))
      end
    end)
    file_methods.__tostring = kept
    assert.is_true(ok, tostring(message))
  end)
end)

-- ---- Broken libraries ---------------------------------------------------------------------------

describe("where libraries are broken", function()
  local rawset, next, set_metatable = rawset, next, debug.setmetatable

  local function copy(from)
    local to = {}
    for key, value in next, from do to[key] = value end
    return to
  end

  local function restore(to, from)
    for key in next, copy(to) do
      if from[key] == nil then rawset(to, key, nil) end
    end
    for key, value in next, from do rawset(to, key, value) end
  end

  local function works(name, break_it)
    it("works " .. name, function()
      for _, way in ipairs {{"xpcall", with_handler}, {"pcall", with_pcall}} do
        local globals, loaded, value = _G, package.loaded, {}
        local kept_globals, kept_loaded, strings = copy(_G), copy(package.loaded), getmetatable("")
        local kept_debug, kept_string = copy(debug), copy(string)
        environment.value = value
        break_it(loaded)
        local ok, got, err = way[2](raising)
        restore(globals, kept_globals)
        restore(loaded, kept_loaded)
        restore(debug, kept_debug)
        restore(string, kept_string)
        set_metatable("", strings)
        assert.is_false(ok)
        assert.is_true(rawequal(value, got))
        assert.equal("2 4", story(err))
      end
    end)
  end

  works("without debug", function(loaded) _G.debug, loaded.debug = nil, nil end)
  works("with an empty debug", function() for key in next, copy(debug) do debug[key] = nil end end)
  works("without string, and strings without a metatable", function(loaded)
    _G.string, loaded.string = nil, nil
    set_metatable("", nil)
  end)
  works("with strings that fail at everything", function()
    set_metatable("", {__index = failing, __len = failing, __concat = failing, __eq = failing, __tostring = failing})
  end)
  works("without tostring, type, getmetatable, select and next", function()
    _G.tostring, _G.type, _G.getmetatable, _G.select, _G.next = nil, nil, nil, nil, nil
  end)
  works("with nothing loaded", function(loaded) for key in next, copy(loaded) do loaded[key] = nil end end)
  works("with strange things loaded", function(loaded)
    local strange = set_metatable({}, {__index = failing, __pairs = failing, __len = failing, __metatable = 1})
    loaded.strange, loaded[1], loaded[strange], loaded.itself = strange, failing, failing, loaded
    loaded["a\0b"], loaded[""], loaded._G, loaded.debug = {["\0"] = raising}, raising, 12, failing
  end)
end)

-- ---- Memory -------------------------------------------------------------------------------------

describe("the memory of errors", function()
  local function used()
    collectgarbage()
    collectgarbage()
    local statm = assert(io.open("/proc/self/statm"))
    local _, pages = statm:read("*n", "*n")
    statm:close()
    return collectgarbage("count"), pages * 4
  end

  for _, installed in ipairs {false, true} do
    it("is flat in every case" .. (installed and ", installed" or ""), function()
      local uninstall = installed and stacksplice.install()
      local chunks = {}
      for _, case in ipairs(cases) do
        if case.pattern ~= true and not case.yields and not case[2]:find("FILE") then
          chunks[#chunks + 1] = compile(case[2])
        end
      end
      local function repeat_all(times)
        for _ = 1, times do
          for _, chunk in ipairs(chunks) do
            for _, way in ipairs(brief and {ways[1]} or ways) do
              run(way[2], chunk, {})
              run(way[2], chunk, "text")
            end
            stacksplice.originate({})
            stacksplice.propagate()
            stacksplice.take_error()
          end
        end
        stacksplice.peek_error()
        return used()
      end
      repeat_all(brief and 1 or 3)
      local before, resident_before = repeat_all(brief and 1 or 3)
      local after, resident = repeat_all(brief and 1 or 10)
      if uninstall then uninstall() end
      assert.is_true(after < before * 1.05 + 64, ("%g KB grew to %g KB"):format(before, after))
      -- Valgrind keeps what was freed.
      assert.is_true(brief or resident < resident_before + 2048, ("%d KB grew to %d KB"):format(resident_before, resident))
    end)
  end
end)

describe("a report as JSON", function()
  local function fail() error({code = 7}) end
  local function again()
    local _, value = pcall(fail)
    error(value, 0)
  end

  it("is shorter in brief, and of the same error", function()
    local _, _, err = stacksplice.pcall(again)
    local long, short = err:json(), err:json({brief = true})
    local fingerprint = long:match('"fingerprint":"%x+"')
    assert.truthy(#short < #long and short:find(fingerprint, 1, true), short)
    assert.equal(long, err:json({}))
    assert.equal(long, err:json({brief = false}))
  end)

  it("is the same each time that it is made", function()
    local _, _, err = stacksplice.pcall(again)
    local first, short = err:json(), err:json({brief = true})
    assert.equal(first, err:json())
    assert.equal(short, err:json({brief = true}))
  end)

  it("refuses other options than a table", function()
    local _, _, err = stacksplice.pcall(again)
    local ok, message = pcall(err.json, err, true)
    assert.is_false(ok)
    assert.truthy(message:find("table expected, got boolean", 1, true), message)
  end)
end)
