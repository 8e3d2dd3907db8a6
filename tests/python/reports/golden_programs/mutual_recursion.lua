-- Two functions that call each other for ever, in a coroutine.
local even, odd

function even(n)
  return (odd(n - 1))
end

function odd(n)
  return (even(n - 1))
end

local check = coroutine.wrap(function() return (even(1)) end)
print(check())
