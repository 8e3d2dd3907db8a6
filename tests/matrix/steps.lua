-- The steps of Lua.  Works in Lua 5.3 and newer.
local matrix, stacksplice = ...

local born = setmetatable({}, {__mode = "k"}) -- what was thrown and is still there

local values = {
    T = function()
        return setmetatable({hresult = 0x80070005}, {__tostring = function() return "Lua said so" end})
    end,
    F = function() local own = {} return function() return own end end, -- 5.3 uses equal ones again
    C = function() return coroutine.create(print) end,
    I = function() return 42 end,
    D = function() return 0.5 end,
    B = function() return false end,
    S = function() return "steps.lua: text" end,
}

-- On one line: the raise is on the line that the log has.
local function throw()
    local value = values[matrix.kind]()
    if type(value) == "table" or type(value) == "function" then born[value] = true end
    matrix.thrown(value) error(value, 0)
end

-- Step i fails; behind the end of the path Lua itself does.
local function go(i)
    if i == #matrix.path then
        throw()
    else
        matrix.call(i)
    end
end

local styles = {}

styles["0"] = go

-- What an ordinary pcall caught is raised again.
styles["1"] = function(i)
    local _, e = pcall(go, i)
    if i == #matrix.path then matrix.again() end error(e, 0)
end

styles["2"] = function(i)
    local _, e = xpcall(go, stacksplice.handler, i)
    error(e, 0)
end

styles["3"] = function(i)
    local _, e = stacksplice.pcall(go, i)
    assert(not pcall(matrix.fail)) -- an error in clean-up code, handled
    matrix.slot()
    error(e, 0)
end

local function in_style(i)
    styles[matrix.styles:sub(i, i)](i)
end

local function catch(i)
    -- An interrupt of Python passes through a plain pcall.
    local ok, e = (matrix.kind == "K" and stacksplice.pcall or pcall)(in_style, i)
    assert(not ok)
    matrix.slot()
    local info = stacksplice.error_info(e)
    matrix.number("hresult", info.hresult)
    matrix.text("what", info.message)
    local languages = {}
    for _, node in ipairs(info.propagation) do
        languages[#languages + 1] = node.language
    end
    matrix.number("nodes", #languages)
    matrix.text("languages", table.concat(languages, " "))
    matrix.number("frames", #info.stack)
    matrix.number("is value", rawequal(info, e) and 0 or 1)
    stacksplice.originate(e)
    matrix.collect(info.hresult)
end

local function yielding(what, i)
    coroutine.yield(1)
    what(i)
end

local modes = {}

modes["-"] = function(what, i) what(i) end
modes["t"] = modes["-"]

modes["g"] = function(what, i)
    local rest = coroutine.wrap(yielding)
    rest(what, i)
    matrix.mark() for _ in rest do end
end

modes["c"] = function(what, i)
    local co = coroutine.create(yielding)
    assert(coroutine.resume(co, what, i))
    matrix.mark() local ok, e = coroutine.resume(co)
    if ok then return end
    local keeps = matrix.styles:sub(i, i) == "2" or matrix.styles:sub(i, i) == "3"
    if i == #matrix.path and not keeps then matrix.again() end error(e, 0)
end

-- What Lua itself calls: metamethods, and functions that the library gets.
local function by_method(name, use)
    return function(what, i)
        use(setmetatable({}, {[name] = function() what(i) end}))
    end
end

modes["i"] = by_method("__index", function(t) return t.missing, 1 end)
modes["+"] = by_method("__add", function(t) return t + 1, 1 end)
modes["."] = by_method("__concat", function(t) return t .. "", 1 end)
modes["("] = by_method("__call", function(t) t() end)
modes["l"] = by_method("__close", load("local t <close> = ...", "=steps.lua") or function(t)
    getmetatable(t).__close() -- 5.3 closes nothing
end)
modes["s"] = function(what, i) table.sort({2, 1}, function() what(i) return false end) end
modes["b"] = function(what, i) local _ = ("x"):gsub("x", function() what(i) end) end
modes["x"] = function(what, i) return what(i) end

-- A host resumes the coroutine in which the step runs.
modes["h"] = yielding

-- What was thrown and is still there.
function left()
    stacksplice.peek_error() -- drops what was released elsewhere
    collectgarbage()
    collectgarbage()
    local count = 0
    for _ in pairs(born) do
        count = count + 1
    end
    return count
end

return function(i)
    modes[matrix.modes:sub(i + 1, i + 1)](i == 0 and catch or in_style, i + 1)
end
