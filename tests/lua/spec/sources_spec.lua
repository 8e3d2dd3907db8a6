-- luacheck: std +busted
-- Lines of chunks that have no file, in reports.
local stacksplice = require "stacksplice"

local load = loadstring or load -- luacheck: ignore 113 (5.1)

local allowed = debug.getregistry()
local key = "stacksplice.source_lines" -- what a host sets by stacksplice_lua_allow_source_lines

-- The report of the error that the chunk raises.
local function report(text, name)
  return select(3, stacksplice.pcall(assert(load(text, name)))):text()
end

describe("the line of a chunk without a file", function()
  before_each(function() allowed[key] = true end)
  after_each(function() allowed[key] = nil end)

  it("is that of the text which is the chunk's name", function()
    for _, at_end in ipairs({"\n", "\r", "\r\n", "\n\r"}) do
      local text = report("local function f()" .. at_end .. at_end .. "  error('no')  " .. at_end .. "end f()")
      assert.truthy(text:find(", line 3, in f\n        error('no')\n", 1, true), text)
      assert.truthy(text:find(", line 4, in main chunk\n        end f()\n", 1, true), text)
    end
  end)

  it("is cut, but in no character", function()
    local text = report(("error('%s')\n"):format(("ä"):rep(300)))
    assert.truthy(text:find("\n        error%('[ä]+%.%.%.\n"), text)
  end)

  it("is not shown where the name is not the text", function()
    local code = "local function f()\n  error('no')\nend\nf()"
    for _, name in ipairs({"error('no')", "=two\nlines\nof\nit", "not\nthe\ntext\nof it", "@no\nfile"}) do
      local text = report(code, name)
      assert.truthy(text:find(", line 2, in f\n    (Lua)", 1, true), text)
    end
  end)

  it("is shown to no script that may not read source lines", function()
    allowed[key] = nil
    local text = report("local a\nerror('no')")
    assert.truthy(text:find(", line 2, in main chunk\n    (Lua)", 1, true), text)
  end)

  it("is where a chunk could not be compiled", function()
    local name = os.tmpname()
    local file = assert(io.open(name, "w"))
    assert(file:write("local a = 1\nlocal b = 1 +\nend\n"))
    file:close()
    local text = select(3, stacksplice.pcall(dofile, name)):text()
    os.remove(name)
    assert.truthy(text:find('(Lua) File "' .. name .. '", line 3\n        end\n        ^^^\n', 1, true), text)
    text = select(3, stacksplice.pcall(error, select(2, load("local a\nlocal b = = 2")), 0)):text()
    assert.truthy(text:find('(Lua) File "[string "local a..."]", line 2\n    (', 1, true), text)
  end)

  it("is in saved reports", function()
    local err = select(3, stacksplice.pcall(load("local a\nerror('no')")))
    assert.truthy(err:json():find('"source": ?"error%(\'no\'%)"'), err:json())
  end)
end)

describe("the line of a chunk that another language was compiled to", function()
  local lua = "local function mid()\n  error('no')\nend mid()"

  it("is not read from the file of that language", function()
    for _, kind in ipairs {"fnl", "moon", "yue", "ts", "tsx"} do
      local name = os.tmpname()
      local file = assert(io.open(name .. "." .. kind, "w"))
      assert(file:write("; a comment\n(local unrelated 1)\n(fn mid []\n  (error :no))\n"))
      file:close()
      local err = select(3, stacksplice.pcall(assert(load(lua, "@" .. name .. "." .. kind))))
      allowed[key] = true
      local text = err:text()
      allowed[key] = nil
      os.remove(name .. "." .. kind)
      os.remove(name)
      assert.truthy(text:find(name .. "." .. kind .. '", line 2, in mid\n    (Lua)', 1, true), text)
    end
  end)

  it("is that of a language that keeps lines", function()
    local name = os.tmpname()
    local file = assert(io.open(name .. ".tl", "w"))
    assert(file:write(lua))
    file:close()
    allowed[key] = true
    local text = select(3, stacksplice.pcall(assert(load(lua, "@" .. name .. ".tl")))):text()
    allowed[key] = nil
    os.remove(name .. ".tl")
    os.remove(name)
    assert.truthy(text:find(name .. ".tl\", line 2, in mid\n        error('no')\n", 1, true), text)
  end)
end)
