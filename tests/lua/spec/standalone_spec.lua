-- luacheck: std +busted
-- lua -lstacksplice, stacksplice.report: what an error that nobody caught prints.
local stacksplice = require "stacksplice"

local programs = dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "programs.lua")
local folder = os.tmpname()
os.remove(folder)
assert(os.execute("mkdir " .. folder))

local function write(name, source)
  local file = assert(io.open(folder .. "/" .. name, "w"))
  file:write(source)
  file:close()
end

-- What the standalone Lua prints, and its exit status.  INPUT is its standard input.
local function run(words, input)
  write("input", input or "")
  local text = programs.output(("cd %s && %s %s <input; echo $?"):format(folder, programs.lua, words))
  local output, status = text:match("^(.-)(%d+)\n$")
  return (output:gsub("%[C%]: at 0x%x+", "[C]")), tonumber(status) -- LuaJIT's, another in each run
end

local function same(words, input)
  local plain, plain_status = run(words, input)
  local ours, status = run("-lstacksplice " .. words, input)
  assert.equal(plain, ours)
  assert.equal(plain_status, status)
  return ours
end

write("fields.lua", "local function f() error({code = 2, message = 'no price'}) end\nf()")
write("coroutine.lua", [[
local function inner() error("in a coroutine") end
local co = coroutine.wrap(function() inner() end)
local function outer() co() end
outer()
]])
write("cause.lua", [[
local stacksplice = require "stacksplice"
local function first() error("the cause", 0) end
local _, _, err = stacksplice.pcall(first)
stacksplice.error("the effect", err)
]])

describe("lua -lstacksplice", function()
  if load("local c <close> = nil") then
    it("prints the error whose place one in a method __close took", function()
      write("close.lua", [[
local function read() error("the first error") end
local function work()
  local a <close> = setmetatable({}, {__close = function() error("closing failed") end})
  read()
end
work()
]])
      local text = run("-lstacksplice close.lua")
      local first = text:find("Raised while handling:\n[^\n]*close.lua:1: the first error\n")
      assert.truthy(first, text)
      assert.truthy(text:find("closing failed", 1, true) < first, text)
      assert.truthy(text:find("line 1, in read", first, true), text)
    end)
  end

  it("prints what Lua prints where Lua tells all", function()
    write("fails.lua", [[
local function price(n) error("no price for " .. n) end
local function order(n) price(n) end
print(#arg, arg[0], ...)
order(...)
]])
    local text = same("fails.lua one two")
    assert.truthy(text:find("no price for one", 1, true), text)
    assert.truthy(text:find("in main chunk", 1, true), text)
    write("tail.lua", "local function f() error('tail') end\nlocal function g() return f() end g()")
    local text_of_tail_call = same("tail.lua")
    assert.truthy(_VERSION == "Lua 5.1" or text_of_tail_call:find("(...tail calls...)", 1, true))
    write("text.lua", "string.gsub('x', 'x', function() local t = nil; t.x = 1 end)")
    same("text.lua")
    same("-e 'error(42)'")
    if _VERSION > "Lua 5.2" then -- before, Lua does not say what was raised
      same("-e 'error()'")
      same("-e 'error(false)'")
      same("-e 'error(print)'")
    end
  end)

  it("prints what Lua prints of a long stack", function()
    write("overflow.lua", "local function f() return 1 + f() end f()")
    assert.truthy(same("overflow.lua"):find("stack overflow", 1, true))
  end)

  it("leaves the rest to Lua", function()
    write("status.lua", "print(debug.gethook()) print(...) os.exit(tonumber((...)))")
    local _, status = run("-lstacksplice status.lua 7")
    assert.equal(7, status)
    same("status.lua 3 'two words'")
    same("missing.lua")
    write("syntax.lua", "x = = 1")
    same("syntax.lua")
    same("-e 'print(1)' -")
    same("- one two", "print(...) error('from stdin')")
    write("prints.lua", "print(...)")
    same("-i prints.lua 0")
    same("-i", "print(1)\nerror('typed')\nprint(2)")
  end)

  it("shows the fields of a table", function()
    local text, status = run("-lstacksplice fields.lua")
    assert.equal(1, status)
    assert.truthy(text:find(': {code = 2, message = "no price"}\nstack traceback:', 1, true), text)
    assert.truthy(text:find("fields.lua:2: in main chunk", 1, true), text)
    write("text.lua", "error(setmetatable({}, {__tostring = function() return 'its text' end}))")
    text = run("-lstacksplice text.lua")
    assert.truthy(text:find(": its text\nstack traceback:", 1, true), text)
  end)

  it("serves every chunk, however the option is written", function()
    for _, words in ipairs {
      "-l stacksplice fields.lua", "-lstacksplice -- fields.lua", "-W -l stacksplice -e 'x = 1' fields.lua",
      "-lstacksplice -e 'error({code = 2})'", "-lstacksplice -l debug -e 'error({code = 2})'",
      "-e 'x = 1' -lstacksplice -", "-lstacksplice -i fields.lua",
    } do
      if not words:find("-W", 1, true) or _VERSION > "Lua 5.3" then
        local text = run(words, "error({code = 2})\nerror({code = 2})")
        assert.truthy(text:find("{code = 2", 1, true), words .. "\n" .. text)
      end
    end
    local text = run("-lstacksplice -i", "error({code = 1})\nerror({code = 2})")
    assert.truthy(text:find("{code = 1}", 1, true), text)
    assert.truthy(text:find("{code = 2}", 1, true), text)
  end)

  it("keeps the frames of coroutines", function()
    local text = run("-lstacksplice coroutine.lua")
    assert.truthy(text:find("in inner", 1, true), text)
    assert.truthy(text:find("in outer", 1, true), text)
    assert.truthy(text:find('error("in a coroutine")', 1, true), text) -- a line of source
  end)

  it("shows the line of a string that could not be compiled", function()
    -- No tail call: LuaJIT lets one of C take the frame, and the text with it.
    write("compiles.lua", "local function compile(code) local f = assert((loadstring or load)(code)) return f end\n" ..
      "compile('local a = 1\\nreturn a +* 2')")
    local text = run("-lstacksplice compiles.lua")
    assert.truthy(text:find("line 2\n        return a +* 2\n                  ^\n", 1, true), text)
  end)

  it("shows causes", function()
    local text = run("-lstacksplice cause.lua")
    assert.truthy(text:find("the effect", 1, true), text)
    assert.truthy(text:find("the cause", 1, true), text)
    assert.truthy(text:find('local function first() error("the cause", 0) end', 1, true), text)
  end)

  it("shows the frames of C and Python", function()
    write("border.lua", [[
local ok, border = pcall(require, "stacksplice_test_border")
if not ok then print("no border") return end
local function calls_c() border.fail() end
calls_c()
]])
    local text = run("-lstacksplice border.lua")
    if text ~= "no border\n" then
      assert.truthy(text:find("no entry", 1, true), text)
      assert.truthy(text:find("in fail", 1, true), text)
      assert.truthy(text:find("in calls_c", 1, true), text)
    end
    write("python.lua", [[
local ok, python = pcall(require, "stacksplice_test_python")
if not ok then print("no Python") return end
local function calls_python() python.run("def divide(n):\n    return 1 // n\ndivide(0)") end
calls_python()
]])
    text = run("-lstacksplice python.lua")
    if text ~= "no Python\n" then
      assert.truthy(text:find("ZeroDivisionError", 1, true), text)
      assert.truthy(text:find("in divide.*in calls_python.*in main chunk"), text)
    end
  end)

  it("goes on calling a hook that was set before", function()
    local text = run([[-e "n = 0 debug.sethook(function() n = n + 1 end, 'l')" -lstacksplice ]]
      .. [[-e "x = n" -e "print(n > x) error({code = n > x})"]])
    assert.truthy(text:find("true\n", 1, true), text)
    assert.truthy(text:find("{code = true}", 1, true), text)
    write("hook.lua", "local hook, mask = debug.gethook() print(type(hook), mask)")
    text = run([[-e "debug.sethook(function() end, 'l')" -lstacksplice hook.lua]])
    assert.truthy(text:find("function\tl\n", 1, true), text)
  end)

  it("is not what a script's require does", function()
    write("requires.lua", "require 'stacksplice' print(debug.gethook()) error({code = 2})")
    for _, words in ipairs {"requires.lua", "requires.lua -lstacksplice", "-e 'require [[stacksplice]]' fields.lua"} do
      local text = run(words)
      -- The words of each Lua.
      assert.truthy(text:find("%(error object is .*%)") or text:find("(no error message)", 1, true), text)
    end
  end)
end)

describe("report", function()
  local function report(f)
    local _, text = xpcall(f, stacksplice.report)
    return text
  end

  it("is the text of debug.traceback for an error of Lua", function()
    local function fails() error("a text") end
    local texts = {}
    for i, handler in ipairs {debug.traceback, stacksplice.report} do
      texts[i] = select(2, xpcall(fails, handler))
    end
    assert.equal(texts[1], texts[2])
  end)

  it("opens no debug files for an error of Lua alone", function()
    write("alone.lua", [[
local stacksplice = require "stacksplice"
local function fails() error("a text") end
local function sorts() table.sort({3, 2, 1}, fails) end
local function shown()
  for line in io.lines("/proc/self/maps") do
    if line:find("libdw", 1, true) then return true end
  end
  return false
end
local _, text = xpcall(sorts, stacksplice.report)
print(shown(), select(2, text:gsub("alone.lua:%d+: in ", "")))
local _, _, err = stacksplice.pcall(sorts)
print(#err:text() > 0 and shown())
]])
    local text = run("alone.lua")
    local alone, frames, with_names = text:match("^(%S+)\t(%d+)\n(%S+)\n$")
    assert.equal("false", alone, text)
    assert.truthy(tonumber(frames) >= 2, text)
    if with_names == "false" then pending("no libdw here: nothing would have been opened") end
  end)

  it("is the report of an error with a cause", function()
    local text = report(function()
      local _, _, err = stacksplice.pcall(error, "the cause")
      stacksplice.error({code = 2}, err)
    end)
    assert.truthy(text:find("{code = 2}", 1, true), text)
    assert.truthy(text:find("the cause", 1, true), text)
  end)

  it("has the stack of the first raise", function()
    local value = {code = 2}
    local function first() error(value) end
    stacksplice.pcall(first)
    local text = report(function() error(value) end)
    assert.truthy(text:find("in first", 1, true) or text:find("upvalue 'first'", 1, true)
      or text:find("in function <", 1, true), text)
    assert.equal("string", type(report(error)))
  end)
end)


describe("doctor", function()
  it("says what is in place", function()
    local text, status = run([[-lstacksplice -e "print(require('stacksplice.host').doctor())"]])
    assert.equal(0, status)
    assert.truthy(text:find("ok       module: for " .. _VERSION .. ", /", 1, true), text)
    assert.truthy(text:find("\n         system: Linux", 1, true), text)
    for _, line in ipairs {"Lua frames: they are read", "native frames: they are read",
      "debug.traceback: shows", "coroutine.wrap: errors keep", "coroutine.resume: errors keep", "uncaught errors: are shown with"} do
      assert.truthy(text:find("\nok       " .. line, 1, true), text)
    end
    local fine = not text:find("\nmissing", 1, true)
    assert.truthy(text:find(fine and "\nnothing is missing\ntrue\n" or "missing: see above\nfalse\n", 1, true), text)
  end)

  it("says what to do about what is not", function()
    local text = run([[-e "require('stacksplice.host').doctor()"]])
    assert.truthy(text:find("\nnote     debug.traceback: is not replaced", 1, true), text)
    assert.truthy(text:find("-> call stacksplice.install()", 1, true), text)
    assert.truthy(text:find("\nnote     uncaught errors: ", 1, true), text)
    assert.truthy(text:find("-> start the script by lua -lstacksplice", 1, true), text)
    text = run([[-e "local f = coroutine.wrap coroutine.wrap = function(g) return f(g) end]]
      .. [[ require 'stacksplice'.install() require 'stacksplice.host'.doctor()"]])
    assert.truthy(text:find("\nnote     coroutine.wrap: another library replaced it", 1, true), text)
    assert.truthy(text:find("\n         -> load stacksplice before that library", 1, true), text)
    assert.truthy(text:find("\nok       coroutine.resume: ", 1, true), text)
  end)
end)
