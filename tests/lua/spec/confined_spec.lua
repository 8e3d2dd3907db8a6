-- luacheck: std +busted
-- A confined script plays each function of the module: SECURITY.md names what each can do, and no other.
local stacksplice = require "stacksplice"
local programs = dofile(debug.getinfo(1, "S").source:match("^@(.*/)") .. "programs.lua")

-- Each function alone, with what might change the rules, and with what the host would have to take back.
local HOST = [[
local stacksplice, shown, hooked = require "stacksplice", "", 0
local SECRET = "password=hunter2 at https://u:hunter2@h/ ghp_0123456789abcdefghijABCDEFGHIJ012345"
local traceback, wrap, resume = debug.traceback, coroutine.wrap, coroutine.resume
shown = stacksplice.redact(SECRET)
local played = {}
for name, member in pairs(stacksplice) do
  if type(member) == "function" then
    local script = [=[
      local name, member, hook = ...
      for _, value in next, {{on = false}, {hook = hook}, {names = {"at"}, emails = true},
        {crash = true, locals = true}, {}, 1, "x", hook, false} do
        pcall(member, value)
        pcall(member, value, hook)
      end
      pcall(member)
      for word in next, {redaction = 1, hide = 1, doctor = 1, host = 1} do
        if stacksplice[word] then error(word) end
      end]=]
    local env = {pcall = pcall, error = error, next = next, stacksplice = stacksplice}
    local ok, why = pcall(assert(load(script, "=tenant", "t", env)), name, member, function(text)
      hooked = hooked + (text == shown and 1 or 0)
      return "forged"
    end)
    if not ok then print(name, why) end
    if stacksplice.redact(SECRET) ~= shown then print(name, "changed the rules") end
    debug.traceback, coroutine.wrap, coroutine.resume = traceback, wrap, resume
  end
end
stacksplice.set_max_frames(512)
local _, _, err = stacksplice.pcall(function(of_the_host) error(SECRET) end, "a value of the host")
if err:text():find("a value of the host", 1, true) then print(err:text()) end
if err:text():find("hunter2", 1, true) or err:json():find("forged", 1, true) then print(err:text()) end
if hooked > 0 then print("a hook was called") end
print("done")
]]

local function text_of(path)
  local file = assert(io.open(path))
  local text = file:read("*a")
  file:close()
  return text
end

describe("a confined script", function()
  it("changes no rule and writes nothing, whatever function it calls", function()
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    file:write(HOST)
    file:close()
    local text = programs.output(programs.lua .. " " .. programs.quoted(path))
    os.remove(path)
    assert.equal("done\n", text)
  end)

  it("can do what SECURITY.md says of each function", function()
    local said = text_of("SECURITY.md"):match("%*%*A confined Lua script%*%*(.-)\n%- ")
    for name, member in pairs(stacksplice) do
      if type(member) == "function" then
        assert.truthy(said:find("`" .. name, 1, true), name .. " is missing in SECURITY.md")
      end
    end
  end)
end)
