-- luacheck: std +busted
-- What a host has reports count in one line.
local stacksplice = require "stacksplice"
local host = require "stacksplice.host"

-- The report of an error that passed a function of the chunk FILE, between two of this file.
local function passing(file)
  local through = assert(load("local f = ... local r = f() return r", "@" .. file))
  local _, _, err = stacksplice.pcall(function()
    local r = through(function() error("bad") end)
    return r
  end)
  return err
end

local function text_of(file)
  return passing(file):text()
end

describe("hide", function()
  it("counts the frames of a library", function()
    local file = "/usr/share/lua/5.4/acme_web/route.lua"
    assert.is_nil(text_of(file):find("hidden", 1, true))
    host.hide("acme_web", "acme_other")
    assert.is_truthy(text_of(file):find("\n    ... 1 frame of acme_web hidden\n", 1, true))
    assert.is_truthy(passing(file):text(true):find("route.lua", 1, true))
    assert.is_nil(text_of("/srv/acme_web/route.lua"):find("hidden", 1, true))
  end)

  it("counts those of a module of one's own, and of a part of a path", function()
    host.hide {module = "acme_shop.middleware", file = "/acme_vendor/"}
    for _, file in ipairs {"/srv/acme_shop/middleware.lua", "acme_shop/middleware/init.lua"} do
      assert.is_truthy(text_of(file):find("... 1 frame of acme_shop.middleware hidden", 1, true))
    end
    assert.is_truthy(text_of("/srv/acme_vendor/x.lua"):find("... 1 frame of /acme_vendor/ hidden", 1, true))
  end)

  it("refuses what it cannot hide", function()
    local function fails(words, ...)
      local ok, message = pcall(host.hide, ...)
      assert.is_false(ok)
      assert.is_truthy(message:find(words, 1, true), message)
    end
    fails("module or file expected")
    fails("module or file expected", {})
    fails("must have 1 to 1023 bytes", "")
    fails("a library no '/'", "a/b")
    fails("file must be a string, not a number", {file = 1})
    fails("1 to 1000 bytes", {module = ("x"):rep(1001)})
    fails("table expected", 1)
  end)
end)
