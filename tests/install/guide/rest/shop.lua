function reduced(price)
    return shop.discount(tonumber(price))
end
