"""A script that never ends, and a deadline that ends it."""

import stacksplice
from shop import lua

lua.execute("function settle(orders) while true do orders = orders + 1 end end")
with stacksplice.deadline(0.05, interrupt=True):
    lua.globals().settle(0)
