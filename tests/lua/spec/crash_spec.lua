-- luacheck: std +busted
-- host.install {crash = true}: what a crash of the process leaves behind.
local host = require "stacksplice.host"

local programs = dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "programs.lua")
local folder = os.tmpname()
os.remove(folder)
assert(os.execute("mkdir " .. folder))

-- What a script prints whose process dies of its own signal, its status, and its report file.
local function run(source)
  local file = assert(io.open(folder .. "/crashes.lua", "w"))
  file:write('local host = require "stacksplice.host"\n', source)
  file:close()
  local command = "cd %s && mkdir reports && STACKSPLICE_REPORT_DIR=reports %s crashes.lua; echo $?; "
                  .. "cat reports/*; rm -r reports"
  local text = programs.output(command:format(folder, programs.lua))
  local output, status, rest = text:match("^(.*\n)(%d+)\n(.-)$")
  return output, tonumber(status) - 128, rest
end

local SIGNALS = {SEGV = 11, BUS = 7, FPE = 8, ILL = 4, ABRT = 6, SYS = 31}

describe("host.install {crash = true}", function()
  teardown(function()
    os.execute("rm -r " .. folder)
  end)

  for name, number in pairs(SIGNALS) do
    it("reports SIG" .. name, function()
      local text, status, report = run(([[
host.install {crash = true}
local function inner() os.execute("kill -%s $PPID") end
local function outer() inner() end
pcall(function() outer() end)
]]):format(name))
      assert.equal(number, status)
      assert.is_truthy(text:find("\nSIG" .. name .. ": sent by process %d+\nStack of thread "))
      assert.is_truthy(text:find('line 3, in inner\n%s+%(Lua%) File "crashes.lua", line 4, in outer\n'))
      assert.is_truthy(report:find('^{"schema":"stacksplice%-report/1"'))
      assert.is_truthy(report:find('"function":"inner"', 1, true))
    end)
  end

  it("reports what no other handler takes, if others are first", function()
    local text, status, report = run([[
host.install {crash = true, others_first = true}
os.execute("kill -SEGV $PPID")
]])
    assert.equal(11, status)
    assert.is_truthy(text:find("\nSIGSEGV: sent by process %d+\nStack of thread "))
    assert.is_truthy(report:find('^{"schema":"stacksplice%-report/1"'))
  end)

  it("is off unless asked for", function()
    for _, options in ipairs {"", "{}", "{crash = false}", "nil"} do
      local source = "host.install(%s) os.execute('kill -SEGV $PPID')"
      local text, status, report = run(source:format(options))
      assert.equal(11, status)
      assert.is_nil(text:find("stacksplice: ", 1, true))
      assert.is_nil(report:find("schema", 1, true))
    end
  end)

  it("takes a table", function()
    assert.has_error(function() host.install(5) end,
                     "bad argument #1 to 'install' (table expected, got number)")
  end)
end)
