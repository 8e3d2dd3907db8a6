"""The error of another thread."""

import concurrent.futures

import shop


def work():
    return shop.total(3, "XAU")


def handler():
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


handler()
