-- What specs need that run Lua in a process of its own.
local programs = {}

function programs.quoted(text)
  return "'" .. text:gsub("'", "'\\''") .. "'"
end

-- What a command of the shell prints, errors included.
function programs.output(command)
  local pipe = assert(io.popen("{ " .. command .. "\n} 2>&1"))
  local text = pipe:read("*a")
  pipe:close()
  return text
end

-- An assignment before a command, to the variable that this version of Lua reads first.
function programs.assignment(name, value)
  local version = _VERSION > "Lua 5.1" and "_" .. _VERSION:match("%d+%.%d+"):gsub("%.", "_") or ""
  return ("%s%s=%s"):format(name, version, programs.quoted(value))
end

-- The program that runs the specs, and a command that runs it with the same modules in C.
programs.path = programs.output("readlink /proc/$PPID/exe"):match("[^\n]+")
if programs.path:find("/valgrind/", 1, true) then -- which runs it in its own process
  programs.path = arg[-1]
end
programs.lua = programs.assignment("LUA_CPATH", package.cpath) .. " " .. programs.quoted(programs.path)

return programs
