-- Captures in random calls: every way in which Lua calls C, C calls Lua, and a coroutine is entered, inside each
-- other.  Run by scenarios.c, whose oracle compares each capture; the name of a scenario is its seed.

local wanted = tonumber(os.getenv('STACKSPLICE_CAPTURES') or 2000)
local captures, number, left = 0, 0, 0
local can_continue = _VERSION ~= 'Lua 5.1' -- a call from C that may yield

local function random(n)
    number = (number * 16807) % 2147483647
    return number % n + 1
end

local function check(...)
    captures = captures + 1
    probe(...)
    return 1
end

local step

-- Objects whose metamethods go on.
local function object(depth)
    local function on() step(depth) return 1 end
    local function text() step(depth) return 'x' end
    local function yes() step(depth) return true end
    return setmetatable({}, {
        __index = on, __newindex = on, __add = on, __unm = on, __call = on,
        __lt = yes, __eq = yes, __concat = text, __tostring = text,
    })
end

local function fail(how)
    -- in 5.2 the caller of error is inferred in a coroutine that has yielded
    if how == 1 and _VERSION ~= 'Lua 5.2' then error('x') end
    if how == 2 and _VERSION ~= 'Lua 5.2' then throw() end
    local _ = nil + 1
end

local ways = {
    function() check(1, 2) end,
    function() probe_sibling() captures = captures + 1 end,
    function(depth) step(depth) step(depth) end,
    function(depth) return step(depth) end, -- a tail call
    function(depth) pcall(step, depth) end,
    function(depth) call(step, depth) end,
    function(depth) call(function() step(depth) check() end) end,
    function() xpcall(function() fail(random(3)) end, check) end,
    function(depth) xpcall(function() fail(random(3)) end, function() step(depth) end) end,
    function(depth) local _ = object(depth).name end,
    function(depth) object(depth).name = 1 end,
    function(depth) local o = object(depth) o = o + 1 o = -object(depth) end,
    function(depth) local o = object(depth) local less, text = o < o, o .. 'x' return less and text end,
    function(depth) object(depth)(1, 2) tostring(object(depth)) end,
    function(depth) table.sort({2, 1}, function(a, b) step(depth) return a < b end) end,
    function(depth) string.gsub('a', 'a', function() step(depth) end) end,
    function(depth) for _ in function(_, last) step(depth) return not last or nil end do end end,
    function(depth) resume(coroutine.create(function() step(depth) return 1 end)) end,
    function(depth)
        local co = coroutine.create(function()
            step(depth)
            coroutine.yield()
            step(depth)
            return 1
        end)
        resume(co)
        call(function() resume(co) return 1 end)
    end,
    function(depth)
        local co = coroutine.wrap(function() step(depth) coroutine.yield() step(depth) end)
        crossing(1)
        co()
        crossed()
    end,
    function() hook() local x = 1 x = x + 1 unhook() end,
    function() into('checked') captures = captures + 1 end,
    function(depth)
        if not can_continue then return end
        local co = coroutine.create(function()
            local go = random(2) == 1 and callk or pcallk
            go(function() step(depth) coroutine.yield() step(depth) end)
            pcall(function() coroutine.yield() step(depth) end)
            return 1
        end)
        for _ = 1, 3 do resume(co) end
    end,
}

function step(depth)
    left = left - 1
    if depth == 0 or left < 0 then return check() end
    ways[random(#ways)](depth - 1)
    return 1
end

local seed = tonumber(os.getenv('STACKSPLICE_SEED') or 1)
while captures < wanted do
    number, left = seed, 200
    scenario('random calls, seed ' .. seed, 0, 1000000, function() step(9) end)
    seed = seed + 1
end
