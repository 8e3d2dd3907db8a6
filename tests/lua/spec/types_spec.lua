-- luacheck: std +busted
-- The annotations name what there is, and nothing else: each list against the other.
local stacksplice = require "stacksplice"
local border = require "stacksplice_test_border"
local json = require "dkjson"

local root = debug.getinfo(1, "S").source:match("^@(.-)tests/lua/spec/")

local function read(path)
  local file = assert(io.open(root .. path))
  local text = file:read("*a")
  file:close()
  return text
end

local annotations = read("bindings/lua/library/stacksplice.d.lua")
local error_source = read("bindings/lua/src/value/error_object.c")

local function sorted(iterator)
  local list = {}
  for name in iterator do
    list[#list + 1] = name
  end
  table.sort(list)
  return list
end

-- What stands together: a comment and what it is about.
local function paragraphs()
  return (annotations .. "\n\n"):gmatch("(.-)\n\n+")
end

-- The declared fields of a class.
local function fields_of(class)
  for paragraph in paragraphs() do
    if (paragraph .. "\n"):find("---@class " .. class .. "%f[:\n]") then
      return sorted(paragraph:gmatch("%-%-%-@field ([%w_]+)"))
    end
  end
end

describe("the annotations", function()
  it("have every function of the module and no other", function()
    assert.same(sorted(coroutine.wrap(function()
      for name, value in pairs(stacksplice) do
        if type(value) == "function" then
          coroutine.yield(name)
        end
      end
    end)), sorted(annotations:gmatch("\nfunction stacksplice%.([%w_]+)%(")))
  end)

  it("have every other field of the module", function()
    local others = {}
    for name, value in pairs(stacksplice) do
      if type(value) ~= "function" then
        others[#others + 1] = name
      end
    end
    table.sort(others)
    assert.same(others, fields_of("stacksplice"))
  end)

  it("have every field of an error and no other", function()
    local block = error_source:match("fields%[%] = (%b{})")
    assert.same(sorted(block:gmatch('{"([%w_]+)"')), fields_of("stacksplice.Error"))
    local err = select(3, stacksplice.pcall(error, {}))
    for _, name in ipairs(fields_of("stacksplice.Error")) do
      assert.has_no_error(function() return err[name] end)
    end
  end)

  it("have every method of an error and no other", function()
    local block = error_source:match("methods%[%] = (%b{})")
    local names = sorted(block:gmatch('{"([%w_]+)"'))
    assert.same(names, sorted(annotations:gmatch("\nfunction Error:([%w_]+)%(")))
    local err = select(3, stacksplice.pcall(error, {}))
    for _, name in ipairs(names) do
      assert.is_function(err[name])
    end
  end)

  -- A frame of the JSON in the words of Lua's.
  local function in_lua(frame)
    local words = {
      ["function"] = "name", file = "source", line = "currentline", end_line = "endline",
      end_column = "endcolumn", module_offset = "offset",
    }
    local result = {asynchronous = false, glue = false, inlined = false}
    for key, value in pairs(frame) do
      result[words[key] or key] = value
    end
    result.address = math.tointeger(result.address)
    return result
  end

  it("have every field of a frame and no other, and a frame has every field of the JSON", function()
    local err = select(3, border.among_others(stacksplice.pcall, error, {}))
    local frames, seen = json.decode(err:json()).stack, {}
    assert.equal(#frames, #err.stack)
    for i, frame in ipairs(err.stack) do
      assert.same(in_lua(frames[i]), frame)
      for name in pairs(frame) do
        if not seen[name] then
          seen[#seen + 1], seen[name] = name, true
        end
      end
    end
    table.sort(seen)
    assert.equal(table.concat(fields_of("stacksplice.Frame"), " "), table.concat(seen, " "))
    assert.is_true(err.stack[#frames].asynchronous)
    assert.equal("second", err.stack[#frames - 1].interpreter)
  end)

  it("have the fields of a node", function()
    stacksplice.originate({})
    local node = stacksplice.propagate().propagation[1]
    stacksplice.take_error()
    local names = {}
    for name in pairs(node) do
      names[#names + 1] = name
    end
    table.sort(names)
    assert.same(names, fields_of("stacksplice.Propagation"))
  end)

  it("give every function its parameters", function()
    local count = 0
    for paragraph in paragraphs() do
      local parameters = paragraph:match("\nfunction [%w_.:]+(%b())")
      for parameter in (parameters or ""):gmatch("[%w_.]+") do
        count = count + 1
        assert.truthy(paragraph:find("@param " .. parameter:gsub("%.", "%%.") .. "[ ?]"), parameter)
      end
    end
    assert.truthy(count > 10)
  end)

  it("are Lua", function()
    assert.is_function(load(annotations))
  end)
end)
