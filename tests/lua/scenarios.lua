-- Every way in which C code runs inside of Lua.  scenario(name, checks, adopted, function): the
-- oracle must have run CHECKS times at least, and at most ADOPTED activations of C functions may
-- have given their native frame away (see oracle.h); some compilers keep those, too.
-- probe is the oracle.  A line matters where it is compared: the calls stand on lines of their own.

local newer = _VERSION >= "Lua 5.4" -- to-be-closed variables, lua_closethread
local is_5_1 = _VERSION == "Lua 5.1" -- no yield across a call from C; LuaJIT says so, too
local load_text = loadstring or load
local mode = os.getenv("LUAJIT_MODE")

if mode == "hot" then
    local once = scenario
    jit.opt.start("hotloop=2", "hotexit=2")
    function scenario(...)
        for _ = 1, 4 do once(...) end
    end
elseif mode == "off" then
    jit.off()
end

-- Lua 5.1 finalizes userdata only.
local function finalized(finalizer)
    if not newproxy then return setmetatable({}, {__gc = finalizer}) end
    local proxy = newproxy(true)
    getmetatable(proxy).__gc = finalizer
    return proxy
end

scenario("plain", 2, 0, function()
    local function f()
        probe()
        return 1
    end
    local function g()
        f()
        return 1
    end
    g()
    probe(1, 2, 3)
end)

scenario("nested C calls", 1, 0, function()
    call(function()
        call(function()
            call(probe)
        end)
    end)
end)

scenario("C function by sibling call", 2, 2, function()
    probe_sibling()
    local function f() probe_sibling() end
    f()
end)

scenario("Lua tail calls", 3, 0, function()
    local function f() return probe() end
    local function g() return f() end
    local x = g()
    local function h()
        probe()
        return 1
    end
    local function i() return h() end
    i()
    local function j() return call(i) end
    j()
end)

scenario("__index as Lua function", 3, 0, function()
    local t = setmetatable({}, {
        __index = function(t, k)
            probe()
            return 1
        end,
        __newindex = function() probe() end,
    })
    local x = t.a
    t.b = 1
    local u = setmetatable({}, {__index = t})
    x = u.c
end)

scenario("__index as C function", 2, 0, function()
    local t = setmetatable({}, {__index = probe, __newindex = probe})
    local x = t.a
    t.b = 1
end)

scenario("__add as Lua function", is_5_1 and 2 or 3, 0, function()
    local function f()
        probe()
        return 1
    end
    local t = setmetatable({}, {__add = f, __unm = f, __len = f})
    local x = t + 1
    x = -t
    x = #t
end)

scenario("__add as C function", 4, 0, function()
    local t = setmetatable({}, {__add = probe, __concat = probe, __lt = probe, __eq = probe})
    local x = t + 1
    x = t .. 'a'
    x = t < t
    x = t == setmetatable({}, getmetatable(t))
end)

scenario("__call", 3, 0, function()
    local t = setmetatable({}, {__call = probe})
    t()
    local u = setmetatable({}, {__call = function() probe() end})
    u()
    local function f() return t() end
    f()
end)

scenario("pcall and xpcall", 3, 0, function()
    pcall(probe)
    xpcall(function() probe() end, print)
    pcall(function()
        xpcall(function()
            probe()
        end, print)
    end)
end)

scenario("handler at error", 2, 2, function()
    local function f() error('x') end
    xpcall(f, probe)
    xpcall(f, function() probe() end)
end)

scenario("handler at a runtime error", 7, 0, function()
    xpcall(function()
        local q
        local z = q.x
    end, probe)
    xpcall(function() return 1 + nil end, probe)
    xpcall(function() return {} < {} end, function() probe() end)
    xpcall(function()
        local u
        u()
    end, probe)
    xpcall(function() return #nil end, probe)
    xpcall(function() return {} .. 'x' end, function() probe() end)
    xpcall(function() for i = 'x', 2 do end end, probe)
end)

scenario("handler at luaL_error", 3, 3, function()
    xpcall(function() throw() end, probe)
    xpcall(throw, function() probe() end)
    xpcall(string.rep, probe)
end)

scenario("__gc", 2, 0, function()
    finalized(function() probe() end)
    collectgarbage()
    finalized(probe)
    collectgarbage()
end)

scenario("__gc while Lua allocates", 5, 0, function()
    local n = 0
    local function gc()
        if n < 5 then
            n = n + 1
            probe()
        end
    end
    for i = 1, 50 do finalized(gc) end
    for i = 1, 20000 do
        kept = {} -- compiled code leaves out what nobody keeps
    end
    for i = 1, 50 do finalized(gc) end
    n = 0
    for i = 1, 20000 do
        kept = i .. 'x'
    end
    kept = nil
end)

scenario("table.sort", 2, 0, function()
    table.sort({3, 1, 2}, function(a, b)
        probe()
        return a < b
    end)
end)

scenario("coroutine.wrap", 3, 0, function()
    local co = coroutine.wrap(function()
        probe()
        coroutine.yield()
        probe()
        coroutine.yield()
        probe()
    end)
    crossing(1)
    co()
    crossed()
    crossing(1)
    for _ in co do break end
    crossed()
    crossing(2)
    pcall(co)
    crossed()
end)

scenario("coroutine.resume", 1, 0, function()
    local co = coroutine.create(function() probe() end)
    crossing(1)
    coroutine.resume(co)
    crossed()
end)

scenario("coroutine resumed from elsewhere", 3, 0, function()
    local co = coroutine.create(function()
        probe()
        coroutine.yield()
        probe()
        coroutine.yield()
        probe()
    end)
    local function first()
        resume(co)
        return 1
    end
    first()
    local function second()
        local function deeper()
            resume(co)
            return 1
        end
        deeper()
        return 1
    end
    second()
    resume(coroutine.create(function()
        resume(co)
        return 1
    end))
end)

scenario("nested coroutines", 3, 0, function()
    local function inner()
        probe()
        coroutine.yield()
        probe()
    end
    local co2 = coroutine.create(inner)
    local co = coroutine.create(function()
        resume(co2)
        resume(co2)
        resume(coroutine.create(function()
            resume(coroutine.create(function() probe() end))
        end))
    end)
    resume(co)
end)

if not is_5_1 or jit then scenario("a coroutine that is a C function", 2, 0, function()
    resume(coroutine.create(probe))
    resume(coroutine.create(pcall), probe)
end) end

if not is_5_1 then
scenario("continuation after a yield", 4, 2, function()
    local co = coroutine.create(function()
        callk(function() coroutine.yield() end)
        return 1
    end)
    resume(co)
    resume(co)
    co = coroutine.create(function()
        pcallk(function() coroutine.yield() end)
        return 1
    end)
    resume(co)
    resume(co)
    co = coroutine.create(function()
        pcallk(function() probe() end)
        callk(function() probe() end)
        return 1
    end)
    resume(co)
end)

scenario("activations that survive a yield", 8, 3, function()
    local function f()
        coroutine.yield()
        probe()
        probe()
        return 1
    end
    local co = coroutine.create(function()
        callk(function()
            pcall(f)
            return 1
        end)
        return 1
    end)
    resume(co)
    resume(co)
    co = coroutine.create(function()
        pcallk(function()
            callk(f)
            return 1
        end)
        return 1
    end)
    resume(co)
    resume(co)
    co = coroutine.create(function()
        xpcall(function()
            f()
            call(probe)
        end, print)
    end)
    resume(co)
    resume(co)
end)

scenario("error after a yield in pcall", 1, 1, function()
    local co = coroutine.create(function()
        xpcall(function()
            coroutine.yield()
            -- in 5.2 the caller of error is inferred: neither error nor xpcall has a frame here
            if _VERSION == 'Lua 5.2' then local _ = 1 + nil end
            error('x')
        end, probe)
    end)
    resume(co)
    resume(co)
end)
end

scenario("hook", 2, 0, function()
    hook()
    local x = 1
    x = x + 1
    unhook()
end)

scenario("hook that ends in a call", 1, 0, function()
    function hooked()
        probe()
        return 1
    end
    local function f()
        hook(true)
        local x = 1
    end
    f()
end)

scenario("hook in a coroutine", 1, 0, function()
    resume(coroutine.create(function()
        hook()
        local x = 1
        unhook()
    end))
end)

scenario("hook in a C function's call", 2, jit and 3 or 0, function()
    hook("call")
    call(math.abs, 1)
    unhook()
end)

scenario("load reader", 1, 0, function()
    local n
    load(function()
        probe()
        if n then return nil end
        n = 1
        return 'return 1'
    end)
end)

scenario("gsub callback", 2, 0, function()
    string.gsub('a', 'a', function() probe() end)
    string.gsub('a', 'a', probe)
end)

scenario("iterator", 2, 0, function()
    for _ in function() probe() end do end
    for _ in probe do end
end)

scenario("tostring", 1, 0, function()
    tostring(setmetatable({}, {__tostring = function()
        probe()
        return 'x'
    end}))
end)

scenario("function of a loaded module", 2, 0, function()
    package.loaded.shop = {price = function()
        probe()
        return 1
    end}
    pcall(package.loaded.shop.price)
    function global_one()
        probe()
        return 1
    end
    pcall(global_one)
    global_one = nil
end)

scenario("chunk with a name", 2, 0, function()
    local chunk = load_text('probe() return 1', '=chunk')
    chunk()
    pcall(chunk)
end)

scenario("require", 1, 0, function()
    package.loaded.thing = nil
    package.preload.thing = function()
        probe()
        return 1
    end
    require 'thing'
end)

scenario("two hundred levels", 1, 0, function()
    local function deep(n)
        if n == 0 then probe() else deep(n - 1) end
        return 1
    end
    deep(200)
end)

scenario("thirty levels through C", 1, 0, function()
    local function deep(n)
        if n == 0 then probe() else call(deep, n - 1) end
        return 1
    end
    deep(30)
end)

scenario("in another state", 2, 0, function()
    into("checked")
    local function f()
        into("checked")
        return 1
    end
    f()
end)

scenario("two states, there and back and there", 3, 0, function()
    function back()
        probe()
        into("checked")
        return 1
    end
    local function f()
        into("and_back")
        return 1
    end
    f()
    back = nil
end)

scenario("two states and their coroutines", 2, 0, function()
    function back()
        resume(coroutine.create(function()
            probe()
            return 1
        end))
        return 1
    end
    resume(coroutine.create(function()
        into("and_back_in_coroutine")
        return 1
    end))
    back = nil
end)

if newer then load([[
scenario("__close", 3, 1, function()
    do
        local a <close> = setmetatable({}, {__close = probe})
    end
    pcall(function()
        local a <close> = setmetatable({}, {__close = function() probe() end})
        error(1)
    end)
    local co = coroutine.create(function()
        local a <close> = setmetatable({}, {__close = function() probe() end})
        coroutine.yield()
    end)
    resume(co)
    crossing(1)
    coroutine.close(co)
    crossed()
end)

scenario("__close after a yield in it", 2, 0, function()
    local t = setmetatable({}, {__close = function()
        probe()
        coroutine.yield()
        probe()
    end})
    local co = coroutine.create(function()
        local a <close> = t
        return 1
    end)
    resume(co)
    resume(co)
end)

scenario("metamethod that yields", 2, 0, function()
    local t = setmetatable({}, {__index = function()
        probe()
        coroutine.yield()
        probe()
    end})
    local co = coroutine.create(function()
        local x = t.x
        return x
    end)
    resume(co)
    resume(co)
end)
]], "@scenarios.lua (5.4)")() end
