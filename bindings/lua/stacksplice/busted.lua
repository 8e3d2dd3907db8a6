-- A helper for busted: failing specs show the combined stack, with every output handler.
--
--     busted --helper=stacksplice.busted
--
-- busted lets a file of specs rewrite its messages.  This puts the stack behind the message: the
-- report of an error that other languages saw, and of any other the traceback at the raise, with
-- the frames of other languages in their places.
--
-- In a workflow of GitHub a failing spec is annotated at the line that raised, in any language.
--
-- It also installs stacksplice, so that an error which leaves a coroutine keeps the frames there.
local busted = require "busted"
local stacksplice = require "stacksplice"
local github = require "stacksplice.github"

stacksplice.install()

-- Reports have source lines, as if a host had allowed them: who runs specs can read the files.
debug.getregistry()["stacksplice.source_lines"] = true

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

-- What is shown of VALUE, which is just being raised, and ERR, its error object, or nil.
local function stack_of(err, info)
  if err and (err.language ~= "lua" or #err.propagation > 0 or err.cause or has_dead_frames(err)) then
    return cut_runner(err:text())
  end
  local level = level_of(info)
  return level and cut_runner(stacksplice.traceback("", level))
end

-- What to annotate: of the failure that busted handles, and of the run.
local message, place
local annotations = {}

-- What is known of the failure of INFO, with that VALUE; the stack to show.
local function examine(info, value)
  local err = value ~= nil and stacksplice.error_info(value) or nil
  place = github.is_host() and github.place_of(err and err.stack or {}, info) or nil
  return stack_of(err, info)
end

-- FILE is what busted loaded; it keeps how it traces and rewrites itself.
local function show_stacks(file)
  local get_trace, rewrite = file.getTrace, file.rewriteMessage
  local stack

  function file.getTrace(name, info)
    place = nil
    -- busted 2.2 hands on only the text of what was raised; the value is a parameter of the caller.
    local parameter, value = debug.getlocal(2, 3)
    if parameter ~= "msg" then
      value = info.message
    end
    local ok, text = pcall(examine, info, value)
    stack = ok and text or nil
    if type(info.message) == "userdata" then
      info.message = tostring(info.message) -- what cannot be written as JSON ends that output
    end
    return get_trace(name, info)
  end

  function file.rewriteMessage(name, own)
    local text = rewrite and rewrite(name, own) or own
    message = text
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

local function full_name(element)
  local names = {}
  while element and element.descriptor ~= "file" do
    table.insert(names, 1, element.name)
    element = busted.parent(element)
  end
  return table.concat(names, " ")
end

local function annotate(element)
  if place and message then
    local title, text = stacksplice.redact(full_name(element)), stacksplice.redact(message)
    annotations[#annotations + 1] = github.command(place, title, text)
  end
  message, place = nil, nil
  return nil, true
end

busted.subscribe({"failure"}, annotate, {priority = 1})
busted.subscribe({"error"}, annotate, {priority = 1})

-- To the other stream: the output may be JSON or XML.
busted.subscribe({"exit"}, function()
  for _, line in ipairs(annotations) do
    io.stderr:write(line, "\n")
  end
  annotations = {}
  return nil, true
end, {priority = 1})
