-- A helper for busted: failing specs show the combined stack, with every output handler.
--
--     busted --helper=stacksplice.busted
--
-- busted lets a file of specs rewrite its messages.  This puts the stack behind the message: the
-- report of an error that other languages saw, and of any other the traceback at the raise, with
-- the frames of other languages in their places.
--
-- It also installs stacksplice, so that an error which leaves a coroutine keeps the frames there.
local busted = require "busted"
local stacksplice = require "stacksplice"

stacksplice.install()

-- The level, for the caller, of the function that the trace is about: busted has found it.
local function level_of(info)
  local level = 2
  local at = debug.getinfo(level, "Sl")
  while at and not (at.short_src == info.short_src and at.currentline == info.currentline) do
    level = level + 1
    at = debug.getinfo(level, "Sl")
  end
  return at and level - 1
end

-- Without the frames of what runs the specs: from busted's xpcall outward, in each stack of TEXT.
local function cut_runner(text)
  local kept, cut_at = {}, nil
  for line in text:gmatch("[^\n]+") do
    local indent = #line:match("^%s*")
    if cut_at and (indent < cut_at or line:find("^%s*%.%.%. %d")) then
      cut_at = nil
    elseif not cut_at and line:find("[/\\]busted[/\\]%a+%.lua[:\"]") then
      cut_at = indent
      if (kept[#kept] or ""):find("xpcall", 1, true) then
        kept[#kept] = nil
      end
    end
    kept[#kept + 1] = not cut_at and line or nil
  end
  return table.concat(kept, "\n")
end

-- Frames of a coroutine that failed: no level of debug.getinfo is theirs any more.
local function has_dead_frames(err)
  for _, frame in ipairs(err.stack) do
    if frame.trust == "traceback" then
      return true
    end
  end
  return false
end

-- What is shown of VALUE, which is just being raised.
local function stack_of(value, info)
  local err = value ~= nil and stacksplice.error_info(value)
  if err and (err.language ~= "lua" or #err.propagation > 0 or err.cause or has_dead_frames(err)) then
    return cut_runner(err:text())
  end
  local level = level_of(info)
  return level and cut_runner(stacksplice.traceback("", level))
end

-- FILE is what busted loaded; it keeps how it traces and rewrites itself.
local function show_stacks(file)
  local get_trace, rewrite = file.getTrace, file.rewriteMessage
  local stack

  function file.getTrace(name, info)
    local ok, text = pcall(stack_of, info.message, info)
    stack = ok and text or nil
    if type(info.message) == "userdata" then
      info.message = tostring(info.message) -- what cannot be written as JSON ends that output
    end
    return get_trace(name, info)
  end

  function file.rewriteMessage(name, message)
    local text = rewrite and rewrite(name, message) or message
    text, stack = stack and text .. "\n" .. stack or text, nil
    return text
  end
end

busted.subscribe({"file", "start"}, function(file)
  if type(file.run) == "table" and file.run.getTrace then
    show_stacks(file.run)
  end
  return nil, true
end, {priority = 1})
