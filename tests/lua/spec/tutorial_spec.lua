-- luacheck: std +busted
-- The pages whose scripts run, and print what the pages say.
local root = debug.getinfo(1, "S").source:match("^@(.-)tests/lua/spec/")
if root == "" then root = "./" end
local programs = dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "programs.lua")

local function read(path)
  local file = assert(io.open(path))
  local text = file:read("*a")
  file:close()
  return text
end

-- Add a page's scripts by their names to SCRIPTS, and its commands with what they print to RUNS.
local function add_parts(page, scripts, runs)
  for language, block in page:gmatch("\n```(%w+)\n(.-)\n```") do
    local name = language == "lua" and block:match("^%-%- (%S+%.lua)\n")
    if name then
      scripts[name] = block
    elseif language == "console" then
      local command, output = block:match("^%$ (.-)\n(.+)$")
      runs[#runs + 1] = {command = command, output = output}
    end
  end
end

local folder = os.tmpname()
os.remove(folder)
assert(os.execute("mkdir " .. folder))

local function write(scripts)
  for name, source in pairs(scripts) do
    local file = assert(io.open(folder .. "/" .. name, "w"))
    file:write(source)
    file:close()
  end
end

local function check(page, fewest)
  local scripts, runs = {}, {}
  add_parts(read(root .. page), scripts, runs)

  it("has a run of each script", function()
    local names = {}
    for _, run in ipairs(runs) do
      names[run.command:match("%S+$")] = true
    end
    for name in pairs(scripts) do
      assert.truthy(names[name], name)
    end
    assert.truthy(#runs >= fewest)
  end)

  local unbuffered = "-e \"io.stdout:setvbuf('no')\" " -- Lua 5.1's print leaves it to the end
  for _, run in ipairs(runs) do
    it("tells what this prints: " .. run.command, function()
      local command = assert(run.command:match("^lua (.*)$"))
      write(scripts) -- another page may have one of the same name
      local text = programs.output(("cd %s && STACKSPLICE_REPORT_DIR= %s %s"):format(folder, programs.lua, unbuffered .. command))
      text = text:gsub("in global '", "in function '") -- the word of Lua 5.5
      text = text:gsub("%[C%]: %?", "[C]: in ?"):gsub("%[C%]: at 0x%x+", "[C]: in ?") -- those of 5.1 and LuaJIT
      text = ("\n" .. text):gsub("\n" .. programs.path:gsub("%p", "%%%0") .. ": ", "\nlua: ")
      text = text:gsub("of thread %d+", "of thread 4711"):gsub("%d+ glue", "some glue")
      -- Each line of the page is part of a line of the output, in the same order: paths and marks differ.
      local from = 1
      for line in run.output:gmatch("[^\n]+") do
        local words = line:match("^%s*(.-)$")
        if _VERSION < "Lua 5.3" then words = words:gsub("in %a+ '", "in function '") end
        local _, last = text:find(words, from, true)
        assert.truthy(last, words .. "\nis not, or not in this place, in\n" .. text)
        from = (text:find("\n", last, true) or #text) + 1
      end
    end)
  end
end

describe("docs/start/lua.md", function()
  check("docs/start/lua.md", 6)
end)

describe("README.md", function()
  check("README.md", 1)
end)

if not _G.jit then -- whose compiled code cannot be interrupted
  describe("docs/how-to/sandboxes-and-limits.md", function()
    check("docs/how-to/sandboxes-and-limits.md", 1)
  end)
end

if _VERSION > "Lua 5.1" or _G.jit then -- through whose xpcall functions may yield
  describe("docs/how-to/lua-servers.md", function()
    check("docs/how-to/lua-servers.md", 1)
  end)
end
