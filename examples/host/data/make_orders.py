"""Write catalogue.csv, rates.csv and orders.csv beside this file, always the same.

The shop, its customers and the exchange rates are invented.  Most orders are good; BAD holds one
recipe for every way an order can fail in the example, with the number of orders it spoils.
"""

import csv
import datetime
import pathlib
import random

HERE = pathlib.Path(__file__).parent
ORDER_COUNT = 3000
FIRST_DAY = datetime.date(2025, 1, 2)
DAYS = 175

FIRST_NAMES = (
    "Anna Ben Carla David Elif Freja Gábor Hana Ivan Jürgen Katarzyna Lukas Małgorzata Noah Olga "
    "Pedro Quentin Rosa Søren Tomás Ursula Victor Wiebke Xenia Yusuf Zoë Aiko Kenji Maeve Liam"
).split()
LAST_NAMES = (
    "Andersson Bauer Costa Dubois Eriksen Fischer García Horváth Ivanova Jensen Kowalska Larsson "
    "Müller Novák Öztürk Petrov Quinn Rossi Schmidt Tanaka Urban Virtanen Weber Yılmaz Zieliński"
).split()
# country, currency and how often it orders
# fmt: off
COUNTRIES = [
    ("DE", "EUR", 22), ("FR", "EUR", 15), ("IT", "EUR", 9), ("ES", "EUR", 9), ("NL", "EUR", 7),
    ("IE", "EUR", 3), ("FI", "EUR", 3), ("GB", "GBP", 10), ("US", "USD", 8), ("CH", "CHF", 4),
    ("SE", "SEK", 4), ("DK", "DKK", 3), ("NO", "NOK", 3), ("PL", "PLN", 5), ("CZ", "CZK", 3),
    ("HU", "HUF", 2), ("JP", "JPY", 3), ("KW", "KWD", 1), ("TR", "TRY", 2), ("RO", "RON", 2),
]
# units of the currency for one euro in the first month; rates drift a little every month
RATES = {
    "EUR": 1, "GBP": 0.83, "USD": 1.07, "CHF": 0.94, "SEK": 11.3, "DKK": 7.46, "NOK": 11.7,
    "PLN": 4.25, "CZK": 25.1, "HUF": 405.0, "JPY": 161.0, "KWD": 0.33, "TRY": 38.4, "RON": 4.98,
    "XBT": 0.0000112,
}
PRODUCTS = {
    "book": [("Atlas of Small Islands", 3490, 1450), ("A Field Guide to Mosses", 2495, 610),
             ("Bread for Patient People", 2990, 980), ("Harbours at Night", 1890, 420),
             ("The Clockmaker's Table", 1290, 310), ("Maps that Lied", 2250, 540)],
    "food": [("Chestnut honey 500 g", 1150, 760), ("Olive oil 1 l", 1690, 1420),
             ("Dark chocolate 85 %", 420, 110), ("Sencha 100 g", 1390, 150),
             ("Sea salt 1 kg", 590, 1040), ("Espresso beans 1 kg", 2190, 1060)],
    "clothing": [("Wool socks", 1490, 120), ("Rain jacket", 12900, 640), ("Linen shirt", 6990, 260),
                 ("Felt hat", 5490, 180), ("Walking boots", 16900, 1680)],
    "electronics": [("Desk lamp", 7990, 1900), ("Radio", 11900, 1250), ("Headphones", 18900, 290),
                    ("E-reader", 13900, 210), ("Travel charger", 2990, 140)],
    "home": [("Cast-iron pan", 8990, 3100), ("Wool blanket", 9490, 1500), ("Tea pot", 4590, 870),
             ("Kitchen scale", 3790, 720), ("Oak shelf", 15900, 9800)],
    "toys": [("Wooden train", 4990, 1350), ("Kite", 2790, 330), ("Puzzle, 1000 pieces", 2190, 780),
             ("Marble run", 5990, 2400)],
}
COUPONS = ["WELCOME10", "FRIENDS5", "BULK7", "FREESHIP"]
# Orders that fail, by the place where they fail; the test of the host counts on these numbers.
BAD = {
    "rate_not_a_number": 3,  # Python, four borders deep: decimal.InvalidOperation
    "rate_missing": 2,       # Python, four borders deep: KeyError
    "bad_quantity": 3,       # Python generator that Lua iterates: ValueError
    "unknown_sku": 2,        # the same generator: KeyError
    "no_vat_rule": 3,        # Lua: attempt to index a nil value
    "coupon_expired": 3,     # Lua: an error table with an HRESULT
    "coupon_order": 2,       # Lua: in the comparator of table.sort
    "too_heavy": 3,          # Lua coroutine
    "overflow": 3,           # C: a failing HRESULT, amount too large
    "no_minor_unit": 2,      # C: a failing HRESULT, currency unknown
    "no_weight": 3,          # Python, from a sort key through Lua and a plain lua_pcall
}
# fmt: on


def write(name, header, rows):
    with open(HERE / name, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def make_catalogue():
    rows = []
    for category, products in PRODUCTS.items():
        for number, (name, cents, grams) in enumerate(products, 101):
            sku = f"{category[:3].upper()}-{number}"
            rows.append((sku, name, category, f"{cents // 100}.{cents % 100:02}", grams))
    rows.append(("GIF-101", "Gift card", "giftcard", "50.00", 10))
    rows.append(("HOM-190", "Kitchen stove", "home", "890.00", 74000))
    rows.append(("TOY-190", "Globe (weight to follow)", "toys", "79.90", ""))
    write("catalogue.csv", ("sku", "name", "category", "price_eur", "grams"), rows)
    return [row[0] for row in rows[:-3]]


def make_rates(rng):
    rows = []
    for currency, rate in RATES.items():
        for month in range(1, 7):
            text = f"{rate:.8f}".rstrip("0").rstrip(".")
            if (currency, month) == ("TRY", 3):
                text = "n/a"  # what the source of the rates said on that day
            if (currency, month) != ("RON", 6):
                rows.append((f"2025-{month:02}", currency, text))
            rate *= 1 if currency == "EUR" else rng.uniform(0.985, 1.02)
    write("rates.csv", ("month", "currency", "per_euro"), rows)


def good_order(rng, number, skus):
    day = FIRST_DAY + datetime.timedelta(days=number * DAYS // ORDER_COUNT)
    country, currency, _ = rng.choices(COUNTRIES, [c[2] for c in COUNTRIES])[0]
    if (currency, day.month) in (("TRY", 3), ("RON", 6)):
        country, currency = "DE", "EUR"
    items = [
        f"{sku}*{rng.choices((1, 2, 3, 5, 12), (70, 15, 8, 5, 2))[0]}"
        for sku in rng.sample(skus, rng.choices((1, 2, 3, 4, 6), (35, 30, 18, 12, 5))[0])
    ]
    return {
        "order": f"O-{25000 + number}",
        "date": day.isoformat(),
        "customer": f"{rng.choice(FIRST_NAMES)} {rng.choice(LAST_NAMES)}",
        "country": country,
        "currency": currency,
        "service": rng.choices(("standard", "express"), (80, 20))[0],
        "coupons": "+".join(sorted(rng.sample(COUPONS, rng.choices((0, 1, 2), (70, 25, 5))[0]))),
        "items": " ".join(items),
    }


def spoil(order, kind, rng):
    order.update(service="standard", coupons="")
    if kind == "rate_not_a_number":
        order.update(country="TR", currency="TRY", date="2025-03-%02d" % rng.randint(1, 28))
    elif kind == "rate_missing":
        order.update(country="RO", currency="RON", date="2025-06-%02d" % rng.randint(1, 24))
    elif kind == "bad_quantity":
        order["items"] += " BOO-102*" + rng.choice(("two", "", "1,5"))
    elif kind == "unknown_sku":
        order["items"] += " BOO-1O2*1"  # the letter O
    elif kind == "no_vat_rule":
        order["items"] += " GIF-101*1"
    elif kind == "coupon_expired":
        order.update(coupons="WINTER20", date="2025-05-%02d" % rng.randint(1, 28))
    elif kind == "coupon_order":
        order["coupons"] = "FRIENDS5+STAFF"
    elif kind == "too_heavy":
        order["items"] += " HOM-190*1"
    elif kind == "overflow":
        order["items"] = "ELE-103*4006381333931"  # a bar code, scanned into the wrong field
    elif kind == "no_minor_unit":
        order["currency"] = "XBT"
    elif kind == "no_weight":
        order["items"] += " TOY-190*1"
        order["service"] = "express"


def main():
    rng = random.Random(2025)
    skus = make_catalogue()
    make_rates(rng)
    orders = [good_order(rng, number, skus) for number in range(ORDER_COUNT)]
    kinds = [kind for kind, count in BAD.items() for _ in range(count)]
    rng.shuffle(kinds)
    for kind, number in zip(kinds, sorted(rng.sample(range(ORDER_COUNT), len(kinds)))):
        spoil(orders[number], kind, rng)
    write("orders.csv", orders[0].keys(), (order.values() for order in orders))


if __name__ == "__main__":
    main()
