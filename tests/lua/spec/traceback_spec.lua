-- luacheck: std +busted, globals debug package _G, no unused args
-- stacksplice.traceback is debug.traceback, byte for byte, while only Lua is on the stack.
local stacksplice = require "stacksplice"
-- Under valgrind and among others: fewer levels, depths and random programs.
local brief = os.getenv("STACKSPLICE_BRIEF_SPECS") ~= nil

local has_border, border = pcall(require, "stacksplice_test_border")

-- Among others our text goes on out to them, and is cut there.
local among

-- The function itself is level 0; only its name differs.  Among others there are native functions, and one
-- in C that has several names in package.loaded may have another of them.
local function same_name(text)
  if type(text) ~= "string" then return text end
  text = text:gsub("'stacksplice%.traceback'", "'debug.traceback'")
  if not among then return text end
  text = text:gsub("\n\t[^\n]* in native function '[^\n]*", ""):gsub("%[builtin#%d+%]", "[C]") -- of LuaJIT
  return (text:gsub(_VERSION > "Lua 5.2" and "%[C%]: in function '[^\n]*'" or "%[C%]: [^\n]*", "[C]: in a function"))
end

local function begins(text, inner)
  return (text .. "\n"):sub(1, #inner + 1) == inner .. "\n"
end

local function agree(theirs, ours)
  if not among or type(theirs) ~= "string" or type(ours) ~= "string" then return theirs == ours end
  local inner = ours:match("^(.-)\n\t%.%.%.\t%(skipping") or ours:match("^(.-)\n\t%.%.%.\n") -- 5.3
  return begins(ours, theirs) or inner and begins(theirs, inner)
end

-- Kept rather than raised: much of what follows runs under protected calls.
local compared, difference

local function check(...)
  local theirs, ours = debug.traceback(...), stacksplice.traceback(...)
  compared = compared + 1
  if not agree(same_name(theirs), same_name(ours)) then
    difference = difference or {theirs, ours}
  end
  return ours
end

local function compares(name, f)
  local function run(call)
    compared, difference = 0, nil
    local ok, message = pcall(call, f)
    among = false
    assert.is_true(ok, message)
    assert.is_true(compared > 0)
    if difference then
      assert.equal(difference[1], difference[2])
    end
  end
  it(name, function() run(pcall) end)
  if has_border and not brief then
    it(name .. ", with frames of others outermost", function()
      among = true
      run(border.among_others)
    end)
  end
end

local all_levels = {1, 0, 2, 3, 9, 10, 11, 12, 20, 21, 22, 23, 100, 199, 200, 1000000, -1, -5, 1.0, "2", "0x3", " 4 "}
local few_levels = {1, 0, 11, 200, "2"}
if _VERSION > "Lua 5.1" then -- which counts from the least integer up to 0, LuaJIT from others
  for _, level in ipairs {math.maxinteger, math.mininteger, 2 ^ 31, 2 ^ 32, 2 ^ 32 + 1} do
    all_levels[#all_levels + 1] = level
  end
  few_levels[6], few_levels[7] = -1, 2 ^ 32 + 1
end

local function check_levels(thread)
  for _, level in ipairs((brief or among) and few_levels or all_levels) do
    if thread then
      check(thread, "message", level)
    else
      check("message", level)
    end
  end
end

describe("traceback", function()
  compares("chooses levels as debug.traceback does", function()
    local function deep(n)
      if n == 0 then
        check_levels()
      end
      if n > 0 then
        deep(n - 1)
      end
    end
    for depth = 0, 30, (brief or among) and 10 or 1 do
      deep(depth)
    end
    deep(150)
  end)

  compares("treats messages as debug.traceback does", function()
    for _, message in ipairs {"", "text", "two\nlines", "a\0b", ("x"):rep(5000), 42, -0.5, 1e100,
      math.huge, math.mininteger} do
      check(message)
      check(message, 1)
    end
    check()
    check(nil)
    check(nil, nil)
    check(nil, 2)
    for _, value in ipairs {true, {}, print, io.stdout, setmetatable({}, {__tostring = tostring})} do
      assert.is_true(rawequal(value, check(value)))
      assert.is_true(_VERSION == "Lua 5.1" or rawequal(value, check(value, "no level", 1))) -- it returns the level
      assert.is_true(rawequal(value, check(coroutine.create(function() end), value)))
    end
    assert.is_false(check(false))
    assert.equal(1, select("#", stacksplice.traceback({}, 1, 2)))
  end)

  it("does with wrong levels what debug.traceback does", function() -- it raises, or in 5.1 mostly not
    local co = coroutine.create(function() end)
    local function fails(...)
      local said, count = {}, select("#", ...)
      for i, traceback in ipairs {debug.traceback, stacksplice.traceback} do
        local ok, text = pcall(function(...) return traceback(...) .. "" end, ...)
        said[i] = tostring(ok) .. tostring(text):gsub("'[^'\n]-%.?traceback'", "it")
      end
      assert.equal(said[1], said[2])
      assert.truthy(count == 1 or _VERSION == "Lua 5.1" or said[1]:find("^false"))
    end
    local wrong = {"one", "", true, {}, print, co}
    if _VERSION > "Lua 5.2" then -- before, any number is a level
      for _, level in ipairs {"1.5", 1.5, 0 / 0, math.huge} do wrong[#wrong + 1] = level end
    end
    for _, level in ipairs(wrong) do
      fails("message", level)
      fails(nil, level)
      fails(co, "message", level)
      fails(co, nil, level)
      fails("message", level, 1)
      fails({}, level)
    end
    if _VERSION == "Lua 5.1" then
      fails("message", 1, "more")
      fails(co, "message", 0, 2, 3)
      fails(co)
    end
  end)

  compares("names chunks as debug.traceback does", function()
    local environment = setmetatable({check = check}, {__index = _G})
    for _, name in ipairs {"=name", "@file.lua", "=", "@", "text", "return 1\nreturn 2", "\n", "",
      "=" .. ("n"):rep(200), "@" .. ("f/"):rep(200), ("s"):rep(200), "=[C]", "=?", "=a\nb", "a\0b"} do
      local chunk = assert(load("local function f() check('m') check('m', 0) end f()\nf()\n"
        .. "return (function() check() return 1 end)()", name, "t", environment))
      chunk()
      local stripped = load(string.dump(chunk, true), name, "b", environment)
      stripped()
    end
  end)

  compares("names functions as debug.traceback does", function()
    local function f() check() check(nil, 0) check("message", 2) end
    local kept = package.loaded._G
    local newer_operators = load("local o = ... local _ = o // 1, o & 1, ~o, o << 1") -- since 5.3
    local object = setmetatable({method = f, field = {nested = f}}, {
      __index = function(_, key) f() return key end, __newindex = f, __call = f, __add = f,
      __concat = f, __eq = f, __lt = f, __le = f, __len = f, __unm = f, __idiv = f, __band = f,
      __bnot = f, __shl = f,
    })
    local other = setmetatable({}, getmetatable(object))
    local function all()
      f()
      object:method()
      object.method()
      object.field.nested()
      object["field"]["nested"]()
      local _ = object.unknown, object + 1, object .. "", object == other, object < other
      _ = object <= other, #object, -object
      if newer_operators then newer_operators(object) end
      object.unknown = 1
      object()
      for _ in f do break end
      for _ in object do break end
      pcall(f)
      pcall(pcall, f)
      pcall(string.gsub, "aa", "a", f)
      pcall(table.sort, {1, 2, 3}, f)
      pcall(load, f)
      tostring(setmetatable({}, {__tostring = function() f() return "" end}))
      coroutine.wrap(f)()
      coroutine.wrap(function() coroutine.wrap(f)() end)()
      return f()
    end
    local function with(loaded)
      for key, value in pairs(loaded) do package.loaded[key] = value end
      all()
      for key in pairs(loaded) do package.loaded[key] = nil end
      all()
    end
    all()
    with {["a.module"] = {field = f, another = all}}
    with {[0] = {field = f}, [true] = f, [2.5] = {f = f}, [f] = f, [all] = {all = all}}
    with {cycle = package.loaded, itself = {f, {f}, f = {f = f}}}
    with {weird = setmetatable({f = f}, {__index = error, __pairs = error, __metatable = false})}
    package.loaded._G = nil
    all()
    package.loaded._G = {f = f}
    all()
    package.loaded._G = f
    all()
    package.loaded._G = kept
    _G.a_global = f
    all()
    _G.a_global, _G.print, _G.kept_print = nil, f, print
    all()
    _G.print, _G.kept_print = _G.kept_print, nil
    all()
  end)

  compares("is not taken in by an address that is no function", function()
    local function f() check() end
    -- A coroutine, a table and a userdata beside the function: none of them is its name.
    package.loaded["a.module"] = {coroutine.create(f), {}, io.stdout, one = coroutine.create(f), two = {}}
    f()
    package.loaded["a.module"] = nil
  end)

  it("works where package.loaded has nothing", function()
    local kept = {}
    for key, value in pairs(package.loaded) do kept[key] = value end
    for key in pairs(kept) do package.loaded[key] = nil end
    local ok, message = pcall(function()
      local theirs, ours = kept.debug.traceback(), stacksplice.traceback()
      return theirs == ours or error(theirs .. ours)
    end)
    for key, value in pairs(kept) do package.loaded[key] = value end
    assert.is_true(ok, message)
  end)
end)

describe("traceback of a coroutine", function()
  local function deep(n, at_end)
    if n > 0 then
      deep(n - 1, at_end)
    else
      at_end()
    end
    return n
  end

  compares("is the text of debug.traceback in every state of it", function()
    for depth = 0, 44, (brief or among) and 22 or 4 do
      local co = coroutine.create(deep)
      check_levels(co) -- not started
      assert(coroutine.resume(co, depth, coroutine.yield))
      check_levels(co) -- suspended
      assert(coroutine.resume(co))
      check_levels(co) -- dead
      co = coroutine.create(deep)
      assert(not coroutine.resume(co, depth, error))
      check_levels(co) -- dead, with its stack
      co = coroutine.create(deep)
      assert(coroutine.resume(co, depth, function()
        check_levels(co) -- running
        check_levels(coroutine.running())
        check_levels()
        local parent = co
        coroutine.wrap(function()
          check_levels(parent) -- normal
          check_levels()
        end)()
      end))
    end
    check_levels(coroutine.running())
  end)

  compares("is that of debug.traceback in a hook of it", function()
    local hooked = {}
    local co = coroutine.create(function() return 1 end)
    debug.sethook(co, function(event) hooked[#hooked + 1] = check(event) end, "crl")
    assert(coroutine.resume(co))
    assert.is_true(#hooked > 0)
  end)
end)

describe("traceback as a message handler", function()
  local function both(f, ...)
    local texts = {}
    for i, traceback in ipairs {debug.traceback, stacksplice.traceback} do
      texts[i] = select(2, xpcall(f, traceback, ...))
    end
    return texts[1], texts[2]
  end

  it("gives the text of debug.traceback", function()
    local function overflow(n) return 1 + overflow(n + 1) end
    local function overflow_in_c() return (string.gsub("x", "x", overflow_in_c)) end
    for _, f in ipairs {
      error, function() error("text") end, function() error() end, function() error({}) end,
      function() return nil + 1 end, function() return #nil end, function() return ({}).x.y end,
      function() return nil .. "x" end, function() return {} < {} end, function() nofunction() end,
      function() for _ = 1, 10, 0 do return end end, function() return string.rep() end,
      function() return setmetatable({}, {__index = function() error("in it") end}).x end,
      function() return coroutine.wrap(function() error("in it") end)() end,
      overflow, overflow_in_c,
    } do
      local theirs, ours = both(f)
      if type(theirs) == "table" then
        assert.equal("table", type(ours))
      else
        assert.equal(theirs, ours)
      end
    end
  end)
end)

-- Random programs: each function calls the next in one of many ways, the last one compares.
describe("traceback in random programs", function()
  local ways = {
    "local r = NEXT() return r", "return NEXT()", "return (NEXT())", "NEXT()", "local NEXT = NEXT NEXT()",
    "pcall(NEXT)", "return pcall(NEXT)", "xpcall(NEXT, print)", "local t = {f = NEXT} t.f()",
    "local t = {f = NEXT} t:f()", "local t = {NEXT} t[1]()", "(NEXT or 1)()",
    "string.gsub('x', 'x', function() NEXT() end)", "pcall(table.sort, {1, 2}, function() NEXT() end)",
    "for _ in NEXT do break end", "for _ in function() return NEXT() end do break end",
    "local t = setmetatable({}, {__index = function() NEXT() end}) local _ = t.x",
    "local t = setmetatable({}, {__add = NEXT}) local _ = t + 1",
    "local t = setmetatable({}, {__call = NEXT}) t()",
    "local t = setmetatable({}, {__concat = function() NEXT() return '' end}) local _ = t .. 'x'",
    "local t = setmetatable({}, {__tostring = function() NEXT() return '' end}) tostring(t)",
    "local t = setmetatable({}, {__eq = function() NEXT() end}) local _ = t == setmetatable({}, getmetatable(t))",
    "coroutine.wrap(NEXT)()", "coroutine.wrap(function() NEXT() end)()",
    "assert(coroutine.resume(coroutine.create(NEXT)))",
    "local co = coroutine.create(NEXT) threads[#threads + 1] = co assert(coroutine.resume(co))",
    "local co = coroutine.create(function() coroutine.yield() NEXT() end) threads[#threads + 1] = co "
      .. "coroutine.resume(co) assert(coroutine.resume(co))",
    "load(function() NEXT() end)", "assert(load('local f = ... f()', '=loaded'))(NEXT)",
    "assert(load('return (...)()', 'a chunk\\nof two lines'))(NEXT)",
    "_G.a_global = NEXT a_global() _G.a_global = nil",
    "package.loaded['a.b'] = {c = NEXT} NEXT() package.loaded['a.b'] = nil",
    "select(2, NEXT())", "require('random.module')(NEXT)", "table.unpack({NEXT})()",
    "return NEXT(table.unpack({1, 2, 3}))", "debug.sethook(function() debug.sethook() NEXT() end, '', 1) local _ = 1",
  }

  compares("is the text of debug.traceback", function()
    local seed = 20260801
    local function random(n)
      seed = seed * 16807 % 2147483647
      return seed % n + 1
    end
    package.loaded["random.module"] = function(f) f() return 1 end
    for _ = 1, (brief or among) and 10 or 2000 do
      local threads, lines, count = {}, {}, random(30)
      local environment = setmetatable({threads = threads}, {__index = _G})
      local before = compared
      function environment.last()
        for _ = 1, 4 do
          check("m", random(40) - 2)
        end
        for _, thread in ipairs(threads) do
          check(thread)
          check(thread, "m", random(12) - 1)
        end
        return nil
      end
      for i = 1, count do
        local next_one = i == 1 and "last" or "f" .. i - 1
        local kind = random(3)
        local body = ways[random(#ways)]:gsub("NEXT", next_one)
        lines[i] = (kind == 1 and "local function f%d() %s end" or kind == 2 and "function f%d() %s end"
          or "local f%d f%d = function(...) %s end"):gsub("%%d", i):gsub("%%s", (body:gsub("%%", "%%%%")))
      end
      lines[#lines + 1] = "f" .. count .. "()"
      local source = table.concat(lines, random(2) == 1 and "\n" or " ")
      local chunk = assert(load(source, "=random", "t", environment))
      local ok, message = pcall(chunk)
      assert.is_true(ok, tostring(message) .. "\n" .. source)
      assert.is_true(compared > before, source)
      if difference then
        assert.equal(difference[1], difference[2], source)
      end
    end
    package.loaded["random.module"] = nil
  end)
end)

describe("traceback with frames of another language", function()
  if not has_border then return end

  -- What SCRIPT returns; it may call logo, traceback, and traceback at a level.
  local function run(script, level)
    local chunk = assert(load("local logo, traceback, level = ... " .. script, "@m.lua"))
    local _, text = pcall(chunk, border.logo, stacksplice.traceback, level) -- called from C, it has no name
    return text
  end

  -- It begins with these lines, but for those of native functions.
  local function shows(script, expected, level)
    local text = run(script, level):gsub("\n\t[^\n]* in native function '[^\n]*", "")
    -- Lua 5.5 prefers the name that the code gives.
    text = text:gsub("%[C%]: in %a+ 'logo'", "[C]: in function 'stacksplice_test_border.logo'")
      :gsub("in field '(%a+)'", "in function 'coroutine.%1'")
    if _VERSION < "Lua 5.3" then
      text = text:gsub("'[%w_]+%.([%w_]+)'", "'%1'")
      expected = expected:gsub("LOGO", "[C]: in function 'logo'"):gsub("in %a+ '([^.']+)'", "in function '%1'")
        :gsub("'[%w_]+%.([%w_]+)'", "'%1'")
    end
    expected = "stack traceback:\n" .. expected:gsub("^ +", "\t"):gsub("\n +", "\n\t")
      :gsub("LOGO", "[C]: in function 'stacksplice_test_border.logo'")
      :gsub("TURTLE", "garden.logo:12: in logo function 'turtle'")
    assert.is_true(begins(text, expected), text .. "\n" .. expected)
  end

  it("has them in their places", function()
    shows([[local function inner()
      return (traceback())
      end
      local function outer()
      return (logo(inner))
      end
      local function globe() return (logo(outer)) end
      return (globe())]], [[
      m.lua:2: in function <m.lua:1>
      TURTLE
      LOGO
      m.lua:5: in function <m.lua:4>
      TURTLE
      LOGO
      m.lua:7: in local 'globe'
      m.lua:8: in main chunk]])
  end)

  it("leaves out what is inside of a level", function()
    local script = [[local function inner()
      return (traceback('m', level):sub(3))
      end
      local function outer()
      return (logo(inner))
      end
      return (outer())]]
    local outer = "m.lua:5: in local 'outer'\n m.lua:7: in main chunk"
    shows(script, " m.lua:2: in function <m.lua:1>\n TURTLE\n LOGO\n " .. outer, 1)
    shows(script, " LOGO\n " .. outer, 2)
    shows(script, " " .. outer, 3)
    shows(script, " m.lua:7: in main chunk", 4)
    assert.equal("stack traceback:", run(script, 1000))
  end)

  it("goes on beyond a coroutine", function()
    shows([[local co = coroutine.create(function()
      return traceback() .. ''
      end)
      return (logo(function()
      local _, text = coroutine.resume(co)
      return text
      end))]], [[
      m.lua:2: in function <m.lua:1>
      [C]: in function 'coroutine.resume'
      m.lua:5: in function <m.lua:4>
      TURTLE
      LOGO
      m.lua:4: in main chunk]])
  end)

  it("is cut where Lua cuts it", function()
    local text = run [[local function deep(n)
      if n == 0 then return traceback() .. '' end
      return logo(deep, n - 1) .. ''
      end
      return (deep(20))]]
    assert.equal(22, select(2, text:gsub("\n", "")), text)
    assert.truthy(text:find("\n\t...", 1, true), text)
    local count = tonumber(text:match("skipping (%d+) levels"))
    assert.is_true(_VERSION < "Lua 5.4" or count >= 41, text)
  end)

  it("has native functions in their places, but not those of interpreters", function()
    local text = run "return (logo(function() return (traceback()) end))"
    assert.truthy(text:find("in logo function 'turtle'.* in native function 'lend_a_hand'"
      .. ".*%[C%]: in %a+ '[%a_.]*logo'"), text)
    assert.falsy(text:find("lua_callk", 1, true), text)
  end)

  it("has them in a coroutine that waits for the running one, too", function()
    shows([[local main = coroutine.running()
      return (logo(function()
      local wait = coroutine.wrap(function()
      return (traceback(main))
      end)
      return wait() .. ''
      end))]], [[
      [C]: in local 'wait'
      m.lua:6: in function <m.lua:2>
      TURTLE
      LOGO
      m.lua:2: in main chunk]])
    shows([[local co = coroutine.create(function()
      coroutine.yield()
      end)
      coroutine.resume(co)
      return (logo(traceback, co))]], [[
      [C]: in function 'coroutine.yield'
      m.lua:2: in function <m.lua:1>]])
  end)

  it("has a tail call", function()
    shows([[local function f() return (traceback()) end
      local function g() return f() end
      return (logo(g))]], [[
      m.lua:1: in function <m.lua:1>
      (...tail calls...)
      TURTLE
      LOGO
      m.lua:3: in main chunk]])
  end)
end)
