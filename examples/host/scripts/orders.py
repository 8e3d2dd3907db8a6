"""Reads the orders and hands them, one by one, to the Lua rules behind the host."""

import csv
from typing import Iterator, NamedTuple

import catalogue
import host  # the C functions of the program that embeds this script


class Order(NamedTuple):
    order: str
    date: str
    customer: str
    country: str
    currency: str
    service: str
    coupons: str
    items: str


def read(path: str) -> Iterator[Order]:
    """Yield every record of the file; what is wrong inside a record shows when it is priced."""
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield Order(**row)


def lines_of(order: Order):
    """Yield (sku, quantity, cents, category) for each item, such as "BOO-102*3"."""
    for item in order.items.split():
        sku, _, quantity = item.partition("*")
        product = catalogue.product(sku)
        yield sku, int(quantity), product.cents, product.category


def process(order: Order) -> int:
    """The price of one order in the minor unit of its currency (cents, yen, fils)."""
    lines = lines_of(order)
    if order.service == "express":
        # The warehouse picks heavy goods first.  The key is a C function that asks Lua.
        lines = iter(sorted(lines, key=host.rank))
    return host.price(order, lines)
