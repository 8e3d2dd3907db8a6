-- Errors and stacks in Lua.  Run by bench-lua, which gives row(name, frames, methods).
local stacksplice = require "stacksplice"

local function at_depth(frames, f)
    if frames <= 1 then
        local result = f()
        return result
    end
    local result = at_depth(frames - 1, f)
    return result
end

local function fail()
    error("no such order")
end

-- What scripts do who want the stack as data.
local function getinfo_loop(message)
    local frames = {}
    for level = 2, 1000000 do
        local info = debug.getinfo(level, "Sln")
        if not info then
            break
        end
        frames[#frames + 1] = info
    end
    return {message = message, frames = frames}
end

local function pass(message)
    return message
end

-- Each looks at the same stack: as many Lua frames, whoever counts.
local function check(frames)
    local ok, value = xpcall(at_depth, getinfo_loop, frames - 1, fail)
    assert(not ok and #value.frames >= frames, "the loop sees too few frames")
    local _, caught, err = stacksplice.pcall(at_depth, frames - 1, fail)
    local lua = 0
    for _, frame in ipairs(err.stack) do
        if frame.language == "lua" then
            lua = lua + 1
        end
    end
    assert(caught and lua >= frames, "stacksplice sees too few frames")
end

for _, frames in ipairs {5, 50, 200} do
    check(frames)
    row("Lua, error under " .. frames .. " frames", frames, {
        "stacksplice.handler", function() xpcall(at_depth, stacksplice.handler, frames - 1, fail) end,
        "debug.traceback", function() xpcall(at_depth, debug.traceback, frames - 1, fail) end,
        "a getinfo loop", function() xpcall(at_depth, getinfo_loop, frames - 1, fail) end,
        "a handler that does nothing", function() xpcall(at_depth, pass, frames - 1, fail) end,
        "stacksplice.pcall", function() stacksplice.pcall(at_depth, frames - 1, fail) end,
    })
end

for _, frames in ipairs {5, 50, 200} do
    at_depth(frames - 1, function()
        row("Lua, the stack at " .. frames .. " frames", frames, {
            "stacksplice.capture", stacksplice.capture,
            "stacksplice.traceback", stacksplice.traceback,
            "debug.traceback", debug.traceback,
            "a getinfo loop", getinfo_loop,
        })
    end)
end

-- What a protected call costs where nobody raises its error again.
local original = pcall
local uninstall = stacksplice.install{pcall = true}
local keeping = pcall
uninstall()

local function drop()
    error("dropped", 0)
end

row("Lua, a pcall that succeeds", 0, {
    "stacksplice, install{pcall = true}", function() return keeping(pass) end,
    "pcall", function() return original(pass) end,
})
for _, frames in ipairs {1, 5} do
    row("Lua, a pcall that fails under " .. frames .. " frames", frames, {
        "stacksplice, install{pcall = true}", function() return keeping(at_depth, frames, drop) end,
        "pcall", function() return original(at_depth, frames, drop) end,
    })
end
