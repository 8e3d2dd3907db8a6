/*
 * The scripts that make Lua call C functions in every way it can.  Each runs protected and on its
 * own, so that a version that cannot compile one loses only that one.
 */
#include "calibrate/layout.h"

const char *const ss_lua_snippets[] = {
    /* plain, tail and iterator calls; several, with values around them */
    "C() local a, b, c = C(), 1, C() C(a, b, c)",
    "local function f() return C() end f() f(1) local function g(...) return C(...) end g(1, 2)",
    "local n = 0 for _ in function() n = n + 1 C() if n < 3 then return n end end do end",
    "for _ in C do end for _ in C, 1, 2 do end",
    "local function deep(n) if n == 0 then return C() end deep(n - 1) C() end deep(9)",
    "local t = setmetatable({}, {__call = C}) t() t(1) return t()",
    "local t = setmetatable({}, {__call = function() C() end}) t() return t()",
    /* Two objects with all metamethods: functions in Lua or in C, as C says. */
    "function objects(c)\n"
    "  local function f() C() return 1 end local function s() C() return 'x' end\n"
    "  local function b() C() return true end\n"
    "  if c then f, s, b = T, T, T end\n"
    "  local m = {__index = f, __newindex = f, __eq = b, __lt = b, __le = b, __concat = s,\n"
    "    __add = f, __sub = f, __mul = f, __div = f, __mod = f, __pow = f, __idiv = f, __band = "
    "f,\n"
    "    __bor = f, __bxor = f, __shl = f, __shr = f, __unm = f, __bnot = f, __len = f,\n"
    "    __tostring = s, __close = f}\n"
    "  return setmetatable({}, m), setmetatable({}, m)\n"
    "end",
    "for i = 1, 2 do local t, u = objects(i == 2) local x\n"
    "  x = t.a t.b = 1 x = t[1] t[2] = 1 x = t[x] x = t == u x = t ~= u x = t < u x = t <= u\n"
    "  x = t .. 'a' x = 'a' .. t x = t .. 'a' .. 'b' x = t + 1 x = 1 + t x = t - u x = t * 2\n"
    "  x = t / 2 x = t % 2 x = t ^ 2 x = -t x = #t pcall(tostring, t)\n"
    "  pcall(function() return t:method() end)\n"
    "end",
    "for i = 1, 2 do local t = objects(i == 2) local x = t > 1 x = t < 1 x = t <= 1 x = t >= 2.5 "
    "end",
    "for i = 1, 2 do local t = objects(i == 2) local x = t // 2 x = t & 1 x = t | 1 x = t ~ 1\n"
    "  x = t << 1 x = t >> 1 x = 1 << t x = ~t\n"
    "end",
    "for i = 1, 2 do local c <close> = objects(i == 2) end",
    "local t = setmetatable({}, {__close = C}) pcall(function() local c <close> = t error(1) end)",
    "local t = setmetatable({}, {__close = function() C() end})\n"
    "pcall(function() local c <close> = t error(1) end)\n"
    "local co = coroutine.create(function() local c <close> = t coroutine.yield() end)\n"
    "coroutine.resume(co) coroutine.close(co)",
    /* protected calls and message handlers */
    "pcall(C) pcall(function() C() end) xpcall(C, C) xpcall(function() C() end, C)",
    "local function h() C() end\n"
    "xpcall(error, C) xpcall(error, h) xpcall(fail, C, 1) xpcall(fail, h, 1)\n"
    "xpcall(function() local q = nil + 1 end, C) xpcall(function() local q = nil + 1 end, h)\n"
    "xpcall(function() local q; q = q.x end, C) xpcall(function() local q; q.x = 1 end, h)\n"
    "xpcall(function() local q; q() end, C) xpcall(function() local q; return q() end, h)\n"
    "xpcall(function() return {} .. '' end, C) xpcall(function() return {} < 1 end, C)\n"
    "xpcall(function() return {} < {} end, C) xpcall(function() return #nil end, C)\n"
    "xpcall(function() return -{} end, C) xpcall(function() return 1 % 0 end, C)\n"
    "xpcall(function() for i = 'x', 2 do end end, C) xpcall(function() for i = 1, 2, 0 do end end, "
    "C)\n"
    "xpcall(function() for _ in 1 do end end, C) xpcall(function() string.rep() end, C)\n"
    "xpcall(function() local t = {} t[nil] = 1 end, C)\n"
    "xpcall(function() assert(false) end, C) xpcall(function() assert(nil, 'x') end, h)\n"
    "xpcall(function() setmetatable(1, 2) end, C) xpcall(function() return ('x'):nope() end, C)",
    "xpcall(function() return 1 & 1.5 end, C) xpcall(function() return 1 // 0 end, C)",
    "xpcall(function() local c <close> = 1 end, C)",
    /* coroutines */
    "local co = coroutine.wrap(function() C() coroutine.yield() C() end) co() co()",
    "local co = coroutine.create(C) coroutine.resume(co)",
    "local co = coroutine.create(function() C() coroutine.yield(1) return C() end)\n"
    "coroutine.resume(co) coroutine.resume(co)",
    "resume(C) resume(function() C() resume(C) C() end)",
    "local co = coroutine.wrap(function() callk(function() C() coroutine.yield() C() end) C() "
    "end)\n"
    "co() co()",
    "local co = coroutine.wrap(function() pcallk(function() C() coroutine.yield() C() end) C() "
    "end)\n"
    "co() co()",
    "local co = coroutine.wrap(function() pcallk(function() coroutine.yield() error(1) end) end)\n"
    "co() co()",
    "local co = coroutine.wrap(function() pcall(function() C() coroutine.yield() C() end) C() "
    "end)\n"
    "co() co()",
    "local co = coroutine.wrap(function() xpcall(function() coroutine.yield() error(1) end, C) "
    "end)\n"
    "co() co()",
    "local co = coroutine.wrap(function() callk(function() callk(function() coroutine.yield() end) "
    "end)\n"
    "end) co() co()", /* the outer continuation runs where the inner one has left its registers */
    "local co = coroutine.wrap(function() yieldk() C() end) co() co()",
    "local co = coroutine.wrap(yieldk) co() co()",
    "local t = setmetatable({}, {__index = function() C() coroutine.yield() C() end})\n"
    "local co = coroutine.wrap(function() local x = t.x C() end) co() co()",
    /* An object with a finalizer: no table in 5.1. */
    "function finalized(f)\n"
    "  if newproxy then getmetatable(newproxy(true)).__gc = f else setmetatable({}, {__gc = f}) "
    "end\n"
    "end",
    /* each way into Lua from C */
    "for _, f in ipairs {C, function() C() return 1 end, function() return C() end} do\n"
    "  call(f) callk(f) pcall_c(f) pcallk(f) resume(f)\n"
    "  local m = {__index = f, __newindex = f, __add = f, __lt = f, __concat = f, __gc = f}\n"
    "  local t, u = setmetatable({}, m), setmetatable({}, m)\n"
    "  get(t, 1) set(t, 1, 2) pcall(add, t, u) compare(t, u) pcall(concat, t, u)\n"
    "  t, u = nil, nil collect()\n"
    "  xpcall(fail, f, 'x') xpcall(function() fail('x') end, f)\n"
    "end",
    "for _, f in ipairs {callk, pcallk, pcall, function(g) g() C() end} do\n"
    "  local co = coroutine.create(function() f(function() C() coroutine.yield() C() end) C() "
    "end)\n"
    "  coroutine.resume(co) coroutine.resume(co)\n"
    "  resume(function() f(function() yieldk() end) C() end)\n"
    "end",
    /* collections */
    "collectgarbage('restart') for i = 1, 3 do finalized(function() C() end) end\n"
    "collectgarbage() collectgarbage('step')",
    "for i = 1, 3 do finalized(C) end collectgarbage()",
    /* Steps from instructions that allocate, and from a library.  The objects are all there before
       the next step, and nothing that is left in registers keeps them. */
    "pcall(collectgarbage, 'setpause', 100) pcall(collectgarbage, 'param', 'pause', 100)\n"
    "local n = 0 local function f() n = n + 1 C() end\n"
    "local function wipe(i) if i > 0 then return 1, wipe(i - 1) end end\n"
    "local function renew(count, f, c)\n"
    "  collectgarbage('stop') for i = 1, count do finalized(f) end\n"
    "  for i = 1, 6 do if c then finalized(c) end end\n"
    "  n = 0 wipe(9) collectgarbage('restart')\n"
    "end\n"
    "renew(6, f) for i = 1, 1500 do local x = {i, i, i, i, i, i, i, i} if n == 6 then break end "
    "end\n"
    "local s = ('x'):rep(999)\n"
    "renew(6, f) for i = 1, 1500 do local x = s .. i if n == 6 then break end end\n"
    "s = s:sub(1, 49) renew(6, f) for i = 1, 300 do local x = s:rep(i) if n == 6 then break end "
    "end\n"
    "renew(1, f, C) for i = 1, 1500 do\n"
    "  local a, b = i, i local g = function() return i, a, b end if n == 1 then break end\n"
    "end\n"
    "pcall(collectgarbage, 'setpause', 200) pcall(collectgarbage, 'param', 'pause', 200)",
    /* libraries that call back */
    "table.sort({3, 1, 2}, function(a, b) C() return a < b end)",
    "string.gsub('abc', '.', function() C() end) string.gsub('abc', '.', C)",
    "local n load(function() C() if n then return nil end n = 1 return 'return 1' end)",
    "call(C) call(function() C() call(C) return C() end)",
    "load('C() return C()')() load('local function f() C() end f()')()",
    "return ('xxxxxxxxx'):rep(1000)", /* a library calls the allocator */
    /* hooks: count, line, call and return events, in a coroutine too */
    "hook(1) for i = 1, 3 do local x = i end unhook()",
    "hook(3)\nlocal function f()\nreturn 1\nend\nf()\nf()\nlocal t = #'x'\nunhook()",
    "local co = coroutine.create(function() hook(1) local x = 1 x = x + 1 unhook() end)\n"
    "coroutine.resume(co)",
    "hook(1) string.rep('x', 2) local function f() return string.len('x') end f() unhook()",
    /* the CallInfo, below a few Lua and C activations */
    "local function f() info() C() end local function g() f() C() end pcall(g)",
    "local function f(...) info(1, ...) C() end local function g() f(1, 2) C() end pcall(g)",
    "local function f(...) local a, b = 1, 2 info(...) C(a, b) end\n"
    "local function g() pcall(f, 1, 2, 3) C() end call(g)",
    "local co = coroutine.wrap(function() local function f() info() C() end\n"
    "local function g() f() C() end pcall(g) C() end) co()",
    "pc(1) pc(2) pc(3) pc(4) pc(5) local function f() pc(1) pc(2) pc(3) pc(4) end f() call(f)",
    "local function f() info() return 1 end local function g() return f() end\n"
    "local function h() local x = g() return g() end f() g() h() call(f) call(g) call(h)\n"
    "local function v(...) local a, b = info(...) return f(...) end v() v(1, 2, 3)\n"
    "pcall(f) pcall(g) pcall(info) xpcall(error, function() return g() end)\n"
    "local t = setmetatable({}, {__index = g, __call = h}) local x = t.x t() return t()",
    /* the lua_State */
    "coroutine.wrap(function() open() handled() hook(1) open() local x = 1 open() unhook()\n"
    "  local function f(...) handled(...) return handled() end f(1) pcall(f, 1, 2) open() end)()",
    "coroutine.wrap(function() info() coroutine.yield() return pcall(info) end)()",
    NULL,
};
