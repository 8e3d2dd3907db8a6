-- The Lua module: errors of Lua are caught, read, wrapped and raised again.
local stacksplice = require "stacksplice"
local host = require "stacksplice.host"

print("stacksplice " .. stacksplice._VERSION)

-- While the program runs, tracebacks have the frames of all languages.
local uninstall = stacksplice.install()
print(debug.traceback("here"))
uninstall()

-- The same as a call, with the message first.
print(stacksplice.traceback("here"))

local function rate(currency)
  error({ message = "no rate for " .. currency, hresult = 0x8000000B })
end

-- The third result is the error; the second one is the value that was raised.
local ok, value, err = stacksplice.pcall(rate, "XXX")
assert(not ok and err.value == value and err.hresult == 0x8000000B)

-- With a message handler of one's own, which runs where the error was raised.
local _, message = stacksplice.xpcall(rate, function(e) return e.message end, "XXX")
assert(message == "no rate for XXX")

-- Where the call is one of Lua's own, the handler remembers the stack.
local _, raised = xpcall(rate, stacksplice.handler, "XXX")
assert(#stacksplice.error_info(raised).stack > 0)

-- The text for an error that nobody will catch.
local _, text = xpcall(rate, stacksplice.report, "XXX")
io.stderr:write(text, "\n")

-- An error for people, and for machines.
io.stderr:write(err:text(), err:json(), "\n")

-- What was going on, as a note; and what kind of error it is.
err:add_note("order 17")
assert(not err:isinstance("OSError") and err.notes[1] == "order 17")

-- The frames, the innermost first, and who has received the error since.
for _, frame in ipairs(err.stack) do
  print(frame.language, frame.name, frame.source, frame.currentline)
end
for _, node in ipairs(err.propagation) do
  print("received by " .. node.language, #node.stack)
end

-- An error that was made from another one.
local _, _, wrapped = stacksplice.pcall(stacksplice.error, "no price", value)
assert(wrapped.cause == err and wrapped.relation == "cause")

-- The stack of this moment: ten frames at most, without the innermost one.
local stack = stacksplice.capture(1, 10)
assert(stack.frames_left_out == 0 and #stack <= 10)

-- Keep 2,000 frames of each error, for code that recurs deeply.
local before = stacksplice.set_max_frames(2000)
assert(before == 512)

-- A text of the program's own, as reports would show it.
print(stacksplice.redact("password=hunter2"))

-- For a function that returns an HRESULT to native code: its caller finds the error in the thread.
local function leave(e) return stacksplice.originate(e, 0x80004005).hresult end
assert(leave("no price") == 0x80004005)
assert(stacksplice.peek_error().message == "no price")
assert(stacksplice.take_error().message == "no price")
assert(stacksplice.peek_error() == nil)

-- Raise an error again, and record that it came through here.
local _, same = pcall(function() error(stacksplice.propagate(value)) end)
assert(same == err)

-- An error that ends a coroutine keeps the frames that it had there.
local co = coroutine.create(rate)
local _, ended = stacksplice.resume(co, "XXX")
assert(stacksplice.error_info(ended).stack[1])

-- The same for a coroutine that is called as a function.
local next_rate = stacksplice.wrap(rate)
assert(not pcall(next_rate, "XXX"))

-- Report the stacks of all threads if the function takes more than five seconds.
local sum = stacksplice.deadline(5, function(a, b) return a + b end, 1, 2)
assert(sum == 3)

-- End it, without a report.
local done = stacksplice.pcall(stacksplice.deadline,
  { seconds = 0.05, name = "rules", interrupt = true, report = false },
  function() while true do end end)
assert(not done)

-- What reports of the whole process leave out: e-mail addresses, too.
host.redaction({ emails = true, names = { "pin" } })

-- What reports count in one line: a library, and a folder of one's own.
host.hide("lapis", { file = "/srv/shop/vendor/" })

-- kill -USR1 PID shows the stacks of all threads.
host.report_on_signal(10)

-- What is installed, and what is missing.
local complete = host.doctor()
print(complete)

-- As stacksplice.install; reports show local variables, too.
local stop = host.install({ locals = true })
stop()
print("\nok")
