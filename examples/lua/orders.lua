local stacksplice = require "stacksplice"

local rates = {EUR = 1, USD = 0.92}

local function rate(currency)
    local found = rates[currency]
    if not found then
        error {currency = currency}
    end
    return found
end

local function price(order)
    return order.amount * rate(order.currency)
end

-- Each order is priced in a coroutine, whose frames the error keeps.
local function quote(order)
    return stacksplice.wrap(price)(order)
end

for _, currency in ipairs {"EUR", "XXX"} do
    local ok, result, err = stacksplice.pcall(quote, {amount = 25, currency = currency})
    print(ok and result or err:text())
end
