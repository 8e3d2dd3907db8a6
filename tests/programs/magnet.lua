-- Runs inside lighttpd: the stack as we see it, beside what debug.getinfo sees.
local stacksplice = require "stacksplice"

local file = assert(io.open(os.getenv "STACKSPLICE_PROBE", "w"))

local function leaf()
  local frames = stacksplice.capture()
  for level = 1, math.huge do
    local info = debug.getinfo(level, "Sl")
    if not info then break end
    if info.what ~= "C" then
      file:write("lua ", info.short_src, ":", info.currentline, "\n")
    end
  end
  for _, frame in ipairs(frames) do
    if frame.language == "lua" then
      file:write("ours ", frame.source, ":", frame.currentline, "\n")
    else
      file:write("native ", tostring(frame.name), " ", tostring(frame.module), "\n")
    end
  end
  return ""
end

string.gsub("x", "x", leaf)
file:close()
return 204
