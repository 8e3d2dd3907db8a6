-- Annotations on GitHub: failing specs are shown at the line that raised, in whatever language.
local M = {}

-- Whether a workflow of GitHub runs this.
function M.is_host()
  return os.getenv("GITHUB_ACTIONS") == "true"
end

-- FILE without steps up and to itself, from the root of all files.
local function absolute(file)
  if file:sub(1, 1) ~= "/" then
    file = (os.getenv("PWD") or ".") .. "/" .. file
  end
  local parts = {}
  for part in file:gmatch("[^/]+") do
    if part == ".." then
      parts[#parts] = nil
    elseif part ~= "." then
      parts[#parts + 1] = part
    end
  end
  return "/" .. table.concat(parts, "/")
end

local function is_readable(file)
  local opened = io.open(file)
  if opened then
    opened:close()
  end
  return opened ~= nil
end

-- FILE from the repository's folder on; nil if it is not in there.
local function in_repository(file)
  local root, path = absolute(os.getenv("GITHUB_WORKSPACE") or "."), absolute(file)
  if path:sub(1, #root + 1) == root .. "/" and is_readable(path) then
    return path:sub(#root + 2)
  end
end

-- The innermost frame of STACK whose file is in the repository, else where busted found the failure.
function M.place_of(stack, info)
  for _, frame in ipairs(stack) do
    local path = frame.source and frame.currentline and not frame.glue and in_repository(frame.source)
    if path then
      return {file = path, line = frame.currentline}
    end
  end
  local path = in_repository(info.source:match("^@(.*)") or info.short_src)
  return path and {file = path, line = info.currentline}
end

local codes = {["%"] = "%25", ["\r"] = "%0D", ["\n"] = "%0A", [":"] = "%3A", [","] = "%2C"}

local function data(text)
  return (text:gsub("[%%\r\n]", codes))
end

local function property(text)
  return (text:gsub("[%%\r\n:,]", codes))
end

-- The line by which a program asks for an annotation: no text of an error ends it.
function M.command(place, title, message)
  return ("::error file=%s,line=%d,title=%s::%s"):format(
    property(place.file), place.line, property(title), data(message))
end

return M
