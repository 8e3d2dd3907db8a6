-- What the specs ask for and a Lua lacks: for each file its versions, how the names begin, and the reason.
local CALLS = "LuaJIT: no frame has the name that its function calls another by"
local AT_ONCE = "stacks are read at once: neither # nor ipairs asks a metamethod"
local FINALIZERS = "tables have no finalizers"
local NO_YIELD = "nothing yields across a call of C"
local NO_INTERRUPT = "LuaJIT cannot be interrupted at a deadline"
local RAISED = "an error that resume returned keeps its frames: "
local NUMBER = "before 5.3 error and assert make a text of a number"
local ASSEMBLY = "xpcall and coroutine's functions are in assembly: they are shown without frames of C"
local CUT = "between other languages' frames a long stack is cut as in 5.3, wherever it begins"
local TAIL_CALL = "5.1 counts tail calls and LuaJIT does not: one gap stands for them, or none"
local NO_MAIN = "coroutine.running gives no thread for the main one"
local C_OVERFLOW = "an overflow of the C stack crashes this Lua, without stacksplice, too"
local NO_KEEPING = "LuaJIT keeps its pcall: a function in C in its place would let no coroutine yield"
local C_CALL = "a captured stack has of a call of a function in C "

return {
  capture = {
    {"5.1 luajit", C_CALL .. "none if nothing calls it", FINALIZERS},
    {"luajit", C_CALL, CALLS},
    {"luajit", "a captured stack is shown with that name where the function has another one", CALLS},
    {"5.1 5.2 luajit", "a captured stack has the kind of a metamethod",
      "5.1 names none, 5.2 and LuaJIT name a hook after the instruction that it interrupts"},
    {"5.1 luajit", "a captured stack keeps its metatable until then", AT_ONCE},
    {"5.1 luajit", "a captured stack believes no script", AT_ONCE},
  },
  caught = {
    {"luajit", "an error that pcall caught has", NO_KEEPING},
    {"luajit", "an error that pcall caught is the context", NO_KEEPING},
    {"luajit", "an error that pcall caught is not one in another variable", NO_KEEPING},
    {"luajit", "the pcall that keeps them keeps frames also", NO_KEEPING},
    {"luajit", "the xpcall that keeps them gives what the handler made", NO_KEEPING},
    {"luajit", "the xpcall that keeps them has one message", NO_KEEPING},
    {"luajit", "the xpcall that keeps them lets coroutines yield", NO_KEEPING},
  },
  tutorial = {
    {"luajit", "docs/start/lua.md tells what this prints: lua -lstacksplice rates.lua", NO_KEEPING},
  },
  causes = {
    {"5.1 luajit", "a cause survives with its effect, and is collected with it",
      "a weak table keeps a key that its value refers to: a circle of an error and its cause stays"},
  },
  coroutine = {
    {"5.1 5.2 luajit", RAISED .. "asserted, 42", NUMBER},
    {"5.1 5.2 luajit", RAISED .. "asserted at the end, 42", NUMBER},
    {"5.1 5.2 luajit", RAISED .. "raised with a place, 42", NUMBER},
    {"5.1 5.2 luajit", RAISED .. "raised with the caller's place, 42", NUMBER},
    {"luajit", RAISED .. "asserted at the end", "a tail call of assert leaves no frame of the caller"},
    {"5.1", RAISED .. "checked by one with any arguments", "debug.getlocal does not reach variable arguments"},
    {"luajit", "install lets the lines of coroutines be counted", "a hook is that of all coroutines"},
    {"5.1 luajit", "a finalizer that runs after ours", FINALIZERS},
    {"luajit", "tail calls are said", TAIL_CALL},
    {"luajit", "wrap and resume do what Lua's own do with an overflow", C_OVERFLOW},
  },
  deadline = {
    {"5.1 luajit", "deadline lets the function yield", NO_YIELD},
    {"5.1", "a missed deadline does not end other code while", NO_YIELD},
    {"5.1", "a missed deadline is forgotten with its coroutine", NO_YIELD},
    {"5.1", "a missed deadline ends what runs where Lua calls no hooks", FINALIZERS},
    {"luajit", "a missed deadline ends", NO_INTERRUPT},
    {"luajit", "a missed deadline cuts a long name", NO_INTERRUPT},
    {"luajit", "a missed deadline is not swallowed by pcall", NO_INTERRUPT},
    {"luajit", "a missed deadline may be taken by", NO_INTERRUPT},
    {"luajit", "a missed deadline does not end", NO_INTERRUPT},
    {"luajit", "a missed deadline nests", NO_INTERRUPT},
    {"luajit", "a missed deadline puts the former hook back", NO_INTERRUPT},
    {"luajit", "a missed deadline is forgotten", NO_INTERRUPT},
  },
  handler = {
    {"luajit", "an error value may be a table whose __tostring overflows",
      "a tail call of tostring takes no stack: it never ends"},
    {"5.1", "an error value may be a light userdata", "debug.upvalueid does not exist"},
    {"5.1 luajit", "an error in the reader of load", "a function of the spec runner's stands for load"},
    {"5.1 luajit", "an error in a finalizer", FINALIZERS},
    {"luajit", "an error in a handled error raised again", ASSEMBLY},
    {"luajit", "an error in a coroutine's parents", ASSEMBLY},
    {"luajit", "an error in a coroutine that is wrapped is told", ASSEMBLY},
    {"luajit", "an error in a wrapped coroutine in another is told", ASSEMBLY},
    {"luajit", "an error in a wrapped iterator is told", ASSEMBLY},
    {"luajit", "an error in a wrapped coroutine that has yielded is told", ASSEMBLY},
    {"luajit", "an error in parents that resumed it", ASSEMBLY},
    {"luajit", "an error in an overflow of Lua's stack", "the handler may get too little room to record the stack"},
    {"5.1 luajit", "an error in a coroutine that resumes itself", "a gap more says that frames had already returned"},
    {"5.1 5.2", "an error in an overflow of the C stack in metamethods",
      "the Lua frames stand together, inside of the interpreter's"},
    {"5.1 luajit", "an error in a yield across a protected call", NO_YIELD},
    {"5.1 luajit", "an error in yields across nested protected calls", NO_YIELD},
    {"5.1 luajit", "an error in the metamethod __len", "tables have no such metamethod"},
    {"5.1 luajit", "an error in the metamethod __pairs", "tables have no such metamethod"},
    {"luajit", "an error in an overflow of the C stack", C_OVERFLOW},
  },
  locals = {
    {"luajit", "local variables are found each time where a stack recurs",
      "compiled code leaves other values in variables that it needs no more; debug.getlocal shows them, too"},
  },
  standalone = {
    {"5.1 5.2 luajit", "lua -lstacksplice prints what Lua prints of a long stack",
      "a long stack shows one or two lines fewer in front of the three dots"},
  },
  traceback = {
    {"5.1 5.2 luajit", "traceback chooses levels as debug.traceback does, with", CUT},
    {"5.1 5.2 luajit", "traceback of a coroutine is the text of debug.traceback in every state of it, with", CUT},
    {"5.1 5.2 luajit", "traceback in random programs is the text of debug.traceback, with", CUT},
    {"5.1", "traceback names chunks as debug.traceback does, with", TAIL_CALL},
    {"5.1", "traceback names functions as debug.traceback does, with", TAIL_CALL},
    {"5.1", "traceback treats messages as debug.traceback does, with", "a message ends at its first NUL there"},
    {"5.1 luajit", "traceback with frames of another language has them in a coroutine that waits", NO_MAIN},
    {"5.1 luajit", "traceback with frames of another language has a tail call", TAIL_CALL},
    {"luajit", "traceback as a message handler gives the text", C_OVERFLOW},
  },
}
