def checkout(currency):
    return shop.lua("price", currency)


def visit(shelf):
    if shelf == 1:
        raise RuntimeError("the shelf is empty")


attempt(shop.take, 1)
attempt(shop.take, 9)
attempt(checkout, "EUR")
error = attempt(checkout, "XXX")
print("the same object:", error is lookup_error)
attempt(shop.finish, "delivery")
attempt(shop.each, visit)
attempt(shop.sell, "lamp")
attempt(shop.lua, "reduced", "3")
attempt(shop.thread, 5)
print("left in the slot:", stacksplice.peek_error())
