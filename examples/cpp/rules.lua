function price(currency)
    local amount = 25
    print(amount * rate(currency))
end
