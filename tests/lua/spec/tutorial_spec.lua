-- luacheck: std +busted
-- docs/lua.md: its scripts run, and print what the page says.
local root = debug.getinfo(1, "S").source:match("^@(.-)tests/lua/spec/")
if root == "" then root = "./" end

local function read(path)
  local file = assert(io.open(path))
  local text = file:read("a")
  file:close()
  return text
end

local function output_of(command)
  local pipe = assert(io.popen(command .. " 2>&1"))
  local text = pipe:read("a")
  pipe:close()
  return text
end

-- The scripts by their names, and the commands with what they print.
local function parts(page)
  local scripts, runs = {}, {}
  for language, block in page:gmatch("\n```(%w+)\n(.-)\n```") do
    if language == "lua" then
      scripts[block:match("^%-%- (%S+)\n")] = block
    elseif language == "console" then
      local command, output = block:match("^%$ (.-)\n(.+)$")
      runs[#runs + 1] = {command = command, output = output}
    end
  end
  return scripts, runs
end

local page = read(root .. "docs/lua.md")
local scripts, runs = parts(page)
local lua = output_of("readlink /proc/$PPID/exe"):match("%S+")
local folder = os.tmpname()
os.remove(folder)
assert(os.execute("mkdir " .. folder))
for name, source in pairs(scripts) do
  local file = assert(io.open(folder .. "/" .. name, "w"))
  file:write(source)
  file:close()
end

describe("docs/lua.md", function()
  it("has a run of each script", function()
    local names = {}
    for _, run in ipairs(runs) do
      names[run.command:match("%S+$")] = true
    end
    for name in pairs(scripts) do
      assert.truthy(names[name], name)
    end
    assert.truthy(#runs >= 5)
  end)

  for _, run in ipairs(runs) do
    it("tells what this prints: " .. run.command, function()
      local variable = "LUA_CPATH_" .. _VERSION:match("%d+%.%d+"):gsub("%.", "_")
      local command = assert(run.command:match("^lua (.*)$"))
      local text = output_of(("cd %s && %s='%s' %s %s"):format(folder, variable, package.cpath, lua, command))
      text = text:gsub("in global '", "in function '") -- the word of Lua 5.5
      -- Each line of the page is part of a line of the output, in the same order: paths, marks and
      -- the numbers of threads differ.
      local from = 1
      for line in run.output:gmatch("[^\n]+") do
        local words = line:match("^%s*(.-)$")
        local _, last = text:find(words, from, true)
        assert.truthy(last, words .. "\nis not, or not in this place, in\n" .. text)
        from = (text:find("\n", last, true) or #text) + 1
      end
    end)
  end
end)
