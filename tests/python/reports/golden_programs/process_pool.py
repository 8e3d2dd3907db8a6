"""The error of another process."""

import concurrent.futures
import multiprocessing

import shop


def work(currency):
    return shop.total(3, currency)


if __name__ == "__main__":
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        pool.submit(work, "XAU").result()
