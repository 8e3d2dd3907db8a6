RATES = {"EUR": 1.0, "USD": 0.92}

def rate(currency):
    return RATES[currency]
