-- The price rules: discounts, coupons, value added tax, shipping.  Amounts are euro cents until
-- the last step.  The host offers C functions in `host`; `warehouse` is a library of somebody else.
local host = require "host"
local warehouse = require "warehouse"

local pricing = {}

-- Per cent of value added tax by country and category; exports are free of it.
local function rates(standard, book, food)
  return {
    book = { percent = book }, food = { percent = food },
    clothing = { percent = standard }, electronics = { percent = standard },
    home = { percent = standard }, toys = { percent = standard },
  }
end

local vat = {
  DE = rates(19, 7, 7), FR = rates(20, 5.5, 5.5), IT = rates(22, 4, 10), ES = rates(21, 4, 10),
  NL = rates(21, 9, 9), IE = rates(23, 0, 0), FI = rates(25.5, 14, 14), SE = rates(25, 6, 12),
  DK = rates(25, 25, 25), PL = rates(23, 5, 5), CZ = rates(21, 0, 12), HU = rates(27, 5, 18),
  RO = rates(19, 5, 9),
}
local export = rates(0, 0, 0)

-- Discount on the whole order by its value.
local tiers = {
  { from = 1000 * 100, percent = 8 }, { from = 500 * 100, percent = 5 },
  { from = 200 * 100, percent = 2 }, { from = 0, percent = 0 },
}

local coupons = {
  WELCOME10 = { percent = 10, expires = "2025-12-31", priority = 1 },
  FRIENDS5 = { percent = 5, expires = "2025-12-31", priority = 2 },
  BULK7 = { percent = 7, expires = "2025-12-31", priority = 3, from = 300 * 100 },
  FREESHIP = { percent = 0, expires = "2025-12-31", priority = 4, free_shipping = true },
  WINTER20 = { percent = 20, expires = "2025-02-28", priority = 2 },
  STAFF = { percent = 30, expires = "2025-12-31" },
}

local parcel_limit, freight_from = 30 * 1000, 500 * 1000 -- grams
local freight_price = 450 * 100

-- Errors of the rules are objects: they carry a code for programs and a text for people.
local RuleError = {}
RuleError.__tostring = function(self) return self.message end

local function fail(hresult, message, ...)
  error(setmetatable({ hresult = hresult, message = message:format(...) }, RuleError), 2)
end

local function each_coupon(names)
  return coroutine.wrap(function()
    for name in names:gmatch("[^+]+") do
      coroutine.yield(name, coupons[name])
    end
  end)
end

local function valid_coupons(order)
  local valid = {}
  for name, coupon in each_coupon(order.coupons) do
    if order.date > coupon.expires then
      fail(0xA0010001, "coupon %s expired on %s", name, coupon.expires)
    end
    valid[#valid + 1] = coupon
  end
  table.sort(valid, function(a, b) return a.priority < b.priority end)
  return valid
end

-- What is left of AMOUNT after the tier's discount and then each coupon's, and free shipping.
local function discounted(order, amount)
  local left, free_shipping = amount, false
  for _, tier in ipairs(tiers) do
    if amount >= tier.from then
      left = left * (100 - tier.percent) / 100
      break
    end
  end
  for _, coupon in ipairs(valid_coupons(order)) do
    if amount >= (coupon.from or 0) then
      left = left * (100 - coupon.percent) / 100
      free_shipping = free_shipping or coupon.free_shipping
    end
  end
  return left, free_shipping
end

local function tax_of(order, lines)
  local rules, tax = vat[order.country] or export, 0
  for _, line in ipairs(lines) do
    tax = tax + line.quantity * line.cents * rules[line.category].percent / 100
  end
  return tax
end

-- A coroutine: yields the weight of one full parcel after the other.
local function pack(lines)
  local parcel = 0
  for _, line in ipairs(lines) do
    local grams = host.weight(line.sku)
    if grams > parcel_limit then
      fail(0xA0010002, "%s weighs %d g, no parcel may weigh more than %d g", line.sku, grams,
        parcel_limit)
    end
    for _ = 1, line.quantity do
      if parcel + grams > parcel_limit then
        coroutine.yield(parcel)
        parcel = 0
      end
      parcel = parcel + grams
    end
  end
  coroutine.yield(parcel)
end

local function total_weight(lines)
  local grams = 0
  for _, line in ipairs(lines) do
    grams = grams + line.quantity * host.weight(line.sku)
    if grams > freight_from then break end
  end
  return grams
end

local function shipping_of(lines)
  if total_weight(lines) > freight_from then return freight_price end
  local price = 0
  for grams in host.each(pack, lines) do
    price = price + 490 + 60 * (grams // 1000)
  end
  return price
end

-- The price of ORDER in the minor unit of its currency.
function pricing.price(order)
  local lines, net = {}, 0
  for sku, quantity, cents, category in order.lines do
    lines[#lines + 1] = { sku = sku, quantity = quantity, cents = cents, category = category }
    net = net + quantity * cents
  end
  local left, free_shipping = discounted(order, net)
  local gross = left + tax_of(order, lines) * left / net
  if not free_shipping then gross = gross + shipping_of(lines) end
  local amount = host.convert(gross // 1, order.currency, order.date)
  return host.round(amount, order.currency)
end

-- The place of a line in the picking list: heavy lines first.
function pricing.rank(sku, quantity)
  return warehouse.with_lock(function()
    local grams = host.weight(sku)
    return -grams * quantity
  end)
end

return pricing
