"""A coroutine has a thread do the work."""

import asyncio

import shop


def work():
    return shop.total(3, "XAU")


async def handler():
    return await asyncio.to_thread(work)


async def main():
    await handler()


asyncio.run(main())
