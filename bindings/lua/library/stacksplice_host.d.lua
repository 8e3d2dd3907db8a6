---@meta stacksplice.host
-- luacheck: ignore 2

---What only a host may do, because it changes or writes for the whole process. A script that is to be
---confined must not get this module, nor the `require` that finds it.
---@class stacksplice.host
local host = {}

---Choose what reports of this process leave out, in all languages and formats. The default: values named
---password, token, key and the like, tokens known by their form, credentials in URLs. Each call replaces
---what the last one set. on: false turns these rules off; emails: addresses, too; names: further names of
---secrets; hook: called with each text after the rules and its kind ("message", "source", "path", "local"),
---returns the text to show. Where it fails or cannot be called, the text is "[redacted: hook failed]".
---@param options? {on?: boolean, emails?: boolean, names?: string[], hook?: fun(text: string, kind: string): string}
function host.redaction(options) end

---Have reports of this process hide the frames of libraries, from now on, as they hide frameworks: where a frame of
---the user is further in, one line counts them. A string is a library as `require` names it, in the folders where Lua
---and Python have their libraries; `module` is one of your own, wherever its file is; `file` is a part of a path:
---`hide("lapis", "pegasus")`, `hide {module = "shop.middleware"}`, `hide {file = "/srv/shop/vendor/"}`.
---@param ... string|{module: string?, file: string?}
function host.hide(...) end

---Have a signal, by its number (10 is SIGUSR1 on Linux), report every thread of this process: the stacks go to
---stderr and to a file, as those of a missed deadline do, and the process goes on. Nobody needs rights to look into
---it: `kill -USR1 PID` is enough. It takes the place of the signal's handler. A fork leaves the thread behind that
---writes the report: call it again in the child. Raises an error for a signal that cannot be caught, and for those
---of crashes.
---@param number integer
function host.report_on_signal(number) end

---Print what is installed, what is missing, and what to do about it:
---`lua -lstacksplice -e "require('stacksplice.host').doctor()"`.
---@return boolean nothing_is_missing
function host.doctor() end

---Do what `stacksplice.install` does, with the same option `pcall`.
---
---With `crash = true` also report crashes of the process (SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT and
---SIGSYS, so a panic of Lua, too) on stderr and in a file, and then let it die as before. This stays
---until the process ends. With `others_first = true` as well, the handlers of these signals that are
---there already run first, and only what they do not handle is reported: for a process in which Java
---started before.
---
---With `locals = true` errors keep the local variables of Lua's functions, for their reports, until
---uninstall is called. No metamethod runs for their texts.
---@param options? {pcall: boolean?, crash: boolean?, others_first: boolean?, locals: boolean?}
---@return fun() uninstall restores each function, unless other code has replaced it since
function host.install(options) end

return host
