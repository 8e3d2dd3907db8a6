---@meta stacksplice
-- luacheck: ignore 2

---One error, one stack, every language.
---
---Errors that cross between Lua, C and other languages keep the script's own error value, one
---combined stack (native, Lua and other script frames in true order) and the chain of languages
---that received them.
---@class stacksplice
---@field _VERSION string
local stacksplice = {}

---One frame of a combined stack, in the words of debug.getinfo where those exist.
---@class stacksplice.Frame
---@field kind "native"|"script"|"gap"
---@field language string "native", "lua", "python", ...
---@field trust "exact"|"inferred"|"traceback" how sure its place is
---@field name? string the function
---@field source? string the file; "[C]" for a C function whose native frame is gone
---@field currentline? integer
---@field endline? integer
---@field column? integer
---@field endcolumn? integer
---@field module? string path of the binary
---@field offset? integer address in the binary
---@field function_offset? integer of a native frame: its address minus the first of the function
---@field build_id? string
---@field reason? string of a gap: why frames are missing here
---@field interpreter? string the sub-interpreter or Lua state; nil for the first
---@field inlined boolean true: the next frame is the function it was inlined into
---@field calls? string of a script frame: its name for the native function that it calls, which is the frame before it if the stack has that; where a chunk could not be compiled, the word that was wrong
---@field asynchronous boolean of a gap; true: what is outward of it awaits what is inward, and did not call it
---@field glue boolean true: the inside of an interpreter or a call into one, which reports for people leave out
---@field address integer the element of the stack it was read from

---@class stacksplice.Stack
---@field [integer] stacksplice.Frame innermost first
---@field frames_left_out integer how many frames are missing because the stack was longer than `set_max_frames` allows

---A language that received the error.
---@class stacksplice.Propagation
---@field language string "lua", "python", "c++", ...; "native": the border named none
---@field thread_id integer the system's id of the thread
---@field stack stacksplice.Stack

---An error. Errors that were not born in this Lua state are raised in this form. Others are found by
---`stacksplice.error_info` or as the third result of `stacksplice.pcall`. Two objects of one error
---are equal. `tostring` and `..` give the message, with the type in front if another language raised
---the error. `error(err)` raises it again as it is, without another origin and without a node.
---@class stacksplice.Error: userdata
---@field cause? stacksplice.Error what it was made from: the field `cause` of a Lua error value, the second argument of `stacksplice.error`, the error whose place one in a method `__close` took, Python's `__cause__` or `__context__`
---@field errno? integer the errno that its HRESULT stands for: of an OSError of Python its own
---@field errors? stacksplice.Error[] the members of a group (Python's ExceptionGroup)
---@field fingerprint string the same on every machine and run: for grouping
---@field hresult integer the failing HRESULT, unsigned: 0x80004005
---@field language string where it was born: "lua", "python", ...; "native" for C
---@field loose_fingerprint string the same after a rebuild too: names of native functions count in place of offsets
---@field message string the whole message
---@field notes string[] what `add_note` of any language added, oldest first
---@field propagation stacksplice.Propagation[] oldest first; the origin is none of them
---@field relation? "cause"|"context" whether the cause was given or was merely being handled
---@field stack stacksplice.Stack innermost first
---@field thread_id integer the system's id of the thread
---@field type_name? string its type as that language prints it
---@field type_names string[] the type and those that it is derived from (Python's MRO without object), the nearest first
---@field value any the error value of this Lua state that it was born from
---@operator concat(any): string
local Error = {}

---Add a note, which reports show behind the message and other languages see; an error keeps 150.
---@param text string
---@return stacksplice.Error self
function Error:add_note(text) end

---Whether its type or one that it is derived from has that name: "OSError", or with the module
---"json.decoder.JSONDecodeError".
---@param name string
---@return boolean
function Error:isinstance(name) end

---The report for people. It has source lines only if the host allowed them.
---@param all_frames? boolean show the interpreters' own frames too
---@return string
function Error:text(all_frames) end

---The report as one line of JSON, with all frames. With `{brief = true}` it is a tenth as long: frames that
---texts hide are counted, and there are no lines of source, columns or variables. Whatever reads the one
---reads the other.
---@param options? {brief: boolean?}
---@return string
function Error:json(options) end

---Return what debug.traceback returns, for any running or suspended coroutine. If only Lua is on the
---stack, the text is the same, byte for byte unless a secret is left out. Otherwise the frames of other
---languages are in their places, with the named native functions between them, and the text continues
---beyond the end of a coroutine.
---@overload fun(message?: any, level?: integer): any
---@param thread thread
---@param message? any returned unchanged when it is neither a string nor nil
---@param level? integer
---@return any
function stacksplice.traceback(thread, message, level) end

---Message handler for xpcall and lua_pcall. It remembers the combined stack at the raise and returns
---the error value unchanged. Ask `stacksplice.error_info` afterwards.
---@param value any
---@return any value
function stacksplice.handler(value) end

---Message handler for errors that nobody will catch. It returns the text to print: that of
---debug.traceback if Lua's own traceback is complete, else the combined report. A table is shown by
---its `__tostring`, or by its fields. `lua -lstacksplice script.lua` uses this handler.
---@param value any
---@return any text the value itself when memory runs out
function stacksplice.report(value) end

---Call a function as pcall does. After a failure the third result is the error.
---@param f fun(...): ...
---@param ... any
---@return boolean ok
---@return any ... results; after a failure the error value and its stacksplice.Error
function stacksplice.pcall(f, ...) end

---Call a function as xpcall does. After a failure the third result is the error that was raised.
---@param f fun(...): ...
---@param handler fun(value: any): any
---@param ... any
---@return boolean ok
---@return any ... results; after a failure what the handler returned and the stacksplice.Error
function stacksplice.xpcall(f, handler, ...) end

---Raise a value as `error` does, made from a cause: an error object or any error value. A table can
---also name its cause in a field `cause`, before it becomes an error.
---@param value any
---@param cause? any
function stacksplice.error(value, cause) end

---Capture the combined stack, beginning at the caller. A capture is cheap: all frames get their names
---when the stack is first used, by indexing, `#`, `ipairs`, `pairs` or a function of `table`. Raw access
---does not name them: `next`, `rawget`, and serializers in C which walk tables raw. Use the stack
---before you give it to these, or before you set a metatable: `local _ = #stack`.
---@param skip? integer how many of the innermost frames to leave out; 0
---@param limit? integer how many of the innermost frames to return at most; without it the stack is whole, or has both ends if it is longer than `set_max_frames` allows
---@return stacksplice.Stack
function stacksplice.capture(skip, limit) end

---A text as reports show it, for what a program writes of its errors by itself.
---@param text string
---@return string
function stacksplice.redact(text) end

---Set how many elements the stack of an error, a propagation node or `capture` may have, for the whole
---process. The default is 512. A longer stack keeps both ends, with a gap between them that counts the
---frames left out.
---@param max_frames integer 1 to 65535
---@return integer previous
function stacksplice.set_max_frames(max_frames) end

---Make a value the calling thread's error: for a function that is about to return an HRESULT to
---native code. A value that has been an error before is the same error again.
---@param value any
---@param hresult? integer a failing HRESULT, signed or unsigned; else the value's own or E_FAIL
---@return stacksplice.Error
function stacksplice.originate(value, hresult) end

---Add a node with the stack of this moment to the error of a value: `error(stacksplice.propagate(e))`
---raises it again and records that it came through here. Without a value the node is added to the
---thread's error.
---@param value? any
---@return stacksplice.Error
function stacksplice.propagate(value) end

---Return the thread's error and leave it in the slot.
---@return stacksplice.Error?
function stacksplice.peek_error() end

---Return the thread's error and empty the slot.
---@return stacksplice.Error?
function stacksplice.take_error() end

---Return the error of a value that a handler or protected call of this module has seen. Tables,
---userdata, functions and coroutines are found as long as they live and have one error for life. If
---they are raised again, they keep the stack of the first time, so make a new table for a new error.
---Of strings, numbers, booleans and nil only the last one is found.
---@param value any
---@return stacksplice.Error?
function stacksplice.error_info(value) end

---Resume a coroutine as coroutine.resume does, and remember its frames if it fails. Then ask
---`stacksplice.error_info` for the value, or raise it again if it is a table or another value with an
---identity.
---@param co thread
---@param ... any
---@return boolean ok
---@return any ... results, or the error value
function stacksplice.resume(co, ...) end

---Wrap a function as coroutine.wrap does. An error that comes out of the coroutine keeps the frames it
---had there; Lua's own function closes the coroutine before any handler could see them.
---@param f fun(...): ...
---@return fun(...): ...
function stacksplice.wrap(f) end

---Replace `debug.traceback` by `stacksplice.traceback`, for every handler that uses it: where
---`coroutine.wrap` raises an error again, the text has the frames of the coroutine, too. Replace
---`coroutine.wrap` and `coroutine.resume` as well, so that errors keep the frames of coroutines that
---fail.
---
---With `{pcall = true}` also replace `pcall` and `xpcall`: an error that they caught, or what the handler made
---of it, and that is raised again, has the frames of the place where it was raised first. The code must show that it is the same one, as
---`local ok, e = pcall(f)` and then `error(e, 0)`, `assert(ok, e)` or `check(ok, e)` do. A new error whose
---text has that of the caught one, in such a variable, has the caught one as its context. `error` stays what
---it is. `stacksplice.host` has it with more options.
---@param options? {pcall: boolean?}
---@return fun() uninstall restores each, unless other code has replaced it since
function stacksplice.install(options) end

---Call f with the arguments. If it is not done in time, the stacks of all threads are reported, on
---stderr and in a file, and it goes on. Returns what f returns; its errors pass.
---
---The first argument may be a table: `name` says in the report what is late; `interrupt = true` ends f
---by an error, which only `stacksplice.pcall` and the end of f stop; `report = false` writes nothing.
---@param seconds number|{seconds: number, name: string?, interrupt: boolean?, report: boolean?}
---@param f fun(...): ...
---@param ... any
---@return any ...
function stacksplice.deadline(seconds, f, ...) end

return stacksplice
