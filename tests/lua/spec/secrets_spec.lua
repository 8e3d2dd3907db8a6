-- luacheck: std +busted
-- Secrets in Lua's errors, and every report of them.
local stacksplice = require "stacksplice"
local host = require "stacksplice.host"

local SECRET = "hunter2"

local function failing(value)
  local _, _, err = stacksplice.pcall(type(value) == "function" and value or error, value)
  return err
end

describe("reports", function()
  after_each(function()
    host.redaction()
  end)

  it("have no secrets", function()
    local err = failing("bad password=" .. SECRET .. " at postgres://bob:" .. SECRET .. "@db/x")
    local thrown = failing({message = "x token=" .. SECRET, api_key = SECRET})
    local named = failing(load("error('pwd=hunter2')", "=token=hunter2"))
    for _, one in ipairs {err, thrown, named} do
      for _, text in ipairs {one:text(), one:text(true), one:json(),
                             stacksplice.traceback(one.message)} do
        assert.is_nil(text:find(SECRET, 1, true))
      end
      assert.is_truthy(one:text():find("[redacted: ", 1, true))
    end
    assert.is_truthy(err.message:find(SECRET, 1, true))
  end)

  it("show texts of programs without secrets", function()
    assert.equal("pwd=[redacted: password]\0 of x", stacksplice.redact("pwd=" .. SECRET .. "\0 of x"))
    assert.equal("no secret", stacksplice.redact("no secret"))
    assert.is_false((pcall(stacksplice.redact)))
    assert.is_false((pcall(stacksplice.redact, {})))
  end)

  it("leave other tracebacks as they are", function()
    assert.equal(debug.traceback("token", 1), stacksplice.traceback("token", 1))
    assert.matches("^password=%[redacted: password%]\nstack traceback:\n",
                   stacksplice.traceback("password=x"))
  end)

  it("follow rules", function()
    local err = failing("password=abc user_pin=1234 bob@example.org")
    host.redaction {emails = true, names = {"pin"}}
    assert.is_truthy(err:text():find("user_pin=[redacted: secret] [redacted: e-mail]", 1, true))
    host.redaction {on = false}
    assert.is_truthy(err:text():find("password=abc", 1, true))
    for _, wrong in ipairs {{names = {"a b"}}, {names = {1, {}}}, {names = "pin"}, {hook = 1}} do
      assert.is_false((pcall(host.redaction, wrong)))
    end
    assert.is_false((pcall(host.redaction, 1)))
  end)

  it("ask a hook, and remove the text if that fails", function()
    local err = failing("password=abc of order 7")
    local kinds = {}
    host.redaction {hook = function(text, kind)
      kinds[kind] = true
      return (text:gsub("order 7", "an order"))
    end}
    assert.is_truthy(err:text():find("password=[redacted: password] of an order", 1, true))
    assert.is_true(kinds.message and kinds.path)
    local faults = {error, function() end, coroutine.yield, function() return err:text() .. nil end}
    for _, fault in ipairs(faults) do
      host.redaction {hook = fault}
      assert.is_nil(err:text():find("order", 1, true))
      assert.is_truthy(err:text():find("[redacted: hook failed]", 1, true))
    end
    local worker = coroutine.wrap(function() return err:text() end)
    assert.is_truthy(worker():find("[redacted: hook failed]", 1, true))
  end)
end)
