function convert(amount, currency)
    local factor = rate(currency)
    return amount * factor
end

function price(amount, currency)
    local total = convert(amount, currency)
    return total
end
