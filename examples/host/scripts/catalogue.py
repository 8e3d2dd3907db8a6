"""The products of the shop."""

import csv
import pathlib
from typing import NamedTuple


class Product(NamedTuple):
    name: str
    category: str
    cents: int
    grams: str


def _read(path: pathlib.Path) -> dict[str, Product]:
    products = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            euros, _, cents = row["price_eur"].partition(".")
            products[row["sku"]] = Product(
                row["name"], row["category"], int(euros) * 100 + int(cents), row["grams"]
            )
    return products


_products = _read(pathlib.Path(__file__).parent.parent / "data" / "catalogue.csv")


def product(sku: str) -> Product:
    return _products[sku]


def weight(sku: str) -> int:
    """Grams with packing; a product that nobody has weighed yet has no weight."""
    return int(product(sku).grams) + 50
