"""Prices an order: Python calls Lua through lupa, and Lua calls Python."""

import lupa.lua54
import stacksplice

stacksplice.install()

RATES = {"EUR": 1.0, "USD": 0.92}
lua = lupa.lua54.LuaRuntime()


def rate(currency):
    return RATES[currency]


def quote(currency):
    return lua.globals().price(25, currency)


lua.globals().rate = rate
with open("pricing.lua") as file:
    lua.execute(file.read(), name="@pricing.lua", mode="t")
print(quote("EUR"))
print(quote("XXX"))
