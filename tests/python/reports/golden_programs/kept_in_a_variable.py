"""An exception is caught, returned and raised again by another function."""

import shop


def attempt():
    try:
        return shop.total(3, "XAU")
    except KeyError as error:
        return error


def settle(result):
    if isinstance(result, Exception):
        raise result


def main():
    result = attempt()
    settle(result)


main()
