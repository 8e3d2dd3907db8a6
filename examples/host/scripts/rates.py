"""Exchange rates: a table in sqlite, exact arithmetic in decimal."""

import csv
import decimal
import pathlib
import sqlite3


def _read(path: pathlib.Path) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE rate (month, currency, per_euro, PRIMARY KEY (month, currency))")
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    database.executemany("INSERT INTO rate VALUES (?, ?, ?)", rows)
    return database


_database = _read(pathlib.Path(__file__).parent.parent / "data" / "rates.csv")


def rate(currency: str, month: str) -> decimal.Decimal:
    """Units of the currency for one euro."""
    found = _database.execute(
        "SELECT per_euro FROM rate WHERE month = ? AND currency = ?", (month, currency)
    ).fetchone()
    if found is None:
        raise KeyError(f"no rate for {currency} in {month}")
    return decimal.Decimal(found[0])


def convert(cents: int, currency: str, date: str) -> decimal.Decimal:
    """Euro cents in whole units of the currency."""
    return decimal.Decimal(cents) / 100 * rate(currency, date[:7])
