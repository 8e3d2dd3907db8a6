-- A program without stacksplice that rests in functions with known variables.  It prints an empty
-- line when it rests, then waits for standard input to end.
-- luacheck: ignore
local hostile = {}
for _, name in ipairs { "index", "len", "pairs", "tostring", "name", "eq" } do
  hostile["__" .. name] = function() os.exit(3) end
end

local function rest()
  print() io.flush() io.read "a"
  return 1
end

local function tables(...)
  local empty, sequence, record = {}, { 1, 2, 3 }, { x = "a" }
  local holes = { 1, nil, 3, nil }
  local removed = { a = 1, b = 2 }
  removed.a = nil
  local nested, itself = { { { { { 1 } } } } }, {}
  itself.itself = itself
  local array, short = {}, {}
  for i = 1, 20 do array[i] = i end
  for i = 1, 7 do short[i] = i end
  local length = #short
  local keys = { [2.5] = true }
  local odd, number, truth = { ["not a name"] = 1 }, { [-1] = 1 }, { [true] = false }
  local watched = setmetatable({ 1 }, hostile)
  local shop = { password = "hunter1", card = { api_key = "hunter2" } }
  local password = "hunter3"
  local ended = 1 do local inner = 2 end
  rest()
end

local function scopes(...)
  for index, value in ipairs { "a" } do
    local shadowed = 1
    local shadowed = 2
    tables()
  end
  local later = 1
end

local function others(parameter, unset)
  local yes, no, zero, negative = true, false, 0, -7
  local least, half, whole = math.mininteger, 0.5, 2.0
  local large, small, infinite = 1e300, -5e-324, -math.huge
  local empty, text = "", "naïve\0\n\"\\\127\200"
  local long, longer = ("é"):rep(150), ("x"):rep(1000)
  local thread, file, closure, builtin = coroutine.create(rest), io.stdout, others, print
  scopes(1, 2)
end

others(1)
