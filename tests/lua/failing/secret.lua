-- luacheck: std +busted
-- Specs that fail with secrets, for busted_spec.lua.
local border = require "stacksplice_test_border"

local function inner(value)
  error(value, 0)
end

describe("these specs password=hunter2", function()
  it("fail with a text", function()
    inner("token=hunter2")
  end)

  it("fail with a text that crossed a border", function()
    border.border(inner, "cannot open postgres://bob:hunter2@db/x")
  end)
end)
