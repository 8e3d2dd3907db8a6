-- Runs specs in a Lua that has no busted: spec_runner.lua FILE...
-- luacheck: globals describe it finally assert load rawlen table math package setfenv loadstring unpack jit
-- It knows as much of busted as the specs need that run in every Lua, and gives older ones what these lack.
local failures, successes, path = {}, 0, {}
local undo -- what the spec that runs wants done when it ends
local exceptions -- of the file that runs: beginnings of names, each with the reason

local function show(value)
  return type(value) == "string" and ("%q"):format(value) or tostring(value)
end

local function differ(message, expected, got)
  error(("%s: expected %s\n  but got %s"):format(message or "values differ", show(expected), show(got)), 3)
end

local function same(a, b)
  if a == b or type(a) ~= "table" or type(b) ~= "table" then
    return a == b
  end
  for key, value in pairs(a) do
    if not same(value, b[key]) then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

local function list(value)
  if type(value) ~= "table" then return value end
  local items = {}
  for i = 1, value.n or #value do items[i] = show(value[i]) end
  return "{" .. table.concat(items, ", ") .. "}"
end

local checks = {}
function checks.equal(expected, got, message)
  if expected ~= got then differ(message, expected, got) end
end
function checks.not_equal(unexpected, got, message)
  if unexpected == got then differ(message, "something else", got) end
end
function checks.same(expected, got, message)
  if not same(expected, got) then differ(message, list(expected), list(got)) end
end
function checks.truthy(got, message)
  if not got then differ(message, "a true value", got) end
end
function checks.is_true(got, message)
  if got ~= true then differ(message, true, got) end
end
function checks.is_false(got, message)
  if got ~= false then differ(message, false, got) end
end
function checks.is_nil(got, message)
  if got ~= nil then differ(message, nil, got) end
end
function checks.falsy(got, message)
  if got then differ(message, "a false value", got) end
end
function checks.is_not_nil(got, message)
  if got == nil then differ(message, "a value", got) end
end
for _, name in ipairs {"string", "table", "function", "userdata", "number"} do
  checks["is_" .. name] = function(got, message)
    if type(got) ~= name then differ(message, "a " .. name, got) end
  end
end

-- ---- What the specs call of Lua 5.3, where it is missing ------------------------------------------

table.unpack = table.unpack or unpack
table.pack = table.pack or function(...) return {n = select("#", ...), ...} end
rawlen = rawlen or function(value) return #value end -- which asks no metamethod of a table in 5.1
package.searchers = package.searchers or package.loaders
if not math.type then
  math.maxinteger, math.mininteger = 2 ^ 53, -2 ^ 53
  function math.type(value)
    return type(value) == "number" and (value % 1 == 0 and "integer" or "float") or nil
  end
end
if _VERSION == "Lua 5.1" then
  local load_function = load
  function load(chunk, name, _, environment) -- luacheck: ignore
    local f, message = (type(chunk) == "string" and loadstring or load_function)(chunk, name)
    return f and environment and setfenv(f, environment) or f, message
  end
end

-- As busted does it, for the specs only: in _G it stays Lua's own.
local environment = setmetatable({
  assert = setmetatable(checks, {__call = function(_, ...) return assert(...) end}),
}, {__index = _G, __newindex = _G})

local has_border = pcall(require, "stacksplice_test_border") -- without it some specs are not there

-- What this Lua cannot do of a file of specs.
local function exceptions_of(file)
  local version, found = jit and "luajit" or _VERSION:match("%d.%d"), {}
  for _, entry in ipairs(dofile(file:match("^(.*/)") .. "../exceptions.lua")[file:match("(%w+)_spec.lua$")] or {}) do
    if (" " .. entry[1] .. " "):find(" " .. version .. " ", 1, true) then
      found[#found + 1] = {name = entry[2], why = entry[3]}
    end
  end
  return found
end

local function is_left_out(full)
  for _, exception in ipairs(exceptions) do
    if full:sub(1, #exception.name) == exception.name then
      exception.used = true
      return true
    end
  end
end

function describe(name, f)
  if name:find("#long", 1, true) and not os.getenv("STACKSPLICE_LONG_SPECS") then return end
  path[#path + 1] = name
  f()
  path[#path] = nil
end

function finally(f)
  undo = f
end

function it(name, f)
  local full = table.concat(path, " ") .. " " .. name
  if is_left_out(full) then return end
  undo = nil
  local ok, message = xpcall(f, debug.traceback)
  if undo then undo() end
  if ok then
    successes = successes + 1
  else
    failures[#failures + 1] = full .. "\n" .. tostring(message)
  end
end

for _, file in ipairs(arg) do
  exceptions = exceptions_of(file)
  local source = assert(io.open(file))
  assert(load(source:read("*a"), "@" .. file, "t", environment))()
  source:close()
  for _, exception in ipairs(exceptions) do
    print(("left out: %s: %s"):format(exception.name, exception.why))
    if not exception.used and has_border then
      failures[#failures + 1] = exception.name .. "\nis an exception, but no spec"
    end
  end
end
print(_VERSION .. ": " .. successes .. " successes / " .. #failures .. " failures")
for _, failure in ipairs(failures) do
  print("\nFailure -> " .. failure)
end
os.exit(#failures == 0 and successes > 0 and 0 or 1)
